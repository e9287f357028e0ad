--[[ list_open: makes an identity that was never used before, with its sequence record; a
consumer also gets its place in the registry, in the same script.

ARGV  kind         producer or consumer
      nonce        of the client: defeats a next_sender that went back after lost writes
      lease        ms, for a consumer
      max_backlog, max_crashes, max_dead, max_corrupt, max_completed
                   the limits of whoever opens, noted so that others see where theirs differ
Returns OK identity.
A producer is refused when Redis is full; a consumer is not, for it has to drain it.
Called by List.OpenProducer and List.OpenConsumer.
]]
--#include list_base
--#include list_engine
local kind, nonce, lease = args(3)
local max_backlog, max_crashes, max_dead, max_corrupt, max_completed = args(5)

local next_sender = (whole(redis.call('HGET', counters, 'next_sender')) or 0) + 1
local id = next_sender .. '-' .. nonce
local sender = prefix .. 'sender:' .. id
do
  local bad = mistyped(sender, 'hash')
  if bad then return bad end
end

if kind == 'consumer' then redis.call('ZREM', consumers, '') end
redis.call('HSET', counters, 'next_sender', next_sender)
-- There is nothing to expire yet: but who may not do that must not make a record that stays for ever.
redis.call('PEXPIRE', sender, T_rec)
redis.call('HSET', sender, 'kind', kind, 'lease', lease)
redis.call('PEXPIRE', sender, T_rec)
redis.call('HSETNX', meta, 'epoch', now)
redis.call('HSET', meta, 'wire', wire, 'engine', engine, 'max_backlog', max_backlog, 'max_crashes', max_crashes, 'max_dead', max_dead,
  'max_corrupt', max_corrupt, 'max_completed', max_completed, 'limits_by', id, 'limits_ms', now)
if step then redis.call('HSET', meta, 'step_us', step) end
if kind == 'consumer' then redis.call('ZADD', consumers, now + lease, id) end
return {'OK', id}
