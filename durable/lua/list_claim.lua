--[[ list_claim: takes up to slots jobs for a consumer, the oldest first.

ARGV  id, n         see list_sender
      slots         how many to take
      max_bytes     of payloads together; the first is given whatever its size
      held          how many claims the consumer holds, settles in flight included
      max_crashes, max_corrupt
      named         how many claims follow, each id token: all that the consumer holds; -1: none
                    were named
Returns status next_due dropped corrupt gap, then for each job
        id kind payload headers attempts crashes deliveries fence max_attempts timeout
        status: J jobs, E nothing there, M stopped early, P paused, R reconcile (name what you
        hold, under the next number); next_due in ms, -1 for none.
        FENCED, EXPIRED, UNKNOWN, OLD: nothing was changed.
Called by consumer.Claim.

Entry before stamp, destination before source: what a script that stopped half-way leaves is a
surplus entry, and those are dropped where they are met. An entry is judged by its job alone.
]]
--#include list_base
--#include list_sender
--#include list_bury
--#include list_give_back
local slots, max_bytes, held = tonumber(arg()), tonumber(arg()), tonumber(arg())
local max_crashes, max_corrupt, named = tonumber(arg()), tonumber(arg()), tonumber(arg())
local processing = prefix .. 'processing:' .. id
local surplus = 64 -- entries looked at besides those that are taken
local promotions = 256 -- due jobs made pending by one claim
local step = 128 -- entries read at once
local most_held = 9999 -- claims of one consumer that are looked at; far more than it ever has
do
  local bad = mistyped(processing, 'list')
  if bad then return bad end
end

local lease_end = tonumber(redis.call('ZSCORE', consumers, id) or 0)
if lease_end == 0 then return {'FENCED'} end
if lease_end <= now then return {'EXPIRED'} end
local kind, last, last_status, suspect = unpack(redis.call('HMGET', sender,
  'kind', 'claim', 'claim_status', 'suspect'))
if not kind then return {'UNKNOWN'} end
last = whole(last) or 0
if number < last then return {'OLD'} end

local token = id .. ':' .. n
local reply = {}
local dropped, spoilt = 0, 0

local function answer(status)
  local next_due = -1
  local first = redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')
  if first[2] then next_due = math.max(0, math.floor(first[2] - now)) end
  local gap = number > last + 1 and 1 or 0
  local head = {status, next_due, dropped, spoilt, gap}
  for i, value in ipairs(reply) do head[i + 5] = value end
  return head
end

local job_fields = {'status', 'claim_token', 'payload', 'kind', 'headers', 'attempts', 'crashes',
  'deliveries', 'max_attempts', 'timeout_ms', 'fence'}
local function read(job_id)
  return redis.pcall('HMGET', prefix .. 'job:' .. job_id, unpack(job_fields))
end

local function give(job_id, payload, job_kind, headers, attempts, crashes, deliveries, fence, max_attempts, timeout)
  local at = #reply
  reply[at + 1], reply[at + 2], reply[at + 3], reply[at + 4] = job_id, job_kind or '', payload or '', headers or ''
  reply[at + 5], reply[at + 6], reply[at + 7] = attempts, crashes, deliveries
  reply[at + 8], reply[at + 9], reply[at + 10] = fence, max_attempts, timeout
end

