--[[ list_purge: deletes jobs by their state, the oldest first, a bounded step at a time.

ARGV  budget     entries deleted by one step
      members    consumers looked at, for processing
      then how many entries are left to look at of pending, scheduled, dead, corrupt, completed, processing:
                 -1: as many as there are now; 0: none
Returns OK, then how many were deleted of each, then how many are left of each, in the same order
Called by List.Purge.

What is counted at the first step bounds the whole: what comes meanwhile is not waited for. An entry goes
with its job only if the job is what the entry says; otherwise it is a surplus copy and goes alone. The
hash goes first, as the job ends. A key of another type is never deleted.
]]
--#include list_base
--#include told
--#include list_limits
--#include list_unique
local budget, members = tonumber(arg()), tonumber(arg())
local names = {'pending', 'scheduled', 'dead', 'corrupt', 'completed', 'processing'}
local left, deleted = {}, {}
for i = 1, #names do left[i], deleted[i] = tonumber(arg()), 0 end

redis.call('ZREM', consumers, '') -- the primer: never grows

-- entries reads up to n, removes those whose turn it is, and forgets counts them.
local function purge(i, ids, drop, is_its)
  for _, job_id in ipairs(ids) do
    local job = prefix .. 'job:' .. job_id
    local f = redis.pcall('HMGET', job, 'status', 'claim_token', 'unique')
    if not f.err and is_its(f[1] or '', f[2] or '', job) then
      if names[i] ~= 'completed' then tell(job_id, 'g') end
      if names[i] == 'processing' then key_ended(job_id) else key_left(job_id) end
      erase(job_id, f[3])
      deleted[i] = deleted[i] + 1
    end
    if drop then drop(job_id) end
  end
  budget = budget - #ids
  left[i] = left[i] - #ids
end

local function free(status, token, job)
  return token == '' and (status == 'pending' or (status == '' and redis.call('EXISTS', job) == 1))
end

local function purge_pending(i)
  local rest = waiting()
  if left[i] < 0 then left[i] = rest end
  for _, source in ipairs(ready_sources) do
    local n = math.min(budget, left[i])
    if n > 0 then
      local ids = ready_next(source, n, 0)
      purge(i, ids, nil, free)
      ready_drop(source, #ids)
      rest = rest - #ids
    end
  end
  ready_left()
  if rest == 0 then left[i] = 0 end
end

local function purge_set(i, set)
  local name = names[i]
  if left[i] < 0 then left[i] = redis.call('ZCARD', set) end
  local n = math.min(budget, left[i])
  if n > 0 then
    local ids = redis.call('ZRANGE', set, 0, n - 1)
    purge(i, ids, function(job_id)
      redis.call('ZREM', set, job_id)
      if name == 'corrupt' then redis.call('HDEL', reasons, job_id) end
    end, function(status)
      return status == name or (name == 'completed' and (status == 'cancelled' or status == 'expired'))
    end)
    if name == 'corrupt' then deleted[i] = #ids end -- what is noted there need not have a hash
  end
  if redis.call('ZCARD', set) == 0 then left[i] = 0 end
end

local function purge_processing(i)
  local all = redis.call('ZRANGE', consumers, 0, members - 1)
  local lists = {}
  for _, c in ipairs(all) do
    if not mistyped(prefix .. 'processing:' .. c, 'list') then lists[#lists + 1] = c end
  end
  if left[i] < 0 then
    left[i] = 0
    for _, c in ipairs(lists) do left[i] = left[i] + redis.call('LLEN', prefix .. 'processing:' .. c) end
  end
  local rest = 0
  for _, c in ipairs(lists) do
    local list, own = prefix .. 'processing:' .. c, c .. ':'
    local n = math.min(budget, left[i])
    if n > 0 then
      local ids = redis.call('LRANGE', list, -n, -1)
      purge(i, ids, nil, function(status, token)
        return status == 'processing' and string.sub(token, 1, #own) == own
      end)
      redis.call('LTRIM', list, 0, -(#ids + 1))
    end
    rest = rest + redis.call('LLEN', list)
  end
  if rest == 0 then left[i] = 0 end
end

local sets = {scheduled = scheduled, dead = dead, corrupt = corrupt, completed = completed}
for i, name in ipairs(names) do
  if left[i] ~= 0 then
    if name == 'pending' then
      purge_pending(i)
    elseif name == 'processing' then
      purge_processing(i)
    else
      purge_set(i, sets[name])
    end
  end
end

tell_all()
local reply, all = {'OK'}, 0
for i = 1, #names do
  reply[1 + i], reply[1 + #names + i] = deleted[i], left[i]
  all = all + deleted[i]
end
count('purged', all)
return reply
