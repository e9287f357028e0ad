--[[ stream_retain: records of completed jobs, kept for as long as each job asks. Not a script of its own.
Needs stream_entry.

Gives retain and trim_completed. A record is the job's hash with status completed: what it
was and how it ran, its size in place of its payload, and its headers only if they are short. Where
there is one group it has a TTL. The index completed (ID → when it is forgotten) bounds the number of
records, and finds those that have no TTL.
]]
local retain_step = 1000 -- records that one script trims
local retain_headers = 4096 -- bytes of headers that are kept

local function retain(job_id, entry, token, retention)
  local job = job_prefix .. job_id
  local b = entry_of(entry) or {}
  local headers = b.headers or ''
  redis.call('ZADD', completed, now + retention, job_id)
  redis.call('HSET', job, F.status, 'completed', F.claim_token, '', F.completed_by, token, F.completed_at_ms, now,
    'kind', b.kind or '', 'payload_bytes', #(b.payload or ''), 'max_attempts', b.max_attempts or 0,
    'timeout_ms', b.timeout_ms or 0, 'headers', #headers <= retain_headers and headers or '')
  if group_count <= 1 then redis.call('PEXPIRE', job, retention) end
end

-- trim_completed forgets what is over its time, and what is beyond the bound: that which would be
-- forgotten next. An entry is judged by its record: the ID may have been used again since.
local function trim_completed(max)
  local function trim_these(ids)
    for _, job_id in ipairs(ids) do
      if redis.pcall('HGET', job_prefix .. job_id, F.status) == 'completed' then forget({job_id}) end
      redis.call('ZREM', completed, job_id)
    end
  end
  trim_these(redis.call('ZRANGEBYSCORE', completed, '-inf', now, 'LIMIT', 0, retain_step))
  local over = math.min(redis.call('ZCARD', completed) - max, retain_step)
  if over > 0 then
    trim_these(redis.call('ZRANGE', completed, 0, over - 1))
    count('completed_trimmed', over)
  end
end
