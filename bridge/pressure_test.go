package bridge_test

import (
	"context"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/policy"
)

// What a producer knew of the backlog came with the answers to its appends. One that slowed down by
// it appended nothing any more, and took the backlog for full for ever.
func TestProducerThatSlowsDownLearnsThatTheBacklogHasDrained(t *testing.T) {
	t.Parallel()
	bubble(t, "by Pressure, by a Func and by a ramp", func(t *testing.T) {
		memory := durable.NewMemory(&durable.MemoryOptions{MaxBacklog: 10})
		producer, consumer := setupOn(t, memory, nil), setupOn(t, memory, nil)
		kind := bridge.NewKind[int](producer.q, "count", nil)
		for i := range 10 {
			if err := submit(t, kind, i).WaitEnqueued(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if p := producer.q.Pressure(); p != 1 {
			t.Fatalf("pressure %v with a full backlog", p)
		}
		consumer.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return nil })
		consumer.run(t, nil)
		polite := policy.Func(func(s policy.Snapshot) policy.Policy {
			if s.Backlog > 0.5 {
				return policy.Shed()
			}
			return policy.Reject()
		})
		for name, p := range map[string]policy.Policy{"func": polite, "ramp": policy.Ramp(0.5, 0.9, policy.Policy{})} {
			time.Sleep(time.Minute)
			_, _ = kind.Submit(t.Context(), 1, p) // perhaps refused by what was last seen
			time.Sleep(time.Second)
			if _, err := kind.Submit(t.Context(), 1, p); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		time.Sleep(time.Minute)
		producer.q.Pressure()
		time.Sleep(time.Second)
		if p := producer.q.Pressure(); p != 0 {
			t.Errorf("pressure %v after the drain", p)
		}
	})
}
