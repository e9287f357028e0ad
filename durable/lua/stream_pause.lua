--[[ stream_pause: stops the intake or the claims of a queue, or lets them go on, for all processes and all groups, until
told otherwise. The first who stopped it stays noted.

ARGV  on         1: stop, 0: go on
      by         who says so
      count      then so many of: intake, claims
Returns OK.
Called by Stream.Pause and Stream.Resume.
]]
--#include stream_base
local on, by, sides = arg(), arg(), tonumber(arg())

redis.call('ZREM', consumers, '') -- the primer: never grows
for _ = 1, sides do
  local what = arg()
  local field = 'pause_' .. what
  if on == '0' then
    redis.call('HDEL', meta, field, field .. '_by', field .. '_ms')
  elseif not paused(what) then
    redis.call('HSET', meta, field, 1, field .. '_by', by, field .. '_ms', now)
  end
end
return {'OK'}
