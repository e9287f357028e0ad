--[[ list_renew: extends a consumer's lease, also when it is over and nobody acted upon it yet.

ARGV  id       the consumer
      lease    ms
Returns OK, FENCED.
Called by consumer.Renew.
]]
--#include list_base
--#include list_stall
local id, lease = arg(), arg()
local sender = prefix .. 'sender:' .. id
if tonumber(redis.call('ZSCORE', consumers, id) or 0) == 0 then return {'FENCED'} end
redis.call('PEXPIRE', sender, T_rec) -- the primer: never grows
stalled(tonumber(lease))
redis.call('HDEL', sender, 'spared')
redis.call('ZADD', consumers, 'XX', now + lease, id)
return {'OK'}
