package durable_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

// TestListFollowEnds has followers told of what is cancelled, has expired, or has left a result.
func TestListFollowEnds(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, of maker) {
		setup := func(t *testing.T) (*bundle, durable.Producer, *follower) {
			t.Parallel()
			b := setupQueue(t, of, nil)
			p, f := b.producer(), b.follower()
			f.adopt(p.ID())
			return b, p, f
		}
		hour := func(j *durable.Job) { j.Expiry, j.Retention = time.Hour, time.Hour }

		t.Run("in whatever way", func(t *testing.T) {
			b, p, f := setup(t)
			jobs := append(jobsOf("waits", "late", "asked", "lost", "left"), job("late2", hour))
			if a, err := p.Append(b.ctx, 1, jobs); err != nil || a.Taken != len(jobs) {
				t.Fatal(a, err)
			}
			b.cancel("waits")
			f.hears("waits:x")
			b.overdue("late", "late2")
			w, lost, leaver := b.worker(), b.worker(), b.worker()
			asked := w.claim(1)
			lost.take(1)
			leaver.take(1)
			w.claim(9)
			f.hears("late:e late2:e")
			for _, id := range []string{"asked", "lost", "left"} {
				b.cancel(id)
			}
			b.expire(lost)
			b.sweep()
			f.hears("lost:x")
			if _, err := leaver.Leave(b.ctx); err != nil {
				t.Error(err)
			}
			f.hears("left:x")
			w.settle(durable.Release, asked.Jobs...)
			f.hears("asked:x")
		})

		t.Run("with a result where it is short, and word of one where it is kept", func(t *testing.T) {
			b, p, f := setup(t)
			b.appendOf(p, "short", "long", "kept", "none")
			w := b.worker()
			c := w.take(4)
			long := strings.Repeat("x", durable.MaxNoticed+1)
			var outcomes []durable.Outcome
			for i, result := range []string{"half", long, long, ""} {
				o := durable.Outcome{Ref: durable.Ref{ID: c[i].ID, Token: c[i].Token}, Verdict: durable.Done, Result: []byte(result)}
				if i == 2 {
					o.Retention = time.Hour
				}
				outcomes = append(outcomes, o)
			}
			if s, err := w.Settle(b.ctx, 1, outcomes); err != nil || codes(s) != "OOOO" {
				t.Fatal(s, err)
			}
			news, err := f.Await(b.ctx)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, n := range news.Notices {
				got = append(got, fmt.Sprint(n.ID, " ", string(n.Data), " ", n.Kept))
			}
			if want := "short half false,long  false,kept  true,none  false"; strings.Join(got, ",") != want {
				t.Errorf("%q", got)
			}
			if r := b.lookup("kept"); string(r.Result) != long {
				t.Error(len(r.Result), "bytes kept")
			}
		})

		t.Run("and ends what has expired while it waits", func(t *testing.T) {
			b, p, f := setup(t)
			other := b.follower()
			jobs := []*durable.Job{
				jobsOf("gone")[0], job("kept", hour), job("later", func(j *durable.Job) { j.Delay = time.Hour }),
				job("claimed", func(j *durable.Job) { j.Unique = &durable.Unique{Key: "k"} }),
			}
			if a, err := p.Append(b.ctx, 1, jobs); err != nil || a.Taken != len(jobs) {
				t.Fatal(a, err)
			}
			b.store(unique("with a key", "another"))
			b.overdue("gone", "kept", "later", "with a key")
			w := b.worker()
			for range 2 {
				records, err := other.Follow(b.ctx, []string{"gone", "kept", "later", "claimed", "with a key", "nothing"})
				if err != nil || len(records) != 6 {
					t.Fatal(records, err)
				}
				var got []string
				for _, r := range records {
					got = append(got, r.ID+" "+string(r.State))
				}
				want := "gone expired,kept expired,later expired,claimed pending,with a key expired,nothing "
				if w.claims > 0 {
					want = "gone ,kept expired,later ,claimed processing,with a key ,nothing "
				}
				if s := strings.Join(got, ","); s != want {
					t.Errorf("%s\nwant %s", s, want)
				}
				if c := w.claim(9); len(c.Expired) > 0 {
					t.Error(c.Expired)
				}
			}
			f.hears("gone:e kept:e later:e")
			b.places("0 0 1 0 0")
			if n := b.stats().Counters["expired"]; n != 4 || len(b.keysLike("unique:*")) != 1 {
				t.Error(n, "counted", b.keysLike("unique:*"))
			}
		})

		t.Run("with what it has left, and what its handler has reported", func(t *testing.T) {
			b, _, f := setup(t)
			b.append("a", "b")
			w := b.worker()
			c := w.take(2)
			w.tell(durable.Telling{Ref: durable.Ref{ID: "b", Token: c[1].Token}, Progress: []byte("half")})
			o := durable.Outcome{Ref: durable.Ref{ID: "a", Token: c[0].Token}, Verdict: durable.Done, Result: []byte("all"), Retention: time.Hour}
			if _, err := w.Settle(b.ctx, 1, []durable.Outcome{o}); err != nil {
				t.Fatal(err)
			}
			records, err := f.Follow(b.ctx, []string{"a", "b"})
			if err != nil || len(records) != 2 || string(records[0].Result) != "all" || string(records[1].Progress) != "half" {
				t.Errorf("%+v, %v", records, err)
			}
		})
	})
}

