--[[ stream_lookup: all that is known of one job. Writes nothing.

ARGV  id         of the job
      payload    1: with its payload
Returns OK, then the record (see stream_record), headers, payload, result and progress; OK alone where there is none.
Called by Stream.Lookup.
]]
--#include stream_base
--#include stream_entry
--#include stream_record
local id, with_payload = args(2)
local r, headers, payload, result, progress = record(id)
if not r then return {'OK'} end
local reply = {'OK', unpack(r)}
reply[#reply + 1] = headers
reply[#reply + 1] = with_payload == '1' and payload or ''
reply[#reply + 1] = result
reply[#reply + 1] = progress
return reply
