--[[ list_probe: tries, on keys of its own that expire, every command that the other scripts use,
and tells what the server said of itself.

ARGV  count    commands that follow, each: how many words, then the words
Returns OK info wire, then for each command its error text, '' for none
        info is '' where the server does not give it to scripts; wire '' where there is none.
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
local wire = redis.pcall('HGET', meta, 'wire')
local reply = {'OK', info, type(wire) == 'string' and wire or ''}
for _ = 1, tonumber(arg()) do
  local words = {}
  for k = 1, tonumber(arg()) do words[k] = arg() end
  local result = redis.pcall(unpack(words))
  reply[#reply + 1] = type(result) == 'table' and result.err or ''
end
return reply
