--[[ list_base: what every script of the list engine begins with, and of the sorted-set engine, which has the same
scripts and differs in what waits to be claimed alone: --#include ready is list_ready, or zset_ready. Not a
script of its own.

KEYS  the fixed keys of the queue, in the order below; always all of them. In a sorted-set queue the fourth is wake.
      Keys made from an ID or an identity (job:, processing:, sender:) are built here, under
      the prefix, so that they lie in the slot of the fixed keys.
ARGV  verb         the script's name, unread; it makes MONITOR and SLOWLOG legible
      prefix       of every key of the queue
      wire         the newest wire version this client speaks
      then what ready takes, then what the script's own header says
Gives what base gives, sizes (of the fixed lists and sets at the start; of counters: the last fence), following (whether anybody can be following
      jobs), limits (as list_limits reads them, or false), and what ready gives.
Answers, before any write:
      BADKEY key type wanted   a key of the queue holds something else
      WIRE version             the queue is of a newer wire version
]]
local meta, counters, pending, arriving, scheduled, dead, corrupt, reasons, consumers, completed =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local prefix, wire = ARGV[2], tonumber(ARGV[3])

local accounts, position = counters, 3
--#include base

local sizes = {}
--#include ready

-- Each key is asked for its size, or a field: the cheapest question that fails on another type. Some are rarely there.
local types = {'hash', 'hash', ready_type, 'list', 'zset', 'zset', 'zset', 'hash', 'zset', 'zset'}
local following, limits = false, false
local follower_prefix, followers_field = prefix .. 'follower:', 'followers'
local rare = {[dead] = 0, [corrupt] = 0, [reasons] = false, [completed] = 0}
if redis.call('EXISTS', dead, corrupt, reasons, completed) > 0 then rare = {} end
for i, key in ipairs(KEYS) do
  local size = rare[key]
  if size ~= nil then -- it is not there
  elseif key == meta then
    size = redis.pcall('HMGET', key, 'wire', 'following_ms', 'limits', 'pause_intake', 'pause_claims')
    if not size.err then
      following, limits = (tonumber(size[2] or 0) or 0) > now, size[3]
      pauses.intake, pauses.claims = size[4], size[5]
      size = size[1]
    end
  elseif types[i] == 'list' then
    size = redis.pcall('LLEN', key)
  elseif types[i] == 'zset' then
    size = redis.pcall('ZCARD', key)
  else
    size = redis.pcall('HGET', key, 'fence')
  end
  if type(size) == 'table' then return mistyped(key, types[i]) or size end
  sizes[key] = size
end

local queue_wire = tonumber(sizes[meta] or 0) or 0
if queue_wire > wire then
  return {'WIRE', tostring(queue_wire)}
end
