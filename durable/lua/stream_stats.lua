--[[ stream_stats: sizes and counters of one instant. Writes nothing.

Returns OK pending scheduled processing dead corrupt completed consumers, then for intake and claims
        1 (paused) or 0, by whom, since when (ms), then counter value …
        pending is -1 where it is not known: several groups, and Redis does not know the lag of this one.
Called by Stream.Stats.
]]
--#include stream_base
local all, n = read_groups()
local g = all[group]
local waits, sure = redis.call('XLEN', stream), true
local processing = 0
local back, later = redis.call('ZCARD', returned), redis.call('ZCARD', retries)
if g then
  waits, sure = unread(g, n == 1)
  processing = math.max(0, g.pending - back - later)
end
local reply = {'OK', sure and waits + back or -1, redis.call('ZCARD', scheduled) + later,
  processing, redis.call('XLEN', dead), redis.call('XLEN', corrupt),
  redis.call('ZCOUNT', completed, '(' .. now, '+inf'), redis.call('ZCARD', consumers)}
for _, what in ipairs({'intake', 'claims'}) do
  local by, since = unpack(redis.call('HMGET', meta, 'pause_' .. what .. '_by', 'pause_' .. what .. '_ms'))
  local stopped = paused(what)
  reply[#reply + 1] = stopped and 1 or 0
  reply[#reply + 1] = stopped and by or ''
  reply[#reply + 1] = stopped and whole(since) or 0
end
for _, value in ipairs(redis.call('HGETALL', accounts)) do
  reply[#reply + 1] = value
end
return reply
