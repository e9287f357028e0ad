--[[ list_stall: notices that nobody could renew a lease for a while, because the server stood still
(frozen, restarted, failed over) or because nobody was there. Not a script of its own.

Gives stalled and spared. Whoever lives renews as soon as the server answers again, but a sweep may
be executed first. So after a stall of more than half of its lease a consumer is not fenced at once: its
lease goes on for another half, once, until it renews.
]]

-- stalled notes how long it is that a renewal or a sweep was last executed, if that is news. It
-- is called by each of these, after the primer; by a renewal with its lease: whoever lives has renewed within one
-- since the last stall, which is nothing to go by any more then, however long it was.
local function stalled(lease)
  local seen, length, ended = unpack(redis.call('HMGET', meta, 'seen_ms', 'stall_ms', 'stall_end_ms'))
  seen, length, ended = whole(seen) or 0, whole(length) or 0, whole(ended) or 0
  redis.call('HSET', meta, 'seen_ms', now_text)
  local gone_by = now - seen
  if seen > 0 and gone_by > 0 and (gone_by > length or now > ended + math.min(length, lease or length)) then
    length, ended = gone_by, now
    redis.call('HSET', meta, 'stall_ms', string.format('%d', length), 'stall_end_ms', now_text)
  end
  return length, ended
end

-- spared extends the lease of c, which is over, if a stall may be why.
local function spared(c, length, ended, unknown_lease)
  local record = prefix .. 'sender:' .. c
  local fields = redis.pcall('HMGET', record, 'lease', 'leaving', 'spared')
  if fields.err or not fields[1] or fields[2] or fields[3] then return false end
  local half = math.floor((whole(fields[1]) or unknown_lease) / 2)
  if length <= half or now < ended or now >= ended + half then return false end
  redis.call('HSET', record, 'spared', now_text)
  redis.call('ZADD', consumers, 'XX', now + half, c)
  return true
end
