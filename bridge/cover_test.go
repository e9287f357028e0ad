package bridge_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
)

// An append waited for a Follow that asked until its jobs were worth nothing.
func TestAppendDoesNotWaitForAFollowUntilItsJobsExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := setupApart(t, nop)
		a.consumer.run(t, nil)
		a.producer.gate.Hold(durabletest.OpFollow)
		go func() { _, _ = a.producer.q.Follow(t.Context(), "none") }()
		if err := a.producer.gate.Held(t.Context(), durabletest.OpFollow); err != nil {
			t.Fatal(err)
		}
		for _, b := range []*bench{a.producer, a.consumer} { // the store is 2 ms away
			b.outage.begin(durabletest.Fault{Delay: 2 * time.Millisecond}, durabletest.OpAppend, durabletest.OpClaim)
		}
		ticket := submitJob(t, a.kind, bridge.Job[int]{ID: "a", Expiry: time.Second / 2})
		time.Sleep(5 * time.Second)
		a.producer.gate.Release(durabletest.OpFollow)
		if n := a.consumer.q.Counters().Completed; n != 1 {
			t.Errorf("%d have run, the ticket is %v", n, ticket.State())
		}
	})
}

// Or until they were given up.
func TestAppendDoesNotWaitForAFollowUntilItsJobsAreAbandoned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupOn(t, durable.NewMemory(nil), &bridge.Options{PersistWithin: time.Second / 2})
		kind := bridge.NewKind[int](b.q, "count", nil)
		b.gate.Hold(durabletest.OpFollow)
		go func() { _, _ = b.q.Follow(t.Context(), "none") }()
		if err := b.gate.Held(t.Context(), durabletest.OpFollow); err != nil {
			t.Fatal(err)
		}
		b.outage.begin(durabletest.Fault{Delay: 2 * time.Millisecond}, durabletest.OpAppend)
		for i := range 8 {
			ticket := submit(t, kind, i)
			if err := ticket.WaitEnqueued(t.Context()); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
		b.gate.Release(durabletest.OpFollow)
	})
}

// A store that did not answer who wanted to follow kept each append waiting for a second.
func TestAppendsDoNotWaitAgainForWhoAsksInVain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := setupApart(t, nop)
		a.producer.outage.begin(durabletest.Fault{Action: durabletest.Hang}, durabletest.OpOpenFollower)
		start := time.Now()
		for i := range 100 {
			ticket := submit(t, a.kind, i)
			ticket.Done()
			if err := ticket.WaitEnqueued(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		a.producer.outage.end()
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("a hundred appends, a tenth of a second apart, took %v", took)
		}
	})
}
