--[[ list_stats: sizes and counters of one instant. Writes nothing.

ARGV  members    consumers whose claims are counted
Returns OK, the limits (see list_limit), who has set them, since when (ms), then pending scheduled processing dead corrupt completed consumers, then for intake and claims
        1 (paused) or 0, by whom, since when (ms), then counter value …
Called by List.Stats.
]]
--#include list_base
--#include list_engine
local members = tonumber(arg())
local processing = 0
for _, c in ipairs(redis.call('ZRANGE', consumers, 0, members - 1)) do
  local held = redis.pcall('LLEN', prefix .. 'processing:' .. c)
  if type(held) == 'number' then processing = processing + held end
end
local limited_by, limited_ms = unpack(redis.call('HMGET', meta, 'limited_by', 'limited_ms'))
local reply = {'OK', limits or '', limits and limited_by or '', limits and whole(limited_ms) or 0, waiting(), sizes[scheduled],
  processing, redis.call('ZCARD', dead), redis.call('ZCARD', corrupt),
  redis.call('ZCOUNT', completed, '(' .. now, '+inf'), redis.call('ZCARD', consumers)}
for _, what in ipairs({'intake', 'claims'}) do
  local by, since = unpack(redis.call('HMGET', meta, 'pause_' .. what .. '_by', 'pause_' .. what .. '_ms'))
  local stopped = paused(what)
  reply[#reply + 1] = stopped and 1 or 0
  reply[#reply + 1] = stopped and by or ''
  reply[#reply + 1] = stopped and whole(since) or 0
end
for _, value in ipairs(redis.call('HGETALL', counters)) do
  reply[#reply + 1] = value
end
return reply
