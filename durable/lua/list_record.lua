--[[ list_record: what is known of one job, judged by its hash. Not a script of its own. Needs list_unique. Writes nothing.

Gives record(id), which returns nil where there is no such job, else a table of
        id state kind attempts crashes deliveries max_attempts timeout retention size
        since due consumer reason priority expires cancelling life unique_key limit_key
        and besides, by its name, unique, the field.
        state: the status, where it is one of ours; corrupt for all that nobody can run; since: when
        it was claimed, died, was quarantined or ended (ms; 0: not known); due: when it may run
        (scheduled) or is forgotten (ended); consumer: who holds it, or had it when it ended; expires: ms, 0: never; cancelling: 1
        or 0; life: its append.
]]
local words = 20 -- of a record
local record_fields = {'status', 'kind', 'attempts', 'crashes', 'deliveries', 'max_attempts',
  'timeout_ms', 'retention_ms', 'claim_token', 'claimed_at_ms', 'reason', 'completed_at_ms', 'completed_by',
  'payload_bytes', 'priority', 'expires_at_ms', 'cancel_ms', 'append', 'unique', 'limit_key'}

local function score(set, job_id)
  return math.floor(tonumber(redis.call('ZSCORE', set, job_id) or 0))
end

-- holder is the consumer that a token was given to.
local function holder(token)
  return string.match(token or '', '^(.*):') or ''
end

-- spoilt is the record of what nobody can run.
local function spoilt(job_id, reason)
  return {job_id, 'corrupt', '', 0, 0, 0, 0, 0, 0, 0, score(corrupt, job_id), 0, '', reason, 0, 0, 0, '', '', ''}
end

local function record(job_id)
  local job = prefix .. 'job:' .. job_id
  local f = redis.pcall('HMGET', job, unpack(record_fields))
  local noted = redis.call('HGET', reasons, job_id)
  if f.err then return spoilt(job_id, noted or 'its key is not a hash') end
  local status = f[1] or ''
  if status == '' and redis.call('EXISTS', job) == 0 then
    if redis.call('ZSCORE', corrupt, job_id) then return spoilt(job_id, noted or '') end
    return nil
  end

  local since, due, consumer, reason = 0, 0, '', f[11] or ''
  local size = redis.call('HSTRLEN', job, 'payload')
  if status == '' or status == 'pending' then
    status = 'pending'
  elseif status == 'scheduled' then
    due = score(scheduled, job_id)
  elseif status == 'processing' then
    since, consumer = whole(f[10]) or 0, holder(f[9])
  elseif status == 'dead' then
    since = score(dead, job_id)
  elseif status == 'completed' or status == 'cancelled' or status == 'expired' then
    since, due, consumer, size = whole(f[12]) or 0, score(completed, job_id), holder(f[13]), whole(f[14]) or 0
  elseif status == 'corrupt' then
    since, reason = score(corrupt, job_id), noted or reason
  else
    status, reason = 'corrupt', 'its status is unknown'
  end
  local _, _, key = unique_of(f[19])
  return {job_id, status, f[2] or '', whole(f[3]) or 0, whole(f[4]) or 0, whole(f[5]) or 0, whole(f[6]) or 0,
    whole(f[7]) or 0, whole(f[8]) or 0, size, since, due, consumer, reason, tonumber(string.match(f[15] or '', '^%-?%d+$')) or 0,
    whole(f[16]) or 0, status == 'processing' and f[17] and 1 or 0, f[18] or '', key or '', f[20] or '', unique = f[19]}
end
