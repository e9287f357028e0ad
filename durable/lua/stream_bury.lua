--[[ stream_bury: the dead-letter stream and the quarantine, each bounded. Not a script of its own. Needs
told, stream_entry and stream_unique.

Gives bury, trim_dead, quarantine. A letter is a copy of the entry, with the reason; record and letter go
together: what is trimmed is gone. A letter whose record does not name it is a surplus copy. A key that is
not ours (another type) is never deleted.
]]
local trim_step = 250 -- letters that one script trims

-- bury makes a job dead, with more fields and their values if given; the caller finishes the entry, afterwards.
-- It is not possible, and false, where somebody has deleted the entry.
local function bury(job_id, entry, reason, ...)
  local b = entry_of(entry)
  if not b then return false end
  tell(job_id, 'd', nil, false, reason)
  local letter = add_entry(dead, job_id, b.kind, b.payload, b.append, b.headers, b.max_attempts, b.timeout_ms, b.retention_ms,
    b.expires_at_ms, 'entry', entry, 'reason', reason)
  redis.call('HSET', job_prefix .. job_id, F.status, 'dead', F.claim_token, '', F.reason, reason, F.buried, letter, ...)
  count('dead', 1)
  return true
end

local function trim(letters, status, max)
  local over = math.min(redis.call('XLEN', letters) - max, trim_step)
  if over <= 0 then return 0 end
  for _, one in ipairs(redis.call('XRANGE', letters, '-', '+', 'COUNT', over)) do
    local job_id = body(one[2]).id or ''
    local f = redis.pcall('HMGET', job_prefix .. job_id, F.status, F.buried)
    if not f.err and f[1] == status and f[2] == one[1] then forget_all({job_id}) end
    redis.call('XDEL', letters, one[1])
  end
  return over
end

local function trim_dead(max)
  local over = trim(dead, 'dead', max)
  count('trimmed', over)
  return over
end

-- quarantine notes an entry that nobody can run, with the reason; the caller finishes it, afterwards. An
-- absurdly long ID is noted by its beginning and its hash, and of many fields the first hundred are kept.
local function quarantine(job_id, entry, v, reason, max)
  local name = job_id
  if #job_id > max_id then
    name = string.sub(job_id, 1, 64) .. '...' .. redis.sha1hex(job_id)
  end
  local words = {'XADD', corrupt, '*', 'id', name, 'entry', entry, 'reason', reason, unpack(v, 1, math.min(#v, 200))}
  local letter = redis.call(unpack(words))
  local job = job_prefix .. name
  local is = type_of(job)
  if name == job_id and (is == 'none' or is == 'hash') then
    tell(job_id, 'd', nil, false, reason)
    redis.call('HSET', job, F.status, 'corrupt', F.claim_token, '', F.reason, reason, F.buried, letter)
  end
  count('corrupt_trimmed', trim(corrupt, 'corrupt', max))
  count('corrupt', 1)
end
