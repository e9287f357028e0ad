package bridge_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	// limited is a queue with limits whose handlers take 300 ms; it submits jobs, waits for all, and tells how many ran at
	// once and how long it took.
	limited := func(t *testing.T, limits durable.Limits, jobs int, key func(i int) string) (b *bench, most int64, took time.Duration) {
		t.Helper()
		b = setup(t, nil)
		if err := b.q.Operator().SetLimits(t.Context(), limits, "the test"); err != nil {
			t.Fatal(err)
		}
		var now, high atomic.Int64
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error {
			high.Store(max(high.Load(), now.Add(1)))
			time.Sleep(300 * time.Millisecond)
			now.Add(-1)
			return nil
		})
		b.run(t, nil)
		time.Sleep(10 * time.Second)
		began := time.Now()
		tickets := make([]*bridge.Ticket, jobs)
		for i := range tickets {
			tickets[i] = submitJob(t, kind, bridge.Job[int]{ID: b.q.NewID(), LimitKey: key(i)})
		}
		for _, ticket := range tickets {
			if err := ticket.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
		return b, high.Load(), time.Since(began)
	}
	none := func(int) string { return "" }
	bubble(t, "of the queue: so many at once, one after the other without a pause, and no asking in vain", func(t *testing.T) {
		b, most, took := limited(t, durable.Limits{Concurrency: 2}, 20, none)
		if most != 2 || took > 3100*time.Millisecond {
			t.Errorf("%d at once, %v for three seconds", most, took)
		}
		if calls := b.outage.Calls(durabletest.OpClaim); calls > 200 {
			t.Errorf("%d claims", calls)
		}
		if s, err := b.q.Stats(t.Context()); err != nil || s.Durable.Limits.Concurrency != 2 || s.Durable.LimitedBy.By != "the test" {
			t.Errorf("%+v, %v", s.Durable, err)
		}
	})
	bubble(t, "of the queue: a rate", func(t *testing.T) {
		b, _, took := limited(t, durable.Limits{Rate: durable.Rate{Count: 2}}, 20, none)
		if took < 9*time.Second || took > 14*time.Second {
			t.Errorf("%v for 20 jobs, two a second", took)
		}
		if calls := b.outage.Calls(durabletest.OpClaim); calls > 200 {
			t.Errorf("%d claims", calls)
		}
	})
	bubble(t, "of a key: one at once, and others are not held up", func(t *testing.T) {
		_, most, took := limited(t, durable.Limits{KeyConcurrency: 1}, 10, func(i int) string { return string(rune('a' + i%2)) })
		if most != 2 || took > 4*time.Second {
			t.Errorf("%d at once, %v for a second and a half", most, took)
		}
	})
}
