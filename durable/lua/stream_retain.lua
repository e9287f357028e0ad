--[[ stream_retain: how a job ends for our group, but for dead and corrupt ones. Not a script of its own. Needs
told, stream_entry and stream_unique.

Gives ends, end_noted, end_waiting, end_delayed and trim_completed. A record that is kept, for as long as the job asks, is its hash with status
completed, cancelled or expired: what it was and how it ran, its size in place of its payload, and its headers only if they
are short. Where there is one group it has a TTL. The index completed (ID → when it is forgotten) bounds the number of
records, and finds those that have no TTL.
]]
local retain_step = 1000 -- records that one script trims
local retain_headers = 4096 -- bytes of headers that are kept

-- retain keeps the record of a job with body b, with more fields and their values if given.
local function retain(job_id, b, status, retention, ...)
  local job = job_prefix .. job_id
  local headers = b.headers or ''
  redis.call('ZADD', completed, now + retention, job_id)
  redis.call('HSET', job, F.status, status, F.claim_token, '', F.completed_at_ms, now_text, F.retention_ms, retention,
    'kind', b.kind or '', 'payload_bytes', #(b.payload or ''),
    'max_attempts', b.max_attempts or 0, 'timeout_ms', b.timeout_ms or 0, 'headers', #headers <= retain_headers and headers or '',
    'expires_at_ms', b.expires_at_ms or 0, ...)
  if alone() then redis.call('PEXPIRE', job, retention) end
end

-- ends notes that our group is done with a job (unique is its field), and keeps its record if it asks for that. The caller
-- does end_noted, at the latest at its end.
local notices = {cancelled = 'x', expired = 'e', dead = 'g'} -- those who follow a completed job are told its result
local noted = {ids = {}, entries = {}, foreign = {}, keys = {}}
local function ends(job_id, entry, unique, status, retention, ...)
  if notices[status] then tell(job_id, notices[status]) end
  if retention > 0 then
    retain(job_id, entry_of(entry) or {}, status, retention, ...)
  else
    local list = entry == job_id and noted.foreign or noted.ids
    list[#list + 1] = job_id
  end
  noted.entries[#noted.entries + 1] = entry
  if unique then noted.keys[#noted.keys + 1] = {job_id, unique, status == 'completed'} end
end

-- end_noted does it: the record goes first where a job ends, and the entry after it. One that came without an ID has no
-- mark but its record: of that the entry goes first.
local function end_noted()
  forget(noted.ids)
  finish(noted.entries)
  forget(noted.foreign)
  for _, key in ipairs(noted.keys) do let_key_go(unpack(key)) end
  noted = {ids = {}, entries = {}, foreign = {}, keys = {}}
end

-- end_waiting ends a job that waits, and that no other group wants, at once; first is the entry that it came with.
local function end_waiting(job_id, entry, first, unique, status, retention)
  ends(job_id, entry, unique, status, retention, 'entry', first)
  end_noted()
  redis.call('ZREM', retries, entry)
  redis.call('ZREM', returned, padded(entry))
  count(status, 1)
end

-- end_delayed ends a job that is not in the stream yet, and so is nobody's.
local function end_delayed(job_id, unique, status, retention)
  local job = job_prefix .. job_id
  tell(job_id, notices[status])
  if retention > 0 then
    local b, names = {}, {'kind', 'payload', 'headers', 'max_attempts', 'timeout_ms', 'expires_at_ms'}
    for i, value in ipairs(redis.call('HMGET', job, unpack(names))) do b[names[i]] = value or nil end
    retain(job_id, b, status, retention)
    redis.call('HDEL', job, 'delayed', 'payload', 'retention_ms')
  else
    redis.call('DEL', job)
  end
  redis.call('ZREM', scheduled, job_id)
  let_key_go(job_id, unique)
  count(status, 1)
end

-- trim_completed forgets what is over its time, and what is beyond the bound: that which would be
-- forgotten next. An entry is judged by its record: the ID may have been used again since.
local function trim_completed(max)
  local function trim_these(ids)
    for _, job_id in ipairs(ids) do
      local status = redis.pcall('HGET', job_prefix .. job_id, F.status)
      if type(status) == 'string' and kept[status] then forget({job_id}) end
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
