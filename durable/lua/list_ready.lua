--[[ list_ready: what waits to be claimed, as lists. Not a script of its own; list_base includes it. zset_ready gives
the same for a sorted set.

Needs the keys, sizes, arg() and now of list_base. Gives
      engine             as meta notes it
      step               what a level of priority is worth; nil
      ready_type         of the key pending
      ready_sources      the keys to claim from, in their order
      waiting()          how many waited when the script began
      ready_push(ids, levels)   adds them behind all others, in their order; levels of priority, for
                         those that have one and no job that says so yet
      ready_return(id)   makes an entry the next; of several, the last one first
      ready_next(source, k, offset)   the next k entries after so many, the first one last; and their places
                         in the order, where they have some
      ready_drop(source, k)   removes the next k
      ready_forget(id)    removes an entry, where that needs no search
      ready_left()       is called when a claim has taken what it could
]]
local engine, step = 'list'
local ready_type = 'list'
local ready_sources = {arriving, pending}

local function waiting()
  return sizes[pending] + sizes[arriving]
end

local function ready_push(ids)
  for i = 1, #ids, 1000 do
    redis.call('LPUSH', pending, unpack(ids, i, math.min(i + 999, #ids)))
  end
end

local function ready_return(job_id)
  redis.call('RPUSH', pending, job_id)
end

local function ready_next(source, k, offset)
  return redis.call('LRANGE', source, -(offset + k), -(offset + 1))
end

local function ready_drop(source, k)
  redis.call('LTRIM', source, 0, -(k + 1))
end

local function ready_forget() end

local function ready_left() end
