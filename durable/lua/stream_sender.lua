--[[ stream_sender: the sequence record of whoever asks. Not a script of its own.

ARGV  id    the identity
      n     the number of this request, of its kind
Gives id, n, number and sender (the key), and checks its type.
]]
local id, n = arg(), arg()
local number = tonumber(n)
local sender = prefix .. 'sender:' .. id

do
  local bad = mistyped(sender, 'hash')
  if bad then return bad end
end
