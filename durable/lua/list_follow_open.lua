--[[ list_follow_open: makes the identity of a follower, never used before.

ARGV  nonce      of the client, as in list_open
Returns OK identity.
Called by OpenFollower of every engine in Redis.
]]
--#include queue_base
--#include list_engine
--#include told
local nonce = arg()
local next_sender = (whole(redis.call('HGET', counters, 'next_sender')) or 0) + 1
local f = next_sender .. '-' .. nonce
local follower = follower_prefix .. f
redis.call('HSET', counters, 'next_sender', next_sender)
-- There is nothing to expire yet: but who may not do that must not make a record that stays for ever.
redis.call('PEXPIRE', follower, told_ttl)
redis.call('HSET', follower, 'last', '0-0')
redis.call('PEXPIRE', follower, told_ttl)
redis.call('HSET', meta, 'following_ms', string.format('%d', now + told_ttl))
return {'OK', f}
