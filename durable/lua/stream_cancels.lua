--[[ stream_cancels: which claims of a consumer are asked to be cancelled. Writes nothing.

ARGV  id     the consumer
Returns OK, then for each its ID and token
Called by consumer.Cancels.
]]
--#include stream_base
local id = arg()
local asked = prefix .. 'cancels:' .. id
do
  local bad = mistyped(asked, 'hash')
  if bad then return bad end
end
local reply, flat = {'OK'}, redis.call('HGETALL', asked)
for i = 1, #flat, 2 do
  if redis.pcall('HGET', job_prefix .. flat[i], F.claim_token) == flat[i + 1] then
    reply[#reply + 1] = flat[i]
    reply[#reply + 1] = flat[i + 1]
  end
end
return reply
