--[[ list_probe: tries, on keys of its own that expire, every command that the other scripts use,
and tells what the server said of itself.

ARGV  count    commands that follow, each: how many words, then the words
Returns OK info wire, max_backlog, max_crashes, max_dead, max_corrupt and max_completed of meta, then for each command its error text, '' for none,
        then step_us of meta
        info is '' where the server does not give it to scripts; so is what meta does not hold.
Called by List.Check.
]]
local meta = KEYS[1]
local position = 3
local function arg()
  position = position + 1
  return ARGV[position]
end

local info = redis.pcall('INFO')
if type(info) == 'table' then info = info.ok or '' end
local reply = {'OK', info}
for _, field in ipairs({'wire', 'max_backlog', 'max_crashes', 'max_dead', 'max_corrupt', 'max_completed'}) do
  local value = redis.pcall('HGET', meta, field)
  reply[#reply + 1] = type(value) == 'string' and value or ''
end
for _ = 1, tonumber(arg()) do
  local words = {}
  for k = 1, tonumber(arg()) do words[k] = arg() end
  local result = redis.pcall(unpack(words))
  reply[#reply + 1] = type(result) == 'table' and result.err or ''
end
local step = redis.pcall('HGET', meta, 'step_us')
reply[#reply + 1] = type(step) == 'string' and step or ''
return reply
