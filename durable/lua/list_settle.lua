--[[ list_settle: ends or returns claims, each only if its token is still the job's. Needs the
sender's record, not a lease.

ARGV  id, n         see list_sender
      max_dead      dead letters kept
      max_completed records of completed jobs kept
      runs          of outcomes with the same verdict and token, each: verdict token k, then for each
                    of its k outcomes: id, and if not done: delay (ms) max_attempts reason
                    verdict: D done, R retry, S snooze, X dead, L release; K: done, and id is followed by retention (ms;
                    0: that of the job) and result, to be kept with the record
Returns OK codes trimmed gap
        codes: one letter each: O applied, X a retry that used the attempts up, G no such job,
        S the token is another: nothing was changed, C it was to be cancelled, and has ended so instead of waiting again
        UNKNOWN, OLD.
Called by consumer.Settle.

A completed job whose own retention_ms is more than 0 keeps its hash for so long, without the payload.

The hash goes before the entry only where a job ends; everything else has its destination
first and its entry removed last.
]]
--#include list_base
--#include told
--#include list_limits
--#include list_sender
--#include list_unique
--#include list_bury
--#include list_retain
--#include list_end
local redis = redis -- a local is found faster than a global
local max_dead, max_completed, runs = tonumber(arg()), tonumber(arg()), tonumber(arg())
local processing, job_prefix = prefix .. 'processing:' .. id, prefix .. 'job:'
do
  local bad = mistyped(processing, 'list')
  if bad then return bad end
end

local fields, bad = sent('kind', 'settle', 'suspect', 'settle_codes', 'settle_trimmed', 'follow')
if bad then return bad end
local kind, last, suspect, answer_codes, answer_trimmed, follow = unpack(fields)
if not kind then return {'UNKNOWN'} end
last = whole(last) or 0
if number < last then return {'OLD'} end
if number == last then
  return {'OK', answer_codes or '', answer_trimmed or '0', gap('settle', last, number)}
end

redis.call('PEXPIRE', sender, T_rec) -- the primer: never grows
told_by = follow

local codes, over, released = {}, {}, {}
local gone = {} -- IDs in their order, and by ID, whether the job has ended
local expiring -- keys that are kept beyond their job, and for how long; nil: none
local done, retained, retried, snoozed, cancelled = 0, 0, 0, 0, 0

local function later(job_id, delay, ...)
  tell(job_id, 'r')
  redis.call('ZADD', scheduled, now + delay, job_id)
  redis.call('HSET', job_prefix .. job_id, 'status', 'scheduled', 'claim_token', '', ...)
end

