--[[ stream_base: what every script of the stream engine begins with. Not a script of its own.

KEYS  the fixed keys of the queue, in the order below; always all of them. Those that belong to
      one group end with @<group>, but for the group weir.
      Keys made from an ID or an identity (job:, sender:), and those of other groups, are built
      here, under the prefix, so that they lie in the slot of the fixed keys.
ARGV  verb         the script's name, unread; it makes MONITOR and SLOWLOG legible
      prefix       of every key of the queue
      wire         the newest wire version this client speaks
      group        the consumer group
      then what the script's own header says
Gives what base gives, following (whether anybody can be following jobs), add_entry(), and what is known of the stream and its groups.
Answers, before any write:
      BADKEY key type wanted   a key of the queue holds something else
      WIRE version             the queue is of a newer wire version
]]
local redis = redis -- a local is found faster than a global
local meta, counters, stream, scheduled, accounts, wake, returned, retries, dead, corrupt, consumers, completed =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local types = {'hash', 'hash', 'stream', 'zset', 'hash', 'stream', 'zset', 'zset', 'stream', 'stream', 'zset', 'zset'}
local prefix, wire, group = ARGV[2], tonumber(ARGV[3]), ARGV[4]
local job_prefix = prefix .. 'job:'
local parked = '-' -- the consumer that stands for nobody: of what waits to be claimed again

local position = 4
--#include base

-- Each key is asked for its size, or a field: the cheapest question that fails on another type.
local sizes = {hash = 'HLEN', stream = 'XLEN', zset = 'ZCARD'}
for i, key in ipairs(KEYS) do
  local size = redis.pcall(sizes[types[i]], key)
  if type(size) == 'table' then return mistyped(key, types[i]) or size end
end

local engine = 'stream'
local following = false
do
  local theirs, opened, until_ms = unpack(redis.call('HMGET', meta, 'wire', 'engine', 'following_ms'))
  theirs = tonumber(theirs or 0) or 0
  if theirs > wire then return {'WIRE', tostring(theirs)} end
  if theirs > 0 and opened ~= engine then
    return {'BADKEY', meta, 'queue of another engine', 'queue of streams'}
  end
  following = (tonumber(until_ms or 0) or 0) > now
end

-- add_entry adds an entry of ours. What most jobs leave empty is not there then; more fields and values may follow.
local function add_entry(key, job_id, kind, payload, place, headers, attempts, timeout, retention, expires, ...)
  local words = {'XADD', key, '*', 'id', job_id, 'kind', kind or '', 'payload', payload or '', 'append', place or ''}
  local function add(name, value)
    if value and value ~= '' and value ~= '0' then
      words[#words + 1] = name
      words[#words + 1] = value
    end
  end
  add('headers', headers)
  add('max_attempts', attempts)
  add('timeout_ms', timeout)
  add('retention_ms', retention)
  add('expires_at_ms', expires)
  for _, word in ipairs({...}) do words[#words + 1] = word end
  return redis.call(unpack(words))
end

-- suffix is what the keys and fields of a group end with.
local function suffix(of)
  return of == 'weir' and '' or '@' .. of
end
local own = suffix(group)

-- field names of our group's part of a job's record
local F, own_fields = {}, {}
for _, name in ipairs({'status', 'claim_token', 'claimed_at_ms', 'attempts', 'crashes', 'deliveries', 'fence', 'reason',
  'redriven', 'buried', 'retention_ms', 'completed_by', 'completed_at_ms', 'cancel_ms',
  'result', 'progress', 'followers'}) do
  F[name] = name .. own
  own_fields[#own_fields + 1] = F[name]
end

local follower_prefix, followers_field = prefix .. 'follower' .. own .. ':', F.followers

-- kept are the states of a record that is kept for its retention, ended those of a job that our group is done with.
local kept = {completed = true, cancelled = true, expired = true}
local ended = {completed = true, cancelled = true, expired = true, dead = true, corrupt = true}

-- padded makes an entry's ID one that sorts as a string in the order of the stream.
local function padded(entry)
  local ms, seq = string.match(entry, '^(%d+)%-(%d+)$')
  if not ms then return entry end
  return string.rep('0', 20 - #ms) .. ms .. '-' .. string.rep('0', 20 - #seq) .. seq
end

-- unpadded is its inverse.
local function unpadded(name)
  local ms, seq = string.match(name, '^0*(%d+)%-0*(%d+)$')
  return ms and ms .. '-' .. seq or name
end

-- groups are those of the stream, as Redis knows them: name → {last, pending, lag (nil: unknown), consumers}.
local function read_groups()
  local all, n = {}, 0
  local info = redis.pcall('XINFO', 'GROUPS', stream)
  if info.err then return all, 0 end
  for _, flat in ipairs(info) do
    local g = {}
    for i = 1, #flat, 2 do g[flat[i]] = flat[i + 1] end
    all[g.name] = {last = g['last-delivered-id'], pending = g.pending, lag = g.lag or nil, consumers = g.consumers}
    n = n + 1
  end
  return all, n
end

-- unread is how many entries a group has not been given yet, or the most it can be; sure says which. Redis's
-- own figure (lag) is not known after some deletions, and too high after others.
local function unread(g, alone)
  local most = math.max(0, redis.call('XLEN', stream) - g.pending)
  if alone then return most, true end
  if g.lag then return math.min(most, g.lag), true end
  return most, false
end

-- backlog is what waits, of the group that is furthest behind: unread, returned, and scheduled.
local function backlog(all, n)
  if not all then all, n = read_groups() end
  local most = n == 0 and redis.call('XLEN', stream) or 0
  for name, g in pairs(all) do
    local s = suffix(name)
    local waits = unread(g, n == 1) + redis.call('ZCARD', prefix .. 'returned' .. s) + redis.call('ZCARD', prefix .. 'retries' .. s)
    most = math.max(most, waits)
  end
  return most + redis.call('ZCARD', scheduled)
end
