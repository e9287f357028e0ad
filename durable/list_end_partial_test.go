package durable_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

// TestListPartialEnds stops whatever cancels, expires, takes a unique key or frees one, wherever it first uses a command that
// was forbidden meanwhile. No key has two jobs that live, not even then. When the same is asked again, or nobody asks again,
// no job is lost, doubled or stuck, what was told to be cancelled has not run after that, and every key is free.
func TestListPartialEnds(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, of maker) {
		t.Run("asked again", func(t *testing.T) { t.Parallel(); stopEnds(t, of, false) })
		t.Run("never asked again", func(t *testing.T) { t.Parallel(); stopEnds(t, of, true) })
	})
}

// A key with a window that a script has taken for a job which it then could not store is nobody's: neither is that job kept from
// it when it is sent again, nor another one. And a job that was stored keeps it for that long, wherever the script stopped.
func TestListPartialWindow(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, of maker) {
		s := redistest.Start(t)
		admin := s.Client(t)
		for forbidden, stored := range map[string]bool{"-lpush -zadd": false, "-pexpire": true} {
			for _, again := range []string{"mine", "other"} {
				t.Run(forbidden+", then "+again, func(t *testing.T) {
					t.Parallel()
					name := strings.ReplaceAll("q"+forbidden+again, " ", "")
					b := setupQueueAt(t, of, s.Addr(), admin, name, nil)
					free, rule := b.list, strings.Fields(b.list.ACLRule(name))[1:]
					permit := b.confine(name)
					keyed := func(id string) *durable.Job {
						return &durable.Job{ID: id, Unique: &durable.Unique{Key: "key", Window: time.Hour}}
					}
					p := b.producer()
					permit(strings.Fields(forbidden)...)
					_, err := p.Append(b.ctx, 1, []*durable.Job{keyed("mine")})
					if there := b.rdb.Exists(b.ctx, b.key("job:mine")).Val() == 1; there != stored || !is(err, durable.ErrInDoubt) {
						t.Fatalf("it was not stopped where it was to be: the job is there: %v, %v", there, err)
					}
					permit(rule...)

					b.list = free
					if again == "other" {
						if got := b.holder(keyed("other")); (got != "") != stored {
							t.Errorf("the key of a job that is there (%v) is held by %q", stored, got)
						}
						return
					}
					if a, err := p.Append(b.ctx, 1, []*durable.Job{keyed("mine")}); err != nil || a.Taken != 1 || len(a.Refused) > 0 {
						t.Fatalf("sent again: %+v, %v", a, err)
					}
					w := b.worker()
					w.settle(durable.Done, w.take(1)...)
					if got := b.holder(keyed("other")); got != "mine" {
						t.Errorf("within the window the key is held by %q", got)
					}
				})
			}
		}
	})
}

// A key that is kept beyond its job expires when the job has ended, and not before: wherever the script stopped, and whether or
// not anybody asks again, a job that is there has its key until it ends, however long that takes.
func TestListPartialAfter(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, of maker) {
		s := redistest.Start(t)
		admin := s.Client(t)
		for _, c := range []struct {
			forbidden string
			job       durable.Job
			cancelled bool
		}{
			{"-del", durable.Job{Unique: &durable.Unique{After: time.Hour}}, false},
			{"-del", durable.Job{Unique: &durable.Unique{Window: time.Hour}}, true},
			{"-hsetnx", durable.Job{Unique: &durable.Unique{After: time.Hour}, Retention: time.Hour}, false},
			{"-hsetnx", durable.Job{Unique: &durable.Unique{Window: time.Hour}, Retention: time.Hour}, true},
		} {
			for _, again := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, cancelled %v, again %v", c.forbidden, c.cancelled, again), func(t *testing.T) {
					t.Parallel()
					name := fmt.Sprintf("q%s-%v-%v", c.forbidden, c.cancelled, again)
					b := setupQueueAt(t, of, s.Addr(), admin, name, nil)
					free, rule := b.list, strings.Fields(b.list.ACLRule(name))[1:]
					permit := b.confine(name)

					j, unique := c.job, *c.job.Unique
					j.ID, j.Unique, unique.Key = "mine", &unique, "key"
					b.store(&j)
					w := b.worker()
					end := func() error {
						_, err := b.list.Cancel(b.ctx, durable.CancelRequest{ID: "mine"})
						return err
					}
					if !c.cancelled {
						claim := w.take(1)[0]
						end = func() error {
							_, err := w.Settle(b.ctx, 1, []durable.Outcome{{Ref: durable.Ref{ID: claim.ID, Token: claim.Token}, Verdict: durable.Done}})
							return err
						}
					}
					permit(c.forbidden)
					if err := end(); !is(err, durable.ErrInDoubt) {
						t.Fatal("it was not stopped:", err)
					}
					if ttl := b.rdb.PTTL(b.ctx, b.key("unique:key")).Val(); ttl != -1 {
						t.Error("the key of a job that is there expires in", ttl)
					}
					b.rdb.HSet(b.ctx, b.key("unique:key"), "until_ms", "1") // that time is over
					b.list = free
					if got := b.holder(job("other", func(j *durable.Job) { j.Unique = &durable.Unique{Key: "key"} })); got != "mine" {
						t.Errorf("the key is held by %q", got)
					}
					permit(rule...)
					switch {
					case again:
						if err := end(); err != nil {
							t.Error(err)
						}
					case c.cancelled:
						w := b.worker()
						w.settle(durable.Done, w.take(1)...)
					default:
						b.expire(w)
						b.sweep()
						heir := b.worker()
						heir.settle(durable.Done, heir.take(1)...)
					}
					got, ttl := b.holder(job("other", func(j *durable.Job) { j.Unique = &durable.Unique{Key: "key"} })), b.rdb.PTTL(b.ctx, b.key("unique:key")).Val()
					if c.cancelled && (got != "" || ttl != -1) || !c.cancelled && (got != "mine" || ttl <= 50*time.Minute || ttl > time.Hour) {
						t.Errorf("after its end it is held by %q, and expires in %v", got, ttl)
					}
				})
			}
		}
	})
}