// TestListEndsWhenFull cancels, expires and keeps on a server that is full, and takes no key there.
func TestListEndsWhenFull(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, of maker) {
		s := redistest.Start(t)
		b := setupQueueAt(t, of, s.Addr(), s.Client(t), "q", nil)
		keep := func(j *durable.Job) { j.Retention, j.Unique = time.Hour, &durable.Unique{Key: j.ID, After: time.Hour} }
		b.store(job("done", keep), job("asked", keep))
		w, p := b.worker(), b.producer()
		claims := w.take(2)
		b.store(job("waits", keep), job("late", keep))
		b.overdue("late")
		b.rdb.HSet(b.ctx, b.key("unique:old"), "holder", "nobody", "until_ms", "1")
		b.rdb.ConfigSet(b.ctx, "maxmemory", "1")
		if _, err := p.Append(b.ctx, 1, []*durable.Job{unique("new", "new")}); !is(err, durable.ErrOutOfMemory) {
			t.Error(err)
		}
		if _, err := p.Append(b.ctx, 1, []*durable.Job{unique("new", "old")}); !is(err, durable.ErrOutOfMemory) {
			t.Error(err)
		}
		b.cancel("waits")
		b.cancel("asked")
		if c := w.claim(9); len(c.Expired) != 1 || len(c.Jobs) > 0 {
			t.Errorf("%+v", c)
		}
		w.tell(durable.Telling{Ref: durable.Ref{ID: "done", Token: claims[0].Token}, Progress: []byte("half")})
		o := []durable.Outcome{
			{Ref: durable.Ref{ID: "done", Token: claims[0].Token}, Verdict: durable.Done, Result: []byte("r")},
			{Ref: durable.Ref{ID: "asked", Token: claims[1].Token}, Verdict: durable.Release},
		}
		if s, err := w.Settle(b.ctx, 1, o); err != nil || codes(s) != "OC" {
			t.Error(s, err)
		}
		for id, want := range map[string]durable.State{"done": durable.StateCompleted, "asked": durable.StateCancelled, "waits": durable.StateCancelled, "late": durable.StateExpired} {
			if r := b.lookup(id); r.State != want || (len(r.Result) > 0) != (id == "done") {
				t.Errorf("%+v", r)
			}
		}
		b.places("0 0 0 0 0")
		if keys := b.keysLike("unique:*"); len(keys) != 2 || b.rdb.HGet(b.ctx, b.key("unique:done"), "until_ms").Err() != nil {
			t.Error(keys)
		}
	})
}
