package durable_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
)

// direct appends for a worker, under the number of its next claim.
func (w *worker) direct(p durable.Producer, n uint64, slots int, jobs []*durable.Job) (durable.Appended, []*durable.Claim) {
	w.Helper()
	r := durable.ClaimRequest{N: w.claims + 1, Slots: slots, MaxBytes: 1 << 20, Held: w.held}
	a, claims, err := p.(durable.DirectProducer).AppendFor(w.ctx, n, jobs, w.Consumer, r)
	if err != nil {
		w.Fatal(err)
	}
	if len(claims) > 0 {
		w.claims++
		w.held += len(claims)
	}
	return a, claims
}

func TestListDirect(t *testing.T) {
	t.Parallel()

	t.Run("a job that is handed over is as one that was appended and claimed", func(t *testing.T) {
		t.Parallel()
		two, one := setupList(t, nil), setupList(t, nil)
		job := func() *durable.Job {
			return &durable.Job{
				ID: "a", Kind: "k", Payload: []byte("p"), Headers: []byte(`{"h":"1"}`), MaxAttempts: 3,
				Timeout: time.Second, Retention: time.Minute,
			}
		}
		w := two.worker()
		if _, err := two.producer().Append(two.ctx, 1, []*durable.Job{job()}); err != nil {
			t.Fatal(err)
		}
		want := *w.take(1)[0]
		v := one.worker()
		a, claims := v.direct(one.producer(), 1, 5, []*durable.Job{job()})
		if len(claims) != 1 || a.Taken != 1 || a.Backlog != 0 {
			t.Fatalf("%+v, %d claims", a, len(claims))
		}
		got := *claims[0]
		if got.Life != one.field("a", "append") || want.Life != two.field("a", "append") {
			t.Errorf("lives %q and %q", got.Life, want.Life)
		}
		if got.Fence < want.Fence || got.Token != v.ID()+":1+" || want.Token != w.ID()+":1+" { // its end depends on its retention
			t.Errorf("fence %d, token %s", got.Fence, got.Token)
		}
		got.Fence, got.Token, got.Life = want.Fence, want.Token, want.Life
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("%+v\nwant %+v", got, want)
		}
		there, here := two.rdb.HGetAll(two.ctx, two.key("job:a")).Val(), one.rdb.HGetAll(one.ctx, one.key("job:a")).Val()
		for _, f := range []string{"claim_token", "claimed_at_ms", "append"} {
			if here[f] == "" {
				t.Errorf("%s is not written", f)
			}
			delete(there, f)
			delete(here, f)
		}
		if fmt.Sprint(here) != fmt.Sprint(there) {
			t.Errorf("%v\nwant %v", here, there)
		}
		if got := v.settle(durable.Done, claims...); got != "O" {
			t.Error(got)
		}
		one.places("0 0 0 0 0")
	})

	t.Run("nobody is overtaken, and only who may claim gets something", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct {
			before func(b *bundle, w *worker)
			slots  int
			want   int
		}{
			"nothing in the way": {func(*bundle, *worker) {}, 9, 3},
			"fewer slots":        {func(*bundle, *worker) {}, 2, 2},
			"something pending":  {func(b *bundle, _ *worker) { b.append("x") }, 9, 0},
			"something arriving": {func(b *bundle, _ *worker) {
				b.append("x")
				b.rdb.LMove(b.ctx, b.key("pending"), b.key("arriving"), "right", "left")
			}, 9, 0},
			"something due":           {func(b *bundle, _ *worker) { b.rdb.ZAdd(b.ctx, b.key("scheduled"), redis.Z{Score: 1, Member: "x"}) }, 9, 0},
			"consumption paused":      {func(b *bundle, _ *worker) { b.rdb.HSet(b.ctx, b.key("meta"), "pause_claims", 1) }, 9, 0},
			"a lease that is over":    {func(b *bundle, w *worker) { b.expire(w) }, 9, 0},
			"fenced":                  {func(b *bundle, w *worker) { b.expire(w); b.sweep() }, 9, 0},
			"claims it knows not of":  {func(b *bundle, w *worker) { b.append("x"); w.take(1); w.held = 0 }, 9, 0},
			"a number that is behind": {func(b *bundle, w *worker) { w.claim(1); w.claims = 0 }, 9, 0},
			"a number that is ahead":  {func(_ *bundle, w *worker) { w.claims = 7 }, 9, 0},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := setupList(t, nil)
				w := b.worker()
				c.before(b, w)
				before := b.stats().Pending
				a, claims := w.direct(b.producer(), 1, c.slots, jobsOf("a", "b", "c"))
				if a.Taken != 3 || len(a.Refused) > 0 {
					t.Fatalf("%+v", a)
				}
				if got := idsOf(claims); len(claims) != c.want || c.want > 0 && got != "a b c"[:2*c.want-1] {
					t.Errorf("handed over: %q, want %d", got, c.want)
				}
				if s := b.stats(); s.Pending != before+int64(3-c.want) || a.Backlog != s.Pending+s.Scheduled {
					t.Errorf("%d pending, backlog %d", s.Pending, a.Backlog)
				}
			})
		}
	})

	t.Run("delayed, refused and doubled jobs are not handed over", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		w := b.worker()
		jobs := append(jobsOf("", "a", "a"), &durable.Job{ID: "later", Delay: time.Hour}, jobsOf("b")[0])
		a, claims := w.direct(b.producer(), 1, 9, jobs)
		if got := idsOf(claims); got != "a b" || a.Taken != 5 || len(a.Refused) != 2 {
			t.Fatalf("%q, %+v", got, a)
		}
		b.places("0 1 2 0 0")
	})

	t.Run("what was handed over without an answer is found by the next claim", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		w, p := b.worker(), b.producer()
		w.direct(p, 1, 9, jobsOf("a", "b"))
		w.claims, w.held = 0, 0 // the answer was lost
		if a, err := p.Append(b.ctx, 1, jobsOf("a", "b")); err != nil || a.Taken != 2 || len(a.Refused) > 0 {
			t.Fatalf("%+v, %v", a, err)
		}
		c := w.claim(9)
		if got := idsOf(c.Jobs); got != "a b" || c.Jobs[0].Deliveries != 1 || string(c.Jobs[0].Payload) != "payload of a" {
			t.Fatalf("%q, %+v", got, c.Jobs)
		}
		w.settle(durable.Done, c.Jobs...)
		b.places("0 0 0 0 0")
	})

	t.Run("a copy that comes after that claim changes nothing", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		w, p := b.worker(), b.producer()
		w.claim(9) // under the number that the late request has
		w.claims, w.held = 0, 0
		a, claims := w.direct(p, 1, 9, jobsOf("a"))
		if a.Taken != 1 || len(claims) != 0 {
			t.Fatalf("%+v, %d", a, len(claims))
		}
		w.claims = 1
		w.settle(durable.Done, w.take(1)...)
		if a, claims := w.direct(p, 1, 9, jobsOf("a")); a.Taken != 1 || len(claims) != 0 {
			t.Fatalf("again: %+v, %d", a, len(claims))
		}
		b.places("0 0 0 0 0")
	})

	t.Run("a consumer that dies loses nothing", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		w := b.worker()
		w.direct(b.producer(), 1, 9, jobsOf("a", "b"))
		b.expire(w)
		if s := b.sweep(); s.Returned != 2 {
			t.Fatalf("%+v", s)
		}
		b.due()
		heir := b.worker()
		heir.settle(durable.Done, heir.take(1)...)
		b.due()
		heir.settle(durable.Done, heir.take(1)...)
		b.places("0 0 0 0 0")
	})
}
