package durable_test

import (
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

// stoodStill makes it look as if the server had executed nothing for an hour.
func (b *bundle) stoodStill() {
	b.Helper()
	if err := b.rdb.HIncrBy(b.ctx, b.key("meta"), "seen_ms", -time.Hour.Milliseconds()).Err(); err != nil {
		b.Fatal(err)
	}
}

func TestListStall(t *testing.T) {
	t.Parallel()

	t.Run("a worker whose lease ended while the server stood still is not charged a crash", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		b.append("a")
		w := b.worker()
		c := w.take(1)
		for range 2 { // and again after it has renewed
			b.sweep()
			b.stoodStill()
			b.expire(w)
			if s := b.sweep(); s.Fenced != 0 {
				t.Fatalf("%+v: a living worker is fenced before it could renew", s)
			}
			if err := w.Renew(b.ctx, long); err != nil {
				t.Fatal(err)
			}
		}
		if got := w.settle(durable.Done, c...); got != "O" {
			t.Fatal(got)
		}
	})

	t.Run("whoever is renewed first does not hide the stall from the others", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		first, second := b.worker(), b.worker()
		b.sweep()
		b.stoodStill()
		b.expire(second)
		if err := first.Renew(b.ctx, long); err != nil {
			t.Fatal(err)
		}
		if s := b.sweep(); s.Fenced != 0 {
			t.Fatalf("%+v", s)
		}
		if err := second.Renew(b.ctx, long); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("a night without anybody does not hide a stall in the morning", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		w := b.worker()
		renew := func() {
			t.Helper()
			if err := w.Renew(b.ctx, long); err != nil {
				t.Fatal(err)
			}
		}
		b.sweep()
		for range 12 {
			b.stoodStill()
		}
		renew()
		b.rdb.HIncrBy(b.ctx, b.key("meta"), "stall_end_ms", -2*long.Milliseconds()) // two leases ago
		b.rdb.HIncrBy(b.ctx, b.key("meta"), "seen_ms", -10)
		renew()
		b.stoodStill()
		b.expire(w)
		if s := b.sweep(); s.Fenced != 0 {
			t.Fatalf("%+v: a living worker is fenced before it could renew", s)
		}
	})

	t.Run("whoever does not renew after a stall is dead", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		b.append("a")
		w := b.worker()
		w.take(1)
		b.sweep()
		b.stoodStill()
		b.expire(w)
		b.sweep()
		b.expire(w) // the half of a lease that it was given is over
		if s := b.sweep(); s.Fenced != 1 || s.Returned != 1 {
			t.Fatalf("%+v", s)
		}
	})

	t.Run("who leaves is not waited for", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		b.append("a")
		w := b.worker()
		w.take(1)
		b.sweep()
		if err := b.rdb.HSet(b.ctx, b.key("sender:"+w.ID()), "leaving", 1).Err(); err != nil {
			t.Fatal(err)
		}
		b.stoodStill()
		b.expire(w)
		if s := b.sweep(); s.Fenced != 1 || s.Returned != 1 {
			t.Fatalf("%+v", s)
		}
	})
}
