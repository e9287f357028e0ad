--[[ list_cancel: ends a job that waits, and asks for the end of one that is claimed. Again changes nothing.

ARGV  id         of the job
      life       its field append, if that one is meant and no other of the same ID; '' for any
      max_completed   records of ended jobs kept
Returns OK found running consumer
        found: 0 where there is no such job, or it has ended; running: 1 where the consumer has it, and is asked.
Called by List.Cancel.

Entries of lists are not searched: they are surplus then, and dropped where they are met.
]]
--#include list_base
--#include list_engine
--#include told
--#include list_limits
--#include list_unique
--#include list_retain
--#include list_end
local id, life, max_completed = args(3)
local job = prefix .. 'job:' .. id

local f = redis.pcall('HMGET', job, 'status', 'claim_token', 'append', 'retention_ms', 'unique', 'cancel_ms')
if f.err then return {'OK', 0} end
local status, token = f[1] or '', f[2] or ''
if life ~= '' and f[3] ~= life then return {'OK', 0} end
if status == '' and redis.call('EXISTS', job) == 0 then return {'OK', 0} end
local consumer = status == 'processing' and string.match(token, '^(.+):') or ''
if consumer ~= '' then
  local cancels = prefix .. 'cancels:' .. consumer
  local bad = mistyped(cancels, 'hash')
  if bad then return bad end
  redis.call('ZREM', consumers, '') -- the primer: never grows
  if not asked(f[6]) then redis.call('HSET', job, 'cancel_ms', now_text) end
  redis.call('HSET', cancels, id, token)
  redis.call('PEXPIRE', cancels, T_rec)
  return {'OK', 1, 1, consumer}
end
if status ~= '' and status ~= 'pending' and status ~= 'scheduled' and status ~= 'processing' then return {'OK', 0} end

redis.call('ZREM', consumers, '') -- the primer: never grows
finish(id, 'cancelled', '', f[4], f[5])
redis.call('ZREM', scheduled, id)
ready_forget(id)
tell_all()
count('cancelled', 1)
if kept > 0 then trim_completed(tonumber(max_completed)) end
return {'OK', 1, 0, ''}
