--[[ list_lookup: all that is known of one job. Writes nothing.

ARGV  id         of the job
      payload    1: with its payload
Returns OK, then the record (see list_record), headers, payload, result and progress; OK alone where there is none.
Called by List.Lookup.
]]
--#include list_base
--#include list_unique
--#include list_record
local id, with_payload = args(2)
local r = record(id)
if not r then return {'OK'} end
local reply = {'OK', unpack(r)}
local held = redis.pcall('HMGET', prefix .. 'job:' .. id, 'headers', with_payload == '1' and 'payload' or 'headers', 'result', 'progress')
if held.err then held = {} end
reply[#reply + 1] = held[1] or ''
reply[#reply + 1] = with_payload == '1' and held[2] or ''
reply[#reply + 1] = held[3] or ''
reply[#reply + 1] = held[4] or ''
return reply
