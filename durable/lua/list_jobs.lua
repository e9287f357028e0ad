--[[ list_jobs: one page of the jobs in one state, those first that come, are due, died or are forgotten
first. Writes nothing.

ARGV  state      pending, scheduled, processing, dead, corrupt or completed; the last stands for cancelled and expired too
      cursor     where the page before ended; '' at first
      limit      jobs of a page
      looks      entries looked at for it
      members    consumers looked at, for processing
      then see list_filter
Returns OK cursor, then for each job its record (see list_record). A cursor of '' is the end.
Called by List.Jobs.

A list is read by a window of positions from its head, a set by rank. Entries are judged by their
jobs: surplus copies and what has just left the state are not shown. So a page is true at its
instant, and short now and then; what moves between two pages may be seen twice, or not at all.
]]
--#include list_base
--#include list_unique
--#include list_record
local state, cursor, limit, looks, members = arg(), arg(), tonumber(arg()), tonumber(arg()), tonumber(arg())
--#include list_filter
local step = 100 -- entries read at once
local shown, reply = 0, {'OK', ''}

local kept = {completed = true, cancelled = true, expired = true}

-- show adds an entry to the page if it is what was asked for.
local function show(job_id, consumer)
  local r = record(job_id)
  if r and (r[2] == state or state == 'completed' and kept[r[2]]) and (not consumer or r[13] == consumer) and matches(r) then
    for i = 1, words do reply[#reply + 1] = r[i] end
    shown = shown + 1
  end
end

-- turned is the other way round: the next one first.
local function turned(ids)
  for i = 1, math.floor(#ids / 2) do ids[i], ids[#ids + 1 - i] = ids[#ids + 1 - i], ids[i] end
  return ids
end

-- walk shows entries until the page is full, and returns how many it has passed, and whether
-- that was all. read(offset, n) gives entries; no more than n, and none at the end.
local function walk(offset, read, consumer)
  while shown < limit and looks > 0 do
    local ids = read(offset, math.min(step, looks, limit - shown))
    if #ids == 0 then return offset, true end
    for _, job_id in ipairs(ids) do show(job_id, consumer) end
    offset, looks = offset + #ids, looks - #ids
  end
  return offset, false
end

if state == 'processing' then
  -- Consumers in the order of their names, which stays, as that of their leases does not.
  local names = redis.call('ZRANGE', consumers, 0, members - 1)
  table.sort(names)
  local from, resume = string.match(cursor, '^(%d+):(.*)$')
  for _, c in ipairs(names) do
    if not resume or c >= resume then
      if shown >= limit or looks <= 0 then
        reply[2] = '0:' .. c
        break
      end
      looks = looks - 1
      local list = prefix .. 'processing:' .. c
      if not mistyped(list, 'list') then
        local passed, all = walk(c == resume and tonumber(from) or 0, function(offset, n)
          return turned(redis.call('LRANGE', list, -(offset + n), -(offset + 1)))
        end, c)
        if not all then
          reply[2] = passed .. ':' .. c
          break
        end
      end
    end
  end
  return reply
end

local read
if state == 'pending' then
  read = function(offset, n)
    for _, source in ipairs(ready_sources) do
      local size = sizes[source]
      if offset < size then return turned((ready_next(source, math.min(n, size - offset), offset))) end
      offset = offset - size
    end
    return {}
  end
else
  local set = ({scheduled = scheduled, dead = dead, corrupt = corrupt, completed = completed})[state]
  read = function(offset, n) return redis.call('ZRANGE', set, offset, offset + n - 1) end
end
local passed, all = walk(tonumber(cursor) or 0, read)
if not all then reply[2] = tostring(passed) end
return reply
