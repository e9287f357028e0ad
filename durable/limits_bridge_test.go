package durable_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/policy"
)

// What a user sees of the rate of a key: its jobs run in the order in which they were submitted, those that were there
// before and those that come while others wait, at a rate that one worker keeps up with and at one that it does not.
func TestRateOfAKeyBehindTheBridge(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, of maker) {
		for name, rate := range map[string]durable.Rate{
			"slow":              {Count: 50},
			"faster than it is": {Count: 500},
			"with a burst":      {Count: 50, Burst: 5},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				const there, come = 40, 40
				b := setupQueue(t, of, nil)
				q, err := bridge.Open(b.list, nil)
				if err != nil {
					t.Fatal(err)
				}
				kind := bridge.NewKind[int](q, "count", nil)
				var mu sync.Mutex
				var got []int
				all := make(chan struct{})
				err = kind.Handle(func(_ context.Context, d *bridge.Delivery[int]) error {
					mu.Lock()
					defer mu.Unlock()
					if got = append(got, d.Value); len(got) == there+come {
						close(all)
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				submit := func(i int) {
					ticket, err := kind.SubmitJob(b.ctx, bridge.Job[int]{ID: q.NewID(), Value: i, LimitKey: "k"}, policy.Wait(time.Minute))
					if err == nil {
						err = ticket.WaitEnqueued(b.ctx)
					}
					if err != nil {
						t.Error(err)
					}
				}
				for i := range there {
					submit(i)
				}
				b.limit(durable.Limits{KeyRate: rate})
				ended := make(chan error, 1)
				start := time.Now()
				go func() { ended <- q.Run(b.ctx, &bridge.RunOptions{Workers: 1}) }()
				for i := range come {
					submit(there + i)
				}
				select {
				case <-all:
				case <-b.ctx.Done():
					t.Error("not all have run in time")
				}
				took := time.Since(start)
				if _, err := q.Shutdown(b.ctx); err != nil {
					t.Error(err)
				}
				if err := <-ended; err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				for i, v := range got {
					if v != i {
						t.Fatalf("ran in the order %d", got)
					}
				}
				// No more than the rate and its burst, and one turn that was taken late.
				least := time.Duration(there+come-max(rate.Burst, 2)) * time.Second / time.Duration(rate.Count)
				if took < least-least/20 {
					t.Errorf("all have run in %v, want %v at least", took, least)
				}
				t.Logf("%v, at this rate %v", took, least)
			})
		}
	})
}
