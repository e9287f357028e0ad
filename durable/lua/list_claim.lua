--[[ list_claim: takes up to slots jobs for a consumer, the oldest first.

ARGV  id, n         see list_sender
      slots         how many to take
      max_bytes     of payloads together; the first is given whatever its size
      held          how many claims the consumer holds, settles in flight included
      max_crashes, max_corrupt, max_completed
      named         how many claims follow, each id token: all that the consumer holds; -1: none
                    were named
Returns status next_due dropped corrupt gap fence jobs expired lives, then for each job id payload kind, then the IDs of
        those that have expired, then for each life the position of the first job, from 0, that has it as the ones behind do, and
        the life, which is the field append, then for each job that has more: its position, headers and, with spaces between,
        attempts crashes deliveries max_attempts timeout (ms) marks (1: others want to be told of it; 2: its token has a + at the
        end, see token_for). Without: a first delivery with nothing set.
        fence is that of the first job; the others have the next ones.
        status: J jobs, L jobs and nothing is left, E nothing there, M stopped early, P paused, T limited, R reconcile (name what
        you hold, under the next number); next_due in ms, -1 for none.
        FENCED, EXPIRED, UNKNOWN, OLD: nothing was changed.
Called by consumer.Claim.

Entry before stamp, destination before source: what a script that stopped half-way leaves is a
surplus entry, and those are dropped where they are met. An entry is judged by its job alone.
]]
--#include list_base
--#include told
--#include list_limits
--#include list_sender
--#include list_unique
--#include list_bury
--#include list_retain
--#include list_end
--#include list_give_back
local redis = redis -- a local is found faster than a global
local slots, max_bytes, held = tonumber(arg()), tonumber(arg()), tonumber(arg())
local max_crashes, max_corrupt, max_completed, named = tonumber(arg()), tonumber(arg()), tonumber(arg()), tonumber(arg())
local processing, job_prefix = prefix .. 'processing:' .. id, prefix .. 'job:'
local surplus = 64 -- entries looked at besides those that are taken
local promotions = 256 -- due jobs made pending by one claim
local most = 256 -- entries read at once
local most_held = 9999 -- claims of one consumer that are looked at; far more than it ever has
do
  local bad = mistyped(processing, 'list')
  if bad then return bad end
end

local fields, bad = sent('kind', 'claim', 'claim_status', 'claim_fence', 'suspect', 'follow')
if bad then return bad end
local lease_end = tonumber(redis.call('ZSCORE', consumers, id) or 0)
if lease_end == 0 then return {'FENCED'} end
if lease_end <= now then return {'EXPIRED'} end
local kind, last, last_status, last_fence, suspect, follow = unpack(fields)
told_by = follow
if not kind then return {'UNKNOWN'} end
last = whole(last) or 0
if number < last then return {'OLD'} end

local token = id .. ':' .. n
local reply, given = {'', 0, 0, 0, 0, 0, 0, 0, 0}, 0 -- its first words are written at the end
local head = #reply
local more, expired = {}, {}
local lives, life = {} -- as they are returned; that of the job that was given last
local dropped, spoilt, cancelled, first_fence = 0, 0, 0, 0
local limited_ms = 20 -- until it is worth asking again

