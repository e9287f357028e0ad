--[[ list_leave: gives a consumer's identity up and returns what it still holds, a bounded step
at a time. Nobody is charged.

ARGV  id         the consumer
      budget     entries returned by one step
      max_crashes, max_corrupt
Returns OK more
Called by consumer.Leave.

A job that is to be cancelled ends instead. Its record, where it leaves one, may be one too many until the next sweep.
]]
--#include list_base
--#include told
--#include list_limits
--#include list_unique
--#include list_bury
--#include list_retain
--#include list_end
--#include list_give_back
local id, budget, max_crashes, max_corrupt = arg(), tonumber(arg()), tonumber(arg()), tonumber(arg())
local sender, list = prefix .. 'sender:' .. id, prefix .. 'processing:' .. id
do
  local bad = mistyped(sender, 'hash') or mistyped(list, 'list')
  if bad then return bad end
end
if not redis.call('ZSCORE', consumers, id) then return {'OK', 0} end

redis.call('PEXPIRE', sender, T_rec) -- the primer: never grows
if redis.call('EXISTS', sender) == 1 then redis.call('HSET', sender, 'leaving', 1) end
if following then told_by = redis.call('HGET', sender, 'follow') end
redis.call('ZADD', consumers, 'XX', 0, id)
for _, job_id in ipairs(redis.call('LRANGE', list, 0, budget - 1)) do
  give_back(id, job_id, false, max_crashes, max_corrupt)
end
tell_all()
if redis.call('LLEN', list) > 0 then return {'OK', 1} end
redis.call('ZREM', consumers, id)
return {'OK', 0}
