--[[ list_follower: a follower that asks for something, and told with it. Not a script of its own.

ARGV  follower   its identity
Gives what told gives, f, its keys follower and news, last (the entry noted last), renew and join.
Answers UNKNOWN where there is no such follower (any more).
]]
following = true
--#include told
local f = arg()
local follower, news = follower_prefix .. f, prefix .. 'told:' .. f
do
  local bad = mistyped(follower, 'hash') or mistyped(news, 'stream')
  if bad then return bad end
end
local last = redis.call('HGET', follower, 'last')
if not last then return {'UNKNOWN'} end

-- renew keeps the follower, and the senders that belong to it: what they have appended is followed by their records.
-- It begins with a write that never grows.
local function renew()
  redis.call('PEXPIRE', follower, told_ttl)
  redis.call('PEXPIRE', news, told_ttl)
  local fields = redis.call('HGETALL', follower)
  for i = 1, #fields, 2 do
    if fields[i] ~= 'last' then redis.call('PEXPIRE', prefix .. 'sender:' .. fields[i], T_rec) end
  end
  redis.call('HSET', meta, 'following_ms', string.format('%d', now + told_ttl))
end

local followers_of_one = 32 -- besides the one of its sender

-- join notes the follower with a job, and forgets those that are no more.
local function join(job)
  local append, named, status = unpack(redis.call('HMGET', job, 'append', followers_field, 'status'))
  if sent_for(append) == f then return end
  local all = {}
  for other in string.gmatch(named or '', '%S+') do
    if other == f then return end
    if listens(other) then all[#all + 1] = other end
  end
  if #all >= followers_of_one then table.remove(all, 1) end
  all[#all + 1] = f
  if engine ~= 'stream' and not status then
    redis.call('HSET', job, followers_field, table.concat(all, ' '), 'status', 'pending') -- see list_append
  else
    redis.call('HSET', job, followers_field, table.concat(all, ' '))
  end
end
