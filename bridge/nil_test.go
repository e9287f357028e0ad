package bridge_test

import (
	"context"
	"errors"
	"strings"
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

// What is nil was refused by name, but for the queue of a kind, and an engine that is a nil pointer: these panicked.
func TestWhatIsNilIsRefusedByName(t *testing.T) {
	t.Parallel()
	for _, engine := range []durable.Engine{nil, (*durable.List)(nil), (*durable.SortedSet)(nil), (*durable.Stream)(nil), (*durable.Memory)(nil)} {
		if q, err := bridge.Open(engine, nil); q != nil || err == nil || err.Error() != "bridge: engine is nil" {
			t.Errorf("%T: %v", engine, err)
		}
	}
	kind := bridge.NewKind[int](nil, "count", nil)
	_, submit := kind.Submit(t.Context(), 1, policy.Policy{})
	_, try := kind.TrySubmit(1)
	_, job := kind.SubmitJob(t.Context(), bridge.Job[int]{ID: "a"}, policy.Reject())
	_, bad := kind.SubmitJob(t.Context(), bridge.Job[int]{}, policy.Reject())
	if !errors.Is(bad, policy.ErrInvalid) {
		t.Errorf("an invalid job: %v", bad)
	}
	errs := []error{submit, try, job}
	for _, s := range kind.SubmitMany(t.Context(), []int{1, 2}, policy.Policy{}) {
		errs = append(errs, s.Err)
	}
	for _, err := range errs {
		if !errors.Is(err, policy.ErrInvalid) {
			t.Errorf("not invalid: %v", err)
		}
	}
	errs = append(errs, kind.Handle(func(context.Context, *bridge.Delivery[int]) error { return nil }))
	for _, err := range errs {
		if err == nil || !strings.Contains(err.Error(), `bridge: kind "count": the queue is nil`) {
			t.Errorf("not by name: %v", err)
		}
	}
}
