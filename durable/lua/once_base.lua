--[[ once_base: what both scripts of a marker begin with. Not a script of its own.

KEYS  marker       the one key of an effect: a hash
          state      running, failed or done
          job fence  who began last
          run        of one call of Do; tells its own words from those of others
          begun_ms until_ms done_ms result
      It always has a TTL, and the PEXPIRE before each write never grows anything: so a server that is full
      goes on, and one that refuses PEXPIRE refuses before a write.
ARGV  verb         unread
      run job fence window_ms
      then what the script's own header says
Gives now and now_text (ms by Redis), arg(), run, job, fence, window, and is, what the marker says.
Answers, before any write:
      BADKEY key type wanted   the key holds something else
]]
local redis = redis
local marker = KEYS[1]

local position = 1
local function arg()
  position = position + 1
  return ARGV[position]
end
local run, job, fence, window = arg(), arg(), tonumber(arg()), tonumber(arg())

do
  local held = redis.call('TYPE', marker).ok
  if held ~= 'none' and held ~= 'hash' then return {'BADKEY', marker, held, 'hash'} end
end

local seconds, micros = unpack(redis.call('TIME'))
local now = seconds * 1000 + math.floor(micros / 1000)
local now_text = string.format('%d', now)

local is = {}
do
  local names = {'state', 'job', 'fence', 'run', 'until_ms', 'result'}
  for i, value in ipairs(redis.call('HMGET', marker, unpack(names))) do
    is[names[i]] = value or ''
  end
  is.fence, is.until_ms = tonumber(is.fence) or 0, tonumber(is.until_ms) or 0
  if is.state ~= 'running' and is.state ~= 'failed' and is.state ~= 'done' then
    if redis.call('EXISTS', marker) == 1 then return {'BADKEY', marker, 'hash without a state', 'marker'} end
    is.state = 'absent'
  end
end
