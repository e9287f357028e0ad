package bridge_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/policy"
)

func TestOpenRefusesByName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string // of the field
		opts bridge.Options
	}{
		{"Capacity", bridge.Options{Capacity: -1}},
		{"CapacityBytes", bridge.Options{CapacityBytes: -1}},
		{"MaxPayload", bridge.Options{MaxPayload: -1}},
		{"MaxWatched", bridge.Options{MaxWatched: -1}},
		{"PersistWithin", bridge.Options{PersistWithin: -1}},
		{"Retention", bridge.Options{Retention: -1}},
		{"Options.Retention is 1µs", bridge.Options{Retention: time.Microsecond}},
		{"PersistWithin", bridge.Options{PersistWithin: 13 * time.Hour}},
		{"Policy", bridge.Options{Policy: policy.Wait(-1)}},
		{"Retry.MaxAttempts", bridge.Options{Retry: policy.Retry{MaxAttempts: -1}}},
		{"Retry.Initial", bridge.Options{Retry: policy.Retry{Initial: -1}}},
		{"Retry.Max", bridge.Options{Retry: policy.Retry{Max: -1}}},
		{"Retry.Multiplier", bridge.Options{Retry: policy.Retry{Multiplier: -1}}},
		{"Retry.Jitter", bridge.Options{Retry: policy.Retry{Jitter: -1}}},
		{"Middleware[1]", bridge.Options{Middleware: []bridge.Middleware{func(h bridge.Handler) bridge.Handler { return h }, nil}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			q, err := bridge.Open(durable.NewMemory(nil), &c.opts)
			if q != nil || err == nil || !strings.Contains(err.Error(), c.name) {
				t.Errorf("got %v, %v; want an error that names %s", q, err, c.name)
			}
		})
	}
	t.Run("a nil engine", func(t *testing.T) {
		t.Parallel()
		if q, err := bridge.Open(nil, nil); q != nil || err == nil || !strings.Contains(err.Error(), "engine is nil") {
			t.Errorf("got %v, %v", q, err)
		}
	})
	t.Run("an engine with bad options of its own", func(t *testing.T) {
		t.Parallel()
		q, err := bridge.Open(durable.NewMemory(&durable.MemoryOptions{MaxBacklog: -1}), nil)
		if q != nil || err == nil || !strings.Contains(err.Error(), "MaxBacklog") {
			t.Errorf("got %v, %v", q, err)
		}
	})
}

