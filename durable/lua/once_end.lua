--[[ once_end: notes how a run ended. Sent again, it changes nothing.

ARGV  run job fence window_ms
      outcome      done or failed
      result       kept with a done one
Returns OK
        LOST             another run has taken over: no write of any kind
Called by Idempotent.DoResult.
]]
--#include once_base
local outcome, result = arg(), arg()
if is.state == 'absent' and outcome == 'failed' then return {'OK'} end
-- A marker that is gone is made anew: the effect was had, whatever the server has lost.
if is.state ~= 'absent' and is.run ~= run then return {'LOST'} end
if is.state == 'done' then return {'OK'} end

redis.call('PEXPIRE', marker, window)
redis.call('HSET', marker, 'state', outcome, 'job', job, 'fence', string.format('%d', fence), 'run', run)
if outcome == 'done' then redis.call('HSET', marker, 'done_ms', now_text, 'result', result) end
redis.call('PEXPIRE', marker, window)
return {'OK'}
