--[[ list_retain: records of completed jobs, kept for as long as each job asks. Not a script of its own.

Gives retain and trim_completed. A record is the job's hash with status completed and a TTL: what it
was and how it ran, its size in place of its payload, and its headers only if they are short. The
index completed (ID → when it is forgotten) bounds their number, and finds what has no TTL because
a script stopped half-way.
]]
local retain_step = 1000 -- records that one script trims
local retain_headers = 4096 -- bytes of headers that are kept

local function retain(job_id, token, retention)
  local job = prefix .. 'job:' .. job_id
  redis.call('ZADD', completed, now + retention, job_id)
  redis.call('HSETNX', job, 'payload_bytes', redis.call('HSTRLEN', job, 'payload'))
  redis.call('HSET', job, 'status', 'completed', 'claim_token', '', 'completed_by', token, 'completed_at_ms', now)
  redis.call('HDEL', job, 'payload')
  if redis.call('HSTRLEN', job, 'headers') > retain_headers then redis.call('HDEL', job, 'headers') end
  redis.call('PEXPIRE', job, retention)
end

-- trim_completed forgets what is over its time, and what is beyond the bound: that which would be
-- forgotten next. An entry is judged by its job: the ID may have been used again since.
local function trim_completed(max)
  local function trim(ids)
    for _, job_id in ipairs(ids) do
      local job = prefix .. 'job:' .. job_id
      if redis.pcall('HGET', job, 'status') == 'completed' then redis.call('DEL', job) end
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
