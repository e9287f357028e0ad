--[[ list_cancels: which claims of a consumer are asked to be cancelled. Writes nothing, and is one command where there are none.

ARGV  id         the consumer; the last argument
Returns OK, then for each its ID and token.
Called by consumer.Cancels.

What has ended since, or was claimed anew, is not among them: each is judged by its job.
]]
local prefix, id = ARGV[2], ARGV[#ARGV]
local told = redis.call('HGETALL', prefix .. 'cancels:' .. id)
local reply = {'OK'}
for i = 1, #told, 2 do
  local f = redis.pcall('HMGET', prefix .. 'job:' .. told[i], 'claim_token', 'cancel_ms')
  if not f.err and f[1] == told[i + 1] and f[2] then
    reply[#reply + 1] = told[i]
    reply[#reply + 1] = told[i + 1]
  end
end
return reply
