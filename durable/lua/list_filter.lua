--[[ list_filter: which jobs an operator means. Not a script of its own. Needs list_record.

ARGV  kinds     how many kinds follow; 0: any
      reason    a part of the reason; '' any
      older     since when at the latest (ms before now) it is in its state; -1: any
Gives matches(record).
]]
local any_kind, kinds = true, {}
for _ = 1, tonumber(arg()) do
  any_kind = false
  kinds[arg()] = true
end
local part, older = arg(), tonumber(arg())

local function matches(r)
  return (any_kind or kinds[r[3]]) and (part == '' or string.find(r[14], part, 1, true) ~= nil)
    and (older < 0 or (r[11] > 0 and r[11] <= now - older))
end
