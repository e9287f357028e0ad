package durable_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

func (b *bundle) limit(l durable.Limits) {
	b.Helper()
	if err := b.list.SetLimits(b.ctx, l, "a test"); err != nil {
		b.Fatal(err)
	}
}

// keyed are jobs with these IDs, each under the key that its ID begins with: "k1" under "k".
func keyed(ids ...string) []*durable.Job {
	jobs := jobsOf(ids...)
	for _, j := range jobs {
		j.LimitKey = strings.TrimRight(j.ID, "0123456789")
	}
	return jobs
}

func (b *bundle) appendJobs(jobs []*durable.Job) {
	b.Helper()
	a, err := b.producer().Append(b.ctx, 1, jobs)
	if err != nil || a.Taken != len(jobs) || len(a.Refused) > 0 {
		b.Fatalf("append: %+v, %v", a, err)
	}
}

// claims compares what a claim gives: its status and IDs.
func (w *worker) gets(slots int, want string) durable.Claimed {
	w.Helper()
	c := w.claim(slots)
	if got := strings.TrimSpace(string(rune(c.Status)) + " " + idsOf(c.Jobs)); got != want {
		w.Errorf("claimed %q, want %q", got, want)
	}
	return c
}

func numbered(key string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint(key, i+1)
	}
	return ids
}

func TestListLimits(t *testing.T) {
	t.Parallel()
	onBoth(t, limits)
}

