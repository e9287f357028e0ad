--[[ list_dead: sends dead jobs back to the queue, or deletes them; a bounded number of them. One that is not
dead any more, whoever was quicker, is left alone.

ARGV  action       redrive or discard
      max_backlog  bound of pending, arriving and scheduled together: a redrive ends there
      cursor       where the step before ended; '' at first
      limit        jobs that are moved
      looks        entries looked at
      then see list_filter
      ids          how many IDs follow: they are meant and nothing else, and no filter; 0: all that match
Returns OK cursor full moved, then so many IDs, then those of the IDs asked for that are not dead
        cursor: '' is the end; full: 1 where the backlog has no more room.
Called by List.Redrive and List.Discard.

Redrive: entry before stamp, destination before source. The job goes to the tail with attempts and crashes
at 0; deliveries and the last reason stay. A script that stops half-way leaves a surplus entry, in pending or
in dead. Discard: the hash goes first, as the job ends; an entry without one is dropped where it is met.
The cursor carries when the first step was made: what dies later is not part of it, so that a walk ends.
]]
--#include list_base
--#include told
--#include list_engine
--#include list_unique
--#include list_record
local action, max_backlog, cursor, limit, looks = arg(), tonumber(arg()), arg(), tonumber(arg()), tonumber(arg())
--#include list_filter
local ids = tonumber(arg())
local moved, missed, full, surplus = {}, {}, false, 0
local room = max_backlog - waiting() - sizes[scheduled]

redis.call('ZREM', consumers, '') -- the primer: never grows

-- act moves a dead job with this field unique, and says whether it did: not where its key is another's now.
local function act(job_id, unique)
  local job = prefix .. 'job:' .. job_id
  if action == 'discard' then
    tell(job_id, 'g')
    erase(job_id, unique)
  else
    if not regain(job_id, unique) then return false end
    tell(job_id, 'r')
    ready_push({job_id})
    redis.call('HSET', job, 'status', 'pending', 'attempts', 0, 'crashes', 0, 'claim_token', '')
    room = room - 1
  end
  redis.call('ZREM', dead, job_id)
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
    local f = redis.pcall('HMGET', prefix .. 'job:' .. job_id, 'status', 'unique')
    if f.err or f[1] ~= 'dead' or not filled() and not act(job_id, f[2]) then
      missed[#missed + 1] = job_id
    end
  end
else
  local rank, before = string.match(cursor, '^(%d+)-(%d+)$')
  rank, before = tonumber(rank) or 0, tonumber(before) or now
  cursor = ''
  while true do
    local entry = redis.call('ZRANGE', dead, rank, rank, 'WITHSCORES')
    local job_id, since = entry[1], tonumber(entry[2])
    if not job_id or since > before then break end
    if #moved >= limit or looks <= 0 or filled() then
      cursor = string.format('%d-%.0f', rank, before)
      break
    end
    looks = looks - 1
    local r = record(job_id)
    if not r or r[2] ~= 'dead' then
      redis.call('ZREM', dead, job_id)
      surplus = surplus + 1
    elseif not matches(r) or not act(job_id, r.unique) then
      rank = rank + 1
    end
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
