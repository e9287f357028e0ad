--[[ list_sender: the sequence record of whoever asks. Not a script of its own.

ARGV  id    the identity
      n     the number of this request, of its kind
Gives id, n, number and sender (the key), sent and gap.
]]
local id, n = arg(), arg()
local number = tonumber(n)
local sender = prefix .. 'sender:' .. id

-- sent reads fields of the record; where it is something else the second result is the answer to give.
local function sent(...)
  local fields = redis.pcall('HMGET', sender, ...)
  if fields.err then return nil, mistyped(sender, 'hash') or fields end
  return fields
end

-- gap tells, as 1 or 0, whether numbers of this kind are missing between the last one that was
-- applied and wanted, which is this one as a rule: then the store has lost writes. It is remembered
-- for the repetition of this request.
local function gap(kind, last, wanted)
  if last >= wanted then
    return redis.call('HGET', sender, kind .. '_gap') == string.format('%d', last) and 1 or 0
  end
  if last == wanted - 1 then return 0 end
  redis.call('HSET', sender, kind .. '_gap', n)
  return 1
end
