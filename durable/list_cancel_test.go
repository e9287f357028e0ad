package durable_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
)

func (b *bundle) info() durable.Info {
	b.Helper()
	info, err := b.list.Info()
	if err != nil {
		b.Fatal(err)
	}
	return info
}

func (b *bundle) cancel(id string) durable.Cancelled {
	b.Helper()
	c, err := b.list.Cancel(b.ctx, durable.CancelRequest{ID: id})
	if err != nil {
		b.Fatalf("cancel %s: %v", id, err)
	}
	return c
}

// cancels are the claims of a worker that are asked to be cancelled.
func (w *worker) cancels() string {
	w.Helper()
	refs, err := w.Consumer.(durable.Teller).Cancels(w.ctx)
	if err != nil {
		w.Fatal(err)
	}
	var ids []string
	for _, r := range refs {
		ids = append(ids, r.ID+"="+r.Token)
	}
	return strings.Join(ids, " ")
}

// store appends jobs as they are, all of which find room and none of which is refused.
func (b *bundle) store(jobs ...*durable.Job) {
	b.Helper()
	if a, err := b.producer().Append(b.ctx, 1, jobs); err != nil || a.Taken != len(jobs) || len(a.Refused) > 0 {
		b.Fatalf("append: %+v, %v", a, err)
	}
}

// job is one with an ID and a payload, and what set makes of it.
func job(id string, set func(*durable.Job)) *durable.Job {
	j := jobsOf(id)[0]
	set(j)
	return j
}