func stopEnds(t *testing.T, of maker, died bool) {
	s := redistest.Start(t)
	admin := s.Client(t)
	for _, command := range []string{"DEL", "HDEL", "HINCRBY", "HSET", "HSETNX", "LPUSH", "LREM", "LTRIM", "PEXPIRE", "RPUSH", "ZADD", "ZREM", "ZREMRANGEBYRANK"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			name := "q" + command
			b := setupQueueAt(t, of, s.Addr(), admin, name, nil)
			free := b.list
			if !strings.Contains(b.list.ACLRule(name), "+"+strings.ToLower(command)+" ") {
				return // it has no such command
			}
			permit := b.confine(name)

			// Each job has a key of its name, and every second one leaves a record.
			keyed := func(ids ...string) []*durable.Job {
				jobs := jobsOf(ids...)
				for i, j := range jobs {
					j.Unique = &durable.Unique{Key: "key of " + j.ID}
					if i%2 == 1 {
						j.Retention = time.Hour
					}
					if strings.HasPrefix(j.ID, "dead") {
						j.Unique.States = []durable.State{durable.StatePending, durable.StateProcessing, durable.StateDead}
					}
				}
				return jobs
			}
			ends := []string{"done1", "done2", "dead1", "dead2", "asked1", "asked2", "asked3", "asked4"}
			lost := []string{"lost1", "lost2"}
			waits := []string{"waits1", "waits2", "over1", "over2"}
			fresh := []string{"fresh1", "fresh2", "fresh3"}
			ids := slices.Concat(ends, lost, waits, fresh)
			w, loser, heir, p := b.worker(), b.worker(), b.worker(), b.producer()
			b.store(keyed(ends...)...)
			claims := w.take(len(ends))
			b.store(keyed(lost...)...)
			loser.take(len(lost))
			b.store(keyed(waits...)...)
			w.settle(durable.Dead, claims[2:4]...)
			for _, id := range []string{"asked1", "asked2", "asked3", "asked4", "lost1", "lost2"} {
				b.cancel(id)
			}
			b.overdue("over1", "over2")
			b.expire(loser)
			var outcomes []durable.Outcome
			for i, v := range []durable.Verdict{durable.Done, durable.Done, durable.Retry, durable.Snooze, durable.Release, durable.Retry} {
				c := claims[i]
				if i >= 2 {
					c = claims[i+2]
				}
				outcomes = append(outcomes, durable.Outcome{Ref: durable.Ref{ID: c.ID, Token: c.Token}, Verdict: v, MaxAttempts: 2, Reason: "r"})
			}
			outcomes[1].Result = []byte("result")

			// Who asks for the end of a job again that leaves no record hears that it is gone.
			settled := regexp.MustCompile("^[OG]O[CG]C[CG]C$")
			act := func() []error {
				var errs [7]error
				for i, id := range []string{"waits1", "waits2"} {
					if _, err := b.list.Cancel(b.ctx, durable.CancelRequest{ID: id}); !is(err, durable.ErrNoJob) {
						errs[i] = err
					}
				}
				var s durable.Settled
				if s, errs[2] = w.Settle(b.ctx, w.settles+1, outcomes); errs[2] == nil && !settled.MatchString(codes(s)) {
					t.Errorf("settled: %s", codes(s))
				}
				_, errs[3] = w.Claim(b.ctx, durable.ClaimRequest{N: w.claims + 1, Slots: 1, MaxBytes: 1 << 20, Held: len(ends)})
				_, errs[4] = b.list.Sweep(b.ctx)
				_, errs[5] = b.list.Discard(b.ctx, durable.Selection{IDs: []string{"dead1", "dead2"}})
				_, errs[6] = p.Append(b.ctx, 1, keyed(fresh...))
				return errs[:]
			}
			permit("-" + command)
			failed := insist(t, act)
			if _, sorted := b.list.(*durable.SortedSet); failed == 0 && command != "HINCRBY" && command != "RPUSH" &&
				(!sorted || command != "LTRIM" && command != "LPUSH") {
				t.Error("nothing was stopped")
			}

			// While all is half done others want the keys.
			rival, err := free.OpenProducer(b.ctx)
			if err != nil {
				t.Fatal(err)
			}
			var rivals []*durable.Job
			for _, id := range ids {
				rivals = append(rivals, job("rival of "+id, func(j *durable.Job) { j.Unique = &durable.Unique{Key: "key of " + id} }))
			}
			if a, err := rival.Append(b.ctx, 1, rivals); err != nil || a.Taken != len(rivals) {
				t.Fatal(a, err)
			}
			alone := func() {
				t.Helper()
				for _, id := range ids {
					if mine, other := b.field(id, "status"), b.field("rival of "+id, "append"); other != "" && !slices.Contains([]string{"dead", "completed", "cancelled", "expired"}, mine) &&
						b.rdb.Exists(b.ctx, b.key("job:"+id)).Val() == 1 {
						t.Errorf("%s is %q, and has a rival", id, mine)
					}
				}
			}
			alone()
			permit("+" + command)

			if !died {
				for i, err := range act() {
					if err != nil {
						t.Errorf("act %d: %v", i, err)
					}
				}
				alone()
			}
			b.expire(w)
			runs := map[string]int{}
			for range 100 {
				b.sweep()
				b.due()
				c := heir.claim(10)
				for _, job := range c.Jobs {
					runs[job.ID] += strings.Count(heir.settle(durable.Done, job), "O")
				}
				if c.Status == durable.ClaimEmpty && c.NextDue < 0 {
					break
				}
			}
			for id, n := range runs {
				if n > 1 || !died && (strings.HasPrefix(id, "waits") || strings.HasPrefix(id, "over")) || strings.HasPrefix(id, "asked") || strings.HasPrefix(id, "lost") {
					t.Errorf("%s was completed %d times", id, n)
				}
			}
			for _, id := range ids {
				if where := b.where(id); where != "" && !strings.HasPrefix(id, "dead") {
					t.Errorf("%s is still in %s", id, where)
				}
				rivalled := runs["rival of "+id]
				if strings.HasPrefix(id, "fresh") && !died && runs[id]+rivalled < 1 {
					t.Errorf("neither %s nor its rival has run", id)
				}
			}
			if died { // what was not discarded is, now
				if _, err := b.list.Discard(b.ctx, durable.Selection{All: true}); err != nil {
					t.Error(err)
				}
			}
			b.places("0 0 0 0 0")
			for _, key := range b.keysLike("job:*") {
				// One that does not expire by itself is a record that the index will forget.
				noted := b.rdb.ZScore(b.ctx, b.key("completed"), strings.TrimPrefix(key, b.key("job:"))).Err() == nil
				if ttl := b.rdb.PTTL(b.ctx, key).Val(); ttl <= 0 && !noted {
					t.Errorf("%s is left, for %v: %v", key, ttl, b.rdb.HGetAll(b.ctx, key).Val())
				}
			}
			if keys := b.keysLike("unique:*"); len(keys) > 0 && !died {
				t.Error("left:", keys)
			}
			for _, id := range ids {
				if got := b.holder(job("next after "+id, func(j *durable.Job) { j.Unique = &durable.Unique{Key: "key of " + id} })); got != "" {
					t.Errorf("the key of %s is held by %q", id, got)
				}
			}
		})
	}
}
