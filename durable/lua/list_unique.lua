--[[ list_unique: whose a unique key is, and the end of a job that may have one. Not a script of its own.

unique:<key> is a hash: holder, the ID of the job that was stored with the key last, and where the key is kept
whatever becomes of that job, until_ms. It is an index and no lock: the job is asked. Its field unique is
'<states> <after> <key>': the states in which it keeps the key, of p (pending), s (scheduled), r (processing) and d
(dead), and for how long after it has completed (ms). So a key is free from the moment on in which its holder comes out of
these states, whatever did that; who ends the job deletes the key with it, in one command.

Gives unique_of(field), held_by(key), take_key(), let_go() and erase().
]]
local key_states = {[''] = 'p', pending = 'p', scheduled = 's', processing = 'r', dead = 'd'}

-- unique_of gives the states, after, and the key of a job's field; nothing where it names none.
local function unique_of(field)
  return string.match(field or '', '^([psrd]*) (%d+) (.+)$')
end

-- held_by gives the ID of the job that has a key, nil for nobody; who is noted as its holder; until when it is kept; and
-- whether something else is there.
local function held_by(key)
  local noted = redis.pcall('HMGET', prefix .. 'unique:' .. key, 'holder', 'until_ms')
  if noted.err then return nil, nil, 0, true end
  local by, till = noted[1], whole(noted[2]) or 0
  if till > now then return by or '', by, till end
  if not by then return nil, nil, till end
  local f = redis.pcall('HMGET', prefix .. 'job:' .. by, 'unique', 'status')
  if not f.err then
    local states, _, its = unique_of(f[1])
    local state = key_states[f[2] or '']
    if its == key and state and string.find(states, state, 1, true) then return by, by, till end
  end
  return nil, by, till
end

-- take_key gives a key that nobody has to a job, and keeps it until a time at least, if that is not 0; before is until when
-- it was kept. One that was kept beyond its job may be about to expire: it is made anew.
local function take_key(key, job_id, till, before)
  local name = prefix .. 'unique:' .. key
  if before > 0 then
    redis.call('HSET', name, 'holder', job_id) -- first, as a full server refuses it
    redis.call('DEL', name)
  end
  if till > 0 then
    redis.call('HSET', name, 'holder', job_id, 'until_ms', string.format('%.0f', till))
  else
    redis.call('HSET', name, 'holder', job_id)
  end
end

-- let_go gives the key (of Redis) to delete together with a job that ends, if it has one; what is kept for longer expires.
local function let_go(job_id, field, is_done)
  local _, after, key = unique_of(field)
  if not key then return nil end
  local name = prefix .. 'unique:' .. key
  local noted = redis.pcall('HMGET', name, 'holder', 'until_ms')
  if noted.err or noted[1] ~= job_id then return nil end
  local till = whole(noted[2]) or 0
  if is_done and tonumber(after) > 0 and now + after > till then
    till = now + after
    redis.call('HSET', name, 'until_ms', string.format('%.0f', till))
  end
  if till <= now then return name end
  redis.call('PEXPIRE', name, string.format('%.0f', till - now))
end

-- erase deletes a job, and its key with it. unique is its field.
local function erase(job_id, unique)
  local key = let_go(job_id, unique)
  if key then
    redis.call('DEL', prefix .. 'job:' .. job_id, key)
  else
    redis.call('DEL', prefix .. 'job:' .. job_id)
  end
end
