--[[ list_limits: how much may be claimed. Not a script of its own. Needs limits: what meta says of them; nobody has set any: no
command, and of the functions key_left and key_ended alone, which do nothing.

Gives queue_allows, key_allows, key_holds, key_taken, rates_noted, key_ended, key_left, key_next and keys_later.

Claims of the queue are counted where they are, in the lists of the consumers. Those of a key are in an index, which is never
believed when it says no: running:<key> (zset, ID → when it was claimed) has them all, and those it has too many are found by
their jobs. A job that has to wait for its key is scheduled meanwhile; held_ms in its hash says until when, which tells it from what is
scheduled for another reason. Where it waits for the end of a claim, it is in held:<key> (zset, ID → its turn) as well,
the end of a claim makes the first of these pending, before all others, and the time is for the case that nothing does.
held:<key> is judged by the jobs too.

Rates are moments (GCRA), in µs: rate_us in meta, and of a key tat in rate:<key>. While keys have a rate, whatever waits for its key
is in held:<key>, until it is claimed or ends, and the first one there is the only one that may be claimed: who comes meanwhile goes
behind it. Its time is no later than the rate allows it, each claim of the key sees to that; the times of the others are
estimates, and whose time comes too early waits again, in its place.
]]
local keys_later -- a list: of keys of which the next is to come later, while the script reads what waits
local queue_allows, key_allows, key_holds, key_taken, rates_noted, key_next
local function key_left() end
local key_ended = key_left
if limits then
  local now_us = seconds * 1000000 + micros
  local words = {}
  for word in string.gmatch(limits, '%d+') do words[#words + 1] = tonumber(word) end
  -- evenly is a rate as the time from one to the next, and how much earlier than that one may come; nil for none.
  local function evenly(n, per, burst)
    if (n or 0) == 0 then return nil end
    local each = (per == 0 and 1000 or per) * 1000 / n
    return {each = each, early = (math.max(burst, 1) - 1) * each}
  end
  local max_claims, max_key_claims = words[1] or 0, words[5] or 0
  local rate, key_rate = evenly(words[2], words[3], words[4]), evenly(words[6], words[7], words[8])
  local key_ttl = 7 * 24 * 3600 * 1000 -- ms; longer than a claim lasts
  local soon = 60000 -- ms; within this a job is given its turn. Those that wait for longer are looked at again, 200 a second
  -- at most, or each once in so long
  local patience = 600000 -- ms; whose time has come, and is not met for so long, has no place any more
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
  function queue_allows(wanted)
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
      local noted = redis.pcall('HMGET', prefix .. 'rate:' .. key, 'tat')
      state.tat, state.used = tonumber(noted[1] or 0) or 0, false
      local furthest = now_us + key_rate.early + key_rate.each -- as moment has it
      if state.tat > furthest then state.tat, state.used = furthest, true end
    end
    return state
  end

  -- waits tells how a job waits for a key, scheduled, and then until when, or pending: its time has come; nil where it does not.
  local function waits(job_id, key)
    local f = redis.pcall('HMGET', prefix .. 'job:' .. job_id, 'status', 'limit_key', 'held_ms')
    local due = not f.err and f[2] == key and tonumber(f[3] or '')
    if not due then return end
    if f[1] == 'scheduled' and due == tonumber(redis.call('ZSCORE', scheduled, job_id) or '') then return 'scheduled', due end
    if f[1] == 'pending' and key_rate and now - due < patience then return 'pending' end
  end

  -- key_first is the first one that waits for a key, or false; what does not wait any more is dropped. This one is known to.
  local function key_first(key, this)
    local state, held = keys_met[key], prefix .. 'held:' .. key
    for _ = 1, state.first == nil and judged or 0 do
      local first = redis.pcall('ZRANGE', held, 0, 0)
      state.first = not first.err and first[1] or false
      if not state.first or state.first == this or waits(state.first, key) then break end
      redis.call('ZREM', held, state.first)
    end
    return state.first
  end

  -- since is the moment of a rate for a job that comes now. Who has waited for its turn need not be there to the µs: what it is
  -- late by is made up for, up to the time from one to the next, or what a burst has, which is more.
  local function since(state, has_waited)
    return math.max(state.tat, now_us - (has_waited and math.max(0, key_rate.each - key_rate.early) or 0))
  end

  -- key_allows tells whether a job of a key may be claimed now.
  function key_allows(key, job_id)
    local state = key_state(key)
    if state.free <= 0 then return false end
    if not key_rate then return true end
    local first = key_first(key, job_id)
    return (not first or first == job_id) and free(key_rate, state.tat) > 0
  end

  -- key_holds schedules a job that waits for its key; place is its place in the order, where it has one. The caller
  -- removes it from where it was, afterwards.
  function key_holds(job_id, key, place)
    local state, held, due = key_state(key), prefix .. 'held:' .. key
    state.turn = state.turn + 1
    local behind = redis.pcall('ZCARD', held)
    if type(behind) == 'number' then
      if not state.last then
        local last = redis.call('ZRANGE', held, -1, -1, 'WITHSCORES')
        state.last = math.max(now_us, tonumber(last[2] or 0))
      end
      redis.call('ZADD', held, 'NX', place or string.format('%.0f', state.last + state.turn), job_id)
      redis.call('PEXPIRE', held, key_ttl)
      behind = redis.call('ZCOUNT', held, '-inf', '(' .. redis.call('ZSCORE', held, job_id))
      if behind == 0 then state.first = job_id end
    else
      behind = 0
    end
    if state.free > 0 then
      state.touched = true
      local turn = since(state, true) - key_rate.early + behind * key_rate.each
      if turn < now_us + soon * 1000 then
        due = math.ceil(math.max(turn, now_us + (behind > 0 and 5000 or 0)) / 1000)
      else
        due = now + soon / 2 + math.min(5 * (sizes[scheduled] + state.turn), soon / 2)
      end
    else
      due = now + soon / 12 + math.min(5 * behind, soon)
    end
    due = string.format('%d', due)
    redis.call('ZADD', scheduled, due, job_id)
    redis.call('HSET', prefix .. 'job:' .. job_id, 'status', 'scheduled', 'held_ms', due)
    if place then redis.call('HSET', prefix .. 'job:' .. job_id, 'place', place) end
  end

  -- key_taken notes that a job is about to be claimed; was_held: it has waited for its key.
  function key_taken(job_id, key, was_held)
    local state = key_state(key)
    state.free = state.free - 1
    if max_key_claims > 0 then
      local running = prefix .. 'running:' .. key
      if type(redis.pcall('ZADD', running, now_text, job_id)) == 'number' then redis.call('PEXPIRE', running, key_ttl) end
    end
    if was_held then redis.pcall('ZREM', prefix .. 'held:' .. key, job_id) end
    if key_rate then
      state.tat = since(state, state.first == job_id) + key_rate.each
      state.used = true
      if state.first then state.first, state.touched = nil, true end
      if was_held then redis.call('HDEL', prefix .. 'job:' .. job_id, 'held_ms') end
    end
  end

  -- key_hastens has the first one that waits for a key be there when that allows it.
  local function key_hastens(key, state)
    state.first = nil
    local first = state.free > 0 and key_first(key)
    if not first then return end
    local how, due = waits(first, key)
    local turn = math.ceil(math.max(now_us, since(state, true) - key_rate.early) / 1000)
    if how == 'scheduled' and due > turn then
      turn = string.format('%d', turn)
      redis.call('ZADD', scheduled, 'XX', turn, first)
      redis.call('HSET', prefix .. 'job:' .. first, 'held_ms', turn)
    end
  end

  -- rates_noted keeps what was used of rates.
  function rates_noted(taken)
    if rate and (taken > 0 or queue_tat_wrong) then
      redis.call('HSET', meta, 'rate_us', string.format('%.0f', math.ceil(queue_tat + taken * rate.each)))
    end
    for key, state in pairs(keys_met) do
      if state.used then
        local noted = prefix .. 'rate:' .. key
        local set = redis.pcall('HSET', noted, 'tat', string.format('%.3f', state.tat))
        if type(set) == 'number' then
          redis.call('PEXPIRE', noted, string.format('%d', math.max(0, state.tat - now_us) / 1000 + 1000))
        end
      end
      if state.touched then key_hastens(key, state) end
    end
  end

  -- key_next makes the next one that waits for the end of a claim pending, before all others. Should it have to wait all
  -- the same, it does so in its turn.
  function key_next(key)
    local held, passed = prefix .. 'held:' .. key, 0
    for _ = 1, judged do
      local first = redis.pcall('ZRANGE', held, passed, passed)
      local job_id = first[1]
      if first.err or not job_id then return end
      local how = waits(job_id, key)
      if how == 'scheduled' then
        ready_return(job_id)
        redis.call('HSET', prefix .. 'job:' .. job_id, 'status', 'pending')
        redis.call('ZREM', scheduled, job_id)
        return
      elseif how then
        passed = passed + 1
      else
        redis.call('ZREM', held, job_id)
      end
    end
  end

  -- key_left tells that a job, whose hash is still there, ends while it waits.
  function key_left(job_id)
    if not key_rate then return end
    local key = redis.pcall('HGET', prefix .. 'job:' .. job_id, 'limit_key')
    if type(key) == 'string' then redis.pcall('ZREM', prefix .. 'held:' .. key, job_id) end
  end

  -- key_ended tells that a job, whose hash is still there, is claimed no more when this script is through, or, if it is pending, that
  -- it will not be: so the next one of its key comes. Again is harmless.
  function key_ended(job_id)
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
end
