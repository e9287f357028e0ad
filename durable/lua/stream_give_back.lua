--[[ stream_give_back: returns one pending entry of a consumer to the queue, judged by its job's record.
Not a script of its own. Needs told, stream_entry, stream_unique,
stream_bury and stream_retain.

Why suspects: when a process dies, one of the jobs it held may have killed it, and nothing
tells which. All of them are charged one crash and become suspects (crashes > 0). From then on
a consumer holds at most one suspect at a time and its record names it; if it is lost again,
the suspect alone is charged and its neighbours come back uncharged, at once. So a job that
kills every process reaches its bound alone, and the innocent that were beside it the first time
are cleared by running. What is charged returns through retries, after 0.1 to 2 s: the
uncharged run first, apart from it, and suspects do not meet again in the same order.
The delay comes from the ID and Redis's clock; replicas get its effect, not the script.

Order: destination, then the record, then the pending list.
]]

-- spread gives a number in [0, range) that differs between IDs and between moments.
local function spread(id, range)
  local h = now % 65521
  for i = 1, math.min(#id, 64) do
    h = (h * 31 + string.byte(id, i)) % 2147483647
  end
  return h % range
end

-- give_back says what became of the entry: returned, charged, dead, cancelled, dropped or corrupt. Nobody's
-- (consumer '') is one that a foreign consumer was given so many times, and never acknowledged.
local function give_back(consumer, entry, charge, max_crashes, max_corrupt, given)
  local b, v = entry_of(entry)
  if not b then -- somebody has deleted it: the job is cancelled
    local f = redis.pcall('HGET', job_prefix .. entry, 'entry')
    if f == entry then forget({entry}) end
    redis.call('XACK', stream, group, entry)
    count('dropped', 1)
    return 'dropped'
  end
  local job_id = id_of(entry, b)
  local job = job_prefix .. job_id
  local f = #job_id <= max_id and redis.pcall('HMGET', job, F.status, F.claim_token, F.crashes, F.redriven, 'entry', 'append', F.cancel_ms, 'unique') or {err = 'long'}
  if f.err then
    quarantine(job_id, entry, v, #job_id <= max_id and 'its key is not a hash' or 'its ID is too long', max_corrupt)
    finish({entry})
    return 'corrupt'
  end
  local status, token, crashes = f[1] or '', f[2] or '', whole(f[3]) or 0
  local at = f[4] or f[5]
  local unknown = not at and not f[6] and status == ''
  if ended[status] or (at and at ~= entry) or (unknown and b.append) or (b.for_group and b.for_group ~= group) then
    finish({entry})
    count('dropped', 1)
    return 'dropped'
  end
  local holder = owner(token)
  local mine = holder ~= '' and holder == consumer
  if status == 'scheduled' then
    if not redis.call('ZSCORE', retries, entry) then redis.call('ZADD', retries, now, entry) end
    claim_for(parked, {entry})
    return 'dropped'
  end
  if token ~= '' and not mine and redis.call('ZSCORE', consumers, holder) then
    claim_for(holder, {entry})
    return 'dropped'
  end

  if (f[7] or '') ~= '' then
    ends(job_id, entry, f[8], 'cancelled', whole(b.retention_ms) or 0)
    end_noted()
    count('cancelled', 1)
    return 'cancelled'
  end

  local became
  if (charge and mine) or given then
    crashes = math.max(crashes + 1, given or 0)
    count('crashed', 1)
    if crashes >= max_crashes then
      bury(job_id, entry, 'worker lost', F.crashes, crashes, 'entry', f[5] or entry)
      finish({entry})
      let_key_go(job_id, f[8])
      became = 'dead'
    else
      tell(job_id, 'r')
      redis.call('ZADD', retries, now + 100 + spread(job_id, 1900), entry)
      redis.call('HSET', job, F.status, 'scheduled', F.claim_token, '', F.crashes, crashes, 'entry', f[5] or entry)
      claim_for(parked, {entry})
      became = 'charged'
    end
  else
    tell(job_id, 'r')
    put_back({entry})
    redis.call('HSET', job, F.status, 'pending', F.claim_token, '', 'entry', f[5] or entry)
    became = 'returned'
  end
  if became ~= 'dead' then count('returned', 1) end
  return became
end
