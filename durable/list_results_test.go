package durable_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

func TestListResults(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, of maker) {
		setup := func(t *testing.T) *bundle {
			t.Parallel()
			return setupQueue(t, of, nil)
		}
		done := func(c *durable.Claim, result string, retention time.Duration) durable.Outcome {
			return durable.Outcome{Ref: durable.Ref{ID: c.ID, Token: c.Token}, Verdict: durable.Done, Result: []byte(result), Retention: retention}
		}

		t.Run("a result is kept with the record, for as long as either asks", func(t *testing.T) {
			b := setup(t)
			hour := func(j *durable.Job) { j.Retention = time.Hour }
			b.store(jobsOf("neither")[0], jobsOf("outcome")[0], job("job", hour), job("both", hour), job("none", hour))
			w := b.worker()
			c := w.take(5)
			outcomes := []durable.Outcome{
				done(c[0], "r0", 0), done(c[1], "r1", time.Minute), done(c[2], "r2", 0), done(c[3], "r3", time.Minute), done(c[4], "", 0),
			}
			for range 2 {
				if s, err := w.Settle(b.ctx, 1, outcomes); err != nil || codes(s) != "OOOOO" {
					t.Fatal(s, err)
				}
			}
			if _, err := b.list.Lookup(b.ctx, durable.LookupRequest{ID: "neither"}); !is(err, durable.ErrNoJob) {
				t.Error(err)
			}
			for id, want := range map[string]struct {
				result string
				kept   time.Duration
			}{"outcome": {"r1", time.Minute}, "job": {"r2", time.Hour}, "both": {"r3", time.Minute}, "none": {"", time.Hour}} {
				r := b.lookup(id)
				ttl := b.rdb.PTTL(b.ctx, b.key("job:"+id)).Val()
				if r.State != durable.StateCompleted || string(r.Result) != want.result || ttl <= 0 || ttl > want.kept || ttl < want.kept/2 {
					t.Errorf("%s: %v, %+v", id, ttl, r)
				}
				if left := time.Until(r.Due); left > want.kept || left < want.kept/2 {
					t.Errorf("%s is forgotten in %v", id, left)
				}
			}
		})

		t.Run("a stale claim leaves no result", func(t *testing.T) {
			b := setup(t)
			b.append("a")
			lost, w := b.worker(), b.worker()
			stale := lost.take(1)
			b.expire(lost)
			b.sweep()
			b.due()
			fresh := w.take(1)
			if s, err := lost.Settle(b.ctx, 1, []durable.Outcome{done(stale[0], "late", time.Hour)}); err != nil || codes(s) != "S" {
				t.Error(s, err)
			}
			if s, err := w.Settle(b.ctx, 1, []durable.Outcome{done(fresh[0], "right", time.Hour)}); err != nil || codes(s) != "O" {
				t.Error(s, err)
			}
			if s, err := lost.Settle(b.ctx, 2, []durable.Outcome{done(stale[0], "late", time.Hour)}); err != nil || codes(s) != "S" {
				t.Error(s, err)
			}
			if r := b.lookup("a"); string(r.Result) != "right" {
				t.Errorf("%+v", r)
			}
		})

		t.Run("progress is kept until the next, and only of whoever has the job", func(t *testing.T) {
			b := setup(t)
			b.append("a", "b")
			w, other := b.worker(), b.worker()
			c := w.take(2)
			tell := func(w *worker, tellings ...durable.Telling) error {
				return w.Consumer.(durable.Teller).Tell(b.ctx, tellings)
			}
			a := durable.Ref{ID: "a", Token: c[0].Token}
			if err := tell(w, durable.Telling{Ref: a, Started: true}); err != nil || b.lookup("a").Progress != nil {
				t.Error(err)
			}
			err := tell(w, durable.Telling{Ref: a, Progress: []byte("10 %")}, durable.Telling{Ref: durable.Ref{ID: "b", Token: "x:1"}, Progress: []byte("no")},
				durable.Telling{Ref: durable.Ref{ID: "none", Token: "x:1"}, Progress: []byte("no")}, durable.Telling{Ref: durable.Ref{ID: "none"}, Progress: []byte("no")})
			if err != nil || string(b.lookup("a").Progress) != "10 %" || b.lookup("b").Progress != nil || len(b.keysLike("job:none")) > 0 {
				t.Error(err)
			}
			if err := tell(w, durable.Telling{Ref: a, Progress: []byte(strings.Repeat("x", durable.MaxNoticed+1))}); !is(err, durable.ErrNotExecuted) {
				t.Error(err)
			}
			w.settle(durable.Release, c[0])
			if err := tell(w, durable.Telling{Ref: a, Progress: []byte("late")}); err != nil || string(b.lookup("a").Progress) != "10 %" {
				t.Error(err, b.lookup("a"))
			}
			again := other.take(1)
			if err := tell(other, durable.Telling{Ref: durable.Ref{ID: "a", Token: again[0].Token}, Progress: []byte{}}); err != nil || b.lookup("a").Progress != nil {
				t.Error(err)
			}
		})
	})
}
