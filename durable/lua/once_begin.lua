--[[ once_begin: asks whether the effect is still to be had, and if so notes who has it.

ARGV  run job fence window_ms
      hold_ms      for how long other jobs are kept out
Returns BEGUN            it is this run's
        DONE result      it was had
        BUSY             another job has it, or another call under the same claim
        STALE            this job, or whoever came last, has a larger fence
Called by Idempotent.DoResult.
]]
--#include once_base
local hold = tonumber(arg())
if is.state == 'done' then return {'DONE', is.result} end
if is.state == 'running' and (fence == is.fence or job ~= is.job and is.until_ms > now) then return {'BUSY'} end
if fence < is.fence then return {'STALE'} end

redis.call('PEXPIRE', marker, hold + window)
redis.call('HSET', marker, 'state', 'running', 'job', job, 'fence', string.format('%d', fence), 'run', run,
  'begun_ms', now_text, 'until_ms', string.format('%d', now + hold))
redis.call('PEXPIRE', marker, hold + window)
return {'BEGUN'}
