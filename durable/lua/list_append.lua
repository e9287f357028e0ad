--[[ list_append: stores a prefix of a batch of jobs, as far as the backlog has room.

ARGV  id, n          see list_sender
      max_backlog    bound of pending, arriving and scheduled together
      consumer       who may have what is stored at once; '' for nobody
      claim, slots, held   of that consumer: the number of its next claim, how many jobs, and how many it holds
      count          then for each job: id payload kind
      then for each job that has more: its position, from 1, headers, with spaces between delay (ms)
                     max_attempts timeout (ms) retention (ms) priority expiry (ms), then '' or, with spaces between, the
                     states, window (ms), after (ms) and name of its unique key (see unique), then its limit key
Returns OK taken refused gap backlog paused direct fence
        refused is a list of <position>D (duplicate), K (its key is not a job), I (bad ID), U with <length>:<ID> of the
        job that has its unique key, each ended by a comma; positions count from 0. paused is 1 while an operator has stopped the
        intake: then there is no room for anybody. direct: so many of those that are stored and have no
        delay, the first ones, are claimed by the consumer under its number, and fence is that of the first.
        UNKNOWN, OLD.
Called by producer.Append.

Direct is what this request and a claim right behind it would do, if nothing waits that would be claimed first:
each job is written once, as claimed, and not read back.

A field that would say what its absence says (attempts 0, no kind) is not written: fields are what a job costs. Of the status
pending that holds for a job that has payload and kind alone: a claim reads nothing else of one with append and without status.
]]
--#include list_base
--#include told
--#include list_sender
--#include list_unique
local redis = redis -- a local is found faster than a global
local max_backlog, consumer = tonumber(arg()), arg()
local claim, slots, held, jobs = tonumber(arg()), tonumber(arg()), tonumber(arg()), tonumber(arg())
local words = 3 -- of one job
local stopped = paused('intake') and 1 or 0

local fields, bad = sent('kind', 'append', 'append_taken', 'append_refused')
if bad then return bad end
local kind, last, answer_taken, answer_refused = unpack(fields)
if not kind then return {'UNKNOWN'} end
last = whole(last) or 0
if number < last then return {'OLD'} end
local backlog = waiting() + sizes[scheduled]
if number == last then
  redis.call('PEXPIRE', sender, T_rec) -- also for a WAIT behind this: it is about what its connection has written
  return {'OK', answer_taken or '0', answer_refused or '', gap('append', last, number), backlog, stopped, 0, 0}
end

local more = {} -- where the rest of a job begins, for those that have one
for at = position + jobs * words, #ARGV - 1, 5 do
  more[tonumber(ARGV[at + 1])] = at + 1
end
local keys = {}
for i = 1, jobs do
  keys[i] = prefix .. 'job:' .. ARGV[position + 1 + (i - 1) * words]
end
local fresh = true -- no key of any of these jobs is there: one question instead of one each
for i = 1, jobs, 1000 do
  fresh = fresh and redis.call('EXISTS', unpack(keys, i, math.min(i + 999, jobs))) == 0
end

-- Decide first, write afterwards: what this very request has stored already is the work of a script
-- that stopped half-way, and counts as stored.
local this = id .. ':' .. n
local room = stopped == 1 and 0 or max_backlog - backlog
local taken, refused, seen = 0, {}, {}
local store, entries, due = {}, {}, {} -- numbers of the jobs to store; IDs to push; dates and IDs
local levels = {} -- of the priority of entries, where it is not 0
local holders, keyed, kept = {}, {}, {} -- of the unique keys of this batch; what keyless gives for each to take, and to keep

