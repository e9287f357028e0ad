--[[ stream_entry: an entry of the stream, and how our group is done with it. Not a script of its own.

Gives body, entry_of, id_of, owner, ensure_group, pending_of, claim_for, wanted, alone, others_done, finish, forget, put_back and
wake_up.

An entry stays where it is until every group is done with it, which is Redis's own knowledge: it is not
after the last one the group was given, and it is not pending there. So foreign groups count too.
]]
local all_groups, group_count = read_groups()

-- ensure_group makes our group anew if somebody has destroyed it. What was pending is read again then, and
-- judged by its record.
local function ensure_group()
  if all_groups[group] then return end
  redis.call('XGROUP', 'CREATE', stream, group, '0', 'MKSTREAM')
  all_groups, group_count = read_groups()
end

-- body reads the fields of an entry. Most of ours have four, in a known order.
local function body(v)
  if #v == 8 and v[1] == 'id' and v[7] == 'append' and v[3] == 'kind' then
    return {id = v[2], kind = v[4], payload = v[6], append = v[8], plain = true}
  end
  local b = {}
  for i = 1, #v, 2 do
    if b[v[i]] == nil then b[v[i]] = v[i + 1] end
  end
  return b
end

-- entry_of reads one entry; nil where somebody has deleted it.
local function entry_of(entry)
  local got = redis.call('XRANGE', stream, entry, entry)[1]
  if got then return body(got[2]), got[2] end
end

-- id_of is the ID of an entry's job: that of the entry, where its producer gave none.
local function id_of(entry, b)
  if b.id and b.id ~= '' then return b.id end
  return entry
end

-- owner is the consumer that a token was given to.
local function owner(token)
  return string.match(token or '', '^(.*):') or ''
end

-- pending_of gives the entries that a consumer has been given, up to n, the oldest first.
local function pending_of(consumer, n)
  local got = redis.pcall('XPENDING', stream, group, '-', '+', n, consumer)
  if got.err then return {} end
  for i, one in ipairs(got) do got[i] = one[1] end
  return got
end

-- claim_for gives entries to a consumer, whosever they are.
local function claim_for(consumer, entries)
  for from = 1, #entries, 1000 do
    local words = {'XCLAIM', stream, group, consumer, 0, unpack(entries, from, math.min(from + 999, #entries))}
    words[#words + 1] = 'FORCE'
    words[#words + 1] = 'JUSTID'
    redis.call(unpack(words))
  end
end

local others
local function other_groups()
  if not others then
    others = {}
    for name, g in pairs(all_groups) do
      if name ~= group then others[#others + 1] = {name = name, last = padded(g.last), status = 'status' .. suffix(name)} end
    end
  end
  return others
end

-- wanted tells whether a group is not done with an entry. One that is not there yet is done with nothing.
local function wanted(name, entry, last)
  local g = all_groups[name]
  return not g or padded(entry) > (last or padded(g.last)) or redis.call('XPENDING', stream, name, entry, entry, 1)[1] ~= nil
end

-- alone tells whether there is no group but ours.
local function alone()
  return group_count == 0 or (group_count == 1 and all_groups[group] ~= nil)
end

-- others_done tells whether no other group wants an entry any more.
local function others_done(entry)
  if alone() then return true end
  for _, g in ipairs(other_groups()) do
    if wanted(g.name, entry, g.last) then return false end
  end
  return true
end

local function in_steps(command, entries, ...)
  for from = 1, #entries, 1000 do
    local words = {command, stream, ...}
    for i = from, math.min(from + 999, #entries) do words[#words + 1] = entries[i] end
    redis.call(unpack(words))
  end
end

-- finish ends entries for our group, and for good where no other group wants them.
local function finish(entries)
  local gone = entries
  if not alone() then
    gone = {}
    for _, entry in ipairs(entries) do
      if others_done(entry) then gone[#gone + 1] = entry end
    end
  end
  in_steps('XDEL', gone)
  in_steps('XACK', entries, group)
end

-- forget ends our group's part of records, and the records where no other group has a part in them.
local function forget(ids)
  local gone = {}
  for _, job_id in ipairs(ids) do
    local job = job_prefix .. job_id
    local last = alone()
    if not last then
      local entry = redis.call('HGET', job, 'entry')
      redis.call('HDEL', job, unpack(own_fields))
      last = not entry or others_done(entry)
      for _, g in ipairs(other_groups()) do
        local status = redis.call('HGET', job, g.status)
        last = last and (not status or status == '')
      end
    end
    if last then gone[#gone + 1] = job end
  end
  for from = 1, #gone, 1000 do
    redis.call('DEL', unpack(gone, from, math.min(from + 999, #gone)))
  end
end

-- put_back lets entries be claimed next, in the order of the stream.
local woken = false
local function put_back(entries)
  if #entries == 0 then return end
  for _, entry in ipairs(entries) do redis.call('ZADD', returned, 0, padded(entry)) end
  claim_for(parked, entries)
  woken = true
end

-- wake_up ends the waits that look at the stream alone. The marker says nothing, and one is enough.
local function wake_up()
  if woken then redis.call('XADD', wake, 'MAXLEN', 1, '*', 'returned', 1) end
end
