--[[ stream_follow: has a follower told of jobs, whoever has appended them, and tells what each is now to our group. It is also
how a follower says that it is still there.

ARGV  follower   see list_follower
      cursor     the last entry of its stream that it has; '': it is not said
      count      so many IDs follow
Returns OK last, then for each ID its record (see stream_record), result and progress, or the ID and empty words where there
        is no such job.
        last is the last entry of its stream. UNKNOWN.
Called by follower.Follow and follower.Await.

A job that waits and has expired ends, or, where other groups want it, is said to have: the claim that meets it ends it.
]]
--#include stream_base
--#include list_follower
--#include stream_entry
--#include stream_unique
--#include stream_retain
--#include stream_record
local cursor, ids = arg(), tonumber(arg())
local reply = {'OK', last}

renew()
if cursor ~= '' and cursor == last then redis.call('XTRIM', news, 'MAXLEN', 0) end

-- overdue ends a job that waits and has expired, and gives what is left of it.
local function overdue(job_id, r)
  local first, again, delayed, unique = unpack(redis.call('HMGET', job_prefix .. job_id, 'entry', F.redriven, 'delayed', 'unique'))
  local entry = again or first
  if delayed then
    end_delayed(job_id, unique, 'expired', r[9])
  elseif entry and others_done(entry) then
    end_waiting(job_id, entry, first or entry, unique, 'expired', r[9])
  end
  local left = record(job_id)
  if left and kept[left[2]] then return left end
  r[2], r[11], r[12] = 'expired', now, 0
  return r
end

local lives = {pending = true, scheduled = true, processing = true, dead = true} -- still to be told of
for _ = 1, ids do
  local job_id = arg()
  local r, _, _, result, progress = record(job_id)
  if r and lives[r[2]] then
    local job = job_prefix .. job_id
    join(job)
    -- One of a foreign producer, which has no record otherwise.
    if redis.call('HLEN', job) == 1 then redis.call('HSET', job, 'entry', job_id) end
  end
  if r and (r[2] == 'pending' or r[2] == 'scheduled') and r[16] > 0 and r[16] <= now then r = overdue(job_id, r) end
  for i = 1, words do reply[#reply + 1] = r and r[i] or (i == 1 and job_id or '') end
  reply[#reply + 1] = r and result or ''
  reply[#reply + 1] = r and progress or ''
end
tell_all()
return reply
