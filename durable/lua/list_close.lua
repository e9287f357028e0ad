--[[ list_close: makes sure that append n-1 can never be applied from now on, and tells what it
had stored.

ARGV  id, n      see list_sender; n is the number after the last append that was sent
Returns OK taken refused gap backlog, as list_append. UNKNOWN, OLD.
Called by producer.Close.
]]
--#include list_base
--#include list_sender
local fields, bad = sent('kind', 'append', 'append_taken', 'append_refused')
if bad then return bad end
local kind, last, taken, refused = unpack(fields)
if not kind then return {'UNKNOWN'} end
last = whole(last) or 0
if number < last then return {'OLD'} end
local backlog = waiting() + sizes[scheduled]

redis.call('PEXPIRE', sender, T_rec)
local missing = gap('append', last, number - 1)
if last < number - 1 then
  taken, refused = 0, ''
end
if last < number then
  redis.call('HSET', sender, 'append', n, 'append_taken', taken or 0, 'append_refused', refused or '')
end
return {'OK', taken or '0', refused or '', missing, backlog}
