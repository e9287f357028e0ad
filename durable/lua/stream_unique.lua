--[[ stream_unique: whose a unique key is (see unique), where several groups do a job. Not a script of its own. Needs
stream_entry.

The holder keeps its key as long as it is in one of its states for one group. After counts from the last group on, if that
has completed it. Gives what unique gives, let_key_go and forget_all.
]]

-- state_for gives the letter of the state in which a job with record f is for a group; '' for none.
local function state_for(name, f)
  local s = suffix(name)
  local at, status = f['redriven' .. s] or f.entry, f['status' .. s] or ''
  if status == 'dead' then return 'd' end
  if status == 'processing' then return 'r' end
  if ended[status] or not at or (f['cancel_ms' .. s] or '') ~= '' or not redis.call('XRANGE', stream, at, at)[1] then return '' end
  if status == 'scheduled' then return 's' end
  return wanted(name, at) and 'p' or ''
end

local function holding(job_id)
  local flat, f, letters = redis.pcall('HGETALL', job_prefix .. job_id), {}, ''
  if flat.err then return nil, '' end
  for i = 1, #flat, 2 do f[flat[i]] = flat[i + 1] end
  if not f.unique then return nil, '' end
  if f.delayed then return f.unique, 's' end
  if group_count == 0 then return f.unique, state_for(group, f) end
  for name in pairs(all_groups) do letters = letters .. state_for(name, f) end
  return f.unique, letters
end
--#include unique

-- let_key_go frees the key of a job that our group is done with, if it has one (field) and no other group keeps it.
local function let_key_go(job_id, field, is_done)
  local _, _, key = unique_of(field)
  if not key or keeps(job_id, key) then return end
  local name, left = let_go(job_id, field, is_done)
  if name then expire(name, left) end
end

-- forget_all is forget for those who have not read the keys of jobs.
local function forget_all(ids)
  local fields = {}
  for i, job_id in ipairs(ids) do fields[i] = redis.call('HGET', job_prefix .. job_id, 'unique') end
  forget(ids)
  for i, job_id in ipairs(ids) do
    if fields[i] then let_key_go(job_id, fields[i]) end
  end
end
