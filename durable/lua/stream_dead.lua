--[[ stream_dead: sends dead jobs back to the queue, or deletes them; a bounded number of them. One that is not
dead any more, whoever was quicker, is left alone.

ARGV  action       redrive or discard
      max_backlog  bound of what waits: a redrive ends there
      cursor       where the step before ended; '' at first
      limit        jobs that are moved
      looks        letters looked at
      then see stream_filter
      ids          how many IDs follow: they are meant and nothing else, and no filter; 0: all that match
Returns OK cursor full moved, then so many IDs, then those of the IDs asked for that are not dead
        cursor: '' is the end; full: 1 where the backlog has no more room.
Called by Stream.Redrive and Stream.Discard.

Redrive: a new entry, for this group alone, before the record names it, and the letter goes last. The job goes to the
tail with attempts and crashes at 0; deliveries and the last reason stay. Discard: the record goes first, as the job
ends; a letter without one is dropped where it is met. The cursor carries when the first step was made: what dies
later is not part of it, so that a walk ends.
]]
--#include stream_base
--#include told
--#include stream_entry
--#include stream_unique
--#include stream_record
local action, max_backlog, cursor, limit, looks = arg(), tonumber(arg()), arg(), tonumber(arg()), tonumber(arg())
--#include stream_filter
local ids = tonumber(arg())
local moved, missed, full, surplus = {}, {}, false, 0
local room = max_backlog - backlog(all_groups, group_count)

redis.call('ZREM', consumers, '') -- the primer: never grows

-- act moves a dead job with this field unique, and says whether it did: not where its key is another's now.
local function act(job_id, letter, unique)
  local job = job_prefix .. job_id
  if action == 'discard' then
    tell(job_id, 'g')
    forget_all({job_id})
  else
    if not regain(job_id, unique) then return false end
    tell(job_id, 'r')
    local b = letter_of(dead, letter)
    local entry = add_entry(stream, job_id, b.kind, b.payload, b.append, b.headers, b.max_attempts, b.timeout_ms, b.retention_ms,
      b.expires_at_ms, 'for_group', group)
    redis.call('HSET', job, F.redriven, entry, F.status, 'pending', F.attempts, 0, F.crashes, 0, F.claim_token, '')
    redis.call('HDEL', job, F.buried, F.cancel_ms)
    room = room - 1
  end
  redis.call('XDEL', dead, letter)
  moved[#moved + 1] = job_id
  return true
end

local function filled()
  full = action == 'redrive' and room <= 0
  return full
end

if ids > 0 then
  cursor = ''
  for _ = 1, ids do
    local job_id = arg()
    local f = redis.pcall('HMGET', job_prefix .. job_id, F.status, F.buried, 'unique')
    if f.err or f[1] ~= 'dead' or not f[2] or not filled() and not act(job_id, f[2], f[3]) then
      missed[#missed + 1] = job_id
    end
  end
else
  local after, before = string.match(cursor, '^([%d-]+),(%d+)$')
  after, before = after or '0-0', tonumber(before) or now
  cursor = ''
  while true do
    local one = redis.call('XRANGE', dead, '(' .. after, '+', 'COUNT', 1)[1]
    if not one or since_of(one[1]) > before then break end
    if #moved >= limit or looks <= 0 or filled() then
      cursor = after .. ',' .. string.format('%.0f', before)
      break
    end
    looks = looks - 1
    local job_id = body(one[2]).id or ''
    local f = redis.pcall('HMGET', job_prefix .. job_id, F.status, F.buried, 'unique')
    if f.err or f[1] ~= 'dead' or f[2] ~= one[1] then
      redis.call('XDEL', dead, one[1])
      surplus = surplus + 1
    elseif matches((record(job_id))) then
      act(job_id, one[1], f[3])
    end
    after = one[1]
  end
end

tell_all()
count('dropped', surplus)
count(action == 'redrive' and 'redriven' or 'discarded', #moved)
local reply = {'OK', cursor, full and 1 or 0, #moved}
for _, list in ipairs({moved, missed}) do
  for _, job_id in ipairs(list) do reply[#reply + 1] = job_id end
end
return reply
