--[[ list_adopt: makes a producer or a consumer belong to a follower, or not any more.

ARGV  follower   see list_follower
      sender     the identity of the other
      on         1: it belongs to it, 0: not any more
Returns OK. UNKNOWN: there is no such follower, or no such sender.
Called by follower.Adopt.
]]
--#include queue_base
--#include list_follower
local s, on = arg(), arg()
local sender = prefix .. 'sender:' .. s
do
  local bad = mistyped(sender, 'hash')
  if bad then return bad end
end
if not redis.call('HGET', sender, 'kind') then return {'UNKNOWN'} end

renew()
if on == '1' then
  redis.call('HSET', follower, s, 1)
  redis.call('HSET', sender, 'follow', f)
else
  if redis.call('HGET', sender, 'follow') == f then redis.call('HDEL', sender, 'follow') end
  redis.call('HDEL', follower, s)
end
return {'OK'}
