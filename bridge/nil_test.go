package bridge_test

import (
	"context"
	"testing"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/policy"
)

// A nil context made calls for operators panic on a goroutine of the library, where no caller can recover.
func TestNilContextPanicsForTheCaller(t *testing.T) {
	t.Parallel()
	var none context.Context
	for name, call := range map[string]func(*bridge.Queue, *bridge.Kind[int]){
		"Submit":   func(_ *bridge.Queue, kind *bridge.Kind[int]) { _, _ = kind.Submit(none, 1, policy.Reject()) },
		"Check":    func(q *bridge.Queue, _ *bridge.Kind[int]) { _ = q.Check(none) },
		"Stats":    func(q *bridge.Queue, _ *bridge.Kind[int]) { _, _ = q.Stats(none) },
		"Flush":    func(q *bridge.Queue, _ *bridge.Kind[int]) { _ = q.Flush(none) },
		"Cancel":   func(q *bridge.Queue, _ *bridge.Kind[int]) { _, _ = q.Cancel(none, "a") },
		"Follow":   func(q *bridge.Queue, _ *bridge.Kind[int]) { _, _ = q.Follow(none, "a") },
		"Lookup":   func(q *bridge.Queue, _ *bridge.Kind[int]) { _, _ = q.Operator().Lookup(none, "a") },
		"Pause":    func(q *bridge.Queue, _ *bridge.Kind[int]) { _ = q.Operator().Pause(none, durable.Intake, "a") },
		"Run":      func(q *bridge.Queue, _ *bridge.Kind[int]) { _ = q.Run(none, nil) },
		"Shutdown": func(q *bridge.Queue, _ *bridge.Kind[int]) { _, _ = q.Shutdown(none) },
	} {
		bubble(t, name, func(t *testing.T) {
			b := open(t, durable.NewMemory(nil), nil)
			kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return nil })
			func() {
				defer func() {
					if recover() == nil {
						t.Error("no panic")
					}
				}()
				call(b.q, kind)
			}()
			if err := submit(t, kind, 1).WaitEnqueued(t.Context()); err != nil { // and nothing is broken
				t.Error(err)
			}
			shutdown(t, b.q)
		})
	}
}