-- leaves notes a job whose entry goes, and whether it has ended.
local function leaves(job_id, has_ended)
  if gone[job_id] == nil then
    gone[#gone + 1] = job_id
    key_ended(job_id)
  end
  gone[job_id] = has_ended or gone[job_id] or false
end

-- read gives of a job what its end depends on.
local function read(job_id)
  if not following then
    return redis.pcall('HMGET', job_prefix .. job_id, 'claim_token', 'retention_ms', 'unique', 'cancel_ms')
  end
  local f = redis.pcall('HMGET', job_prefix .. job_id, 'claim_token', 'retention_ms', 'unique', 'cancel_ms', 'append', 'followers')
  told_fields[job_id] = {f[5], f[6]}
  return f
end

-- refusal is the code for an outcome whose claim is not held; nil for one that is to be applied.
local function refusal(job_id, token, f)
  local holds = f[1]
  if holds == token and token ~= '' and not gone[job_id] and not released[job_id] then return nil end
  if gone[job_id] or f.err or (not holds and redis.call('EXISTS', job_prefix .. job_id) == 0) then
    leaves(job_id)
    return 'G'
  end
  return 'S'
end

-- halfway tells whether a script that stopped has recorded this very end of a job already: then it is what this one does.
local function halfway(job_id, token, code, how)
  if code ~= 'S' then return false end
  local status, by = unpack(redis.call('HMGET', job_prefix .. job_id, 'status', 'completed_by'))
  return status == how and by == token and not gone[job_id]
end

local function complete(job_id, token, keep, result)
  local f = read(job_id)
  local code = refusal(job_id, token, f)
  local again = halfway(job_id, token, code, 'completed')
  if code and not again then return code end
  local retention = keep and tonumber(keep) or 0
  if retention == 0 and f[2] then retention = whole(f[2]) or 0 end
  if result and #result > noticed then
    tell(job_id, 'c', nil, retention > 0)
  else
    tell(job_id, 'c', result)
  end
  if retention > 0 then
    retain(job_id, 'completed', token, retention, not again and result or nil) -- it has what was recorded with its status
    retained = retained + 1
  elseif not again then
    over[#over + 1] = job_prefix .. job_id
  end
  if f[3] then
    local key, left = let_go(job_id, f[3], true)
    if left > 0 then
      expiring = expiring or {}
      expiring[#expiring + 1] = {key, left}
    else
      over[#over + 1] = key
    end
  end
  if f[4] then heard(id, job_id) end
  if not again then done = done + 1 end
  leaves(job_id, true)
  return 'O'
end

-- A claim whose token does not end in + is of a job with no retention and no key. Where nobody follows, counts or cancels
-- besides, its token is all that its end depends on.
local plainly = not following and not limits and redis.call('EXISTS', prefix .. 'cancels:' .. id) == 0

-- complete_plain completes such a claim.
local function complete_plain(job_id, token)
  local job = job_prefix .. job_id
  if redis.pcall('HGET', job, 'claim_token') ~= token or gone[job_id] ~= nil or released[job_id] then
    return complete(job_id, token)
  end
  over[#over + 1] = job
  gone[#gone + 1] = job_id
  gone[job_id] = true
  done = done + 1
  return 'O'
end

-- cancel ends a claim that would wait again otherwise; reason is that of a failure, if it was one.
local function cancel(job_id, token, f, again, reason)
  if reason and not again and (whole(f[2]) or 0) > 0 then
    local attempts = (whole(redis.call('HGET', job_prefix .. job_id, 'attempts')) or 0) + 1
    redis.call('HSET', job_prefix .. job_id, 'attempts', attempts, 'reason', reason)
  end
  finish(job_id, 'cancelled', token, f[2], f[3])
  heard(id, job_id)
  if not again then cancelled = cancelled + 1 end
  leaves(job_id, true)
  return 'C'
end

local function settle(job_id, token, verdict, delay, max_attempts, reason)
  local f = read(job_id)
  local code = refusal(job_id, token, f)
  if verdict ~= 'X' then
    local again = halfway(job_id, token, code, 'cancelled')
    if again or not code and asked(f[4]) then return cancel(job_id, token, f, again, verdict == 'R' and reason) end
  end
  if code then return code end
  code = 'O'
  if verdict == 'R' then
    local attempts = (whole(redis.call('HGET', job_prefix .. job_id, 'attempts')) or 0) + 1
    if attempts >= tonumber(max_attempts) then
      bury(job_id, reason, 'attempts', attempts)
      code = 'X'
    else
      later(job_id, delay, 'attempts', attempts, 'reason', reason)
      retried = retried + 1
    end
  elseif verdict == 'S' then
    later(job_id, delay)
    snoozed = snoozed + 1
  elseif verdict == 'X' then
    bury(job_id, reason)
    if f[4] then
      redis.call('HDEL', job_prefix .. job_id, 'cancel_ms')
      heard(id, job_id)
    end
  elseif verdict == 'L' then
    -- Pushed below, the last one first, so that the first of the batch ends at the head. Until then
    -- a second outcome for it in this batch is stale.
    tell(job_id, 'r')
    released[#released + 1] = job_id
    released[job_id] = true
    return code
  end
  leaves(job_id)
  return code
end

local cleared, settled = false, 0 -- the suspect; how many were looked at
for _ = 1, runs do
  local verdict, token, k = args(3)
  local done_with = plainly and string.sub(token, -1) ~= '+' and complete_plain or complete
  for _ = 1, tonumber(k) do
    position = position + 1
    local job_id, code = ARGV[position]
    if verdict == 'D' then
      code = done_with(job_id, token)
    elseif verdict == 'K' then
      code = complete(job_id, token, args(2))
    else
      code = settle(job_id, token, verdict, args(3))
    end
    settled = settled + 1 -- counted, for # searches
    codes[settled] = code
    cleared = cleared or (job_id == suspect and code ~= 'S')
  end
end

-- Told before jobs go.
tell_all()

-- To the queue first; only then is the claim given up.
for i = #released, 1, -1 do
  local job_id = released[i]
  ready_return(job_id)
  redis.call('HSET', job_prefix .. job_id, 'status', 'pending', 'claim_token', '')
  leaves(job_id)
end
for i = 1, #over, 1000 do
  redis.call('DEL', unpack(over, i, math.min(i + 999, #over)))
end
if expiring then
  for _, key in ipairs(expiring) do expire(unpack(key)) end
end

-- The oldest claims are mostly settled first, and lie together at the tail: one trim then.
local left = #gone
if left > 3 then
  for _, job_id in ipairs(redis.call('LRANGE', processing, -left, -1)) do
    if gone[job_id] ~= nil then
      gone[job_id] = nil
      left = left - 1
    end
  end
end
if left == 0 then
  redis.call('LTRIM', processing, 0, -(#gone + 1))
else
  for _, job_id in ipairs(gone) do
    redis.call('LREM', processing, '-1', job_id)
  end
end

if cleared then redis.call('HDEL', sender, 'suspect') end
local trimmed = trim_dead(max_dead)
if retained + kept > 0 then trim_completed(max_completed) end
local answer = table.concat(codes)
redis.call('HSET', sender, 'settle', n, 'settle_codes', answer, 'settle_trimmed', string.format('%d', trimmed))
count('completed', done)
count('retried', retried)
count('snoozed', snoozed)
count('released', #released)
count('cancelled', cancelled)
return {'OK', answer, trimmed, gap('settle', last, number)}