func TestListCancel(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, of maker) {
		setup := func(t *testing.T) *bundle {
			t.Parallel()
			return setupQueue(t, of, nil)
		}
		gone := func(b *bundle, id string) {
			b.Helper()
			if _, err := b.list.Lookup(b.ctx, durable.LookupRequest{ID: id}); !is(err, durable.ErrNoJob) {
				b.Errorf("%s is there: %v", id, err)
			}
		}

		t.Run("what waits is gone at once, and its entry when it is met", func(t *testing.T) {
			b := setup(t)
			b.store(jobsOf("a")[0], job("later", func(j *durable.Job) { j.Delay = time.Hour }), jobsOf("b")[0])
			for _, id := range []string{"a", "later"} {
				if c := b.cancel(id); c.Running || c.Consumer != "" {
					t.Errorf("%+v", c)
				}
				gone(b, id)
				if _, err := b.list.Cancel(b.ctx, durable.CancelRequest{ID: id}); !is(err, durable.ErrNoJob) {
					t.Error("again:", err)
				}
			}
			if where := b.where("later"); where != "" {
				t.Error("later is in", where)
			}
			w := b.worker()
			if c := w.take(1); c[0].ID != "b" || w.settle(durable.Done, c...) != "O" {
				t.Error(idsOf(c))
			}
			b.places("0 0 0 0 0")
			if s := b.stats(); s.Counters["cancelled"] != 2 {
				t.Error(s.Counters)
			}
		})

		t.Run("its ID can be used again, whatever is left of it", func(t *testing.T) {
			b := setup(t)
			b.append("a")
			b.cancel("a")
			b.append("a")
			w := b.worker()
			if c := w.take(1); w.settle(durable.Done, c...) != "O" {
				t.Error(idsOf(c))
			}
			if c := w.claim(9); len(c.Jobs) > 0 {
				t.Error(idsOf(c.Jobs))
			}
			b.places("0 0 0 0 0")
		})

		t.Run("a record is kept where the job asks for one", func(t *testing.T) {
			b := setup(t)
			keep := func(j *durable.Job) { j.Retention = time.Hour }
			b.store(job("waits", keep), job("runs", keep))
			w := b.worker()
			b.cancel("waits")
			c := w.take(1)
			b.cancel("runs")
			if got := w.settle(durable.Retry, c...); got != "C" {
				t.Error(got)
			}
			if r := b.lookup("runs"); r.Reason != "because" || r.Attempts != 1 {
				t.Errorf("its last failure: %+v", r)
			}
			for id, consumer := range map[string]string{"waits": "", "runs": w.ID()} {
				r := b.lookup(id)
				if r.State != durable.StateCancelled || r.Consumer != consumer || r.Since.IsZero() || r.Due.Before(r.Since) || r.Size == 0 || r.Cancelling {
					t.Errorf("%+v", r)
				}
				if ttl := b.rdb.PTTL(b.ctx, b.key("job:"+id)).Val(); ttl <= 0 || ttl > time.Hour {
					t.Error(ttl)
				}
			}
			page, err := b.list.Jobs(b.ctx, durable.JobsRequest{State: durable.StateCompleted})
			if err != nil || len(page.Jobs) != 2 || b.stats().Completed != 2 {
				t.Error(page, err)
			}
			p, err := b.list.Purge(b.ctx, durable.PurgeRequest{Confirm: b.info().Name, States: []durable.State{durable.StateCompleted}})
			if err != nil || p.Deleted[durable.StateCompleted] != 2 || p.Cursor != "" {
				t.Error(p, err)
			}
		})

		t.Run("whoever runs it is told, and only while it does", func(t *testing.T) {
			b := setup(t)
			b.append("a", "b", "c")
			w, other := b.worker(), b.worker()
			claims := w.take(2)
			if got := w.cancels(); got != "" {
				t.Error(got)
			}
			for range 2 { // again is harmless
				if c := b.cancel("a"); !c.Running || c.Consumer != w.ID() {
					t.Errorf("%+v", c)
				}
			}
			b.cancel("b")
			want := []string{"a=" + claims[0].Token, "b=" + claims[1].Token}
			if got := w.cancels(); !strings.Contains(got, want[0]) || !strings.Contains(got, want[1]) || other.cancels() != "" {
				t.Error(got, other.cancels())
			}
			if !b.lookup("a").Cancelling || b.lookup("c").Cancelling {
				t.Error("Record.Cancelling")
			}
			w.settle(durable.Done, claims[0])
			if got := w.cancels(); got != want[1] {
				t.Error(got)
			}
			w.settle(durable.Done, claims[1])
			if keys := b.keysLike("cancels:*"); len(keys) != 0 || w.cancels() != "" {
				t.Error(keys)
			}
		})

		t.Run("the verdicts Done and Dead are kept, and the others end it", func(t *testing.T) {
			t.Parallel()
			for verdict, want := range map[durable.Verdict]string{
				durable.Done: "O 0 0 0 0 0", durable.Dead: "O 0 0 0 1 0",
				durable.Retry: "C 0 0 0 0 0", durable.Snooze: "C 0 0 0 0 0", durable.Release: "C 0 0 0 0 0",
			} {
				b := setupQueue(t, of, nil)
				b.append("a")
				w := b.worker()
				c := w.take(1)
				b.cancel("a")
				s, err := w.Settle(b.ctx, 1, []durable.Outcome{{Ref: durable.Ref{ID: "a", Token: c[0].Token}, Verdict: verdict, MaxAttempts: 1}})
				if err != nil || codes(s) != want[:1] {
					t.Error(string(rune(verdict)), s, err)
				}
				if again, err := w.Settle(b.ctx, 1, []durable.Outcome{{Ref: durable.Ref{ID: "a", Token: c[0].Token}, Verdict: verdict}}); err != nil || codes(again) != want[:1] {
					t.Error("again:", again, err)
				}
				b.places(want[2:])
				if verdict == durable.Dead {
					if _, err := b.list.Cancel(b.ctx, durable.CancelRequest{ID: "a"}); !is(err, durable.ErrNoJob) {
						t.Error("a dead one:", err)
					}
					if h, err := b.list.Redrive(b.ctx, durable.Selection{IDs: []string{"a"}}); err != nil || len(h.IDs) != 1 {
						t.Error(h, err)
					}
					if got := w.settle(durable.Snooze, w.take(1)...); got != "O" {
						t.Error("it is asked for no more, and got", got)
					}
				}
			}
		})

		t.Run("one whose consumer is lost, or leaves, or knows not of it, ends", func(t *testing.T) {
			b := setup(t)
			b.append("a", "b", "c")
			lost, leaver, forgetful := b.worker(), b.worker(), b.worker()
			lost.take(1)
			leaver.take(1)
			forgetful.take(1)
			for _, id := range []string{"a", "b", "c"} {
				if c := b.cancel(id); !c.Running {
					t.Errorf("%+v", c)
				}
			}
			b.expire(lost)
			swept, err := b.list.Sweep(b.ctx)
			if err != nil || swept.Ended != 1 || swept.Returned != 0 || swept.Dead != 0 {
				t.Errorf("%+v, %v", swept, err)
			}
			if more, err := leaver.Leave(b.ctx); more || err != nil {
				t.Error(more, err)
			}
			if _, err := forgetful.Claim(b.ctx, durable.ClaimRequest{N: 2, Slots: 1, Named: []durable.Ref{}}); err != nil {
				t.Error(err)
			}
			b.places("0 0 0 0 0")
			for _, id := range []string{"a", "b", "c"} {
				gone(b, id)
			}
			if n := b.stats().Counters["cancelled"]; n != 3 {
				t.Error(n, "counted")
			}
		})

		t.Run("another life of the ID is left alone", func(t *testing.T) {
			b := setup(t)
			b.append("a")
			first := b.lookup("a").Life
			w := b.worker()
			w.settle(durable.Done, w.take(1)...)
			b.append("a")
			if _, err := b.list.Cancel(b.ctx, durable.CancelRequest{ID: "a", Life: first}); !is(err, durable.ErrNoJob) {
				t.Error(err)
			}
			second := b.lookup("a").Life
			if second == first || second == "" {
				t.Error(first, second)
			}
			if _, err := b.list.Cancel(b.ctx, durable.CancelRequest{ID: "a", Life: second}); err != nil {
				t.Error(err)
			}
		})

		t.Run("jobs of other producers are cancelled too, also by hand", func(t *testing.T) {
			b := setup(t)
			b.rdb.HSet(b.ctx, b.key("job:bare"), "payload", "p")
			b.rdb.HSet(b.ctx, b.key("job:by hand"), "payload", "p", "status", "pending", "attempts", "0")
			b.push("bare", "by hand", "nothing")
			b.cancel("bare")
			b.rdb.HSet(b.ctx, b.key("job:by hand"), "cancel_ms", "1")
			w := b.worker()
			if c := w.claim(9); len(c.Jobs) > 0 {
				t.Error(idsOf(c.Jobs))
			}
			for _, id := range []string{"bare", "by hand", "nothing"} {
				gone(b, id)
				if _, err := b.list.Cancel(b.ctx, durable.CancelRequest{ID: id}); !is(err, durable.ErrNoJob) {
					t.Error(err)
				}
			}
			b.places("0 0 0 0 0")
		})

		t.Run("a mark is of one claim, and a key of another kind is left alone", func(t *testing.T) {
			b := setup(t)
			b.append("a")
			w := b.worker()
			c := w.take(1)
			b.cancel("a")
			b.rdb.Del(b.ctx, b.key("job:a")) // an operator's, by hand
			b.append("a")
			w.held = 0
			w.claims++
			again, err := w.Claim(b.ctx, durable.ClaimRequest{N: w.claims, Slots: 1, MaxBytes: 1, Named: []durable.Ref{}})
			if err != nil || len(again.Jobs) != 1 || again.Jobs[0].Token == c[0].Token {
				t.Fatal(again, err)
			}
			if got := w.cancels(); got != "" {
				t.Error(got)
			}
			b.rdb.Del(b.ctx, b.key("job:a"))
			b.append("a")
			other := b.worker()
			theirs := other.take(1)
			b.cancel("a")
			if got := w.cancels() + " " + other.cancels(); got != " a="+theirs[0].Token {
				t.Error(got)
			}
			b.rdb.Set(b.ctx, b.key("job:text"), "x", 0)
			if _, err := b.list.Cancel(b.ctx, durable.CancelRequest{ID: "text"}); !is(err, durable.ErrNoJob) {
				t.Error(err)
			}
			other.settle(durable.Done, theirs...)
			b.append("a")
			other.take(1)
			b.rdb.Set(b.ctx, b.key("cancels:"+other.ID()), "x", 0)
			if _, err := b.list.Cancel(b.ctx, durable.CancelRequest{ID: "a"}); !is(err, durable.ErrBadKey) || b.lookup("a").Cancelling {
				t.Error(err)
			}
		})
	})
}

// TestListManyCancelled finds the job behind a thousand that were cancelled.
func TestListManyCancelled(t *testing.T) {
	t.Parallel()
	b := setupList(t, nil)
	ids := make([]string, 1000)
	for i := range ids {
		ids[i] = fmt.Sprint("job", i)
	}
	b.append(ids...)
	b.append("last")
	_, err := b.rdb.Pipelined(b.ctx, func(p redis.Pipeliner) error {
		for _, id := range ids {
			p.HSet(b.ctx, b.key("job:"+id), "cancel_ms", "1", "status", "pending")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w := b.worker()
	for range 1000 {
		c := w.claim(1)
		if len(c.Jobs) == 1 && c.Jobs[0].ID == "last" {
			break
		}
		if c.Status != durable.ClaimMore {
			t.Fatalf("%+v", c)
		}
	}
	b.places("0 0 1 0 0")
}