func TestRunRefusesByName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		opts bridge.RunOptions
	}{
		{"Workers", bridge.RunOptions{Workers: -1}},
		{"Grace", bridge.RunOptions{Grace: -1}},
		{"Lease", bridge.RunOptions{Lease: -1}},
		{"Lease", bridge.RunOptions{Lease: 99 * time.Millisecond}},
		{"SweepEvery", bridge.RunOptions{SweepEvery: -1}},
		{"UnknownDelay", bridge.RunOptions{UnknownDelay: -1}},
	} {
		bubble(t, c.name, func(t *testing.T) {
			b := setup(t, nil)
			b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return nil })
			if err := b.q.Run(t.Context(), &c.opts); err == nil || !strings.Contains(err.Error(), c.name) {
				t.Errorf("got %v, want an error that names %s", err, c.name)
			}
			if n := b.outage.total(); n != 0 {
				t.Errorf("the store was asked %d times", n)
			}
		})
	}
	bubble(t, "no kind has a handler", func(t *testing.T) {
		b := setup(t, nil)
		bridge.NewKind[int](b.q, "count", nil)
		if err := b.q.Run(t.Context(), nil); !errors.Is(err, bridge.ErrNoHandler) {
			t.Errorf("got %v", err)
		}
	})
	bubble(t, "a second Run at a time, not a second Run", func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return nil })
		b.run(t, nil)
		if err := submit(t, kind, 1).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.q.Run(t.Context(), nil); !errors.Is(err, bridge.ErrRunning) {
			t.Errorf("while the first goes on: %v", err)
		}
		if err := submit(t, kind, 1).Wait(t.Context()); err != nil {
			t.Errorf("the first was disturbed: %v", err)
		}
		b.stop()
		if err := <-b.ran; err != nil {
			t.Error(err)
		}
		b.run(t, nil)
		if err := submit(t, kind, 2).Wait(t.Context()); err != nil {
			t.Errorf("after the first: %v", err)
		}
	})
	bubble(t, "Run after Shutdown", func(t *testing.T) {
		b := setup(t, nil)
		b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return nil })
		shutdown(t, b.q)
		if err := b.q.Run(t.Context(), nil); !errors.Is(err, policy.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

func TestKindRefusesByName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, kind string
		opts       bridge.KindOptions[int]
	}{
		{"Timeout", "count", bridge.KindOptions[int]{Timeout: -1}},
		{"Retention", "count", bridge.KindOptions[int]{Retention: -1}},
		{"Retention is 1µs", "count", bridge.KindOptions[int]{Retention: time.Microsecond}},
		{"Retry.MaxAttempts", "count", bridge.KindOptions[int]{Retry: policy.Retry{MaxAttempts: -1}}},
		{"Retry.Initial", "count", bridge.KindOptions[int]{Retry: policy.Retry{Initial: -1}}},
		{"kind has 257 bytes", strings.Repeat("k", 257), bridge.KindOptions[int]{}},
		{"control character", "co\nunt", bridge.KindOptions[int]{}},
		{"UTF-8", "co\xffunt", bridge.KindOptions[int]{}},
	} {
		bubble(t, c.name, func(t *testing.T) {
			b := setup(t, nil)
			kind := bridge.NewKind(b.q, c.kind, &c.opts)
			_, submitted := kind.TrySubmit(1)
			_, job := kind.SubmitJob(t.Context(), bridge.Job[int]{ID: "1"}, policy.Reject())
			handled := kind.Handle(func(context.Context, *bridge.Delivery[int]) error { return nil })
			for what, err := range map[string]error{"Submit": submitted, "SubmitJob": job, "Handle": handled} {
				if err == nil || !strings.Contains(err.Error(), c.name) {
					t.Errorf("%s: %v, want an error that names %s", what, err, c.name)
				}
			}
			if !errors.Is(submitted, policy.ErrInvalid) {
				t.Errorf("submit: %v, want ErrInvalid", submitted)
			}
			if got := b.stored(t); got.Pending != 0 {
				t.Errorf("%d jobs stored", got.Pending)
			}
			b.conserved(t)
		})
	}
}

func TestHandleRefuses(t *testing.T) {
	t.Parallel()
	bubble(t, "a nil handler", func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		if err := kind.Handle(nil); err == nil || !strings.Contains(err.Error(), "nil") {
			t.Errorf("got %v", err)
		}
		if err := b.q.Run(t.Context(), nil); !errors.Is(err, bridge.ErrNoHandler) {
			t.Errorf("it counts as a handler: %v", err)
		}
	})
	bubble(t, "a second handler of one kind, and keeps the first", func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return nil })
		second := func(context.Context, *bridge.Delivery[int]) error { return bridge.Permanent(errors.New("the second")) }
		if err := bridge.NewKind[int](b.q, "count", nil).Handle(second); !errors.Is(err, bridge.ErrHandlerSet) {
			t.Errorf("got %v", err)
		}
		b.run(t, nil)
		if err := submit(t, kind, 1).Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
	bubble(t, "a middleware that returns nothing", func(t *testing.T) {
		b := setup(t, &bridge.Options{Middleware: []bridge.Middleware{func(bridge.Handler) bridge.Handler { return nil }}})
		err := bridge.NewKind[int](b.q, "count", nil).Handle(func(context.Context, *bridge.Delivery[int]) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "middleware") {
			t.Errorf("got %v", err)
		}
	})
}
