--[[ told: notes for followers what becomes of jobs, in the script in which it becomes so. Not a script of its own.

Needs prefix, now, following: whether anybody can be following jobs of this queue (nobody does: no command, and no functions either:
what a script does not need it does not make),
follower_prefix and followers_field: what the keys of followers begin with, and the field of a job that names some.
Gives told_by (the follower that the acting consumer belongs to, for the script to set: that one knows),
told_fields, followed, tell and tell_all.

A follower is a hash follower:<f> (of a group of a stream follower@<group>:<f>) with a TTL, which names the last entry of its stream told:<f>. Who follows a job: the
follower that the sender in its field append belongs to (field follow of sender:<s>), and those that its field
followers names. All that one script notes for one follower is one entry, or a few:
      after      the entry before it: a reader that has another one last has missed some. Neither has an entry that
                 could not be written: it is called lost
      notices    one behind the other: a letter (s started, p progress, r requeued, c completed, d dead, x cancelled,
                 e expired, g gone), 1 where a longer result is kept, else 0, then with commas between and a
                 colon behind the lengths of ID, life, data and reason; then these
]]
local noticed = 4096 -- bytes of a result that go along; MaxNoticed in Go
local told_ttl = 600000 -- ms; FollowFor in Go
local told_by
local told_fields = {} -- by job: its append and followers, where the script has read them anyhow
local listens, sent_for
local function followed() return false end
local function tell() end
local tell_all = tell
if following then
  local told_bytes = 65536 -- of the notices of one entry, as a rule
  local told_entries = '1000' -- kept for a follower; MaxNotices in Go
  local heads, tales, tellers = {}, {}, {} -- by follower: its last entry (false: there is none such); notices. In their order
  local follows = {} -- by sender: its follower, or false

  -- listens tells whether there is such a follower.
  function listens(f)
    if heads[f] == nil then
      local last = redis.pcall('HGET', follower_prefix .. f, 'last')
      heads[f] = type(last) == 'string' and last
    end
    return heads[f]
  end

  -- sent_for is the follower that the sender of an append belongs to, or false.
  function sent_for(append)
    local s = string.match(append or '', '^([^:]+):')
    if not s then return false end
    if follows[s] == nil then
      local f = redis.pcall('HGET', prefix .. 'sender:' .. s, 'follow')
      follows[s] = type(f) == 'string' and f
    end
    return follows[s]
  end

  local unnamed = {} -- by append: its listeners, or false; of a job that names none

  -- listeners are the followers to be told of a job with these fields; false where there is none.
  local function listeners(append, named)
    append = append or ''
    if not named and unnamed[append] ~= nil then return unnamed[append] end
    local first = sent_for(append)
    local all = first and first ~= told_by and listens(first) and {first} or false
    for f in string.gmatch(named or '', '%S+') do
      if f ~= first and f ~= told_by and listens(f) then
        all = all or {}
        all[#all + 1] = f
      end
    end
    if not named then unnamed[append] = all end
    return all
  end

  -- followed tells whether anybody is to be told of a job with these fields.
  function followed(append, named)
    return listeners(append, named) and true
  end

  -- tell notes that something becomes of a job. Its hash is still there.
  function tell(job_id, what, data, kept, reason)
    local fields = told_fields[job_id] or redis.pcall('HMGET', prefix .. 'job:' .. job_id, 'append', followers_field)
    local all = not fields.err and listeners(fields[1], fields[2])
    if not all then return end
    local life = fields[1] or ''
    data, reason = data or '', reason or ''
    local notice = what .. (kept and 1 or 0) .. string.format('%d,%d,%d,%d:', #job_id, #life, #data, #reason) ..
      job_id .. life .. data .. reason
    for _, f in ipairs(all) do
      if not tales[f] then
        tales[f] = {}
        tellers[#tellers + 1] = f
      end
      local tale = tales[f]
      tale[#tale + 1] = notice
    end
  end

  -- tell_all writes down what was noted. A stream that cannot be written to leaves a gap.
  function tell_all()
    for _, f in ipairs(tellers) do
      local stream, tale = prefix .. 'told:' .. f, tales[f]
      local from, bytes = 1, 0
      for i = 1, #tale do
        bytes = bytes + #tale[i]
        if i == #tale or bytes + #tale[i + 1] > told_bytes then
          local entry = redis.pcall('XADD', stream, 'MAXLEN', '~', told_entries, '*',
            'after', heads[f], 'notices', table.concat(tale, '', from, i))
          heads[f] = type(entry) == 'string' and entry or 'lost'
          from, bytes = i + 1, 0
        end
      end
      if heads[f] ~= 'lost' then redis.call('PEXPIRE', stream, told_ttl) end
      redis.call('HSET', follower_prefix .. f, 'last', heads[f])
      tales[f] = nil
    end
    tellers = {}
  end
end
