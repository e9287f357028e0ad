--[[ base: what every script of every engine begins with, whatever it keeps the jobs in. Not a script of its own;
list_base and stream_base include it.

Needs prefix, accounts (the key of the accounting) and position, the last argument that was read. Gives T_rec, max_id,
now and now_text (ms by Redis), arg() and args(k) (the next argument, the next k), type_of(), mistyped(), whole(),
paused() and count().
]]
local T_rec = '86400000' -- ms, a day; the life of a sender's record after its last request, longer
-- than anybody may stay in doubt. Numbers as arguments of commands are dear
local max_id = 1024 -- bytes of an ID; MaxIDBytes in Go

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
local now_text = string.format('%d', now)

-- whole reads a field that must be a whole number: missing is 0, anything else nil. Fifteen
-- digits are exact in a double.
local function whole(field)
  if not field or field == '' or field == '0' then return 0 end
  if #field <= 15 and string.find(field, '^%d+$') then return tonumber(field) end
  return nil
end

local pauses = {} -- what the script has read of them anyhow

-- paused tells whether an operator has stopped 'intake' or 'claims'. HSET meta pause_claims 1, by
-- hand, is such a stop too.
local function paused(what)
  local set = pauses[what]
  if set == nil then set = redis.call('HGET', meta, 'pause_' .. what) end
  return set and set ~= '' and set ~= '0'
end

-- count adds to the accounting. A counter that somebody has spoilt stays as it is.
local function count(name, by)
  if by > 0 then redis.pcall('HINCRBY', accounts, name, string.format('%d', by)) end
end
