--[[ stream_claim: takes up to slots jobs for a consumer: what came back first, then what was retried and is
due, in turn with what the group has not read yet, the oldest first.

ARGV  id, n         see list_sender
      slots         how many to take
      max_bytes     of payloads together; the first is given whatever its size
      held          how many claims the consumer holds, settles in flight included
      max_crashes, max_corrupt, max_completed
      named         how many claims follow, each id token: all that the consumer holds; -1: none
                    were named
Returns status seen woken next_due dropped corrupt gap expired, then so many IDs, then for each job
        id kind payload headers attempts crashes deliveries fence max_attempts timeout followed (1: others want to be told of it)
        life (its field append)
        status: J jobs, E nothing there, M stopped early, P paused, R reconcile (name what you
        hold, under the next number); next_due in ms, -1 for none. seen and woken are where a wait has
        to begin so that it misses nothing: IDs in the stream and in wake; '' where they are not known.
        FENCED, EXPIRED, UNKNOWN, OLD: nothing was changed.
Called by consumer.Claim.

An entry belongs to one consumer's pending list all the time, and is judged by its job's record alone.
Pending before stamp, destination before source: what a script that stopped half-way leaves is an entry
that is pending without a stamp, and the count of held claims finds it.
]]
--#include stream_base
--#include told
--#include list_sender
--#include stream_entry
--#include stream_unique
--#include stream_bury
--#include stream_retain
--#include stream_give_back
local slots, max_bytes, held = tonumber(arg()), tonumber(arg()), tonumber(arg())
local max_crashes, max_corrupt, max_completed, named = tonumber(arg()), tonumber(arg()), tonumber(arg()), tonumber(arg())
local surplus = 64 -- entries looked at besides those that are taken
local promotions = 256 -- due jobs that one claim adds to the stream
local step = 128 -- entries read at once
local most_held = 9999 -- claims of one consumer that are looked at; far more than it ever has

local fields, bad = sent('kind', 'claim', 'claim_status', 'suspect', 'follow')
if bad then return bad end
local lease_end = tonumber(redis.call('ZSCORE', consumers, id) or 0)
if lease_end == 0 then return {'FENCED'} end
if lease_end <= now then return {'EXPIRED'} end
local kind, last, last_status, suspect, follow = unpack(fields)
told_by = follow
if not kind then return {'UNKNOWN'} end
last = whole(last) or 0
if number < last then return {'OLD'} end

local token = id .. ':' .. n
local given = {} -- words of the jobs
local expired = {}
local dropped, spoilt, cancelled, retained = 0, 0, 0, 0
local seen, woken_at = '', ''

