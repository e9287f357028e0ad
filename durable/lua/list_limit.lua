--[[ list_limit: sets the limits of a queue, or takes them away.

ARGV  limits     '' for none, else with spaces between: concurrency, count per (ms) burst of the rate, and the
                 same for each key
      keys       1: claims of each key are bounded
      by         who says so
      members    consumers looked at
      looks      their claims looked at, and so many of what is scheduled
Returns OK.
Called by List.SetLimits.

Claims of keys are in an index while they are bounded: here those that are there already come into it. And what waits for its
key is due now: it may go, or it waits as the new limits say.
]]
--#include list_base
--#include list_engine
local set, keys, by, members, looks = arg(), arg(), arg(), tonumber(arg()), tonumber(arg())

redis.call('ZREM', consumers, '') -- the primer: never grows
local keyless = set == '' or string.find(set, '^%d+ %d+ %d+ %d+ 0 0 ')
local waiting_now = redis.call('ZRANGE', scheduled, 0, looks - 1, 'WITHSCORES')
for i = 1, #waiting_now, 2 do
  local job_id = waiting_now[i]
  local job = prefix .. 'job:' .. job_id
  local f = redis.pcall('HMGET', job, 'held_ms', 'limit_key')
  if not f.err and f[1] and tonumber(f[1]) == tonumber(waiting_now[i + 1]) then
    local turn = string.format('%d', now - (#waiting_now - i - 1) / 2) -- they stay in their order
    redis.call('ZADD', scheduled, 'XX', turn, job_id)
    redis.call('HSET', job, 'held_ms', turn)
    if keyless and f[2] then redis.pcall('ZREM', prefix .. 'held:' .. f[2], job_id) end
  end
end
if set == '' then
  redis.call('HDEL', meta, 'limits', 'limited_by', 'limited_ms', 'rate_us')
  return {'OK'}
end
redis.call('HSET', meta, 'limits', set, 'limited_by', by, 'limited_ms', now_text)
if keys == '0' then return {'OK'} end
for _, c in ipairs(redis.call('ZRANGE', consumers, 0, members - 1)) do
  local list = prefix .. 'processing:' .. c
  if looks > 0 and not mistyped(list, 'list') then
    for _, job_id in ipairs(redis.call('LRANGE', list, 0, looks - 1)) do
      local f = redis.pcall('HMGET', prefix .. 'job:' .. job_id, 'status', 'limit_key', 'claimed_at_ms')
      if not f.err and f[1] == 'processing' and f[2] then
        redis.pcall('ZADD', prefix .. 'running:' .. f[2], whole(f[3]) or now, job_id)
        redis.call('PEXPIRE', prefix .. 'running:' .. f[2], 7 * 24 * 3600 * 1000)
      end
      looks = looks - 1
    end
  end
end
return {'OK'}
