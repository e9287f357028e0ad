--[[ list_sweep: returns what consumers without a lease still hold, a bounded step at a time.
Anybody runs it at any time; it trusts nothing but what it reads itself.

ARGV  max_crashes, max_dead, max_corrupt, max_completed
      budget     entries looked at
      members    consumers looked at
      cursor     where the search for unregistered lists goes on; 0 at first
      pattern    matches the keys of processing lists
      found      keys that the search looks at
      lease      ms, for a consumer whose lease is not known
Returns OK fenced returned dead trimmed more cursor registered ended
Called by List.Sweep.

A consumer's list whose registry entry somebody deleted is searched for, a few keys of the
keyspace each time, and registered again with a fresh lease: if its consumer lives it goes on, if
not the lease ends and the list is swept as any other.
]]
--#include list_base
--#include told
--#include list_limits
--#include list_unique
--#include list_bury
--#include list_retain
--#include list_end
--#include list_give_back
--#include list_stall
local max_crashes, max_dead, max_corrupt, max_completed = tonumber(arg()), tonumber(arg()), tonumber(arg()), tonumber(arg())
local budget, members = tonumber(arg()), tonumber(arg())
local cursor, pattern, found, lease = arg(), arg(), arg(), tonumber(arg())

redis.call('ZREM', consumers, '') -- the primer: never grows
local stall_length, stall_end = stalled()

local fenced, returned, buried, ended, more = 0, 0, 0, 0, 0

-- charged decides once who is charged for the loss of a consumer, and remembers it in its
-- record: '-' nobody, '*' everything it held, '=<id>' the suspect alone.
local function charged(c)
  local sender = prefix .. 'sender:' .. c
  local fields = redis.pcall('HMGET', sender, 'kind', 'leaving', 'charge', 'suspect')
  if fields.err or not fields[1] then return '*' end
  local _, leaving, charge, suspect = unpack(fields)
  if leaving then return '-' end
  if charge then return charge end
  charge = '*'
  if suspect then
    local token = redis.pcall('HGET', prefix .. 'job:' .. suspect, 'claim_token')
    if type(token) == 'string' and string.sub(token, 1, #c + 1) == c .. ':' then
      charge = '=' .. suspect
    end
  end
  redis.call('HSET', sender, 'charge', charge)
  return charge
end

local lost = redis.call('ZRANGEBYSCORE', consumers, '-inf', now, 'LIMIT', 0, members + 1)
for i, c in ipairs(lost) do
  if i > members or budget <= 0 then
    more = 1
    break
  end
  local list = prefix .. 'processing:' .. c
  local fenced_already = tonumber(redis.call('ZSCORE', consumers, c)) == 0
  if mistyped(list, 'list') then
    redis.call('ZADD', corrupt, now, 'processing:' .. c)
    redis.call('HSET', reasons, 'processing:' .. c, 'its key is not a list')
    redis.call('ZREM', consumers, c)
  elseif fenced_already or not spared(c, stall_length, stall_end, lease) then
    if not fenced_already then
      redis.call('ZADD', consumers, 'XX', 0, c)
      fenced = fenced + 1
    end
    local charge = charged(c)
    local entries = redis.call('LRANGE', list, 0, budget - 1)
    for _, job_id in ipairs(entries) do
      local became = give_back(c, job_id, charge == '*' or charge == '=' .. job_id, max_crashes, max_corrupt)
      if became == 'returned' or became == 'charged' then returned = returned + 1 end
      if became == 'dead' then buried = buried + 1 end
      if became == 'cancelled' then ended = ended + 1 end
    end
    budget = budget - #entries
    if redis.call('LLEN', list) == 0 then
      redis.call('ZREM', consumers, c)
    else
      more = 1
    end
  end
end
tell_all()
local trimmed = trim_dead(max_dead)
trim_completed(max_completed)

local registered = 0
local keys
cursor, keys = unpack(redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', found))
local start = #(prefix .. 'processing:') + 1
for _, key in ipairs(keys) do
  local c = string.sub(key, start)
  if not redis.call('ZSCORE', consumers, c) and type_of(key) == 'list' then
    local record = prefix .. 'sender:' .. c
    local own = redis.pcall('HGET', record, 'lease')
    local term = type(own) == 'string' and whole(own) or lease
    redis.call('ZADD', consumers, now + term, c)
    if type(own) == 'string' then redis.call('HDEL', record, 'charge') end -- of the lease before
    registered = registered + 1
  end
end
count('registered', registered)
return {'OK', fenced, returned, buried, trimmed, more, cursor, registered, ended}
