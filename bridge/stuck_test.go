package bridge_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
)

// A handler that went on after its lease was lost was counted nowhere, although it kept its worker as one does that
// ignores its timeout.
func TestHandlerThatIgnoresTheLossOfItsLease(t *testing.T) {
	t.Parallel()
	// deaf loses the lease of a handler that does not return before release.
	deaf := func(t *testing.T) (b *bench, ticket *bridge.Ticket, release func()) {
		t.Helper()
		b = setup(t, nil)
		gate := make(chan struct{})
		kind := b.handle(t, "deaf", func(_ context.Context, d *bridge.Delivery[int]) error {
			if d.Deliveries == 1 {
				<-gate
			}
			return nil
		})
		b.run(t, &bridge.RunOptions{Workers: 2, Lease: 10 * time.Second, Grace: time.Second})
		ticket = submit(t, kind, 1)
		<-ticket.Started()
		b.outage.once(durabletest.Fault{Action: durabletest.Refuse, Err: durable.ErrFenced}, durabletest.OpRenew)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if got := b.q.Counters(); got.LeaseLost != 1 {
			t.Fatalf("counters %+v", got)
		}
		return b, ticket, func() { close(gate) }
	}
	stuck := func(t *testing.T, b *bench, now int) {
		t.Helper()
		synctest.Wait()
		s, err := b.q.Stats(t.Context())
		if err != nil || s.Stuck != now || s.Counters.Stuck != 1 {
			t.Errorf("stuck now %d, ever %d, %v; want %d, 1", s.Stuck, s.Counters.Stuck, err, now)
		}
		events := b.events.every(bridge.EventStuck)
		if len(events) != 1 || !errors.Is(events[0].Err, bridge.ErrLeaseLost) {
			t.Errorf("events %+v", events)
		}
	}

	bubble(t, "is counted until it returns, and its outcome told", func(t *testing.T) {
		b, ticket, release := deaf(t)
		time.Sleep(time.Second)
		stuck(t, b, 1)
		release()
		stuck(t, b, 0)
		if err := ticket.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if got := b.q.Counters(); got.Completed+got.Stale < 1 || got.Unsettled != 0 {
			t.Errorf("counters %+v", got)
		}
	})
	bubble(t, "is counted once, though Run ends meanwhile", func(t *testing.T) {
		b, _, release := deaf(t)
		time.Sleep(time.Second)
		stuck(t, b, 1)
		b.stop()
		if err := <-b.ran; !errors.Is(err, bridge.ErrStuck) {
			t.Errorf("Run returned %v", err)
		}
		stuck(t, b, 1)
		release()
		stuck(t, b, 0)
	})
	bubble(t, "is not counted if it returns within a second", func(t *testing.T) {
		b, _, release := deaf(t)
		release()
		time.Sleep(time.Minute)
		if s, err := b.q.Stats(t.Context()); err != nil || s.Stuck != 0 || s.Counters.Stuck != 0 {
			t.Errorf("stuck now %d, ever %d, %v", s.Stuck, s.Counters.Stuck, err)
		}
	})
}
