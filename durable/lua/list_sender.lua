--[[ list_sender: the sequence record of whoever asks. Not a script of its own.

ARGV  id    the identity
      n     the number of this request, of its kind
Gives id, n, number and sender (the key), and checks its type. T_rec, the life of a record
after its last request, is longer than anybody may stay in doubt.
]]
local id, n = arg(), arg()
local number = tonumber(n)
local sender = prefix .. 'sender:' .. id
local T_rec = 24 * 3600 * 1000

do
  local bad = mistyped(sender, 'hash')
  if bad then return bad end
end
