--[[ list_limits: how much may be claimed. Not a script of its own. Needs limits: what meta says of them; nobody has set any: no
command.

Gives queue_allows, key_allows, key_holds, key_taken, rates_noted, key_ended, key_next and keys_later.

Claims of the queue are counted where they are, in the lists of the consumers. Those of a key are in an index, which is never
believed when it says no: running:<key> (zset, ID → when it was claimed) has them all, and those it has too many are found by
their jobs. A job that has to wait for its key is scheduled meanwhile; held_ms in its hash says until when, which tells it from what is
scheduled for another reason. Where it waits for the end of a claim, it is in held:<key> (zset, ID → its turn) as well,
the end of a claim makes the first of these pending, before all others, and the time is for the case that nothing does.
held:<key> is judged by the jobs too.

Rates are moments (GCRA), in µs: rate_us in meta, and of a key tat and line in rate:<key>; line is when the
next one that has to wait may run.
]]
local now_us = seconds * 1000000 + micros
local max_claims, max_key_claims, rate, key_rate = 0, 0, nil, nil
if limits then
  local words = {}
  for word in string.gmatch(limits, '%d+') do words[#words + 1] = tonumber(word) end
  -- evenly is a rate as the time from one to the next, and how much earlier than that one may come; nil for none.
  local function evenly(n, per, burst)
    if (n or 0) == 0 then return nil end
    local each = (per == 0 and 1000 or per) * 1000 / n
    return {each = each, early = (math.max(burst, 1) - 1) * each}
  end
  max_claims, max_key_claims = words[1] or 0, words[5] or 0
  rate, key_rate = evenly(words[2], words[3], words[4]), evenly(words[6], words[7], words[8])
end
local key_ttl = 7 * 24 * 3600 * 1000 -- ms; longer than a claim lasts
local soon = 60000 -- ms; within this a job is given its turn. Those that wait for longer are looked at again, 200 a second
-- at most, or each once in so long
local judged = 64 -- claims of a full key whose jobs are asked, those that have lasted longest

-- moment is when the next one is due of a rate, of which that is noted. What is further ahead than it can be is from
-- before the clock was set back, or of another rate: that is to be noted anew.
local function moment(of, noted)
  local tat, furthest = tonumber(noted or 0) or 0, math.ceil(now_us + of.early + of.each)
  return math.max(math.min(tat, furthest), now_us), tat > furthest
end

-- free is how many may go now.
local function free(of, tat)
  return math.max(0, math.floor((now_us + of.early - tat) / of.each) + 1)
end

-- queue_allows is how many jobs may be claimed now, and if none, after how many ms it is worth asking again. Nobody tells
-- when a claim ends: the more there are to ask, the less often each does.
local queue_tat, queue_tat_wrong
local function queue_allows(wanted)
  local wait = 0
  if max_claims > 0 then
    local all, held = redis.call('ZRANGE', consumers, 0, -1), 0
    for _, c in ipairs(all) do
      local n = redis.pcall('LLEN', prefix .. 'processing:' .. c)
      if type(n) == 'number' then held = held + n end
    end
    wanted = math.min(wanted, math.max(0, max_claims - held))
    if wanted == 0 then wait = math.min(1000, 20 + 2 * #all) end
  end
  if rate then
    queue_tat, queue_tat_wrong = moment(rate, redis.call('HGET', meta, 'rate_us'))
    local now_free = free(rate, queue_tat)
    wanted = math.min(wanted, now_free)
    if now_free == 0 then wait = math.max(wait, math.ceil((queue_tat - rate.early - now_us) / 1000)) end
  end
  return wanted, wait
end

local keys_met = {} -- what is known of each key

-- key_state reads what is known of a key.
local function key_state(key)
  local state = keys_met[key]
  if state then return state end
  state = {free = math.huge, turn = 0}
  keys_met[key] = state
  if max_key_claims > 0 then
    local running = prefix .. 'running:' .. key
    local n = redis.pcall('ZCARD', running)
    if type(n) == 'number' then
      state.free = max_key_claims - n
      if state.free <= 0 then
        for _, job_id in ipairs(redis.call('ZRANGE', running, 0, judged - 1)) do
          local f = redis.pcall('HMGET', prefix .. 'job:' .. job_id, 'status', 'limit_key')
          if f.err or f[1] ~= 'processing' or f[2] ~= key then
            redis.call('ZREM', running, job_id)
            state.free = state.free + 1
          end
        end
      end
    end
  end
  if key_rate then
    local noted = redis.pcall('HMGET', prefix .. 'rate:' .. key, 'tat', 'line')
    state.tat, state.used = moment(key_rate, noted[1])
    state.line = tonumber(noted[2] or 0) or 0
  end
  return state
end

-- key_allows tells whether one more job of a key may be claimed now.
local function key_allows(key)
  local state = key_state(key)
  return state.free > 0 and (not key_rate or free(key_rate, state.tat) > 0)
end

-- key_holds schedules a job that waits for its key; place is its place in the order, where it has one. The caller
-- removes it from where it was, afterwards.
local function key_holds(job_id, key, place)
  local state, due = key_state(key)
  state.turn = state.turn + 1
  if state.free > 0 then
    state.line = math.max(state.line, state.tat - key_rate.early)
    if state.line < now_us + soon * 1000 then
      due = math.ceil(state.line / 1000)
      state.line = state.line + key_rate.each
      state.used = true
    else
      due = now + soon / 2 + math.min(5 * (sizes[scheduled] + state.turn), soon / 2)
    end
  else
    local held = prefix .. 'held:' .. key
    local behind = redis.pcall('ZCARD', held)
    if type(behind) == 'number' then
      redis.call('ZADD', held, 'NX', place or string.format('%.0f', now_us + state.turn), job_id)
      redis.call('PEXPIRE', held, key_ttl)
    end
    due = now + soon / 12 + math.min(5 * (tonumber(behind) or 0), soon)
  end
  due = string.format('%d', due)
  redis.call('ZADD', scheduled, due, job_id)
  redis.call('HSET', prefix .. 'job:' .. job_id, 'status', 'scheduled', 'held_ms', due)
  if place then redis.call('HSET', prefix .. 'job:' .. job_id, 'place', place) end
end

-- key_taken notes that a job is about to be claimed; was_held: it has waited for its key.
local function key_taken(job_id, key, was_held)
  local state = key_state(key)
  state.free = state.free - 1
  if max_key_claims > 0 then
    local running = prefix .. 'running:' .. key
    if type(redis.pcall('ZADD', running, now_text, job_id)) == 'number' then redis.call('PEXPIRE', running, key_ttl) end
    if was_held then redis.pcall('ZREM', prefix .. 'held:' .. key, job_id) end
  end
  if key_rate then
    state.tat = state.tat + key_rate.each
    state.used = true
  end
end

-- rates_noted keeps what was used of rates.
local function rates_noted(taken)
  if rate and (taken > 0 or queue_tat_wrong) then
    redis.call('HSET', meta, 'rate_us', string.format('%.0f', math.ceil(queue_tat + taken * rate.each)))
  end
  for key, state in pairs(keys_met) do
    if state.used then
      local noted = prefix .. 'rate:' .. key
      local set = redis.pcall('HSET', noted, 'tat', string.format('%.0f', math.ceil(state.tat)), 'line', string.format('%.0f', state.line))
      if type(set) == 'number' then
        redis.call('PEXPIRE', noted, string.format('%d', (math.max(state.tat, state.line) - now_us) / 1000 + 1000))
      end
    end
  end
end

-- key_next makes the next one that waits for the end of a claim pending, before all others. Should it have to wait all
-- the same, it does so in its turn.
local function key_next(key)
  local held = prefix .. 'held:' .. key
  for _ = 1, judged do
    local first = redis.pcall('ZRANGE', held, 0, 0)
    local waits = first[1]
    if first.err or not waits then return end
    local job = prefix .. 'job:' .. waits
    local f = redis.pcall('HMGET', job, 'status', 'limit_key', 'held_ms')
    local due = tonumber(redis.call('ZSCORE', scheduled, waits) or '')
    if not f.err and f[1] == 'scheduled' and f[2] == key and due and due == tonumber(f[3] or '') then
      ready_return(waits)
      redis.call('HSET', job, 'status', 'pending')
      redis.call('ZREM', scheduled, waits)
      return
    end
    redis.call('ZREM', held, waits)
  end
end

local keys_later -- a list: of keys of which the next is to come later, while the script reads what waits

-- key_ended tells that a job, whose hash is still there, is claimed no more when this script is through, or, if it is pending, that
-- it will not be: so the next one of its key comes. Again is harmless.
local function key_ended(job_id)
  if max_key_claims == 0 then return end
  local ended = redis.pcall('HMGET', prefix .. 'job:' .. job_id, 'limit_key', 'status')
  local key = not ended.err and ended[1]
  if not key then return end
  if redis.pcall('ZREM', prefix .. 'running:' .. key, job_id) ~= 1 and (ended[2] or 'pending') ~= 'pending' then return end
  if keys_later then
    keys_later[#keys_later + 1] = key
  else
    key_next(key)
  end
end
