--[[ list_unique: whose a unique key is (see unique), and the end of a job that may have one. Not a script of its own.

Gives what unique gives, and erase().
]]
local key_states = {[''] = 'p', pending = 'p', scheduled = 's', processing = 'r', dead = 'd'}

local function holding(job_id)
  local f = redis.pcall('HMGET', prefix .. 'job:' .. job_id, 'unique', 'status')
  if f.err then return nil, '' end
  return f[1], key_states[f[2] or ''] or ''
end
--#include unique

-- token_for is the token of a claim of a job with these fields: it says whether the end of the job depends on one of them, so
-- that a completion need not ask.
local function token_for(token, retention, unique)
  if unique or (retention and retention ~= '0') then return token .. '+' end
  return token
end

-- erase deletes a job, and its key with it. unique is its field.
local function erase(job_id, unique)
  local key, left = let_go(job_id, unique)
  if key and left == 0 then
    redis.call('DEL', prefix .. 'job:' .. job_id, key)
  else
    redis.call('DEL', prefix .. 'job:' .. job_id)
    if key then expire(key, left) end
  end
end
