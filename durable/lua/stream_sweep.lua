--[[ stream_sweep: returns what consumers without a lease still hold, a bounded step at a time.
Anybody runs it at any time; it trusts nothing but what it reads itself.

ARGV  max_crashes, max_dead, max_corrupt, max_completed
      budget     entries looked at
      members    consumers looked at
      cursor     where XAUTOCLAIM goes on; 0-0 at first
      scan       where the search for records without an entry goes on; 0 at first
      pattern    matches the keys of records
      idle       ms that a pending entry of a consumer without a lease may be left alone
      found      entries that one step of XAUTOCLAIM looks at
      lease      ms, for a consumer whose lease is not known
Returns OK fenced returned dead trimmed more cursor scan ended registered
Called by Stream.Sweep.

Whose lease has ended is known by the registry, and what it held by its pending list. XAUTOCLAIM
finds the rest, from the beginning to the end and then again: what is pending for consumers that are not
registered, foreign ones above all, and what is pending but has been deleted. It asks for idle time alone, so it
also takes from the living, and these get back what they hold in the same script.
]]
--#include stream_base
--#include told
--#include stream_entry
--#include stream_unique
--#include stream_bury
--#include stream_retain
--#include stream_give_back
--#include list_stall
local max_crashes, max_dead, max_corrupt, max_completed = tonumber(arg()), tonumber(arg()), tonumber(arg()), tonumber(arg())
local budget, members = tonumber(arg()), tonumber(arg())
local cursor, scan, pattern, idle, found, lease = arg(), arg(), arg(), tonumber(arg()), tonumber(arg()), tonumber(arg())
local left_over = 64 -- entries that everybody is done with, trimmed by one sweep
local stale = 8 -- consumers without a lease that one sweep removes

redis.call('ZREM', consumers, '') -- the primer: never grows
local stall_length, stall_end = stalled()

local fenced, returned_n, buried, cancelled, more, registered = 0, 0, 0, 0, 0, 0

-- charged decides once who is charged for the loss of a consumer, and remembers it in its
-- record: '-' nobody, '*' everything it held, '=<id>' the suspect alone.
local function charged(c)
  local sender = prefix .. 'sender:' .. c
  local f = redis.pcall('HMGET', sender, 'kind', 'leaving', 'charge', 'suspect')
  if f.err or not f[1] then return '*' end
  local _, leaving, charge, suspect = unpack(f)
  if leaving then return '-' end
  if charge then return charge end
  charge = '*'
  if suspect then
    local token = redis.pcall('HGET', job_prefix .. suspect, F.claim_token)
    if type(token) == 'string' and owner(token) == c then charge = '=' .. suspect end
  end
  redis.call('HSET', sender, 'charge', charge)
  return charge
end

local function job_of(entry)
  local b = entry_of(entry)
  return b and id_of(entry, b)
end

local function tally(became)
  if became == 'returned' or became == 'charged' then returned_n = returned_n + 1 end
  if became == 'dead' then buried = buried + 1 end
  if became == 'cancelled' then cancelled = cancelled + 1 end
end

if redis.call('ZCARD', consumers) > 0 then ensure_group() end
local lost = redis.call('ZRANGEBYSCORE', consumers, '-inf', now, 'LIMIT', 0, members + 1)
for i, c in ipairs(lost) do
  if i > members or budget <= 0 then
    more = 1
    break
  end
  local fenced_already = tonumber(redis.call('ZSCORE', consumers, c)) == 0
  if fenced_already or not spared(c, stall_length, stall_end, lease) then
    if not fenced_already then
      redis.call('ZADD', consumers, 'XX', 0, c)
      fenced = fenced + 1
    end
    local charge = charged(c)
    local entries = pending_of(c, budget)
    for _, entry in ipairs(entries) do
      local pays = charge == '*' or (charge ~= '-' and charge == '=' .. (job_of(entry) or ''))
      tally(give_back(c, entry, pays, max_crashes, max_corrupt))
    end
    budget = budget - #entries
    if #pending_of(c, 1) == 0 then
      if all_groups[group] then redis.call('XGROUP', 'DELCONSUMER', stream, group, c) end
      redis.call('ZREM', consumers, c)
      redis.call('DEL', prefix .. 'cancels:' .. c)
    else
      more = 1
    end
  end
end

