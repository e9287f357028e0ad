package durable_test

import (
	"slices"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

// overdue makes jobs expired, as time would.
func (b *bundle) overdue(ids ...string) {
	b.Helper()
	for _, id := range ids {
		if err := b.rdb.HSet(b.ctx, b.key("job:"+id), "expires_at_ms", "1").Err(); err != nil {
			b.Fatal(err)
		}
		b.rdb.HSetNX(b.ctx, b.key("job:"+id), "status", "pending") // as who appends it with an expiry has it
	}
}

func TestListExpiry(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, of maker) {
		setup := func(t *testing.T) *bundle {
			t.Parallel()
			return setupQueue(t, of, nil)
		}
		hour := func(j *durable.Job) { j.Expiry = time.Hour }

		t.Run("no run begins after it, and the claim tells", func(t *testing.T) {
			b := setup(t)
			b.store(job("a", hour), jobsOf("b")[0], job("c", hour), job("d", hour))
			if left := time.Until(b.lookup("a").Expires); left < 50*time.Minute || left > time.Hour || !b.lookup("b").Expires.IsZero() {
				t.Error(left)
			}
			b.overdue("a", "c")
			w := b.worker()
			c := w.claim(9)
			if idsOf(c.Jobs) != "b d" || !slices.Equal(c.Expired, []string{"a", "c"}) {
				t.Errorf("%q, %+v", idsOf(c.Jobs), c)
			}
			b.places("0 0 2 0 0")
			if n := b.stats().Counters["expired"]; n != 2 || len(b.keysLike("job:*")) != 2 {
				t.Error(n, "counted")
			}
		})

		t.Run("a repeated claim names them again, and the next does not", func(t *testing.T) {
			b := setup(t)
			b.store(job("a:1", hour), job("3:b", hour), jobsOf("c")[0])
			b.overdue("a:1", "3:b")
			w := b.worker()
			want := []string{"a:1", "3:b"}
			for range 2 {
				c, err := w.Claim(b.ctx, durable.ClaimRequest{N: 1, Slots: 9, MaxBytes: 1 << 20})
				if err != nil || !slices.Equal(c.Expired, want) || idsOf(c.Jobs) != "c" {
					t.Errorf("%+v, %v", c, err)
				}
			}
			w.claims, w.held = 1, 1
			for range 2 {
				c, err := w.Claim(b.ctx, durable.ClaimRequest{N: 2, Slots: 9, MaxBytes: 1 << 20, Held: 1})
				if err != nil || len(c.Expired) > 0 || c.Status != durable.ClaimEmpty {
					t.Errorf("%+v, %v", c, err)
				}
			}
			b.store(job("last", hour))
			b.overdue("last")
			for range 2 {
				c, err := w.Claim(b.ctx, durable.ClaimRequest{N: 3, Slots: 9, MaxBytes: 1 << 20, Held: 1})
				if err != nil || !slices.Equal(c.Expired, []string{"last"}) || c.Status != durable.ClaimEmpty {
					t.Errorf("%+v, %v", c, err)
				}
			}
		})

		t.Run("a retry does not begin after it, nor what a lost worker held", func(t *testing.T) {
			b := setup(t)
			b.store(job("a", hour), job("b", hour))
			w, lost := b.worker(), b.worker()
			w.settle(durable.Retry, w.take(1)...)
			lost.take(1)
			b.overdue("a", "b")
			b.expire(lost)
			b.sweep()
			b.due()
			c := w.claim(9)
			slices.Sort(c.Expired)
			if len(c.Jobs) > 0 || !slices.Equal(c.Expired, []string{"a", "b"}) {
				t.Errorf("%+v", c)
			}
			b.places("0 0 0 0 0")
		})

		t.Run("what is claimed is not touched by it", func(t *testing.T) {
			b := setup(t)
			b.store(job("a", hour))
			w := b.worker()
			c := w.take(1)
			b.overdue("a")
			again, err := w.Claim(b.ctx, durable.ClaimRequest{N: 1, Slots: 1, MaxBytes: 1})
			if err != nil || len(again.Jobs) != 1 || w.settle(durable.Done, c...) != "O" {
				t.Error(again, err)
			}
		})

		t.Run("a record is kept where the job asks for one, and bounded", func(t *testing.T) {
			t.Parallel()
			b := setupQueue(t, of, &durable.ListOptions{MaxCompleted: 2})
			keep := func(j *durable.Job) { j.Expiry, j.Retention = time.Hour, time.Hour }
			b.store(job("a", keep), job("b", keep), job("c", keep))
			b.overdue("a", "b", "c")
			w := b.worker()
			if c := w.claim(9); len(c.Expired) != 3 {
				t.Errorf("%+v", c)
			}
			if r := b.lookup("c"); r.State != durable.StateExpired || r.Since.IsZero() || r.Due.IsZero() || r.Consumer != "" || r.Size == 0 {
				t.Errorf("%+v", r)
			}
			if n := b.stats().Completed; n != 2 || len(b.keysLike("job:*")) != 2 {
				t.Error(n, "records")
			}
			if a, err := b.producer().Append(b.ctx, 1, jobsOf("c")); err != nil || len(a.Refused) != 1 {
				t.Error(a, err)
			}
		})

		t.Run("jobs of other producers expire too, and nonsense is set apart", func(t *testing.T) {
			b := setup(t)
			b.rdb.HSet(b.ctx, b.key("job:a"), "payload", "p", "expires_at_ms", "1")
			b.rdb.HSet(b.ctx, b.key("job:b"), "payload", "p", "expires_at_ms", "soon")
			b.rdb.HSet(b.ctx, b.key("job:c"), "payload", "p", "expires_at_ms", "")
			b.push("a", "b", "c")
			w := b.worker()
			c := w.claim(9)
			if !slices.Equal(c.Expired, []string{"a"}) || idsOf(c.Jobs) != "c" || c.Corrupt != 1 {
				t.Errorf("%+v", c)
			}
		})

		t.Run("of many, each claim ends so many", func(t *testing.T) {
			b := setup(t)
			var jobs []*durable.Job
			for i := range 300 {
				jobs = append(jobs, job(string(rune('A'+i)), hour))
			}
			b.store(append(jobs, jobsOf("last")...)...)
			for _, j := range jobs {
				b.overdue(j.ID)
			}
			w := b.worker()
			ended := 0
			for {
				c := w.claim(1)
				ended += len(c.Expired)
				if len(c.Jobs) > 0 {
					break
				}
				if c.Status != durable.ClaimMore {
					t.Fatalf("%+v", c)
				}
			}
			if ended != 300 {
				t.Error(ended)
			}
		})
	})
}
