--[[ unique: whose a unique key is. Not a script of its own.

unique:<key> is a hash: holder, the ID of the job that was stored with the key last, and where the key is kept
whatever becomes of that job, until_ms. It is an index and no lock: the job is asked. Its field unique is
'<states> <after> <key>': the states in which it keeps the key, of p (pending), s (scheduled), r (processing) and d
(dead), and for how long after it has completed (ms). So a key is free from the moment on in which its holder comes out of
these states, whatever did that; who ends the job deletes the key with it.

Needs holding(id): a job's field unique, and the letters of the states it is in, '' for none of them. Gives unique_of(field),
keeps(id, key), held_by(key), take_key(), keep_key(), regain(), let_go(), expire(), and for appends wish() and keyless().
]]
-- unique_of gives the states, after, and the key of a job's field; nothing where it names none.
local function unique_of(field)
  return string.match(field or '', '^([psrd]*) (%d+) (.+)$')
end

-- keeps tells whether a job, by what its record says, keeps a key.
local function keeps(job_id, key)
  local field, is = holding(job_id)
  local states, _, its = unique_of(field)
  return its == key and is ~= '' and string.find(states, '[' .. is .. ']') ~= nil
end

-- held_by gives the ID of the job that has a key, nil for nobody; who is noted as its holder; until when it is kept; and
-- whether something else is there.
local function held_by(key)
  local noted = redis.pcall('HMGET', prefix .. 'unique:' .. key, 'holder', 'until_ms')
  if noted.err then return nil, nil, 0, true end
  local by, till = noted[1], whole(noted[2]) or 0
  if till > now then return by or '', by, till end
  if not by then return nil, nil, till end
  return keeps(by, key) and by or nil, by, till
end

-- take_key gives a key that nobody has to a job; before is until when it was kept. One that was kept beyond its job may be
-- about to expire: it is made anew.
local function take_key(key, job_id, before)
  local name = prefix .. 'unique:' .. key
  if before > 0 then
    redis.call('HSET', name, 'holder', job_id) -- first, as a full server refuses it
    redis.call('DEL', name)
  end
  redis.call('HSET', name, 'holder', job_id)
end

-- keep_key keeps the key of a job until a time at least. It comes when the job is stored: one that is not, because a script
-- stopped half-way, would be kept from its own key.
local function keep_key(key, job_id, till)
  local name = prefix .. 'unique:' .. key
  if redis.call('HGET', name, 'holder') == job_id then
    redis.call('HSET', name, 'until_ms', string.format('%.0f', till))
  end
end

-- regain gives a dead job that comes back its key, if it has one (field), and says whether it could: not where that is another's
-- now. Its own may be about to expire, as that of a job that has ended.
local function regain(job_id, field)
  local _, _, key = unique_of(field)
  if not key then return true end
  local by, noted, till, bad = held_by(key)
  if bad or (by and by ~= job_id) then return false end
  if noted ~= job_id or till > 0 then
    take_key(key, job_id, till)
    if till > now then keep_key(key, job_id, till) end
  end
  return true
end

-- let_go gives the key (of Redis) of a job that ends, if it has one, and for how long that is kept (ms; 0: not at all). The
-- caller has it expire or deletes it, behind the end of the job: before that nothing but the job may free it.
local function let_go(job_id, field, is_done)
  local _, after, key = unique_of(field)
  if not key then return nil, 0 end
  local name = prefix .. 'unique:' .. key
  local noted = redis.pcall('HMGET', name, 'holder', 'until_ms')
  if noted.err or noted[1] ~= job_id then return nil, 0 end
  local till = whole(noted[2]) or 0
  if is_done and tonumber(after) > 0 and now + after > till then
    till = now + after
    redis.call('HSET', name, 'until_ms', string.format('%.0f', till))
  end
  return name, math.max(till - now, 0)
end

-- expire has a key that let_go gave go when its time is over, at once where it is.
local function expire(name, left)
  redis.call('PEXPIRE', name, string.format('%.0f', left))
end

-- wish reads what a producer asks for: the field of the job, the key, and until when it is kept at least; nothing where it
-- asks for none.
local function wish(text)
  local states, window, after, key = string.match(text, '^([psrd]*) (%d+) (%d+) (.+)$')
  if not key then return nil end
  return states .. ' ' .. after .. ' ' .. key, key, window == '0' and 0 or now + window
end

-- has_key tells whether a job of this batch, as it is stored, has the key that keyless gave it: that it is to be kept, or it is
-- asked for where the job is now.
local function has_key(key, text, delayed)
  return key[4] > 0 or string.find(string.match(text, '^[psrd]*'), delayed and 's' or 'p', 1, true) ~= nil
end

-- keyless is the code for a job that another one keeps from its key, be it one of the same batch (holders: key → ID); or
-- nil, and what take_key and keep_key need, if it has one: the key, the job, and until when it was kept and is to be.
local function keyless(job_id, text, holders)
  local _, key, till = wish(text)
  if not key then return nil end
  local by, _, before, bad = holders[key], nil, 0, false
  if not by then by, _, before, bad = held_by(key) end
  if bad then return 'K' end
  if by then return 'U' .. #by .. ':' .. by end
  return nil, {key, job_id, before, till}
end
