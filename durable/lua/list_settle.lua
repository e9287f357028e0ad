--[[ list_settle: ends or returns claims, each only if its token is still the job's. Needs the
sender's record, not a lease.

ARGV  id, n         see list_sender
      max_dead      dead letters kept
      max_completed records of completed jobs kept
      count         then for each outcome: id token verdict delay (ms) max_attempts reason
                    verdict: D done, R retry, S snooze, X dead, L release
Returns OK codes trimmed gap
        codes: one letter each: O applied, X a retry that used the attempts up, G no such job,
        S the token is another: nothing was changed
        UNKNOWN, OLD.
Called by consumer.Settle.

A completed job whose own retention_ms is more than 0 keeps its hash for so long, without the payload.

The hash goes before the entry only where a job ends; everything else has its destination
first and its entry removed last.
]]
--#include list_base
--#include list_sender
--#include list_bury
--#include list_retain
local max_dead, max_completed, outcomes = tonumber(arg()), tonumber(arg()), tonumber(arg())
local processing = prefix .. 'processing:' .. id
do
  local bad = mistyped(processing, 'list')
  if bad then return bad end
end

local kind, last, suspect, answer_codes, answer_trimmed = unpack(redis.call('HMGET', sender,
  'kind', 'settle', 'suspect', 'settle_codes', 'settle_trimmed'))
if not kind then return {'UNKNOWN'} end
last = whole(last) or 0
if number < last then return {'OLD'} end
if number == last then
  return {'OK', answer_codes or '', answer_trimmed or '0', 0}
end

redis.call('PEXPIRE', sender, T_rec) -- the primer: never grows

local codes, over, gone, released, ended = {}, {}, {}, {}, {}
local done, retained, retried, snoozed = 0, 0, 0, 0

local function later(job_id, delay, ...)
  redis.call('ZADD', scheduled, now + delay, job_id)
  redis.call('HSET', prefix .. 'job:' .. job_id, 'status', 'scheduled', 'claim_token', '', ...)
end

local function settle(job_id, token, verdict, delay, max_attempts, reason)
  local job = prefix .. 'job:' .. job_id
  local fields = redis.pcall('HMGET', job, 'claim_token', 'retention_ms', 'status', 'completed_by')
  local holds = fields[1]
  -- What a script that stopped half-way has recorded as completed is completed by this one.
  local again = verdict == 'D' and fields[3] == 'completed' and fields[4] == token
  if again then holds = token end
  if ended[job_id] or fields.err or (not holds and redis.call('EXISTS', job) == 0) then
    gone[#gone + 1] = job_id
    return 'G'
  end
  if token == '' or holds ~= token then return 'S' end

  local code = 'O'
  if verdict == 'D' then
    local retention = whole(fields[2]) or 0
    if retention > 0 then
      retain(job_id, token, retention)
      retained = retained + 1
    else
      over[#over + 1] = job
    end
    ended[job_id] = true
    if not again then done = done + 1 end
  elseif verdict == 'R' then
    local attempts = (whole(redis.call('HGET', job, 'attempts')) or 0) + 1
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
  elseif verdict == 'L' then
    -- Pushed below, the last one first, so that the first of the batch ends at the head; the
    -- token goes now, so that a second outcome for it in this batch is stale.
    released[#released + 1] = job_id
    redis.call('HSET', job, 'claim_token', '')
    return code
  end
  gone[#gone + 1] = job_id
  return code
end

for i = 1, outcomes do
  local job_id, token, verdict, delay, max_attempts, reason = args(6)
  codes[i] = settle(job_id, token, verdict, delay, max_attempts, reason)
  if job_id == suspect and codes[i] ~= 'S' then
    redis.call('HDEL', sender, 'suspect')
  end
end

for i = #released, 1, -1 do
  local job_id = released[i]
  redis.call('RPUSH', pending, job_id)
  redis.call('HSET', prefix .. 'job:' .. job_id, 'status', 'pending')
  gone[#gone + 1] = job_id
end
for i = 1, #over, 1000 do
  redis.call('DEL', unpack(over, i, math.min(i + 999, #over)))
end

-- The oldest claims are mostly settled first, and lie together at the tail: one trim then.
local function tail_run()
  local wanted, left = {}, 0
  for _, job_id in ipairs(gone) do
    if not wanted[job_id] then
      wanted[job_id] = true
      left = left + 1
    end
  end
  local length = left
  for _, job_id in ipairs(redis.call('LRANGE', processing, -length, -1)) do
    if wanted[job_id] then
      wanted[job_id] = nil
      left = left - 1
    end
  end
  return left == 0 and length
end
local run = #gone > 3 and tail_run()
if run then
  redis.call('LTRIM', processing, 0, -(run + 1))
else
  for _, job_id in ipairs(gone) do
    redis.call('LREM', processing, -1, job_id)
  end
end

local trimmed = trim_dead(max_dead)
if retained > 0 then trim_completed(max_completed) end
local answer = table.concat(codes)
redis.call('HSET', sender, 'settle', n, 'settle_codes', answer, 'settle_trimmed', trimmed)
count('completed', done)
count('retried', retried)
count('snoozed', snoozed)
count('released', #released)
return {'OK', answer, trimmed, number > last + 1 and 1 or 0}
