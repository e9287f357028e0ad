package bridge_test

import (
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// While the store took nothing, the bridge went on taking jobs out of the front, up to a batch, where
// drop-oldest could not reach them: it refused, as if there were nothing to drop.
func TestDropOldestReachesWhatTheStoreDoesNotTake(t *testing.T) {
	t.Parallel()
	const capacity = 10
	check := func(t *testing.T, b *bench) {
		kind := bridge.NewKind[int](b.q, "count", nil)
		first := submit(t, kind, 0)
		time.Sleep(time.Second) // it is the bridge's
		var tickets []*bridge.Ticket
		for i := 1; i < capacity; i++ {
			tickets = append(tickets, submit(t, kind, i))
		}
		time.Sleep(time.Minute) // many tries
		for range capacity - 1 {
			if _, err := kind.Submit(t.Context(), 99, policy.DropOldest()); err != nil {
				t.Fatal(err)
			}
		}
		if got := first.State(); got != local.Accepted {
			t.Errorf("what the bridge has is %v", got)
		}
		for i, ticket := range tickets {
			if got := ticket.State(); got != local.Evicted {
				t.Errorf("job %d is %v, want evicted", i+1, got)
			}
		}
	}
	bubble(t, "because it is away", func(t *testing.T) {
		b := setup(t, &bridge.Options{Capacity: capacity})
		b.outage.begin(durabletest.Fault{Action: durabletest.Refuse})
		check(t, b)
		b.outage.end()
	})
	bubble(t, "because its backlog is full", func(t *testing.T) {
		b := setupOn(t, durable.NewMemory(&durable.MemoryOptions{MaxBacklog: 1}), &bridge.Options{Capacity: capacity})
		if err := submit(t, bridge.NewKind[int](b.q, "count", nil), -1).WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		check(t, b)
	})
}
