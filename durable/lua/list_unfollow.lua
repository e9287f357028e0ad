--[[ list_unfollow: gives a follower up.

ARGV  follower   its identity
Returns OK.
Called by follower.Close.
]]
--#include queue_base
local f = arg()
local follower, stream = follower_prefix .. f, prefix .. 'told:' .. f
do
  local bad = mistyped(follower, 'hash') or mistyped(stream, 'stream')
  if bad then return bad end
end
redis.call('ZREM', consumers, '') -- the primer: never grows
local fields = redis.call('HGETALL', follower)
for i = 1, #fields, 2 do
  local sender = prefix .. 'sender:' .. fields[i]
  if redis.pcall('HGET', sender, 'follow') == f then redis.call('HDEL', sender, 'follow') end
end
redis.call('DEL', follower, stream)
return {'OK'}
