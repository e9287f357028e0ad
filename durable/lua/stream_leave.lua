--[[ stream_leave: gives a consumer's identity up and returns what it still holds, a bounded step
at a time. Nobody is charged. The consumer is removed from the group in the same script that finds
nothing pending for it: XGROUP DELCONSUMER would lose what is.

ARGV  id         the consumer
      budget     entries returned by one step
      max_crashes, max_corrupt
Returns OK more
Called by consumer.Leave.
]]
--#include stream_base
--#include told
--#include stream_entry
--#include stream_unique
--#include stream_bury
--#include stream_retain
--#include stream_give_back
local id, budget, max_crashes, max_corrupt = arg(), tonumber(arg()), tonumber(arg()), tonumber(arg())
local sender = prefix .. 'sender:' .. id
do
  local bad = mistyped(sender, 'hash')
  if bad then return bad end
end
if not redis.call('ZSCORE', consumers, id) then return {'OK', 0} end

redis.call('PEXPIRE', sender, T_rec) -- the primer: never grows
ensure_group()
if redis.call('EXISTS', sender) == 1 then redis.call('HSET', sender, 'leaving', 1) end
if following then told_by = redis.call('HGET', sender, 'follow') end
redis.call('ZADD', consumers, 'XX', 0, id)
for _, entry in ipairs(pending_of(id, budget)) do
  give_back(id, entry, false, max_crashes, max_corrupt)
end
wake_up()
tell_all()
if #pending_of(id, 1) > 0 then return {'OK', 1} end
redis.call('XGROUP', 'DELCONSUMER', stream, group, id)
redis.call('ZREM', consumers, id)
redis.call('DEL', prefix .. 'cancels:' .. id)
return {'OK', 0}
