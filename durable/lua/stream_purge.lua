--[[ stream_purge: deletes jobs of our group by their state, the oldest first, a bounded step at a time.

ARGV  max_corrupt
      budget     entries deleted by one step
      members    consumers looked at, for processing
      then how many entries are left to look at of pending, scheduled, dead, corrupt, completed, processing:
                 -1: as many as there are now; 0: none
Returns OK, then how many were deleted of each, then how many are left of each, in the same order
Called by Stream.Purge.

What is counted at the first step bounds the whole: what comes meanwhile is not waited for. What other groups have
not done yet stays for them: what is unread is read by nobody's consumer, and acknowledged. Delayed jobs are
everybody's, and go for all. The record goes first, as the job ends. A key of another type is never deleted.
]]
--#include stream_base
--#include told
--#include stream_entry
--#include stream_unique
--#include stream_bury
--#include stream_retain
--#include stream_give_back
--#include stream_record
local max_corrupt, budget, members = tonumber(arg()), tonumber(arg()), tonumber(arg())
local names = {'pending', 'scheduled', 'dead', 'corrupt', 'completed', 'processing'}
local left, deleted = {}, {}
for i = 1, #names do left[i], deleted[i] = tonumber(arg()), 0 end

redis.call('ZREM', consumers, '') -- the primer: never grows
if redis.call('ZCARD', consumers) > 0 then ensure_group() end

