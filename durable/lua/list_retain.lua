--[[ list_retain: records of jobs that have ended, kept for as long as each job asks. Not a script of its own. Needs
list_unique.

Gives retain and trim_completed. A record is the job's hash with status completed, cancelled or expired and a TTL: what it
was and how it ran, its size in place of its payload, its result, and its headers only if they are short. The
index completed (ID → when it is forgotten) bounds their number, and finds what has no TTL because
a script stopped half-way.
]]
local retain_step = 1000 -- records that one script trims
local retain_headers = 4096 -- bytes of headers that are kept

local ended_as = {completed = true, cancelled = true, expired = true}

-- retain makes a job a record; result may be nil.
local function retain(job_id, status, token, retention, result)
  local job = prefix .. 'job:' .. job_id
  redis.call('ZADD', completed, now + retention, job_id)
  redis.call('HSETNX', job, 'payload_bytes', redis.call('HSTRLEN', job, 'payload'))
  if result then
    redis.call('HSET', job, 'status', status, 'claim_token', '', 'completed_by', token, 'completed_at_ms', now, 'result', result)
  else
    redis.call('HSET', job, 'status', status, 'claim_token', '', 'completed_by', token, 'completed_at_ms', now)
  end
  redis.call('HDEL', job, 'payload', 'cancel_ms')
  if redis.call('HSTRLEN', job, 'headers') > retain_headers then redis.call('HDEL', job, 'headers') end
  redis.call('PEXPIRE', job, retention)
end

-- trim_completed forgets what is over its time, and what is beyond the bound: that which would be
-- forgotten next. An entry is judged by its job: the ID may have been used again since.
local function trim_completed(max)
  local function trim(ids)
    for _, job_id in ipairs(ids) do
      local job = prefix .. 'job:' .. job_id
      local f = redis.pcall('HMGET', job, 'status', 'unique')
      if not f.err and ended_as[f[1]] then erase(job_id, f[2]) end
      redis.call('ZREM', completed, job_id)
    end
  end
  trim(redis.call('ZRANGEBYSCORE', completed, '-inf', now, 'LIMIT', 0, retain_step))
  local over = math.min(redis.call('ZCARD', completed) - max, retain_step)
  if over > 0 then
    trim(redis.call('ZRANGE', completed, 0, over - 1))
    count('completed_trimmed', over)
  end
end
