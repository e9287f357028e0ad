--[[ list_tell: reports on claims that go on. It decides nothing.

ARGV  id         the consumer
      then for each report: id token started (1 or 0) reported (1 or 0) progress
Returns OK.
Called by consumer.Tell.

Progress is kept with the job, whether anybody follows it or not.
]]
--#include list_base
--#include told
local sender = prefix .. 'sender:' .. arg()
if following then
  local f = redis.pcall('HGET', sender, 'follow')
  told_by = type(f) == 'string' and f or nil
end

redis.call('ZREM', consumers, '') -- the primer: never grows
while position < #ARGV do
  local job_id, token, started, reported, progress = args(5)
  local job = prefix .. 'job:' .. job_id
  if token ~= '' and redis.pcall('HGET', job, 'claim_token') == token then
    if started == '1' then tell(job_id, 's') end
    if reported == '1' then
      redis.call('HSET', job, 'progress', progress)
      tell(job_id, 'p', progress)
    end
  end
end
tell_all()
return {'OK'}