-- drop_entries ends the jobs of entries whose record says what the state asks. What it says otherwise of the others is
-- seen to as if a consumer had lost them.
local function drop_entries(i, entries, consumer, fits)
  local ids, over = {}, {}
  for _, entry in ipairs(entries) do
    local b = entry_of(entry)
    local job_id = b and id_of(entry, b)
    local f = b and redis.pcall('HMGET', job_prefix .. job_id, F.status, F.claim_token, F.redriven, 'entry') or {err = ''}
    local at = not f.err and (f[3] or f[4])
    if not f.err and (at == entry or (not at and not b.append)) and not (b.for_group and b.for_group ~= group) and
      fits(f[1] or '', f[2] or '') then
      tell(job_id, 'g')
      ids[#ids + 1] = job_id
      over[#over + 1] = entry
      deleted[i] = deleted[i] + 1
    else
      give_back(consumer, entry, false, 1, max_corrupt)
    end
  end
  forget_all(ids)
  finish(over)
end

local function free(status, token)
  return token == '' and (status == 'pending' or status == '')
end

-- read_unread takes what our group has not been given. Where there is no group at all it is nobody's yet.
local function read_unread(n)
  local entries = {}
  local got
  if all_groups[group] then
    got = redis.call('XREADGROUP', 'GROUP', group, parked, 'COUNT', n, 'STREAMS', stream, '>')
    got = got and got[1] and got[1][2] or {}
  else
    got = group_count == 0 and redis.call('XRANGE', stream, '-', '+', 'COUNT', n) or {}
  end
  for k, one in ipairs(got) do entries[k] = one[1] end
  return entries
end

local function waiting_entries()
  local g = all_groups[group]
  if not g then return group_count == 0 and redis.call('XLEN', stream) or 0 end
  return unread(g, group_count == 1) + redis.call('ZCARD', returned)
end

local function purge_pending(i)
  if left[i] < 0 then left[i] = waiting_entries() end
  local n = math.min(budget, left[i])
  if n <= 0 then return end
  local entries, back = {}, redis.call('ZRANGE', returned, 0, n - 1)
  for k, name in ipairs(back) do entries[k] = unpadded(name) end
  if #entries < n then
    for _, entry in ipairs(read_unread(n - #entries)) do entries[#entries + 1] = entry end
  end
  drop_entries(i, entries, '', free)
  if #back > 0 then redis.call('ZREM', returned, unpack(back)) end
  budget = budget - #entries
  left[i] = #entries < n and 0 or left[i] - #entries
end

local function purge_scheduled(i)
  if left[i] < 0 then left[i] = redis.call('ZCARD', scheduled) + redis.call('ZCARD', retries) end
  local n = math.min(budget, left[i])
  if n <= 0 then return end
  local ids = redis.call('ZRANGE', scheduled, 0, n - 1)
  for _, job_id in ipairs(ids) do
    local mark = redis.pcall('HGET', job_prefix .. job_id, 'delayed')
    if type(mark) == 'string' then
      local unique = redis.call('HGET', job_prefix .. job_id, 'unique')
      tell(job_id, 'g')
      redis.call('DEL', job_prefix .. job_id)
      let_key_go(job_id, unique)
      deleted[i] = deleted[i] + 1
    end
    redis.call('ZREM', scheduled, job_id)
  end
  local entries = #ids < n and redis.call('ZRANGE', retries, 0, n - #ids - 1) or {}
  drop_entries(i, entries, '', function(status) return status == 'scheduled' end)
  if #entries > 0 then redis.call('ZREM', retries, unpack(entries)) end
  budget = budget - #ids - #entries
  left[i] = #ids + #entries < n and 0 or left[i] - #ids - #entries
end

local function purge_letters(i, letters)
  local state = names[i]
  if left[i] < 0 then left[i] = redis.call('XLEN', letters) end
  local n = math.min(budget, left[i])
  if n <= 0 then return end
  local all = redis.call('XRANGE', letters, '-', '+', 'COUNT', n)
  for _, one in ipairs(all) do
    local job_id = body(one[2]).id or ''
    local f = redis.pcall('HMGET', job_prefix .. job_id, F.status, F.buried)
    local its = not f.err and f[1] == state and f[2] == one[1]
    if its then
      tell(job_id, 'g')
      forget_all({job_id})
    end
    if its or state == 'corrupt' then deleted[i] = deleted[i] + 1 end
    redis.call('XDEL', letters, one[1])
  end
  budget = budget - #all
  left[i] = #all < n and 0 or left[i] - #all
end

local function purge_completed(i)
  if left[i] < 0 then left[i] = redis.call('ZCARD', completed) end
  local n = math.min(budget, left[i])
  if n <= 0 then return end
  local ids = redis.call('ZRANGE', completed, 0, n - 1)
  for _, job_id in ipairs(ids) do
    local status = redis.pcall('HGET', job_prefix .. job_id, F.status)
    if type(status) == 'string' and kept[status] then
      forget({job_id})
      deleted[i] = deleted[i] + 1
    end
    redis.call('ZREM', completed, job_id)
  end
  budget = budget - #ids
  left[i] = #ids < n and 0 or left[i] - #ids
end

local function purge_processing(i)
  if left[i] < 0 then
    left[i] = math.max(0, (all_groups[group] or {pending = 0}).pending - redis.call('ZCARD', returned) - redis.call('ZCARD', retries))
  end
  local rest = 0
  for _, c in ipairs(redis.call('ZRANGE', consumers, 0, members - 1)) do
    local n = math.min(budget, left[i])
    if n > 0 then
      local entries = pending_of(c, n)
      drop_entries(i, entries, c, function(status, token) return status == 'processing' and owner(token) == c end)
      budget = budget - #entries
      left[i] = left[i] - #entries
    end
    rest = rest + #pending_of(c, 1)
  end
  if rest == 0 then left[i] = 0 end
end

local purges = {pending = purge_pending, scheduled = purge_scheduled, completed = purge_completed, processing = purge_processing,
  dead = function(i) purge_letters(i, dead) end, corrupt = function(i) purge_letters(i, corrupt) end}
for i, name in ipairs(names) do
  if left[i] ~= 0 then purges[name](i) end
end

wake_up()
tell_all()

local reply, all = {'OK'}, 0
for i = 1, #names do
  reply[1 + i], reply[1 + #names + i] = deleted[i], left[i]
  all = all + deleted[i]
end
count('purged', all)
return reply
