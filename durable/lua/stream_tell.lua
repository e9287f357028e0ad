--[[ stream_tell: reports on claims that go on. It decides nothing.

ARGV  reports    so many follow, each id token reported (1 or 0) progress
Returns OK.
Called by consumer.Tell.

What is not under its token any more is passed over. Progress is kept in our group's part of the record.
]]
--#include stream_base
redis.call('ZREM', consumers, '') -- the primer: never grows
for _ = 1, tonumber(arg()) do
  local job_id, token, reported, progress = args(4)
  local job = job_prefix .. job_id
  if reported == '1' and token ~= '' and redis.pcall('HGET', job, F.claim_token) == token then
    redis.call('HSET', job, F.progress, progress)
  end
end
return {'OK'}