-- The same number again: what is still claimed under it, from the jobs and not from memory,
-- for what was settled since must not be started again.
if number == last then
  if last_status ~= 'J' then return answer(last_status or 'M') end
  local ids = redis.call('LRANGE', processing, 0, most_held)
  local given = {}
  for i = #ids, 1, -1 do
    local fields = read(ids[i])
    if not fields.err and fields[2] == token and not given[ids[i]] then
      given[ids[i]] = true
      local _, _, payload, job_kind, headers, attempts, crashes, deliveries, max_attempts, timeout, fence = unpack(fields)
      give(ids[i], payload, job_kind, headers, whole(attempts) or 0, whole(crashes) or 0, whole(deliveries) or 0,
        whole(fence) or 0, whole(max_attempts) or 0, whole(timeout) or 0)
    end
  end
  return answer(#reply > 0 and 'J' or 'M')
end

redis.call('PEXPIRE', sender, T_rec) -- the primer: never grows

local function remember(status)
  redis.call('HSET', sender, 'claim', n, 'claim_status', status)
  return answer(status)
end

if paused('claims') then
  return remember('P')
end

if named < 0 and redis.call('LLEN', processing) > held then
  return remember('R')
end
if named >= 0 then
  local tokens, seen = {}, {}
  for _ = 1, named do
    local job_id = arg()
    tokens[job_id] = arg()
  end
  for _, job_id in ipairs(redis.call('LRANGE', processing, 0, most_held)) do
    if seen[job_id] then
      redis.call('LREM', processing, -1, job_id)
    elseif not tokens[job_id] or redis.pcall('HGET', prefix .. 'job:' .. job_id, 'claim_token') ~= tokens[job_id] then
      give_back(id, job_id, false, max_crashes, max_corrupt)
    end
    seen[job_id] = true
  end
end

-- Due jobs become pending.
local due = redis.call('ZRANGEBYSCORE', scheduled, '-inf', now, 'LIMIT', 0, promotions)
if #due > 0 then
  local awake = {}
  for _, job_id in ipairs(due) do
    local status = redis.pcall('HGET', prefix .. 'job:' .. job_id, 'status')
    if status == 'scheduled' then
      awake[#awake + 1] = job_id
    elseif type(status) == 'table' then
      quarantine(job_id, 'its key is not a hash', max_corrupt)
      spoilt = spoilt + 1
    else
      dropped = dropped + 1
    end
  end
  if #awake > 0 then
    redis.call('LPUSH', pending, unpack(awake))
    for _, job_id in ipairs(awake) do
      redis.call('HSET', prefix .. 'job:' .. job_id, 'status', 'pending')
    end
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

local taken, bytes, deferred = 0, 0, 0
local looks = slots + surplus
local full = false
local met = {}
local fence = whole(redis.call('HGET', counters, 'fence')) or 0

-- unfit tells why an entry cannot be run, or nil.
local function unfit(job_id, fields)
  if job_id == '' then return 'its ID is empty' end
  if #job_id > max_id then return 'its ID is longer than ' .. max_id .. ' bytes' end
  if fields.err then return 'its key is not a hash' end
end

local known = {pending = true, [''] = true, processing = true, scheduled = true, completed = true, dead = true, corrupt = true}

local function take(source)
  while taken < slots and looks > 0 and not full do
    local ids = redis.call('LRANGE', source, -math.min(slots - taken, looks, step), -1)
    if #ids == 0 then return end
    local passed, batch = 0, {}
    for i = #ids, 1, -1 do
      local job_id = ids[i]
      local fields = #job_id <= max_id and read(job_id) or {}
      local why = unfit(job_id, fields)
      if why then
        quarantine(job_id, why, max_corrupt)
        spoilt = spoilt + 1
      else
        local status, owner, payload, job_kind, headers = fields[1] or '', fields[2] or '', fields[3], fields[4], fields[5]
        local attempts, crashes, deliveries, max_attempts, timeout =
          whole(fields[6]), whole(fields[7]), whole(fields[8]), whole(fields[9]), whole(fields[10])
        if not (attempts and crashes and deliveries and max_attempts and timeout) then
          why = 'attempts, crashes, deliveries, max_attempts and timeout_ms are not all numbers'
        end
        local free = owner == '' and (status == 'pending' or status == '')
        if met[job_id] or (known[status] and not free) then
          dropped = dropped + 1
        elseif not known[status] then
          quarantine(job_id, 'its status is unknown', max_corrupt)
          spoilt = spoilt + 1
        elseif status == '' and not payload and redis.call('EXISTS', prefix .. 'job:' .. job_id) == 0 then
          dropped = dropped + 1
        elseif why then
          quarantine(job_id, why, max_corrupt)
          spoilt = spoilt + 1
        elseif crashes > 0 and suspect then
          -- One at a time: the others wait for their turn, each a little longer than the last, and
          -- all the longer the longer the one takes, so that nobody asks in vain all the time.
          deferred = deferred + 1
          local turn = math.max(10 * deferred, math.floor(suspect_ms / 4)) + spread(job_id, 10)
          redis.call('ZADD', scheduled, now + math.min(turn, 2000), job_id)
          redis.call('HSET', prefix .. 'job:' .. job_id, 'status', 'scheduled')
        else
          bytes = bytes + #(payload or '')
          if taken + #batch > 0 and bytes > max_bytes then
            full = true
            break
          end
          if crashes > 0 then
            suspect = job_id
            redis.call('HSET', sender, 'suspect', job_id)
          end
          fence = math.max(fence + 1, now)
          batch[#batch + 1] = {job_id, deliveries + 1, fence}
          give(job_id, payload, job_kind, headers, attempts, crashes, deliveries + 1, fence, max_attempts, timeout)
          met[job_id] = true
        end
      end
      passed = passed + 1
    end

    if #batch > 0 then
      redis.call('HSET', counters, 'fence', fence)
      local entries = {}
      for k, claim in ipairs(batch) do entries[k] = claim[1] end
      redis.call('LPUSH', processing, unpack(entries))
      for _, claim in ipairs(batch) do
        local job_id, deliveries, fencing = unpack(claim)
        redis.call('HSET', prefix .. 'job:' .. job_id, 'status', 'processing', 'claim_token', token,
          'claimed_at_ms', now, 'deliveries', deliveries, 'fence', fencing)
      end
      taken = taken + #batch
    end
    redis.call('LTRIM', source, 0, -(passed + 1))
    looks = looks - passed
  end
end
take(arriving)
take(pending)

count('claimed', taken)
count('dropped', dropped)
count('deferred', deferred)
if taken > 0 then return remember('J') end
if looks <= 0 or #due == promotions then return remember('M') end
return remember('E')
