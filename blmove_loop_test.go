package weir_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/internal/redistest"
)

// loop is what docs/blmove.md is about: a job queue of two hundred lines around BLMOVE, with the parts that Redis's
// guide for go-redis gives it. Two lists and a hash for each job; a claim is a BLMOVE and then a stamp; completing and
// failing are scripts that compare a token; a sweep puts back what has been in processing for too long. It is
// here to be compared with, in blmove_test.go. Nobody should use it.
//
// What the guide does in one function is two here where a test must get in between: take and stamp.
type loop struct {
	rdb    *redis.Client
	prefix string
	now    time.Time // its clock stands still unless advance moves it

	visibility  time.Duration // a claim older than that is taken for dead
	keep        time.Duration // of the hash of a job that has ended
	maxAttempts int
}

// loopJob is a claim.
type loopJob struct {
	id, payload, token string
	attempts           int
}

const (
	// loopComplete: KEYS processing, hash; ARGV id, token, keep in ms.
	loopComplete = `
if redis.call('HGET', KEYS[2], 'claim_token') ~= ARGV[2] then return 0 end
redis.call('LREM', KEYS[1], 1, ARGV[1])
redis.call('HSET', KEYS[2], 'status', 'completed')
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return 1`

	// loopFail: KEYS processing, hash, pending, failed; ARGV id, token, keep in ms, 1 to run again.
	loopFail = `
if redis.call('HGET', KEYS[2], 'claim_token') ~= ARGV[2] then return 0 end
redis.call('LREM', KEYS[1], 1, ARGV[1])
redis.call('HSET', KEYS[2], 'claim_token', '', 'claimed_at_ms', 0)
if ARGV[4] == '1' then
  redis.call('HSET', KEYS[2], 'status', 'pending')
  redis.call('LPUSH', KEYS[3], ARGV[1])
else
  redis.call('HSET', KEYS[2], 'status', 'failed')
  redis.call('LPUSH', KEYS[4], ARGV[1])
  redis.call('PEXPIRE', KEYS[2], ARGV[3])
end
return 1`

	// loopSweep: KEYS processing, pending; ARGV now, visibility, prefix of hashes. A job without a stamp counts by when it
	// was enqueued, with twice the time: its worker may have died before it could stamp.
	loopSweep = `
local now, visibility, back = tonumber(ARGV[1]), tonumber(ARGV[2]), {}
for _, id in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  local hash = ARGV[3] .. id
  local claimed = tonumber(redis.call('HGET', hash, 'claimed_at_ms') or 0)
  local enqueued = tonumber(redis.call('HGET', hash, 'enqueued_at_ms') or 0)
  local old = claimed > 0 and now - claimed > visibility
  if claimed == 0 and enqueued > 0 then
    old = now - enqueued > 2 * visibility
  end
  if old then
    redis.call('LREM', KEYS[1], 1, id)
    redis.call('LPUSH', KEYS[2], id)
    redis.call('HSET', hash, 'status', 'pending', 'claim_token', '', 'claimed_at_ms', 0)
    back[#back + 1] = id
  end -- of an old one
end
return back`
)

// newLoop makes a queue on the shared server.
func newLoop(t *testing.T) *loop {
	t.Helper()
	return &loop{
		rdb: redistest.Client(t), prefix: "{" + redistest.Name(t) + "}:", now: time.Now(),
		visibility: 5 * time.Second, keep: 5 * time.Minute, maxAttempts: 3,
	}
}

func (q *loop) key(name string) string  { return q.prefix + name }
func (q *loop) hash(id string) string   { return q.prefix + "job:" + id }
func (q *loop) advance(d time.Duration) { q.now = q.now.Add(d) }

// enqueue stores a job.
func (q *loop) enqueue(t *testing.T, payload string) (id string) {
	t.Helper()
	ctx := patient(t)
	id = rand.Text()
	pipe := q.rdb.Pipeline()
	pipe.HSet(ctx, q.hash(id), "payload", payload, "status", "pending", "attempts", 0, "claim_token", "", "enqueued_at_ms", q.now.UnixMilli())
	pipe.LPush(ctx, q.key("pending"), id)
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	return id
}

// take is the first half of a claim: it moves an ID.
func (q *loop) take(t *testing.T) (id string) {
	t.Helper()
	id, err := q.rdb.BLMove(patient(t), q.key("pending"), q.key("processing"), "RIGHT", "LEFT", time.Second).Result()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// stamp is the second half: it says who has the job, since when.
func (q *loop) stamp(t *testing.T, id string) loopJob {
	t.Helper()
	ctx := patient(t)
	job := loopJob{id: id, token: rand.Text()}
	pipe := q.rdb.Pipeline()
	pipe.HSet(ctx, q.hash(id), "status", "processing", "claim_token", job.token, "claimed_at_ms", q.now.UnixMilli())
	attempts := pipe.HIncrBy(ctx, q.hash(id), "attempts", 1)
	payload := pipe.HGet(ctx, q.hash(id), "payload")
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	job.attempts, job.payload = int(attempts.Val()), payload.Val()
	return job
}

// claim is both.
func (q *loop) claim(t *testing.T) loopJob {
	t.Helper()
	return q.stamp(t, q.take(t))
}

// complete ends a job; false if its claim has passed to somebody else.
func (q *loop) complete(t *testing.T, job loopJob) bool {
	t.Helper()
	return q.settle(t, loopComplete, []string{q.key("processing"), q.hash(job.id)}, job.id, job.token, q.keep.Milliseconds())
}

// fail has a job run again, until its attempts are used up.
func (q *loop) fail(t *testing.T, job loopJob) bool {
	t.Helper()
	again := 0
	if job.attempts < q.maxAttempts {
		again = 1
	}
	keys := []string{q.key("processing"), q.hash(job.id), q.key("pending"), q.key("failed")}
	return q.settle(t, loopFail, keys, job.id, job.token, q.keep.Milliseconds(), again)
}

func (q *loop) settle(t *testing.T, script string, keys []string, args ...any) bool {
	t.Helper()
	ok, err := q.rdb.Eval(patient(t), script, keys, args...).Int()
	if err != nil {
		t.Fatal(err)
	}
	return ok == 1
}

// sweep puts back what looks dead.
func (q *loop) sweep(t *testing.T) (ids []string) {
	t.Helper()
	keys := []string{q.key("processing"), q.key("pending")}
	ids, err := q.rdb.Eval(patient(t), loopSweep, keys, q.now.UnixMilli(), q.visibility.Milliseconds(), q.hash("")).StringSlice()
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// entries is what a list holds.
func (q *loop) entries(t *testing.T, list string) []string {
	t.Helper()
	return q.rdb.LRange(patient(t), q.key(list), 0, -1).Val()
}
