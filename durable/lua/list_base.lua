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
Gives T_rec, max_id, sizes (of the fixed lists and sets at the start), now and now_text (ms by Redis), arg() and args(k) (the next argument, the next k), the type checks,
paused() and count(), and what ready gives.
Answers, before any write:
      BADKEY key type wanted   a key of the queue holds something else
      WIRE version             the queue is of a newer wire version
]]
local redis = redis -- a local is found faster than a global
local meta, counters, pending, arriving, scheduled, dead, corrupt, reasons, consumers, completed =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local prefix, wire = ARGV[2], tonumber(ARGV[3])

local T_rec = 24 * 3600 * 1000 -- ms; the life of a sender's record after its last request, longer
-- than anybody may stay in doubt
local max_id = 1024 -- bytes of an ID; MaxIDBytes in Go

local position = 3
local function arg()
  position = position + 1
  return ARGV[position]
end

local function args(k)
  position = position + k
  return unpack(ARGV, position - k + 1, position)
end

local function type_of(key)
  return redis.call('TYPE', key).ok
end

-- mistyped returns the answer to give when a key holds something else than wanted, or nil.
local function mistyped(key, wanted)
  local is = type_of(key)
  if is ~= 'none' and is ~= wanted then
    return {'BADKEY', key, is, wanted}
  end
end

local seconds, micros = unpack(redis.call('TIME'))
local now = seconds * 1000 + math.floor(micros / 1000)
local now_text = string.format('%d', now) -- numbers as arguments of commands are dear
local sizes = {}
--#include ready

-- Each key is asked for its size, or a field: the cheapest question that fails on another type.
local types = {'hash', 'hash', ready_type, 'list', 'zset', 'zset', 'zset', 'hash', 'zset', 'zset'}
for i, key in ipairs(KEYS) do
  local size
  if types[i] == 'list' then
    size = redis.pcall('LLEN', key)
  elseif types[i] == 'zset' then
    size = redis.pcall('ZCARD', key)
  else
    size = redis.pcall('HGET', key, 'wire')
  end
  if type(size) == 'table' then return mistyped(key, types[i]) or size end
  sizes[key] = size
end

local queue_wire = tonumber(sizes[meta] or 0) or 0
if queue_wire > wire then
  return {'WIRE', tostring(queue_wire)}
end

-- whole reads a field that must be a whole number: missing is 0, anything else nil. Fifteen
-- digits are exact in a double.
local function whole(field)
  if not field or field == '' or field == '0' then return 0 end
  if #field <= 15 and string.find(field, '^%d+$') then return tonumber(field) end
  return nil
end

-- paused tells whether an operator has stopped 'intake' or 'claims'. HSET meta pause_claims 1, by
-- hand, is such a stop too.
local function paused(what)
  local set = redis.call('HGET', meta, 'pause_' .. what)
  return set and set ~= '' and set ~= '0'
end

-- count adds to the accounting. A counter that somebody has spoilt stays as it is.
local function count(name, by)
  if by > 0 then redis.pcall('HINCRBY', counters, name, by) end
end
