--[[ list_give_back: returns one entry of a consumer's list to the queue, judged by its job.
Not a script of its own. Needs list_bury, list_limits and list_end.

Why suspects: when a process dies, one of the jobs it held may have killed it, and nothing
tells which. All of them are charged one crash and become suspects (crashes > 0). From then on
a consumer holds at most one suspect at a time and its record names it; if it is lost again,
the suspect alone is charged and its neighbours come back uncharged, at once. So a job that
kills every process reaches its bound alone, and the innocent that were beside it the first time
are cleared by running. What is charged returns through scheduled, after 0.1 to 2 s: the
uncharged run first, apart from it, and suspects do not meet again in the same order.
The delay comes from the ID and Redis's clock; replicas get its effect, not the script.

Order: destination, then the job, then the entry's removal.
]]

-- spread gives a number in [0, range) that differs between IDs and between moments.
local function spread(id, range)
  local h = now % 65521
  for i = 1, math.min(#id, 64) do
    h = (h * 31 + string.byte(id, i)) % 2147483647
  end
  return h % range
end

-- give_back says what became of the entry: returned, charged, dead, cancelled, dropped or corrupt.
local function give_back(consumer, job_id, charge, max_crashes, max_corrupt)
  local from = prefix .. 'processing:' .. consumer
  local job = prefix .. 'job:' .. job_id
  local fields = redis.pcall('HMGET', job, 'status', 'claim_token', 'crashes', 'cancel_ms', 'retention_ms', 'unique')
  if fields.err then
    quarantine(job_id, 'its key is not a hash', max_corrupt)
    redis.call('LREM', from, 1, job_id)
    return 'corrupt'
  end
  local status, token, crashes = fields[1] or '', fields[2] or '', whole(fields[3]) or 0
  local own = consumer .. ':'
  local mine = string.sub(token, 1, #own) == own
  local ended = status == 'scheduled' or status == 'dead' or status == 'corrupt' or ended_as[status]
  if ended or (token ~= '' and not mine) or (token == '' and redis.call('EXISTS', job) == 0) then
    redis.call('LREM', from, 1, job_id)
    count('dropped', 1)
    return 'dropped'
  end

  local became
  if not asked(fields[4]) then key_ended(job_id) end -- what waits for that comes behind this one
  if asked(fields[4]) then
    finish(job_id, 'cancelled', token, fields[5], fields[6])
    heard(consumer, job_id)
    count('cancelled', 1)
    became = 'cancelled'
  elseif charge and mine then
    crashes = crashes + 1
    count('crashed', 1)
    if crashes >= max_crashes then
      bury(job_id, 'worker lost', 'crashes', crashes)
      became = 'dead'
    else
      tell(job_id, 'r')
      redis.call('ZADD', scheduled, now + 100 + spread(job_id, 1900), job_id)
      redis.call('HSET', job, 'status', 'scheduled', 'claim_token', '', 'crashes', crashes)
      became = 'charged'
    end
  else
    tell(job_id, 'r')
    ready_return(job_id)
    redis.call('HSET', job, 'status', 'pending', 'claim_token', '')
    became = 'returned'
  end
  redis.call('LREM', from, 1, job_id)
  if became ~= 'dead' and became ~= 'cancelled' then count('returned', 1) end
  return became
end
