--[[ list_follower: a follower that asks for something. Not a script of its own. Needs told.

ARGV  follower   its identity
Gives f, its keys follower and stream, last (the entry noted last), and renew.
Answers UNKNOWN where there is no such follower (any more).
]]
local f = arg()
local follower, stream = prefix .. 'follower:' .. f, prefix .. 'told:' .. f
do
  local bad = mistyped(follower, 'hash') or mistyped(stream, 'stream')
  if bad then return bad end
end
local last = redis.call('HGET', follower, 'last')
if not last then return {'UNKNOWN'} end

-- renew keeps the follower, and the senders that belong to it: what they have appended is followed by their records.
-- It begins with a write that never grows.
local function renew()
  redis.call('PEXPIRE', follower, told_ttl)
  redis.call('PEXPIRE', stream, told_ttl)
  local fields = redis.call('HGETALL', follower)
  for i = 1, #fields, 2 do
    if fields[i] ~= 'last' then redis.call('PEXPIRE', prefix .. 'sender:' .. fields[i], T_rec) end
  end
  redis.call('HSET', meta, 'following_ms', string.format('%d', now + told_ttl))
end