-- adopt sees to an entry that has been idle for long, and is pending for nobody now.
local function adopt(entry)
  if redis.call('ZSCORE', retries, entry) or redis.call('ZSCORE', returned, padded(entry)) then return end
  local job_id = job_of(entry)
  local f = job_id and #job_id <= max_id and redis.pcall('HMGET', job_prefix .. job_id, F.claim_token, F.redriven, 'entry', F.status) or {}
  local holder = not f.err and (f[2] or f[3]) == entry and owner(f[1]) or ''
  if holder == '' then
    -- A foreign consumer was given it, so many times, and has not acknowledged it.
    local p = redis.call('XPENDING', stream, group, entry, entry, 1)[1]
    local fresh = not f.err and (f[4] or '') == ''
    tally(give_back('', entry, false, max_crashes, max_corrupt, fresh and p and p[4] or nil))
  elseif redis.call('ZSCORE', consumers, holder) then
    claim_for(holder, {entry})
  else
    -- One of ours, whose registry entry somebody has deleted: if it lives it goes on, if not the lease
    -- ends and it is swept as any other.
    local its = prefix .. 'sender:' .. holder
    local own_lease = redis.pcall('HGET', its, 'lease')
    local term = type(own_lease) == 'string' and whole(own_lease) or lease
    redis.call('ZADD', consumers, now + term, holder)
    if type(own_lease) == 'string' then redis.call('HDEL', its, 'charge') end -- of the lease before
    claim_for(holder, {entry})
    registered = registered + 1
  end
end

if all_groups[group] then
  local got = redis.call('XAUTOCLAIM', stream, group, parked, idle, cursor, 'COUNT', found, 'JUSTID')
  cursor = got[1]
  for _, entry in ipairs(got[2]) do adopt(entry) end
  count('dropped', #(got[3] or {}))

  -- What everybody is done with, and is there all the same: a script stopped half-way, or a group was
  -- destroyed that was the last to want it. Nothing that is unread or pending anywhere is before this.
  local upto, bound
  for name, g in pairs(read_groups()) do
    local first = redis.call('XPENDING', stream, name, '-', '+', 1)[1]
    local own_bound = first and padded(first[1]) or padded(g.last) .. '~'
    if not bound or own_bound < bound then
      bound, upto = own_bound, first and '(' .. first[1] or g.last
    end
  end
  if upto ~= '(0-0' then
    local entries, ids = {}, {}
    for i, one in ipairs(redis.call('XRANGE', stream, '-', upto, 'COUNT', left_over)) do
      entries[i] = one[1]
      local job_id = id_of(one[1], body(one[2]))
      local f = redis.pcall('HMGET', job_prefix .. job_id, 'entry', F.redriven, F.status)
      if not f.err and f[1] == one[1] and not f[2] and (not f[3] or f[3] == '' or f[3] == 'pending') then ids[#ids + 1] = job_id end
    end
    forget_all(ids)
    in_steps('XDEL', entries)
    count('trimmed_entries', #entries)
    if #entries == left_over then more = 1 end
  end

  -- Consumers that nobody knows, with nothing pending.
  if all_groups[group].consumers > 1 then
    for _, flat in ipairs(redis.call('XINFO', 'CONSUMERS', stream, group)) do
      local c = {}
      for i = 1, #flat, 2 do c[flat[i]] = flat[i + 1] end
      if stale > 0 and c.name ~= parked and c.pending == 0 and c.idle > idle and not redis.call('ZSCORE', consumers, c.name) then
        redis.call('XGROUP', 'DELCONSUMER', stream, group, c.name)
        stale = stale - 1
      end
    end
  end
end

-- Records whose entry is before the first of the stream: somebody has trimmed what was not theirs to trim, and
-- with the entry the job is gone. Their IDs are free then.
do
  local first = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
  local start = first and padded(first[1]) or '~'
  local keys
  scan, keys = unpack(redis.call('SCAN', scan, 'MATCH', pattern, 'COUNT', found))
  for _, job in ipairs(keys) do
    local f = redis.pcall('HMGET', job, 'entry', 'delayed')
    local orphan = not f.err and f[1] and not f[2] and padded(f[1]) < start
    local flat = orphan and redis.call('HGETALL', job) or {}
    for i = 1, #flat, 2 do
      local name, of = string.match(flat[i], '^([^@]*)(.*)$')
      local value = flat[i + 1]
      if (name == 'claim_token' and redis.call('ZSCORE', prefix .. 'consumers' .. of, owner(value))) or
        (name == 'status' and ended[value]) or (name == 'redriven' and padded(value) >= start) then
        orphan = false
      end
    end
    if orphan then
      local unique = redis.call('HGET', job, 'unique')
      redis.call('DEL', job)
      let_key_go(string.sub(job, #job_prefix + 1), unique)
      count('orphans', 1)
    end
  end
end

wake_up()
tell_all()
local trimmed = trim_dead(max_dead)
trim_completed(max_completed)
count('registered', registered)
return {'OK', fenced, returned_n, buried, trimmed, more, cursor, scan, cancelled, registered}