func limits(t *testing.T, of maker) {
	t.Run("limits are shown with who set them, and gone when they are taken away", func(t *testing.T) {
		t.Parallel()
		b := setupQueue(t, of, nil)
		want := durable.Limits{
			Concurrency: 7, Rate: durable.Rate{Count: 5, Per: time.Minute, Burst: 3},
			KeyConcurrency: 2, KeyRate: durable.Rate{Count: 1},
		}
		b.limit(want)
		s := b.stats()
		if s.Limits != want || !s.LimitedBy.Active || s.LimitedBy.By != "a test" || s.LimitedBy.Since.IsZero() {
			t.Errorf("%+v by %v", s.Limits, s.LimitedBy)
		}
		b.limit(durable.Limits{})
		if s := b.stats(); s.Limits != (durable.Limits{}) || s.LimitedBy != (durable.LimitsBy{}) {
			t.Errorf("%+v by %v", s.Limits, s.LimitedBy)
		}
		if err := b.list.SetLimits(b.ctx, want, ""); !is(err, durable.ErrNotExecuted) {
			t.Error("nobody sets limits:", err)
		}
		if err := b.list.SetLimits(b.ctx, durable.Limits{Concurrency: -1}, "x"); !is(err, durable.ErrNotExecuted) {
			t.Error("less than none:", err)
		}
	})

	t.Run("the queue's concurrency counts the claims of all, and those of the dead until their lease is over", func(t *testing.T) {
		t.Parallel()
		b := setupQueue(t, of, nil)
		b.append("a", "b", "c", "d", "e")
		early, w := b.worker(), b.worker()
		c := early.take(1) // before there is a limit
		b.limit(durable.Limits{Concurrency: 3})
		lost := b.worker()
		lost.gets(1, "J b")
		w.gets(9, "J c")
		if got := w.gets(9, "T"); got.NextDue <= 0 || got.NextDue > time.Second {
			t.Error("to ask again after", got.NextDue)
		}
		early.settle(durable.Done, c...)
		w.gets(9, "J d")
		w.gets(9, "T")
		b.expire(lost)
		b.sweep()
		b.due()
		if n := len(w.claim(9).Jobs); n != 1 {
			t.Error(n, "claimed in place of the one that was lost")
		}
		w.gets(9, "T")
		b.limit(durable.Limits{})
		if n := len(w.claim(9).Jobs); n != 1 {
			t.Error(n, "claimed without a limit")
		}
		w.gets(9, "E")
	})

	t.Run("a claim that was limited says so again, and costs nothing of a rate", func(t *testing.T) {
		t.Parallel()
		b := setupQueue(t, of, nil)
		b.limit(durable.Limits{Rate: durable.Rate{Count: 1, Per: time.Hour, Burst: 2}})
		b.append("a", "b", "c")
		w := b.worker()
		w.gets(9, "J a b")
		r := durable.ClaimRequest{N: w.claims, Slots: 9, MaxBytes: 1 << 20}
		for range 2 {
			if c, err := w.Claim(b.ctx, r); err != nil || idsOf(c.Jobs) != "b a" && idsOf(c.Jobs) != "a b" {
				t.Fatalf("%+v, %v", c, err)
			}
		}
		c := w.gets(9, "T")
		if c.NextDue < 59*time.Minute || c.NextDue > time.Hour {
			t.Error("to ask again after", c.NextDue)
		}
		r.N, r.Held = w.claims, 2
		if c, err := w.Claim(b.ctx, r); err != nil || c.Status != durable.ClaimLimited {
			t.Fatalf("%+v, %v", c, err)
		}
		b.limit(durable.Limits{Rate: durable.Rate{Count: 1000, Burst: 10}}) // what was used of another rate does not count for long
		for w.claim(9).Status != durable.ClaimJobs {
			if b.ctx.Err() != nil {
				t.Fatal("never")
			}
		}
	})

	t.Run("keys are bounded each for itself, and hold up nobody else", func(t *testing.T) {
		t.Parallel()
		b := setupQueue(t, of, nil)
		b.limit(durable.Limits{KeyConcurrency: 2})
		b.appendJobs(keyed("k1", "k2", "k3", "k4", "k5", "l1", "l2", "l3", "m1"))
		b.append("none")
		w := b.worker()
		c := w.gets(20, "J k1 k2 l1 l2 m1 none")
		b.places("0 4 6 0 0")
		w.gets(20, "E")
		// The end of a claim makes the next of its key pending, at once and before all others.
		b.append("later")
		w.settle(durable.Done, c.Jobs[0])
		if got := b.field("k3", "status"); got != "pending" {
			t.Error("k3 is", got)
		}
		c2 := w.gets(20, "J k3 later")
		w.settle(durable.Retry, c.Jobs[1]) // as any other end; it comes back, and waits for its turn
		w.gets(20, "J k4")
		b.due()
		w.gets(20, "E")
		w.settle(durable.Done, c2.Jobs...)
		if got := w.claim(20).Jobs; len(got) != 1 || got[0].ID != "k2" && got[0].ID != "k5" {
			t.Error(idsOf(got))
		}
		if n := b.rdb.ZCard(b.ctx, b.key("running:k")).Val(); n != 2 {
			t.Error(n, "in the index")
		}
	})

	t.Run("what waits for its key need not wait longer when the limits are others", func(t *testing.T) {
		t.Parallel()
		b := setupQueue(t, of, nil)
		b.limit(durable.Limits{KeyConcurrency: 1, KeyRate: durable.Rate{Count: 1, Per: time.Hour}})
		b.appendJobs(keyed("k1", "k2", "k3"))
		w := b.worker()
		c := w.gets(9, "J k1")
		w.gets(9, "E")
		b.limit(durable.Limits{KeyRate: durable.Rate{Count: 1, Per: time.Hour}})
		w.gets(9, "E") // no end of a claim, but time is what is waited for now
		b.limit(durable.Limits{KeyConcurrency: 1})
		w.gets(9, "E")
		w.settle(durable.Done, c.Jobs...)
		w.gets(9, "J k2")
		b.limit(durable.Limits{})
		w.gets(9, "J k3")
	})

	t.Run("claims that were there before the limit count", func(t *testing.T) {
		t.Parallel()
		b := setupQueue(t, of, nil)
		b.appendJobs(keyed("k1", "k2", "k3"))
		w := b.worker()
		c := w.take(2)
		b.limit(durable.Limits{KeyConcurrency: 2})
		w.gets(9, "E")
		w.settle(durable.Done, c[0])
		w.gets(9, "J k3")
	})

	t.Run("whoever is lost, leaves or is purged gives its keys back", func(t *testing.T) {
		t.Parallel()
		b := setupQueue(t, of, nil)
		b.limit(durable.Limits{KeyConcurrency: 1})
		b.appendJobs(keyed("k1", "k2", "k3", "k4"))
		lost, leaving, purged := b.worker(), b.worker(), b.worker()
		lost.gets(9, "J k1")
		leaving.gets(9, "E")
		b.expire(lost)
		b.sweep()
		leaving.gets(9, "J k2")
		if _, err := leaving.Leave(b.ctx); err != nil {
			t.Fatal(err)
		}
		if c := purged.claim(9); len(c.Jobs) != 1 {
			t.Fatalf("%+v", c)
		}
		_, err := b.list.Purge(b.ctx, durable.PurgeRequest{Confirm: info(t, b.list).Name, States: []durable.State{durable.StateProcessing}})
		if err != nil {
			t.Fatal(err)
		}
		if c := b.worker().claim(9); len(c.Jobs) != 1 {
			t.Fatalf("%+v", c)
		}
	})

	t.Run("whoever comes and ends before it is claimed lets the next come", func(t *testing.T) {
		t.Parallel()
		b := setupQueue(t, of, nil)
		b.limit(durable.Limits{KeyConcurrency: 1})
		b.appendJobs(keyed("k1", "k2", "k3", "k4", "k5"))
		w := b.worker()
		c := w.gets(9, "J k1")
		b.append("a", "b")
		w.settle(durable.Done, c.Jobs...) // k2 comes
		b.rdb.HSet(b.ctx, b.key("job:k2"), "expires_at_ms", 1)
		c = w.gets(2, "J a b") // and k3 in place of it
		if len(c.Expired) != 1 {
			t.Errorf("%+v", c)
		}
		if _, err := b.list.Cancel(b.ctx, durable.CancelRequest{ID: "k3"}); err != nil { // and k4 in place of that
			t.Fatal(err)
		}
		w.gets(9, "J k4")
		w.gets(9, "E")
		b.places("0 1 3 0 0")
	})

	t.Run("an index that has too many is judged by the jobs, and a wait that nobody ends is over by itself", func(t *testing.T) {
		t.Parallel()
		b := setupQueue(t, of, nil)
		b.limit(durable.Limits{KeyConcurrency: 2})
		b.appendJobs(keyed("k1", "k2", "k3", "l1"))
		w := b.worker()
		w.gets(9, "J k1 k2 l1")
		// Others delete a job, and spoil the index.
		b.rdb.Del(b.ctx, b.key("job:k1"))
		b.rdb.ZAdd(b.ctx, b.key("running:k"), zs("ghost", "l1", "k3")...)
		if due := b.rdb.ZScore(b.ctx, b.key("scheduled"), "k3").Val() - float64(time.Now().UnixMilli()); due < 0 || due > 60_000 {
			t.Error("looked at again after ms", due)
		}
		b.due()
		w.gets(9, "J k3")
		if got := b.rdb.ZRange(b.ctx, b.key("running:k"), 0, -1).Val(); strings.Join(got, " ") != "k2 k3" {
			t.Error("the index has", got)
		}
	})

	t.Run("what waits for its key is not mistaken for what waits for a retry", func(t *testing.T) {
		t.Parallel()
		b := setupQueue(t, of, nil)
		b.limit(durable.Limits{KeyConcurrency: 1})
		b.appendJobs(keyed("k1", "k2", "k3"))
		w := b.worker()
		c := w.gets(9, "J k1")
		w.settle(durable.Done, c.Jobs...)
		c = w.gets(9, "J k2")
		w.settles++
		o := []durable.Outcome{{Ref: durable.Ref{ID: "k2", Token: c.Jobs[0].Token}, Verdict: durable.Retry, Delay: time.Hour, MaxAttempts: 9}}
		if _, err := w.Settle(b.ctx, w.settles, o); err != nil {
			t.Fatal(err)
		}
		w.held--
		b.rdb.ZAdd(b.ctx, b.key("held:k"), zs("k2")...) // surplus, and first
		c = w.gets(9, "J k3")
		w.settle(durable.Done, c.Jobs...)
		w.gets(9, "E")
		b.places("0 1 0 0 0")
	})

	t.Run("keys that somebody has spoilt stop nobody", func(t *testing.T) {
		t.Parallel()
		b := setupQueue(t, of, nil)
		b.limit(durable.Limits{Concurrency: 9, Rate: durable.Rate{Count: 1000, Burst: 99}, KeyConcurrency: 1, KeyRate: durable.Rate{Count: 1000, Burst: 99}})
		for _, key := range []string{"running:k", "held:l", "rate:m"} {
			b.rdb.Set(b.ctx, b.key(key), "x", 0)
		}
		b.rdb.HSet(b.ctx, b.key("meta"), "rate_us", "x")
		b.appendJobs(keyed("k1", "k2", "l1", "l2", "m1"))
		w := b.worker()
		c := w.gets(9, "J k1 k2 l1 m1")
		w.settle(durable.Done, c.Jobs...)
		b.due()
		c = w.gets(9, "J l2")
		w.settle(durable.Done, c.Jobs...)
		b.rdb.HSet(b.ctx, b.key("meta"), "limits", "9 x")
		b.appendJobs(keyed("k1"))
		w.gets(9, "J k1")
	})

	t.Run("ten thousand of one key at its cap cost the claims of others nothing for long", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		b := setupQueueAt(t, of, s.Addr(), s.Client(t), "q", nil)
		b.limit(durable.Limits{KeyConcurrency: 1})
		const many = 10_000
		b.appendJobs(keyed(numbered("k", many)...))
		w := b.worker()
		w.gets(1, "J k1")
		others := 0
		p := b.producer()
		inside := func() int { // commands of one claim that finds one job of somebody else
			others++
			if _, err := p.Append(b.ctx, uint64(others), jobsOf(fmt.Sprint("other", others))); err != nil {
				t.Fatal(err)
			}
			b.rdb.ConfigResetStat(b.ctx)
			c := w.claim(1)
			w.settle(durable.Done, c.Jobs...)
			if len(c.Jobs) > 1 || len(c.Jobs) == 1 && !strings.HasPrefix(c.Jobs[0].ID, "other") {
				t.Fatal("beyond the cap:", idsOf(c.Jobs))
			}
			if len(c.Jobs) == 0 {
				return many
			}
			_, n := commandsOf(b.ctx, b.rdb)
			return n
		}
		rounds := 0
		for inside() >= many {
			if rounds++; rounds > many/64+2 {
				t.Fatal("the jobs of the key are looked at more than once")
			}
		}
		for range 20 {
			if n := inside(); n > 80 {
				t.Fatal(n, "commands")
			}
		}
	})
}
