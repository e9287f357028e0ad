--[[ stream_jobs: one page of the jobs in one state, those first that come, are due, died or are forgotten
first. Writes nothing.

ARGV  state      pending, scheduled, processing, dead, corrupt or completed (cancelled and expired ones too)
      cursor     where the page before ended; '' at first
      limit      jobs of a page
      looks      entries looked at for it
      members    consumers looked at, for processing
      then see stream_filter
Returns OK cursor, then for each job its record (see stream_record). A cursor of '' is the end.
Called by Stream.Jobs.

What lies in a stream is read from an ID on, a set by rank. Entries are judged by their records: surplus
copies and what has just left the state are not shown. So a page is true at its instant, and short now and then;
of what moves between two pages some may be seen twice, or not at all.
]]
--#include stream_base
--#include stream_entry
--#include stream_record
local state, cursor, limit, looks, members = arg(), arg(), tonumber(arg()), tonumber(arg()), tonumber(arg())
--#include stream_filter
local step = 50 -- entries read at once
local shown, reply = 0, {'OK', ''}

-- show adds a record to the page if it is what was asked for.
local function show(r, consumer)
  if r and (r[2] == state or (state == 'completed' and kept[r[2]])) and (not consumer or r[13] == consumer) and matches(r) then
    for i = 1, words do reply[#reply + 1] = r[i] end
    shown = shown + 1
  end
end

local function job_of(entry)
  local b = entry_of(entry)
  return b and record(id_of(entry, b))
end

-- walk shows what it reads until the page is full, and says where it ended, and whether that was all.
-- read(from, n) gives names after from, no more than n, and none at the end; see makes a record of one.
local function walk(from, read, see, consumer)
  while shown < limit and looks > 0 do
    local names = read(from, math.min(step, looks, limit - shown))
    if #names == 0 then return from, true end
    for _, name in ipairs(names) do show(see(name), consumer) end
    looks = looks - #names
    from = type(from) == 'number' and from + #names or names[#names]
  end
  return from, false
end

local function by_rank(set)
  return function(from, n) return redis.call('ZRANGE', set, from, from + n - 1) end
end

local function by_id(key)
  return function(from, n)
    local names = {}
    for i, one in ipairs(redis.call('XRANGE', key, '(' .. from, '+', 'COUNT', n)) do names[i] = one[1] end
    return names
  end
end

if state == 'processing' then
  -- Consumers in the order of their names, which stays, as that of their leases does not.
  local names = redis.call('ZRANGE', consumers, 0, members - 1)
  table.sort(names)
  local from, resume = string.match(cursor, '^([^:]*):(.*)$')
  for _, c in ipairs(names) do
    if not resume or c >= resume then
      if shown >= limit or looks <= 0 then
        reply[2] = '0-0:' .. c
        break
      end
      looks = looks - 1
      local ended, all = walk(c == resume and from or '0-0', function(after, n)
        local got = redis.pcall('XPENDING', stream, group, '(' .. after, '+', n, c)
        if got.err then return {} end
        for i, one in ipairs(got) do got[i] = one[1] end
        return got
      end, job_of, c)
      if not all then
        reply[2] = ended .. ':' .. c
        break
      end
    end
  end
  return reply
end

if state == 'pending' then
  local rank, after = string.match(cursor, '^r(%d+)$'), string.match(cursor, '^u(.*)$')
  if not after then
    local ended, all = walk(tonumber(rank) or 0, by_rank(returned), function(name) return job_of(unpadded(name)) end)
    if not all then
      reply[2] = 'r' .. ended
      return reply
    end
    after = all_groups[group] and all_groups[group].last or '0-0'
    if shown >= limit or looks <= 0 then
      reply[2] = 'u' .. after
      return reply
    end
  end
  local ended, all = walk(after, by_id(stream), job_of)
  if not all then reply[2] = 'u' .. ended end
  return reply
end

if state == 'scheduled' then
  -- Two sets, by when they are due.
  local a, b = string.match(cursor, '^(%d+),(%d+)$')
  a, b = tonumber(a) or 0, tonumber(b) or 0
  while true do
    local first = redis.call('ZRANGE', scheduled, a, a, 'WITHSCORES')
    local second = redis.call('ZRANGE', retries, b, b, 'WITHSCORES')
    if not first[1] and not second[1] then return reply end
    if shown >= limit or looks <= 0 then
      reply[2] = a .. ',' .. b
      return reply
    end
    if first[1] and (not second[1] or tonumber(first[2]) <= tonumber(second[2])) then
      a = a + 1
      show((record(first[1])))
    else
      b = b + 1
      show(job_of(second[1]))
    end
    looks = looks - 1
  end
end

if state == 'completed' then
  local ended, all = walk(tonumber(cursor) or 0, by_rank(completed), record)
  if not all then reply[2] = tostring(ended) end
  return reply
end

local letters = state == 'dead' and dead or corrupt
local ended, all = walk(cursor == '' and '0-0' or cursor, by_id(letters), function(letter)
  local b = letter_of(letters, letter)
  local job_id = b.id or ''
  local f = redis.pcall('HMGET', job_prefix .. job_id, F.status, F.buried)
  if not f.err and f[1] == state and f[2] == letter then return (record(job_id)) end
  if state == 'corrupt' then -- its ID may not have been fit for a record
    return {job_id, 'corrupt', b.kind or '', 0, 0, 0, 0, 0, 0, #(b.payload or ''), since_of(letter), 0, '', b.reason or '', '', 0, 0, ''}
  end
end)
if not all then reply[2] = ended end
return reply
