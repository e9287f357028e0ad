--[[ list_append: stores a prefix of a batch of jobs, as far as the backlog has room.

ARGV  id, n          see list_sender
      max_backlog    bound of pending, arriving and scheduled together
      count          then for each job: id kind payload headers delay (ms) max_attempts timeout (ms)
                     retention (ms)
Returns OK taken refused gap backlog paused
        refused is a list of <position>D (duplicate), K (its key is not a job), I (bad ID), each
        ended by a comma; positions count from 0. paused is 1 while an operator has stopped the
        intake: then there is no room for anybody.
        UNKNOWN, OLD.
Called by producer.Append.
]]
--#include list_base
--#include list_sender
local max_backlog, jobs = tonumber(arg()), tonumber(arg())
local words = 8 -- of one job
local stopped = paused('intake') and 1 or 0

local kind, last, answer_taken, answer_refused = unpack(redis.call('HMGET', sender,
  'kind', 'append', 'append_taken', 'append_refused'))
if not kind then return {'UNKNOWN'} end
last = whole(last) or 0
if number < last then return {'OLD'} end
local backlog = redis.call('LLEN', pending) + redis.call('LLEN', arriving) + redis.call('ZCARD', scheduled)
if number == last then
  return {'OK', answer_taken or '0', answer_refused or '', 0, backlog, stopped}
end

-- Decide first, write afterwards: what is already stored under this very position is the
-- work of a script that stopped half-way, and counts as stored.
local room = max_backlog - backlog
local first = position
local fresh = true -- no key of any of these jobs is there: one question instead of one each
for from = 0, jobs - 1, 1000 do
  local keys = {}
  for i = from, math.min(from + 999, jobs - 1) do
    keys[#keys + 1] = prefix .. 'job:' .. ARGV[first + 1 + i * words]
  end
  fresh = fresh and redis.call('EXISTS', unpack(keys)) == 0
end
if stopped == 1 then room = 0 end
local taken, stored, refused, seen = 0, 0, {}, {}
local entries, due, hashes = {}, {}, {}
for i = 0, jobs - 1 do
  local job_id, job_kind, payload, headers, delay, attempts, timeout, retention = args(words)
  local job, position_of = prefix .. 'job:' .. job_id, id .. ':' .. n .. ':' .. i
  local code
  if job_id == '' or #job_id > max_id then
    code = 'I'
  elseif seen[job_id] then
    code = 'D'
  elseif not fresh then
    local is = type_of(job)
    if is == 'hash' then
      code = redis.call('HGET', job, 'append') == position_of and 'S' or 'D'
    elseif is ~= 'none' then
      code = 'K'
    end
  end
  if not code then
    if room <= 0 then break end
    room = room - 1
    seen[job_id] = true
    local fields = {job, 'payload', payload, 'status', 'pending', 'attempts', 0, 'append', position_of}
    if job_kind ~= '' then fields[#fields + 1] = 'kind' fields[#fields + 1] = job_kind end
    if headers ~= '' then fields[#fields + 1] = 'headers' fields[#fields + 1] = headers end
    if attempts ~= '0' then fields[#fields + 1] = 'max_attempts' fields[#fields + 1] = attempts end
    if timeout ~= '0' then fields[#fields + 1] = 'timeout_ms' fields[#fields + 1] = timeout end
    if retention ~= '0' then fields[#fields + 1] = 'retention_ms' fields[#fields + 1] = retention end
    if delay == '0' then
      entries[#entries + 1] = job_id
    else
      fields[5] = 'scheduled'
      due[#due + 1] = now + delay
      due[#due + 1] = job_id
    end
    hashes[#hashes + 1] = fields
    stored = stored + 1
  elseif code ~= 'S' then
    refused[#refused + 1] = i .. code .. ','
  end
  taken = taken + 1
end

for i = 1, #entries, 1000 do
  redis.call('LPUSH', pending, unpack(entries, i, math.min(i + 999, #entries)))
end
for i = 1, #due, 1000 do
  redis.call('ZADD', scheduled, unpack(due, i, math.min(i + 999, #due)))
end
for _, fields in ipairs(hashes) do
  redis.call('HSET', unpack(fields))
end

local refusals = table.concat(refused)
redis.call('HSET', sender, 'append', n, 'append_taken', taken, 'append_refused', refusals)
redis.call('PEXPIRE', sender, T_rec)
count('appended', stored)
count('duplicate', #refused)
return {'OK', taken, refusals, number > last + 1 and 1 or 0, backlog + stored, stopped}