local function answer(status)
  local next_due = -1
  local first = redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')
  if first[2] then next_due = math.max(0, math.floor(first[2] - now)) end
  if status == 'T' then next_due = limited_ms end
  reply[1], reply[2], reply[3], reply[4] = status, next_due, dropped, spoilt
  reply[5], reply[6], reply[7], reply[8], reply[9] = gap('claim', last, number), first_fence, given, #expired, #lives / 2
  for _, words in ipairs({expired, lives, more}) do
    for _, word in ipairs(words) do reply[#reply + 1] = word end
  end
  return reply
end

local function give(job_id, payload, job_kind, append)
  local at = head + given * 3
  reply[at + 1], reply[at + 2], reply[at + 3] = job_id, payload or '', job_kind or ''
  if append ~= life then
    life = append
    lives[#lives + 1], lives[#lives + 2] = given, append or ''
  end
  given = given + 1
end

local six = '%d %d %d %d %d %d' -- attempts to marks

-- give_more gives what only some have of the job that was given last.
local function give_more(headers, numbers)
  local at = #more
  more[at + 1], more[at + 2], more[at + 3] = given - 1, headers or '', numbers
end

-- only_headers gives the headers of a job of which payload, kind, append and status were read, if it has them and nothing else.
local function only_headers(job, f)
  if f[4] ~= 'pending' or not (f[1] and f[2] and f[3]) then return nil end
  local headers = redis.call('HGET', job, 'headers')
  return headers and redis.call('HLEN', job) == 5 and headers or nil
end

-- read gives the fields of a job that tell whether it can be claimed, and how.
local function read(job)
  return redis.pcall('HMGET', job, 'status', 'claim_token', 'payload', 'kind', 'headers',
    'attempts', 'crashes', 'deliveries', 'max_attempts', 'timeout_ms', 'append', 'followers',
    'expires_at_ms', 'cancel_ms', 'retention_ms', 'unique', 'limit_key', 'held_ms')
end

-- What this claim has expired is remembered, each ID after its length: a repeated number gives it again.
local function note_expired()
  local words = {n .. ' '}
  for _, job_id in ipairs(expired) do words[#words + 1] = #job_id .. ':' .. job_id end
  redis.call('HSET', sender, 'claim_expired', table.concat(words))
end

local function recall()
  local ids, noted = {}, redis.call('HGET', sender, 'claim_expired') or ''
  local at = #n + 2
  if string.sub(noted, 1, at - 1) ~= n .. ' ' then return ids end
  while true do
    local length, from = string.match(noted, '^(%d+):()', at)
    if not from then return ids end
    at = from + length
    ids[#ids + 1] = string.sub(noted, from, at - 1)
  end
end

-- The same number again: what is still claimed under it, from the jobs and not from memory,
-- for what was settled since must not be started again.
if number == last then
  expired = recall()
  if last_status ~= 'J' then return answer(last_status or 'M') end
  local ids = redis.call('LRANGE', processing, 0, most_held)
  local seen = {}
  for i = #ids, 1, -1 do
    local f = read(job_prefix .. ids[i])
    if not f.err and (f[2] == token or f[2] == token .. '+') and not seen[ids[i]] then
      seen[ids[i]] = true
      give(ids[i], f[3], f[4], f[11])
      give_more(f[5], string.format(six, whole(f[6]) or 0, whole(f[7]) or 0, whole(f[8]) or 0, whole(f[9]) or 0, whole(f[10]) or 0,
        (followed(f[11], f[12]) and 1 or 0) + (f[2] == token and 0 or 2)))
    end
  end
  first_fence = whole(last_fence) or 0
  return answer(given > 0 and 'J' or 'M')
end

redis.call('PEXPIRE', sender, T_rec) -- the primer: never grows

local function remember(status, told)
  if #expired > 0 then note_expired() end
  redis.call('HSET', sender, 'claim', n, 'claim_status', status, 'claim_fence', string.format('%d', first_fence))
  return answer(told or status)
end

if paused('claims') then
  return remember('P')
end

if named < 0 and redis.call('LLEN', processing) > held then
  return remember('R')
end
if named >= 0 then
  local claims, seen = {}, {} -- claims: by ID and token, as an ID can be claimed again while its last claim is not settled
  for _ = 1, named do claims[arg() .. '\n' .. arg()] = true end
  for _, job_id in ipairs(redis.call('LRANGE', processing, 0, most_held)) do
    if seen[job_id] then
      redis.call('LREM', processing, -1, job_id)
    else
      local held_by = redis.pcall('HGET', job_prefix .. job_id, 'claim_token')
      if type(held_by) ~= 'string' or not claims[job_id .. '\n' .. held_by] then
        give_back(id, job_id, false, max_crashes, max_corrupt)
      end
    end
    seen[job_id] = true
  end
end

-- Due jobs become pending, where any may be claimed: else they wait in their order.
local due = redis.call('ZRANGEBYSCORE', scheduled, '-inf', now, 'LIMIT', 0, promotions)
if limits then slots, limited_ms = queue_allows(slots) end
if #due > 0 and slots > 0 then
  local awake, held = {}, {}
  for _, job_id in ipairs(due) do
    local fields = redis.pcall('HMGET', prefix .. 'job:' .. job_id, 'status', 'held_ms')
    if fields[1] == 'scheduled' and fields[2] and tonumber(fields[2]) == tonumber(redis.call('ZSCORE', scheduled, job_id)) then
      held[#held + 1] = job_id
    elseif fields[1] == 'scheduled' then
      awake[#awake + 1] = job_id
    elseif fields.err then
      quarantine(job_id, 'its key is not a hash', max_corrupt)
      spoilt = spoilt + 1
    else
      dropped = dropped + 1
    end
  end
  if #awake > 0 then
    ready_push(awake)
    for _, job_id in ipairs(awake) do
      redis.call('HSET', prefix .. 'job:' .. job_id, 'status', 'pending')
    end
  end
  for i = #held, 1, -1 do -- these have had their turn
    ready_return(held[i])
    redis.call('HSET', prefix .. 'job:' .. held[i], 'status', 'pending')
  end
  redis.call('ZREM', scheduled, unpack(due))
end

-- The suspect this consumer holds, if it still does, and for how long it has.
local suspect_ms = 0
if suspect then
  local holds = redis.pcall('HMGET', prefix .. 'job:' .. suspect, 'claim_token', 'claimed_at_ms')
  if holds.err or string.sub(holds[1] or '', 1, #id + 1) ~= id .. ':' then
    redis.call('HDEL', sender, 'suspect')
    suspect = nil
  else
    suspect_ms = math.max(0, now - (whole(holds[2]) or now))
  end
end

if limits and slots == 0 then
  rates_noted(0)
  return remember(waiting() + #due > 0 and 'T' or 'E')
end

local taken, bytes, deferred, waits = 0, 0, 0, 0
local looks = slots + surplus
local full = false
local met = {}

-- unfit tells why an entry cannot be run, or nil.
local function unfit(job_id, fields)
  if job_id == '' then return 'its ID is empty' end
  if #job_id > max_id then return 'its ID is longer than ' .. max_id .. ' bytes' end
  if fields.err then return 'its key is not a hash' end
end

local known = {pending = true, [''] = true, processing = true, scheduled = true, completed = true, cancelled = true, expired = true,
  dead = true, corrupt = true}

-- numbers are those of a job's fields that must be one: attempts to timeout_ms, and expires_at_ms.
local function numbers(f)
  local all = {}
  for k = 1, 6 do
    local number = whole(f[k == 6 and 13 or k + 5])
    if not number then return nil end
    all[k] = number
  end
  return all
end

-- set_apart handles an entry that is not to be claimed, and says so; nil for one that is.
local function set_apart(job_id, f, place)
  local why = unfit(job_id, f)
  if not why then
    local status, owner = f[1] or '', f[2] or ''
    local free = owner == '' and (status == 'pending' or status == '')
    if met[job_id] or (known[status] and not free) or
      (status == '' and not f[3] and redis.call('EXISTS', job_prefix .. job_id) == 0) then
      dropped = dropped + 1
      return true
    end
    if not known[status] then
      why = 'its status is unknown'
    elseif not numbers(f) then
      why = 'attempts, crashes, deliveries, max_attempts, timeout_ms and expires_at_ms are not all numbers'
    end
  end
  if why then
    quarantine(job_id, why, max_corrupt)
    spoilt = spoilt + 1
    return true
  end
  if asked(f[14]) then
    finish(job_id, 'cancelled', '', f[15], f[16])
    cancelled = cancelled + 1
    return true
  end
  local expires = whole(f[13]) or 0
  if expires > 0 and expires <= now then
    finish(job_id, 'expired', '', f[15], f[16])
    expired[#expired + 1] = job_id
    return true
  end
  if (whole(f[7]) or 0) > 0 and suspect then
    -- One at a time: the others wait for their turn, each a little longer than the last, and
    -- all the longer the longer the one takes, so that nobody asks in vain all the time.
    deferred = deferred + 1
    local turn = math.max(10 * deferred, math.floor(suspect_ms / 4)) + spread(job_id, 10)
    redis.call('ZADD', scheduled, now + math.min(turn, 2000), job_id)
    redis.call('HSET', job_prefix .. job_id, 'status', 'scheduled')
    return true
  end
  if limits and f[17] and not key_allows(f[17], job_id) then
    key_holds(job_id, f[17], place)
    waits = waits + 1
    return true
  end
end

local function take(source)
  while taken < slots and looks > 0 and not full do
    local ids, places = ready_next(source, math.min(slots - taken, looks, most), 0)
    if #ids == 0 then return end
    local passed, size, batch, keys, from = 0, 0, {}, {}, {} -- size is counted, for # searches
    local tokens, deliveries = {}, {} -- of those that are not claimed for the first time, or bound
    for i = #ids, 1, -1 do
      local job_id = ids[i]
      local job = job_prefix .. job_id
      -- What was appended with payload and kind alone, and was never claimed, has no status: there is nothing else to read.
      local f = redis.pcall('HMGET', job, 'payload', 'kind', 'append', 'status')
      local payload, job_kind, append = f[1], f[2], f[3]
      local plain, headers = payload and append and not f[4]
      if not plain then headers = only_headers(job, f) end
      if (plain or headers) and not met[job_id] then
        f = nil
      else
        f = read(job)
        payload, job_kind, append, headers = f[3], f[4], f[11], f[5]
      end
      if not f or not set_apart(job_id, f, places and places[i]) then
        bytes = bytes + #(payload or '')
        if taken + size > 0 and bytes > max_bytes then
          full = true
          break
        end
        met[job_id] = true
        size = size + 1
        batch[size], keys[size] = job_id, job
        if places then from[size] = places[i] end
        give(job_id, payload, job_kind, append)
        local marks = following and followed(append, f and f[12]) and 1 or 0
        if f then
          if limits and f[17] then key_taken(job_id, f[17], f[18]) end
          local attempts, crashes, before, max_attempts, timeout = unpack(numbers(f))
          if crashes > 0 then
            suspect = job_id
            redis.call('HSET', sender, 'suspect', job_id)
          end
          deliveries[size] = string.format('%d', before + 1)
          tokens[size] = token_for(token, f[15], f[16])
          if tokens[size] ~= token then marks = marks + 2 end
          give_more(headers, string.format(six, attempts, crashes, before + 1, max_attempts, timeout, marks))
        elseif headers or marks > 0 then
          give_more(headers, marks == 0 and '0 0 1 0 0 0' or '0 0 1 0 0 1')
        end
      end
      passed = passed + 1
    end

    if size > 0 then
      redis.call('LPUSH', processing, unpack(batch))
      for k, job in ipairs(keys) do
        if places then
          redis.call('HSET', job, 'status', 'processing', 'claim_token', tokens[k] or token, 'claimed_at_ms', now_text,
            'deliveries', deliveries[k] or '1', 'place', from[k])
        else
          redis.call('HSET', job, 'status', 'processing', 'claim_token', tokens[k] or token, 'claimed_at_ms', now_text,
            'deliveries', deliveries[k] or '1')
        end
      end
      taken = taken + size
    end
    ready_drop(source, passed)
    looks = looks - passed
  end
end
keys_later = {}
for _, source in ipairs(ready_sources) do take(source) end
for _, key in ipairs(keys_later) do key_next(key) end
ready_left()
if taken > 0 then
  first_fence = math.max((whole(sizes[counters]) or 0) + 1, now)
  redis.call('HSET', counters, 'fence', string.format('%d', first_fence + taken - 1))
end

if limits then rates_noted(taken) end
tell_all()
count('claimed', taken)
count('dropped', dropped)
count('deferred', deferred)
count('limited', waits)
count('cancelled', cancelled)
count('expired', #expired)
if kept > 0 then trim_completed(max_completed) end
if taken > 0 then
  local drained = taken < slots and looks > 0 and not full and #due < promotions
  return remember('J', drained and 'L' or 'J')
end
if looks <= 0 or #due == promotions then return remember('M') end
return remember('E')
