--[[ stream_cancel: ends a job for all groups that have not finished it.

ARGV  id         of the job
      life       of the job that is meant (see stream_record); '' any
      max_completed
Returns OK running consumer: running is 1 where it is claimed, and the consumer is asked for the end of it; OK alone where
        there is no such job, or all groups are done with it.
Called by Stream.Cancel.

A job that nobody has claimed and no other group wants is over at once: the record goes first, then the entry, then what is
noted of it, which would be surplus. Otherwise each group that is not done with it gets a mark in the record, and a job
with a mark never waits again: whoever meets it then ends it for its group, a claim, a settle or a sweep.
]]
--#include stream_base
--#include told
--#include stream_entry
--#include stream_unique
--#include stream_retain
local id, life, max_completed = arg(), arg(), tonumber(arg())
local job = job_prefix .. id
if #id > max_id then return {'OK'} end

local f = redis.pcall('HMGET', job, 'append', 'entry', 'delayed', F.redriven, F.status, F.claim_token, F.cancel_ms, 'retention_ms', 'unique')
if f.err then return {'OK'} end
local entry = f[2] or (not f[3] and string.find(id, '^%d+%-%d+$') and id)
if life ~= '' and life ~= (f[1] or '') then return {'OK'} end
local body_of_entry = entry and entry_of(entry)
if not f[2] and body_of_entry and id_of(entry, body_of_entry) ~= id then return {'OK'} end -- it has another ID
local own_entry = f[4] or entry
local own_body = f[4] and entry_of(f[4]) or body_of_entry

redis.call('ZREM', consumers, '') -- the primer: never grows

local function over(retention)
  tell_all()
  if retention > 0 then trim_completed(max_completed) end
  return {'OK', 0, ''}
end

if f[3] then -- it is nobody's yet
  local retention = whole(f[8]) or 0
  end_delayed(id, f[9], 'cancelled', retention)
  return over(retention)
end

-- holder_for tells who has the job in a group: '' where it waits, nil where the group is done with it, or told already.
local function holder_for(name, at, status, token, marked)
  if ended[status or ''] or not wanted(name, at) then return nil end
  if owner(token) ~= '' then return owner(token) end
  if (marked or '') == '' then return '' end
end

local holder = own_body and holder_for(group, own_entry, f[5], f[6], f[7])
if holder == '' and others_done(own_entry) then
  local retention = whole(own_body.retention_ms) or 0
  end_waiting(id, own_entry, entry, f[9], 'cancelled', retention)
  return over(retention)
end

local found, running = false, nil
local function mark(s, holds, token)
  found = true
  redis.call('HSET', job, 'cancel_ms' .. s, now_text, 'entry', f[2] or entry)
  if holds ~= '' then
    running = running or holds
    local asked = prefix .. 'cancels:' .. holds
    redis.call('HSET', asked, id, token)
    redis.call('PEXPIRE', asked, T_rec)
  end
end

if holder then mark(own, holder, f[6]) end
for name in pairs(all_groups) do
  if name ~= group then
    local s = suffix(name)
    local g = redis.call('HMGET', job, 'redriven' .. s, 'status' .. s, 'claim_token' .. s, 'cancel_ms' .. s)
    local at = g[1] or entry
    local holds = at and entry_of(at) and holder_for(name, at, g[2], g[3], g[4])
    if holds then mark(s, holds, g[3]) end
  end
end
if not found then return {'OK'} end
return {'OK', running and 1 or 0, running or ''}
