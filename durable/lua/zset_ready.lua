--[[ zset_ready: what waits to be claimed, as a sorted set. Not a script of its own; list_base includes it in place
of list_ready, which says what it gives.

KEYS  the third is the set, the fourth is wake
ARGV  step      how much earlier (µs) a job counts as arrived for each level of its priority

A score is when a job arrived, in µs, less step for each level of its priority: lower is claimed first. No two
jobs arrive at once: the last arrival is kept in counters, and the next is later, whatever the clock does. So
jobs of one priority are claimed in their order, and one of a higher priority overtakes what came at most step before it:
with a step of a year always, with a shorter one for so long. All numbers are below 2^53, so
exact in a double. A claim notes the score of its job as place, and who returns the job puts it back there.

wake holds one entry when something waits, and none otherwise: what parks takes it, and claims. A script that adds or
leaves something fills it, a claim that leaves nothing empties it. An entry that was taken by a
process that died then is missed for as long as everybody parks, a second, and no longer: whoever comes back from there
claims, whatever ended the wait.
]]
local engine, step = 'zset', tonumber(arg())
local wake = arriving
local max_priority = 100 -- MaxPriority in Go
local ready_type = 'zset'
local ready_sources = {pending}

local function waiting()
  return sizes[pending]
end

local awake = false -- this script has filled wake, or found it so

local function rouse()
  if not awake and redis.call('LLEN', wake) == 0 then redis.call('LPUSH', wake, 1) end
  awake = true
end

-- arrive is the last moment before those of the next k arrivals.
local function arrive(k)
  local last = tonumber(redis.call('HGET', counters, 'arrived') or 0) or 0
  if not (last >= 0 and last < 2 ^ 52) then last = 0 end -- somebody has spoilt it
  local moment = math.max(last, seconds * 1000000 + micros - 1)
  redis.call('HSET', counters, 'arrived', string.format('%.0f', moment + k))
  return moment
end

-- level is the priority noted with a job, as far as it is one.
local function level(job_id)
  local noted = redis.pcall('HGET', prefix .. 'job:' .. job_id, 'priority')
  local priority = type(noted) == 'string' and string.find(noted, '^%-?%d+$') and tonumber(noted) or 0
  return math.max(-max_priority, math.min(priority, max_priority))
end

-- levels are the priorities of ids, where they are not those of the jobs yet.
local function ready_push(ids, levels)
  if #ids == 0 then return end
  local moment = arrive(#ids)
  local entries = {}
  for i, job_id in ipairs(ids) do
    local priority = levels and (levels[i] or 0) or level(job_id)
    entries[2 * i - 1] = string.format('%.0f', moment + i - priority * step)
    entries[2 * i] = job_id
  end
  for i = 1, #entries, 1000 do
    redis.call('ZADD', pending, unpack(entries, i, math.min(i + 999, #entries)))
  end
  rouse()
end

-- What is there already, as a script that stopped half-way has left it, keeps its place.
local function ready_return(job_id)
  local noted = redis.pcall('HGET', prefix .. 'job:' .. job_id, 'place')
  local place = type(noted) == 'string' and tonumber(noted)
  if not place or place ~= place then place = arrive(1) + 1 - level(job_id) * step end
  redis.call('ZADD', pending, 'NX', string.format('%.17g', place), job_id)
  rouse()
end

local function ready_next(source, k, offset)
  local ids, places = {}, {}
  local entries = redis.call('ZRANGE', source, offset, offset + k - 1, 'WITHSCORES')
  local n = #entries / 2
  for i = 1, n do
    ids[n + 1 - i], places[n + 1 - i] = entries[2 * i - 1], entries[2 * i]
  end
  return ids, places
end

local function ready_drop(source, k)
  if k > 0 then redis.call('ZREMRANGEBYRANK', source, 0, k - 1) end
end

local function ready_forget(job_id)
  redis.call('ZREM', pending, job_id)
end

local function ready_left()
  if redis.call('ZCARD', pending) > 0 then
    rouse()
    if sizes[wake] > 1 then redis.call('LTRIM', wake, 0, 0) end -- others have pushed there as well
  elseif sizes[wake] > 0 or awake then
    redis.call('DEL', wake)
  end
end
