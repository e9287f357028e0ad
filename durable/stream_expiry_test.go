package durable_test

import (
	"slices"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

func TestStreamExpiry(t *testing.T) {
	t.Parallel()

	t.Run("an entry added by hand expires, and holds nobody up", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		old := b.add("payload", "x", "expires_at_ms", "1")
		b.add("payload", "x", "id", "old", "expires_at_ms", "1")
		b.add("payload", "x", "id", "fresh", "expires_at_ms", "99999999999999")
		w := b.worker()
		c := w.claim(8)
		if got := idsOf(c.Jobs); got != "fresh" || !slices.Equal(c.Expired, []string{old, "old"}) {
			t.Error("claimed:", got, "expired:", c.Expired)
		}
		if n := b.stats().Counters["expired"]; n != 2 {
			t.Error("counted:", n)
		}
		w.settle(durable.Done, c.Jobs...)
		b.clean()
	})

	t.Run("one that expires at no time is quarantined", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		b.add("payload", "x", "expires_at_ms", "tomorrow")
		b.worker().nothing()
		b.places("0 0 0 0 1")
	})

	t.Run("a repeated claim names what it has expired, and only that", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		b.add("payload", "x", "id", "one", "expires_at_ms", "1")
		w := b.worker()
		for range 2 {
			c, err := w.Claim(b.ctx, durable.ClaimRequest{N: 1, Slots: 1, MaxBytes: 1})
			if err != nil || !slices.Equal(c.Expired, []string{"one"}) {
				t.Error(c, err)
			}
		}
		for range 2 {
			c, err := w.Claim(b.ctx, durable.ClaimRequest{N: 2, Slots: 1, MaxBytes: 1})
			if err != nil || len(c.Expired) > 0 {
				t.Error(c, err)
			}
		}
	})

	t.Run("each group ends it for itself", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		other := b.group("other", durable.StreamOptions{})
		w, v := b.worker(), other.worker()
		b.add("payload", "x", "id", "old", "expires_at_ms", "1", "retention_ms", "600000")
		b.add("payload", "x", "id", "gone", "expires_at_ms", "1")
		if c := w.claim(4); !slices.Equal(c.Expired, []string{"old", "gone"}) {
			t.Error(c.Expired)
		}
		state := func(b *streamBundle, id string) durable.State {
			r, err := b.stream.Lookup(b.ctx, durable.LookupRequest{ID: id})
			if err != nil && !is(err, durable.ErrNoJob) {
				t.Error(err)
			}
			return r.State
		}
		if got := []durable.State{state(b, "old"), state(b, "gone"), state(other, "old")}; !slices.Equal(got, []durable.State{"expired", "", "pending"}) {
			t.Error("states:", got)
		}
		if b.length() != 2 {
			t.Error("entries:", b.length())
		}
		if c := v.claim(4); !slices.Equal(c.Expired, []string{"old", "gone"}) {
			t.Error(c.Expired)
		}
		if got := state(other, "old"); got != "expired" {
			t.Error("state:", got)
		}
		b.clean("old")
		other.clean("old")
	})

	t.Run("a delayed job, and one that is asleep, expire when they are due", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		w, p := b.worker(), b.producer()
		jobs := []*durable.Job{{ID: "retried", Expiry: 3 * time.Second}, {ID: "delayed", Expiry: time.Millisecond, Delay: 2 * time.Millisecond}}
		if a, err := p.Append(b.ctx, 1, jobs); err != nil || a.Taken != 2 {
			t.Fatal(a, err)
		}
		b.due()
		c := w.claim(4)
		w.settle(durable.Snooze, c.Jobs...)
		expired := c.Expired
		for len(expired) < 2 {
			b.due()
			c := w.claim(4)
			expired = append(expired, c.Expired...)
			w.settle(durable.Snooze, c.Jobs...)
			_ = w.Await(b.ctx)
		}
		b.clean()
	})
}
