--[[ list_follow: has a follower told of jobs, whoever has appended them, and tells what each is now. It is also how a
follower says that it is still there.

ARGV  follower   see list_follower
      cursor     the last entry of its stream that it has; '': it is not said
      count      so many IDs follow
Returns OK last, then for each ID its record (see list_record), result and progress, or the ID and empty words where there is
        no such job.
        last is the last entry of its stream. UNKNOWN.
Called by follower.Follow and follower.Await.

A job that waits and has expired ends. Its record, where it leaves one, may be one too many until the next sweep.
]]
--#include list_base
--#include list_follower
--#include list_limits
--#include list_unique
--#include list_retain
--#include list_end
--#include list_record
local cursor, ids = arg(), tonumber(arg())
local reply = {'OK', last}

renew()
if cursor ~= '' and cursor == last then redis.call('XTRIM', news, 'MAXLEN', 0) end

-- overdue ends a job that waits and has expired, and gives what is left of it.
local function overdue(job_id, r)
  finish(job_id, 'expired', '', string.format('%.0f', r[9]), r.unique)
  redis.call('ZREM', scheduled, job_id)
  ready_forget(job_id)
  count('expired', 1)
  r[2], r[11], r[12] = 'expired', now, 0
  return record(job_id) or r
end

local ends = {pending = true, scheduled = true, processing = true, dead = true} -- still to be told of
for _ = 1, ids do
  local job_id = arg()
  local r = record(job_id)
  if r and ends[r[2]] then join(prefix .. 'job:' .. job_id) end
  if r and (r[2] == 'pending' or r[2] == 'scheduled') and r[16] > 0 and r[16] <= now then r = overdue(job_id, r) end
  for i = 1, words do reply[#reply + 1] = r and r[i] or (i == 1 and job_id or '') end
  local left = r and redis.pcall('HMGET', prefix .. 'job:' .. job_id, 'result', 'progress') or {}
  reply[#reply + 1] = left[1] or ''
  reply[#reply + 1] = left[2] or ''
end
tell_all()
return reply
