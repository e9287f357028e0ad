--[[ stream_record: what is known of one job to our group, judged by its record. Not a script of its own. Writes
nothing. Needs stream_entry.

Gives record(id), which returns nil where there is no such job, else a table of
        id state kind attempts crashes deliveries max_attempts timeout retention size
        since due consumer reason life expires (ms; 0: never)
        cancelling (1: it is claimed, and asked to be cancelled) unique key, and as further results headers, payload, result and
        progress
        state: the status, where it is one of ours; corrupt for all that nobody can run; since: when
        it was claimed, died, was quarantined or ended (ms; 0: not known); due: when it may run
        (scheduled) or is forgotten (ended); consumer: who holds it, or completed it; life: its place in an append.
]]
local words = 18 -- of a record
local known_fields = {'append', 'entry', 'delayed', F.redriven, F.status, F.claim_token, F.claimed_at_ms, F.attempts,
  F.crashes, F.deliveries, F.reason, F.buried, F.completed_at_ms, F.completed_by, 'payload_bytes', 'kind', 'payload',
  'headers', 'max_attempts', 'timeout_ms', 'retention_ms', F.retention_ms, 'expires_at_ms', F.cancel_ms, F.result, F.progress, 'unique'}

local function score(set, name)
  return math.floor(tonumber(redis.call('ZSCORE', set, name) or 0))
end

-- since_of is when an entry was added, by its ID.
local function since_of(entry)
  return whole(string.match(entry or '', '^(%d+)%-')) or 0
end

-- letter_of reads a dead or quarantined entry.
local function letter_of(letters, letter)
  local got = letter and redis.call('XRANGE', letters, letter, letter)[1]
  return got and body(got[2]) or {}
end

local function spoilt_record(job_id, reason)
  return {job_id, 'corrupt', '', 0, 0, 0, 0, 0, 0, 0, 0, 0, '', reason, '', 0, 0, ''}, '', '', '', ''
end

-- is_done tells whether our group has finished an entry that others still want.
local function is_done(entry)
  local g = all_groups[group]
  return g and padded(entry) <= padded(g.last) and not redis.call('XPENDING', stream, group, entry, entry, 1)[1]
end

local function record(job_id)
  local f = redis.pcall('HMGET', job_prefix .. job_id, unpack(known_fields))
  if f.err then return spoilt_record(job_id, 'its key is not a hash') end
  local status, at, b = f[5] or '', f[4] or f[2], nil
  local marked = (f[24] or '') ~= ''
  local since, due, consumer, size = 0, 0, '', nil
  if f[3] then
    status, due = 'scheduled', score(scheduled, job_id)
    b = {kind = f[16], payload = f[17], headers = f[18], max_attempts = f[19], timeout_ms = f[20], retention_ms = f[21], expires_at_ms = f[23]}
  elseif status == 'dead' then
    b, since = letter_of(dead, f[12]), since_of(f[12])
  elseif status == 'corrupt' then
    b, since = letter_of(corrupt, f[12]), since_of(f[12])
  elseif kept[status] then
    b = {kind = f[16], headers = f[18], max_attempts = f[19], timeout_ms = f[20], retention_ms = f[22], expires_at_ms = f[23]}
    since, due, size = whole(f[13]) or 0, score(completed, job_id), whole(f[15]) or 0
    if status == 'completed' then consumer = owner(f[14]) end
  else
    -- A foreign entry that nobody has claimed yet has no record, and its own ID.
    if not at and not f[1] and status == '' and string.find(job_id, '^%d+%-%d+$') then at = job_id end
    b = at and entry_of(at)
    if not b or (b.for_group and b.for_group ~= group) then return nil end
    if status == '' or status == 'pending' then
      if is_done(at) then return nil end
      status = 'pending'
      if marked then status, since = 'cancelled', whole(f[24]) or 0 end
    elseif status == 'scheduled' and marked then
      status, since = 'cancelled', whole(f[24]) or 0
    elseif status == 'scheduled' then
      due = score(retries, at)
    elseif status == 'processing' then
      since, consumer = whole(f[7]) or 0, owner(f[6])
    else
      status, f[11] = 'corrupt', 'its status is unknown'
    end
  end
  return {job_id, status, b.kind or '', whole(f[8]) or 0, whole(f[9]) or 0, whole(f[10]) or 0, whole(b.max_attempts) or 0,
    whole(b.timeout_ms) or 0, whole(b.retention_ms) or 0, size or #(b.payload or ''), since, due, consumer, f[11] or '',
    f[1] or '', whole(b.expires_at_ms) or 0,
    marked and status == 'processing' and 1 or 0, string.match(f[27] or '', '^%a* %d+ (.+)$') or ''},
    b.headers or '', b.payload or '', f[25] or '', f[26] or ''
end
