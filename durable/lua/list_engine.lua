--[[ list_engine: refuses a queue that another engine has opened, before any write. Not a script of its own.

What waits is of another type there, but not while nothing does.
]]
do
  local theirs, opened = unpack(redis.call('HMGET', meta, 'wire', 'engine'))
  if theirs and (opened or 'list') ~= engine then
    return {'BADKEY', meta, 'queue of another engine (' .. (opened or 'list') .. ')', 'queue of this one (' .. engine .. ')'}
  end
end
