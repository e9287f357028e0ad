--[[ list_bury: dead letters and quarantine, each bounded. Not a script of its own. Needs list_unique.

Needs told. Gives bury, trim_dead, quarantine. Index and job go together: what is trimmed is gone. A key
that is not ours (another type) is never deleted.
]]
local trim_step = 1000 -- entries that one script trims
local buried = 0 -- by this script

-- bury makes a job dead, with more fields and their values if given; the caller removes it from where it was, afterwards.
local function bury(id, reason, ...)
  tell(id, 'd', nil, false, reason)
  redis.call('ZADD', dead, now, id)
  redis.call('HSET', prefix .. 'job:' .. id, 'status', 'dead', 'claim_token', '', 'reason', reason, ...)
  count('dead', 1)
  buried = buried + 1
end

-- forget removes a trimmed job if it is still what it was trimmed as.
local function forget(id, status)
  local f = redis.pcall('HMGET', prefix .. 'job:' .. id, 'status', 'unique')
  if not f.err and f[1] == status then erase(id, f[2]) end
end

local function trim_dead(max)
  if sizes[dead] + buried <= max then return 0 end
  local over = math.min(redis.call('ZCARD', dead) - max, trim_step)
  if over <= 0 then return 0 end
  for _, id in ipairs(redis.call('ZRANGE', dead, 0, over - 1)) do
    forget(id, 'dead')
    redis.call('ZREM', dead, id)
  end
  count('trimmed', over)
  return over
end

-- quarantine notes an entry that nobody can run, with the reason; the caller removes it from
-- where it was, afterwards. An absurdly long ID is noted by its beginning and its hash.
local function quarantine(id, reason, max)
  local name = id
  if #id > max_id then
    name = string.sub(id, 1, 64) .. '...' .. redis.sha1hex(id)
  end
  redis.call('ZADD', corrupt, now, name)
  redis.call('HSET', reasons, name, reason)
  if name == id and type_of(prefix .. 'job:' .. id) == 'hash' then
    tell(id, 'd', nil, false, reason)
    redis.call('HSET', prefix .. 'job:' .. id, 'status', 'corrupt', 'claim_token', '', 'reason', reason)
  end
  local over = math.min(redis.call('ZCARD', corrupt) - max, trim_step)
  if over > 0 then
    for _, old in ipairs(redis.call('ZRANGE', corrupt, 0, over - 1)) do
      forget(old, 'corrupt')
      redis.call('ZREM', corrupt, old)
      redis.call('HDEL', reasons, old)
    end
    count('corrupt_trimmed', over)
  end
  count('corrupt', 1)
end