local function answer(status)
  local next_due = -1
  for _, set in ipairs({scheduled, retries}) do
    local first = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')
    if first[2] then
      local due = math.max(0, math.floor(first[2] - now))
      if next_due < 0 or due < next_due then next_due = due end
    end
  end
  local reply = {status, seen, woken_at, next_due, dropped, spoilt, gap('claim', last, number), #expired}
  for _, list in ipairs({expired, given}) do
    for _, word in ipairs(list) do reply[#reply + 1] = word end
  end
  return reply
end

local record_fields = {'append', 'entry', 'delayed', F.redriven, F.status, F.claim_token, F.attempts, F.crashes,
  F.deliveries, F.fence, F.cancel_ms, 'unique', F.followers}
local function read(job_id)
  return redis.pcall('HMGET', job_prefix .. job_id, unpack(record_fields))
end

local function give(job_id, b, append, named, attempts, crashes, deliveries, fence)
  local at = #given
  given[at + 1], given[at + 2], given[at + 3], given[at + 4] = job_id, b.kind or '', b.payload or '', b.headers or ''
  given[at + 5], given[at + 6], given[at + 7] = attempts, crashes, deliveries
  given[at + 8], given[at + 9], given[at + 10] = fence, whole(b.max_attempts) or 0, whole(b.timeout_ms) or 0
  given[at + 11], given[at + 12] = followed(append, named) and 1 or 0, append or ''
end

-- The same number again: the consumer's own pending list is read again, and what is still claimed under
-- the number is given, by the records and not from memory, for what was settled since must not be
-- started again.
if number == last then
  local of, ids = string.match(redis.call('HGET', sender, 'claim_expired') or '', '^(%d+) (.*)$')
  if of == n then expired = cmsgpack.unpack(ids) end
  if last_status ~= 'J' then return answer(last_status or 'M') end
  local from = '0'
  for _ = 1, most_held, step do
    local got = redis.pcall('XREADGROUP', 'GROUP', group, id, 'COUNT', step, 'STREAMS', stream, from)
    local entries = got and not got.err and got[1][2] or {}
    for _, one in ipairs(entries) do
      from = one[1]
      local b = one[2] and body(one[2])
      local job_id = b and id_of(from, b)
      local f = b and #job_id <= max_id and read(job_id) or {}
      if not f.err and f[6] == token and (f[4] or f[2]) == from then
        give(job_id, b, f[1], f[13], whole(f[7]) or 0, whole(f[8]) or 0, whole(f[9]) or 0, whole(f[10]) or 0)
      end
    end
    if #entries < step then break end
  end
  return answer(#given > 0 and 'J' or 'M')
end

redis.call('PEXPIRE', sender, T_rec) -- the primer: never grows

local function remember(status)
  redis.call('HSET', sender, 'claim', n, 'claim_status', status)
  if #expired > 0 then redis.call('HSET', sender, 'claim_expired', n .. ' ' .. cmsgpack.pack(expired)) end
  return answer(status)
end

if paused('claims') then
  return remember('P')
end
ensure_group()

if named < 0 and #pending_of(id, held + 1) > held then
  return remember('R')
end
if named >= 0 then
  local claims = {} -- by ID and token, as an ID can be claimed again while its last claim is not settled
  for _ = 1, named do claims[arg() .. '\n' .. arg()] = true end
  for _, entry in ipairs(pending_of(id, most_held)) do
    local b = entry_of(entry)
    local job_id = b and id_of(entry, b)
    local held_by = b and redis.pcall('HGET', job_prefix .. job_id, F.claim_token)
    if type(held_by) ~= 'string' or not claims[job_id .. '\n' .. held_by] then
      give_back(id, entry, false, max_crashes, max_corrupt)
    end
  end
end

-- Delayed jobs that are due become entries. The mark goes before the entry is noted: a script that stopped
-- in between leaves an entry that is known by its place in the append.
local due = redis.call('ZRANGEBYSCORE', scheduled, '-inf', now, 'LIMIT', 0, promotions)
for _, job_id in ipairs(due) do
  local job = job_prefix .. job_id
  local f = redis.pcall('HMGET', job, 'delayed', 'append', 'kind', 'payload', 'headers', 'max_attempts', 'timeout_ms', 'retention_ms', 'expires_at_ms')
  if f.err then
    quarantine(job_id, '', {}, 'its key is not a hash', max_corrupt)
    spoilt = spoilt + 1
  elseif not f[1] then
    dropped = dropped + 1
  else
    local entry = add_entry(stream, job_id, f[3], f[4], f[2], f[5], f[6], f[7], f[8], f[9])
    redis.call('HDEL', job, 'delayed', 'kind', 'payload', 'headers', 'max_attempts', 'timeout_ms', 'retention_ms', 'expires_at_ms')
    redis.call('HSET', job, 'entry', entry)
  end
end
if #due > 0 then redis.call('ZREM', scheduled, unpack(due)) end

-- The suspect this consumer holds, if it still does, and for how long it has.
local suspect_ms = 0
if suspect then
  local holds = redis.pcall('HMGET', job_prefix .. suspect, F.claim_token, F.claimed_at_ms)
  if holds.err or owner(holds[1]) ~= id then
    redis.call('HDEL', sender, 'suspect')
    suspect = nil
  else
    suspect_ms = math.max(0, now - (whole(holds[2]) or now))
  end
end

local taken, bytes, deferred = 0, 0, 0
local looks = slots + surplus
local full = false
local met, over, apart = {}, {}, {} -- jobs of this claim; entries to finish, and to park
local fence = whole(redis.call('HGET', counters, 'fence')) or 0
local known = {pending = true, [''] = true, processing = true, scheduled = true}

-- unfit tells why an entry cannot be run, or nil.
local function unfit(job_id, b, f)
  if #job_id > max_id then return 'its ID is longer than ' .. max_id .. ' bytes' end
  if not b.append and b.payload == nil and b.kind == nil then return 'it has neither a payload nor a kind' end
  if f.err then return 'its key is not a hash' end
  if not known[f[5] or ''] and not ended[f[5]] then return 'its status is unknown' end
  if not (whole(f[7]) and whole(f[8]) and whole(f[9]) and whole(b.max_attempts) and whole(b.timeout_ms) and whole(b.retention_ms) and
    whole(b.expires_at_ms)) then
    return 'attempts, crashes, deliveries, max_attempts, timeout_ms, retention_ms and expires_at_ms are not all numbers'
  end
end

-- consider judges an entry. It returns what a claim of it needs, or nil, and the entry is seen to then.
local function consider(entry, v)
  looks = looks - 1
  local b = body(v)
  if b.plain then -- most jobs are as they were appended: nothing else is asked of these
    local flat = redis.pcall('HGETALL', job_prefix .. b.id)
    if #flat == 4 and flat[4] == entry and flat[2] == b.append and not met[b.id] then
      bytes = bytes + #b.payload
      if taken > 0 and bytes > max_bytes then
        full = true
        return nil
      end
      met[b.id] = entry
      taken = taken + 1
      fence = math.max(fence + 1, now)
      give(b.id, b, b.append, nil, 0, 0, 1, fence)
      return {job_prefix .. b.id, entry, 1, fence, false, 0}
    end
  end
  if b.for_group and b.for_group ~= group then
    over[#over + 1] = entry
    return nil
  end
  local job_id = id_of(entry, b)
  local f = #job_id <= max_id and read(job_id) or {}
  local why = unfit(job_id, b, f)
  if not why then
    local at, status = f[4] or f[2], f[5] or ''
    local surplus_copy
    if met[job_id] == entry then return nil end -- the group was made anew, and this one had come back
    if met[job_id] or ended[status] then
      surplus_copy = true
    elseif at then
      surplus_copy = at ~= entry
    else -- no record: cancelled, if it is one of ours; one that is not delayed: known by its place
      surplus_copy = f[3] or (b.append or '') ~= (f[1] or '')
    end
    if surplus_copy then
      over[#over + 1] = entry
      dropped = dropped + 1
      return nil
    end
  end
  if why then
    quarantine(job_id, entry, v, why, max_corrupt)
    over[#over + 1] = entry
    spoilt = spoilt + 1
    return nil
  end
  local holder = owner(f[6])
  if holder ~= '' and redis.call('ZSCORE', consumers, holder) then -- the group was made anew while it ran
    claim_for(holder, {entry})
    dropped = dropped + 1
    return nil
  end
  local expires = whole(b.expires_at_ms)
  local marked = (f[11] or '') ~= ''
  if marked or (expires > 0 and expires <= now) then
    local retention = whole(b.retention_ms)
    ends(job_id, entry, f[12], marked and 'cancelled' or 'expired', retention, 'entry', f[2] or entry)
    if retention > 0 then retained = retained + 1 end
    met[job_id] = entry
    if marked then
      cancelled = cancelled + 1
    else
      expired[#expired + 1] = job_id
    end
    return nil
  end
  local crashes = whole(f[8])
  if crashes > 0 and suspect then
    -- One at a time: the others wait for their turn, each a little longer than the last, and
    -- all the longer the longer the one takes, so that nobody asks in vain all the time.
    deferred = deferred + 1
    local turn = math.max(10 * deferred, math.floor(suspect_ms / 4)) + spread(job_id, 10)
    redis.call('ZADD', retries, now + math.min(turn, 2000), entry)
    redis.call('HSET', job_prefix .. job_id, F.status, 'scheduled')
    apart[#apart + 1] = entry
    return nil
  end
  bytes = bytes + #(b.payload or '')
  if taken > 0 and bytes > max_bytes then
    full = true
    return nil
  end
  if crashes > 0 then
    suspect = job_id
    redis.call('HSET', sender, 'suspect', job_id)
  end
  met[job_id] = entry
  taken = taken + 1
  fence = math.max(fence + 1, now)
  local deliveries = whole(f[9]) + 1
  give(job_id, b, f[1] or b.append, f[13], whole(f[7]), crashes, deliveries, fence)
  return {job_prefix .. job_id, entry, deliveries, fence, not (f[4] or f[2]), whole(b.retention_ms)}
end

-- stamp makes claims of entries that are pending for this consumer.
local function stamp(batch)
  if #batch == 0 then return end
  redis.call('HSET', counters, 'fence', string.format('%d', fence))
  for _, c in ipairs(batch) do
    local job, entry, deliveries, fencing, unnoted, retention = unpack(c)
    redis.call('HSET', job, F.status, 'processing', F.claim_token, token, F.claimed_at_ms, now_text,
      F.deliveries, string.format('%d', deliveries), F.fence, string.format('%d', fencing))
    if unnoted then redis.call('HSET', job, 'entry', entry) end
    if retention > 0 then redis.call('HSET', job, F.retention_ms, retention) end
  end
end

-- take claims what is noted in a set of ours: it is pending for nobody.
local function take(set, most, names, plain)
  most = math.min(taken + most, slots)
  while taken < most and looks > 0 and not full do
    local members = names(math.min(most - taken, looks, step))
    if #members == 0 then return end
    local batch, entries, passed = {}, {}, {}
    for _, name in ipairs(members) do
      local entry = plain and name or unpadded(name)
      local got = redis.call('XRANGE', stream, entry, entry)[1]
      if got then
        local c = consider(entry, got[2])
        if full then break end
        if c then
          batch[#batch + 1] = c
          entries[#entries + 1] = entry
        end
      else
        give_back('', entry, false, max_crashes, max_corrupt)
        looks = looks - 1
      end
      -- What was deferred is in the set of retries again, and stays there.
      if not (plain and apart[#apart] == entry) then passed[#passed + 1] = name end
    end
    claim_for(id, entries)
    stamp(batch)
    if #passed > 0 then redis.call('ZREM', set, unpack(passed)) end
  end
end

local function take_returned()
  take(returned, slots, function(k) return redis.call('ZRANGE', returned, 0, k - 1) end, false)
end

local function take_retries(most)
  take(retries, most, function(k)
    return redis.call('ZRANGEBYSCORE', retries, '-inf', now, 'LIMIT', 0, k)
  end, true)
end

local function take_new()
  local read_at_once = 32
  while taken < slots and looks > 0 and not full do
    local want = math.min(slots - taken, looks, read_at_once)
    local got = redis.call('XREADGROUP', 'GROUP', group, id, 'COUNT', want, 'STREAMS', stream, '>')
    local entries = got and got[1] and got[1][2] or {}
    local batch, rest = {}, {}
    for _, one in ipairs(entries) do
      seen = one[1]
      if full then
        rest[#rest + 1] = one[1]
      else
        local c = consider(one[1], one[2])
        if c then
          batch[#batch + 1] = c
        elseif full then
          rest[#rest + 1] = one[1]
        end
      end
    end
    stamp(batch)
    put_back(rest)
    if #entries < want then return end
    -- No more than what will probably be taken: the rest would have to be put back.
    read_at_once = step
    if taken > 0 and bytes > 0 then
      read_at_once = math.max(1, math.min(step, math.floor((max_bytes - bytes) * taken / bytes) + 1))
    end
  end
end

seen = all_groups[group].last
take_returned()
do
  local left = slots - taken
  take_retries(number % 2 == 0 and math.ceil(left / 2) or math.floor(left / 2))
  take_new()
  take_retries(slots)
end
if #apart > 0 then claim_for(parked, apart) end
if #over > 0 then finish(over) end
end_noted()
wake_up()
tell_all()
if retained > 0 then trim_completed(max_completed) end

count('claimed', taken)
count('dropped', dropped)
count('expired', #expired)
count('cancelled', cancelled)
count('deferred', deferred)
if taken > 0 then return remember('J') end
if looks <= 0 or #due == promotions then return remember('M') end
local marker = redis.call('XREVRANGE', wake, '+', '-', 'COUNT', 1)[1]
woken_at = marker and marker[1] or '0'
return remember('E')
