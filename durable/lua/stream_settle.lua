--[[ stream_settle: ends or returns claims, each only if its token is still the job's. Needs the
sender's record, not a lease.

ARGV  id, n         see list_sender
      max_dead      dead letters kept
      max_completed records of completed jobs kept
      count         then for each outcome: id token verdict delay (ms) max_attempts reason result retention (ms)
                    verdict: D done, R retry, S snooze, X dead, L release
Returns OK codes trimmed gap
        codes: one letter each: O applied, X a retry that used the attempts up, C it was to be cancelled, and has ended so
        where it would have waited, G no such job, S the token is another: nothing was changed
        UNKNOWN, OLD.
Called by consumer.Settle.

XACK asks for no token, so it is never sent but after the record has been asked, in the same script. The
record goes first where a job ends, and the entry after it (stream_retain); everything else has its destination first.
]]
--#include stream_base
--#include told
--#include list_sender
--#include stream_entry
--#include stream_unique
--#include stream_bury
--#include stream_retain
local max_dead, max_completed, outcomes = tonumber(arg()), tonumber(arg()), tonumber(arg())

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
ensure_group()

local codes, gone, released, later_on, over = {}, {}, {}, {}, {}
local done, retained, retried, snoozed, cancelled = 0, 0, 0, 0, 0

local function later(job_id, entry, delay, ...)
  tell(job_id, 'r')
  redis.call('ZADD', retries, now + delay, entry)
  redis.call('HSET', job_prefix .. job_id, F.status, 'scheduled', F.claim_token, '', ...)
  later_on[#later_on + 1] = entry
end

-- kill buries a job, or ends it where there is nothing to bury.
local function kill(job_id, entry, unique, reason, ...)
  if bury(job_id, entry, reason, ...) then
    let_key_go(job_id, unique)
    return true
  end
  ends(job_id, entry, unique, 'dead', 0)
  over[job_id] = true
  return false
end

local function settle(job_id, token, verdict, delay, max_attempts, reason, result, retention)
  local job = job_prefix .. job_id
  local f = redis.pcall('HMGET', job, F.claim_token, 'entry', F.retention_ms, F.redriven, F.cancel_ms, 'unique')
  local holds, again = f[1], false
  if over[job_id] or f.err or (not holds and redis.call('EXISTS', job) == 0) then return 'G' end
  if holds ~= token and verdict ~= 'X' then
    -- What a script that stopped half-way has recorded as ended is ended by this one.
    local was = redis.call('HMGET', job, F.status, F.completed_by)
    again = was[1] == (verdict == 'D' and 'completed' or 'cancelled') and was[2] == token
    if again then holds = token end
  end
  if token == '' or holds ~= token then return 'S' end

  local entry = f[4] or f[2]
  local code = verdict ~= 'D' and again and 'C' or 'O'
  if again then
    let_key_go(job_id, f[6], verdict == 'D')
    over[job_id] = true
    gone[#gone + 1] = entry
    return code
  end
  if (f[5] or '') ~= '' then
    redis.pcall('HDEL', prefix .. 'cancels:' .. id, job_id)
    if verdict ~= 'D' and verdict ~= 'X' then
      local own_retention, more = whole(f[3]) or 0, {F.completed_by, token}
      if verdict == 'R' then
        more = {F.completed_by, token, F.attempts, (whole(redis.call('HGET', job, F.attempts)) or 0) + 1, F.reason, reason}
      end
      ends(job_id, entry, f[6], 'cancelled', own_retention, unpack(more))
      if own_retention > 0 then retained = retained + 1 end
      over[job_id] = true
      cancelled = cancelled + 1
      return 'C'
    end
  end
  if verdict == 'D' then
    over[job_id] = true
    retention = tonumber(retention)
    if retention == 0 then retention = whole(f[3]) or 0 end
    if #result > noticed then
      tell(job_id, 'c', nil, retention > 0)
    else
      tell(job_id, 'c', result)
    end
    if result ~= '' and retention > 0 then
      ends(job_id, entry, f[6], 'completed', retention, F.completed_by, token, F.result, result)
    else
      ends(job_id, entry, f[6], 'completed', retention, F.completed_by, token)
    end
    if retention > 0 then retained = retained + 1 end
    done = done + 1
    return code
  elseif verdict == 'R' then
    local attempts = (whole(redis.call('HGET', job, F.attempts)) or 0) + 1
    if attempts >= tonumber(max_attempts) then
      if not kill(job_id, entry, f[6], reason, F.attempts, attempts) then code = 'G' else code = 'X' end
    else
      later(job_id, entry, delay, F.attempts, attempts, F.reason, reason)
      retried = retried + 1
      return code
    end
  elseif verdict == 'S' then
    later(job_id, entry, delay)
    snoozed = snoozed + 1
    return code
  elseif verdict == 'X' then
    if not kill(job_id, entry, f[6], reason) then code = 'G' end
  elseif verdict == 'L' then
    tell(job_id, 'r')
    released[#released + 1] = entry
    redis.call('ZADD', returned, 0, padded(entry))
    redis.call('HSET', job, F.status, 'pending', F.claim_token, '')
    return code
  end
  gone[#gone + 1] = entry
  return code
end

for i = 1, outcomes do
  local job_id, token, verdict, delay, max_attempts, reason, result, retention = args(8)
  codes[i] = settle(job_id, token, verdict, delay, max_attempts, reason, result, retention)
  if job_id == suspect and codes[i] ~= 'S' then
    redis.call('HDEL', sender, 'suspect')
  end
end

claim_for(parked, later_on)
put_back(released)
end_noted()
finish(gone)
wake_up()
tell_all()

local trimmed = trim_dead(max_dead)
if retained > 0 then trim_completed(max_completed) end
local answer = table.concat(codes)
redis.call('HSET', sender, 'settle', n, 'settle_codes', answer, 'settle_trimmed', trimmed)
count('completed', done)
count('retried', retried)
count('snoozed', snoozed)
count('released', #released)
count('cancelled', cancelled)
return {'OK', answer, trimmed, gap('settle', last, number)}
