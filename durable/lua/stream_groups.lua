--[[ stream_groups: what Redis knows of the groups of the stream. Writes nothing.

Returns OK, then for each group its name, consumers, pending, lag (-1: unknown) and last entry.
Called by Stream.Groups.
]]
--#include stream_base
local reply = {'OK'}
local all = read_groups()
local names = {}
for name in pairs(all) do names[#names + 1] = name end
table.sort(names)
for _, name in ipairs(names) do
  local g = all[name]
  for _, word in ipairs({name, g.consumers, g.pending, g.lag or -1, g.last}) do reply[#reply + 1] = word end
end
return reply
