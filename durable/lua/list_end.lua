--[[ list_end: the end of a job that was not done: cancelled, or expired. Not a script of its own. Needs told, list_limits,
list_unique and list_retain.

A job that is asked to be cancelled has cancel_ms, since when; one that is claimed then is named in cancels:<consumer> (ID →
token) too, which is how its consumer finds out. It never waits again: whoever would return it ends it.
]]
local kept = 0 -- records that this script keeps for jobs that it has ended so

-- asked tells whether a field cancel_ms says that the job is to be cancelled.
local function asked(cancel_ms)
  return cancel_ms and cancel_ms ~= '' and cancel_ms ~= '0'
end

-- finish ends a job: how is cancelled or expired, by the token under which it was claimed, '' for none; then its fields
-- retention_ms and unique. The caller removes its entry, afterwards, and counts it.
local function finish(job_id, how, by, retention, unique)
  tell(job_id, how == 'cancelled' and 'x' or 'e')
  key_left(job_id)
  key_ended(job_id)
  retention = whole(retention) or 0
  if retention == 0 then
    erase(job_id, unique)
    return
  end
  local key, left = let_go(job_id, unique)
  retain(job_id, how, by, retention)
  if key then expire(key, left) end
  kept = kept + 1
end

-- heard is called when a claim ends of which its consumer was told that it is to be cancelled.
local function heard(consumer, job_id)
  redis.pcall('HDEL', prefix .. 'cancels:' .. consumer, job_id)
end