for i = 1, jobs do
  local job_id = ARGV[position + (i - 1) * words + 1]
  local code
  if job_id == '' or #job_id > max_id then
    code = 'I'
  elseif seen[job_id] then
    code = 'D'
  elseif not fresh then
    local is = type_of(keys[i])
    if is == 'hash' then
      code = redis.call('HGET', keys[i], 'append') == this and 'S' or 'D'
    elseif is ~= 'none' then
      code = 'K'
    end
  end
  if code == 'S' and more[i] then
    local _, key, till = wish(ARGV[more[i] + 3])
    if key then
      holders[key] = job_id
      kept[#kept + 1] = {key, job_id, 0, till}
    end
  end
  local key
  if not code and more[i] then code, key = keyless(job_id, ARGV[more[i] + 3], holders) end
  if not code or code == 'S' then seen[job_id] = true end
  if not code then
    if room <= 0 then break end
    room = room - 1
    local delay, level = '0'
    if more[i] then delay, level = string.match(ARGV[more[i] + 2], '^(%d+) %d+ %d+ %d+ (%-?%d+) ') end
    if key then
      holders[key[1]] = has_key(key, ARGV[more[i] + 3], delay ~= '0') and job_id or nil
      keyed[#keyed + 1] = key
      kept[#kept + 1] = key
    end
    store[#store + 1] = i
    if delay == '0' then
      entries[#entries + 1] = job_id
      if level then levels[#entries] = tonumber(level) end
    else
      due[#due + 1] = now + delay
      due[#due + 1] = job_id
    end
  elseif code ~= 'S' then
    refused[#refused + 1] = (i - 1) .. code .. ','
  end
  taken = taken + 1
end

-- claimable is how many of the entries the consumer may have: as many as its next claim would take, if that
-- came right behind this request.
local taker, processing = prefix .. 'sender:' .. consumer, prefix .. 'processing:' .. consumer
local function claimable()
  if consumer == '' or limits or engine ~= 'list' or not fresh or #entries == 0 then return 0 end
  if waiting() > 0 or paused('claims') or tonumber(redis.call('ZSCORE', consumers, consumer) or 0) <= now then return 0 end
  if sizes[scheduled] > 0 and redis.call('ZRANGEBYSCORE', scheduled, '-inf', now, 'LIMIT', 0, 1)[1] then return 0 end
  local fields, holds = redis.pcall('HMGET', taker, 'kind', 'claim', 'follow'), redis.pcall('LLEN', processing)
  if fields.err or not fields[1] or whole(fields[2]) ~= claim - 1 or type(holds) == 'table' or holds > held then return 0 end
  told_by = fields[3]
  if followed(this) then return 0 end -- the claim would have to say so
  return math.min(slots, #entries)
end
local direct = claimable()
local token, fence = consumer .. ':' .. string.format('%d', claim), 0
for _, k in ipairs(keyed) do take_key(k[1], k[2], k[3]) end
for i = 1, direct, 1000 do
  redis.call('LPUSH', processing, unpack(entries, i, math.min(i + 999, direct)))
end
if direct == 0 then
  ready_push(entries, levels)
elseif direct < #entries then
  ready_push({unpack(entries, direct + 1)}, {})
end
for i = 1, #due, 1000 do
  redis.call('ZADD', scheduled, unpack(due, i, math.min(i + 999, #due)))
end
local undelayed = 0
for _, i in ipairs(store) do
  local at = position + (i - 1) * words
  local payload, job_kind, rest = ARGV[at + 2], ARGV[at + 3], more[i]
  if job_kind ~= '' and not rest and undelayed < direct then
    undelayed = undelayed + 1
    redis.call('HSET', keys[i], 'payload', payload, 'append', this, 'kind', job_kind,
      'status', 'processing', 'claim_token', token, 'claimed_at_ms', now_text, 'deliveries', '1')
  elseif job_kind ~= '' and not rest then
    redis.call('HSET', keys[i], 'payload', payload, 'append', this, 'kind', job_kind)
  else
    local fields = {'payload', payload, 'append', this}
    local function field(name, value, absent)
      if value ~= absent then
        fields[#fields + 1] = name
        fields[#fields + 1] = value
      end
    end
    field('kind', job_kind, '')
    local delay, attempts, timeout, retention, priority, expiry, unique
    if rest then
      delay, attempts, timeout, retention, priority, expiry = string.match(ARGV[rest + 2], '^(%d+) (%d+) (%d+) (%d+) (%-?%d+) (%d+)$')
      unique = wish(ARGV[rest + 3])
    end
    local delayed = rest and delay ~= '0'
    if not delayed and undelayed < direct then
      undelayed = undelayed + 1
      field('status', 'processing')
      field('claim_token', token_for(token, retention, unique))
      field('claimed_at_ms', now_text)
      field('deliveries', '1')
    elseif rest then
      field('status', delayed and 'scheduled' or 'pending')
    end
    if rest then
      field('headers', ARGV[rest + 1], '')
      field('max_attempts', attempts, '0')
      field('timeout_ms', timeout, '0')
      field('retention_ms', retention, '0')
      field('priority', priority, '0')
      if expiry ~= '0' then field('expires_at_ms', string.format('%.0f', now + expiry)) end
      field('unique', unique)
      field('limit_key', ARGV[rest + 4], '')
    end
    redis.call('HSET', keys[i], unpack(fields))
  end
end
for _, k in ipairs(kept) do
  if k[4] > 0 then keep_key(k[1], k[2], k[4]) end
end

local refusals = table.concat(refused)
redis.call('HSET', sender, 'append', n, 'append_taken', string.format('%d', taken), 'append_refused', refusals)
local missing = gap('append', last, number)
redis.call('PEXPIRE', sender, T_rec)
if direct > 0 then
  fence = math.max((whole(sizes[counters]) or 0) + 1, now)
  redis.call('HSET', counters, 'fence', string.format('%d', fence + direct - 1))
  redis.call('HSET', taker, 'claim', string.format('%d', claim), 'claim_status', 'J', 'claim_fence', string.format('%d', fence))
  redis.call('PEXPIRE', taker, T_rec)
end
count('appended', #store)
count('duplicate', #refused)
count('claimed', direct)
return {'OK', taken, refusals, missing, backlog + #store - direct, stopped, direct, fence}
