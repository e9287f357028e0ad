--[[ stream_append: stores a prefix of a batch of jobs, as far as the backlog has room.

ARGV  id, n          see list_sender
      max_backlog    bound of what waits: unread, returned and scheduled together
      count          then for each job: id kind payload headers delay (ms) max_attempts timeout (ms)
                     retention (ms) expiry (ms), then '' or, with spaces between, the states, window (ms), after (ms)
                     and name of its unique key (see unique)
Returns OK taken refused gap backlog paused
        refused is a list of <position>D (duplicate), K (its key is not a job), I (bad ID), U
        with <length>:<ID> of the job that has its unique key, each ended by a comma; positions count from 0. paused is 1 while an operator has stopped the
        intake: then there is no room for anybody.
        UNKNOWN, OLD.
Called by producer.Append.

The bound refuses; it never trims. All entries go before the first record: what a script that stopped
half-way leaves are entries without one, which are dropped where they are met. None may run before all are stored: it
could be over, and its record gone, when the request comes again.
]]
--#include stream_base
--#include list_sender
--#include stream_entry
--#include stream_unique
local max_backlog, jobs = tonumber(arg()), tonumber(arg())
local words = 10 -- of one job
local stopped = paused('intake') and 1 or 0

local fields, bad = sent('kind', 'append', 'append_taken', 'append_refused')
if bad then return bad end
local kind, last, answer_taken, answer_refused = unpack(fields)
if not kind then return {'UNKNOWN'} end
last = whole(last) or 0
if number < last then return {'OLD'} end
local waits = backlog(all_groups, group_count)
if number == last then
  redis.call('PEXPIRE', sender, T_rec) -- also for a WAIT behind this: it is about what its connection has written
  return {'OK', answer_taken or '0', answer_refused or '', gap('append', last, number), waits, stopped, 0, 0}
end

local room = stopped == 1 and 0 or max_backlog - waits
local first = position
local fresh = true -- no key of any of these jobs is there: one question instead of one each
for from = 0, jobs - 1, 1000 do
  local keys = {}
  for i = from, math.min(from + 999, jobs - 1) do
    keys[#keys + 1] = job_prefix .. ARGV[first + 1 + i * words]
  end
  fresh = fresh and redis.call('EXISTS', unpack(keys)) == 0
end

-- cancelled tells whether a record has outlived its entry, which somebody has deleted by hand while it
-- waited: the ID is free.
local function cancelled(job)
  local f = redis.call('HMGET', job, 'entry', 'delayed')
  if f[2] or not f[1] then return false end
  for _, name in ipairs(redis.call('HKEYS', job)) do
    local value = redis.call('HGET', job, name)
    if string.find(name, '^status') then
      if value ~= '' and value ~= 'pending' and value ~= 'scheduled' then return false end
    elseif name == 'entry' or string.find(name, '^redriven') then
      if redis.call('XRANGE', stream, value, value)[1] then return false end
    end
  end
  return true
end

-- Decide first, write afterwards: what is already stored under this very position is the
-- work of a script that stopped half-way, and counts as stored.
local taken, refused, seen, accepted, stale = 0, {}, {}, {}, {}
local holders, keyed, kept = {}, {}, {} -- of the unique keys of this batch; what keyless gives for each to take, and to keep
for i = 0, jobs - 1 do
  local at = first + i * words
  local job_id = ARGV[at + 1]
  local job = job_prefix .. job_id
  local code
  if job_id == '' or #job_id > max_id then
    code = 'I'
  elseif seen[job_id] then
    code = 'D'
  elseif not fresh then
    local is = type_of(job)
    if is == 'hash' then
      if redis.call('HGET', job, 'append') == id .. ':' .. n .. ':' .. i then
        code = 'S'
        local _, key, till = wish(ARGV[at + words])
        if key then
          holders[key] = job_id
          kept[#kept + 1] = {key, job_id, 0, till}
        end
      elseif cancelled(job) then
        stale[i] = job
      else
        code = 'D'
      end
    elseif is ~= 'none' then
      code = 'K'
    end
  end
  local key
  if not code and ARGV[at + words] ~= '' then code, key = keyless(job_id, ARGV[at + words], holders) end
  if not code then
    if room <= 0 then break end
    room = room - 1
    if key then
      holders[key[1]] = has_key(key, ARGV[at + words], ARGV[at + 5] ~= '0') and job_id or nil
      keyed[#keyed + 1] = key
      kept[#kept + 1] = key
    end
    seen[job_id] = true
    accepted[#accepted + 1] = i
  elseif code ~= 'S' then
    refused[#refused + 1] = i .. code .. ','
  end
  taken = taken + 1
end

local function fields(i)
  local at = first + i * words
  return unpack(ARGV, at + 1, at + words)
end

local function moment(after)
  return after ~= '0' and string.format('%d', now + after) or '0'
end

local function key_field(text)
  if text == '' then return {} end
  return {'unique', (wish(text))}
end

for _, k in ipairs(keyed) do take_key(k[1], k[2], k[3]) end
local entries = {}
for _, i in ipairs(accepted) do
  local job_id, job_kind, payload, headers, delay, attempts, timeout, retention, expiry = fields(i)
  if delay == '0' then
    local place = id .. ':' .. n .. ':' .. i
    entries[i] = add_entry(stream, job_id, job_kind, payload, place, headers, attempts, timeout, retention,
      moment(expiry))
  else
    redis.call('ZADD', scheduled, now + delay, job_id)
  end
end
for _, i in ipairs(accepted) do
  if stale[i] then redis.call('DEL', stale[i]) end
end
for _, i in ipairs(accepted) do
  local job_id, job_kind, payload, headers, _, attempts, timeout, retention, expiry, unique = fields(i)
  local place = id .. ':' .. n .. ':' .. i
  if entries[i] then
    redis.call('HSET', job_prefix .. job_id, 'append', place, 'entry', entries[i], unpack(key_field(unique)))
  else
    redis.call('HSET', job_prefix .. job_id, 'append', place, 'delayed', 1, 'kind', job_kind, 'payload', payload,
      'headers', headers, 'max_attempts', attempts, 'timeout_ms', timeout, 'retention_ms', retention,
      'expires_at_ms', moment(expiry), unpack(key_field(unique)))
  end
end
for _, k in ipairs(kept) do
  if k[4] > 0 then keep_key(k[1], k[2], k[4]) end
end

local missing = gap('append', last, number)
local refusals = table.concat(refused)
redis.call('HSET', sender, 'append', n, 'append_taken', taken, 'append_refused', refusals)
redis.call('PEXPIRE', sender, T_rec)
count('appended', #accepted)
count('duplicate', #refused)
return {'OK', taken, refusals, missing, waits + #accepted, stopped, 0, 0}
