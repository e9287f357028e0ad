package bridge_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
)

// An outage that outlasts the lease looked to the sweeper like the death of every worker: what had
// completed meanwhile ran again, and everything under way was charged a crash.
func TestOutageBeyondTheLeaseChargesNobodyAndRepeatsNothingThatCompleted(t *testing.T) {
	t.Parallel()
	bubble(t, "workers that live tell what they did and leave", func(t *testing.T) {
		const lease = 30 * time.Second
		b := setup(t, nil)
		var runs [2]atomic.Int32
		kind := b.handle(t, "count", func(ctx context.Context, d *bridge.Delivery[int]) error {
			runs[d.Value].Add(1)
			if d.Value == 0 { // completes during the outage
				time.Sleep(lease / 2)
				return nil
			}
			if d.Deliveries > 1 {
				return nil
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		b.run(t, &bridge.RunOptions{Workers: 2, Lease: lease})
		completes, endures := submit(t, kind, 0), submit(t, kind, 1)
		<-completes.Started()
		<-endures.Started()
		b.outage.begin(durabletest.Fault{Action: durabletest.Refuse})
		time.Sleep(2 * lease)
		b.outage.end()
		for _, ticket := range []*bridge.Ticket{completes, endures} {
			if err := ticket.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if completed, endured := runs[0].Load(), runs[1].Load(); completed != 1 || endured != 2 {
			t.Errorf("%d runs of the one that completed and %d of the other, want 1 and 2", completed, endured)
		}
		s, err := b.q.Stats(t.Context())
		if err != nil || s.Durable.Counters["crashed"] != 0 {
			t.Errorf("%d claims were charged: %v", s.Durable.Counters["crashed"], err)
		}
	})
}
