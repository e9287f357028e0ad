package bridge_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// spoil lets the store fail its check from now on.
func (b *bench) spoil() {
	b.outage.begin(durabletest.Fault{
		Action: durabletest.Refuse,
		Err:    &durable.CheckError{Queue: "mail", Problems: []string{"maxmemory-policy is allkeys-lru"}},
	}, durabletest.OpCheck)
}

// unusable expects Submit to be refused with the cause.
func unusable(t *testing.T, err error) {
	t.Helper()
	rejection, ok := errors.AsType[*policy.Rejection](err)
	cause, isCheck := errors.AsType[*durable.CheckError](err)
	if !ok || !isCheck || !errors.Is(err, policy.ErrUnusable) || errors.Is(err, policy.ErrFull) {
		t.Fatalf("got %v, want unusable with its cause", err)
	}
	if rejection.Reason != policy.ReasonUnusable || rejection.Stage != policy.StageDurable || cause.Queue != "mail" {
		t.Errorf("got %+v", rejection)
	}
}

func TestUnusableStoreRefusesSubmitUntilItIsMended(t *testing.T) {
	t.Parallel()
	bubble(t, "found by Check, mended by a later Check", func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		b.spoil()
		err := b.q.Check(t.Context())
		if !errors.Is(err, policy.ErrUnusable) || !strings.Contains(err.Error(), "allkeys-lru") {
			t.Fatalf("check: %v", err)
		}
		_, err = kind.TrySubmit(1)
		unusable(t, err)
		b.outage.end()
		if err := b.q.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := submit(t, kind, 1).WaitEnqueued(t.Context()); err != nil {
			t.Error(err)
		}
		if a, z := len(b.events.every(bridge.EventUnusable)), len(b.events.every(bridge.EventUsable)); a != 1 || z != 1 {
			t.Errorf("%d events unusable, %d usable", a, z)
		}
		b.conserved(t)
	})
	// A queue that only submits once asked nobody again: it refused for ever.
	bubble(t, "found by Check, mended while there are only calls of Submit", func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		b.spoil()
		if err := b.q.Check(t.Context()); err == nil {
			t.Fatal("passed")
		}
		for range 100 {
			_, err := kind.TrySubmit(1)
			unusable(t, err)
			time.Sleep(time.Second)
		}
		if n := b.outage.Calls(durabletest.OpCheck); n < 20 || n > 60 {
			t.Errorf("%d checks in 100 s of refused calls", n)
		}
		b.outage.end()
		_, _ = kind.TrySubmit(1)
		time.Sleep(3 * time.Second)
		_, _ = kind.TrySubmit(1)
		time.Sleep(time.Second)
		if err := submit(t, kind, 1).WaitEnqueued(t.Context()); err != nil {
			t.Error(err)
		}
	})
	bubble(t, "found at the first contact: what was accepted before is kept", func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		b.spoil()
		early := submit(t, kind, 1)
		time.Sleep(time.Minute)
		if got := early.State(); got != local.Accepted {
			t.Errorf("accepted before it was known: %v", got)
		}
		_, err := kind.TrySubmit(2)
		unusable(t, err)
		b.outage.end()
		if err := early.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := submit(t, kind, 3).WaitEnqueued(t.Context()); err != nil {
			t.Error(err)
		}
	})
	bubble(t, "after Shutdown it is closed, and nobody asks", func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		b.spoil()
		if err := b.q.Check(t.Context()); err == nil {
			t.Fatal("passed")
		}
		shutdown(t, b.q)
		time.Sleep(time.Minute)
		if _, err := kind.TrySubmit(1); !errors.Is(err, policy.ErrClosed) {
			t.Errorf("got %v", err)
		}
		if n := b.outage.Calls(durabletest.OpCheck); n != 1 {
			t.Errorf("%d checks", n)
		}
	})
	bubble(t, "found by Run at its start", func(t *testing.T) {
		b := setup(t, nil)
		b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return nil })
		b.spoil()
		if err := b.q.Run(t.Context(), nil); !errors.Is(err, policy.ErrUnusable) {
			t.Errorf("got %v", err)
		}
	})
	bubble(t, "found while running: consuming goes on", func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return nil })
		b.run(t, nil)
		synctest.Wait() // it has passed the check at its start
		delayed := submitJob(t, kind, bridge.Job[int]{ID: "later", Delay: 2 * time.Minute})
		if err := delayed.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.spoil()
		time.Sleep(90 * time.Second)
		_, err := kind.TrySubmit(1)
		unusable(t, err)
		if err := delayed.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		b.outage.end()
		time.Sleep(time.Minute)
		if err := submit(t, kind, 1).Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestStoreThatDoesNotAnswerItsCheck(t *testing.T) {
	t.Parallel()
	bubble(t, "is waited for by Run, and not called unusable", func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return nil })
		b.outage.begin(durabletest.Fault{Action: durabletest.Refuse})
		b.run(t, nil)
		ticket := submit(t, kind, 1)
		err := b.q.Check(t.Context())
		if !errors.Is(err, durable.ErrNotExecuted) || errors.Is(err, policy.ErrUnusable) {
			t.Errorf("check: %v", err)
		}
		time.Sleep(time.Hour)
		b.outage.end()
		if err := ticket.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
	bubble(t, "ends Run in order while it is waited for", func(t *testing.T) {
		b := setup(t, nil)
		b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return nil })
		b.outage.begin(durabletest.Fault{Action: durabletest.Hang})
		b.run(t, nil)
		time.Sleep(time.Minute)
		b.stop()
		start := time.Now()
		if err := <-b.ran; err != nil || time.Since(start) > time.Second {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
	})
	bubble(t, "does not hold Check, Stats or Shutdown beyond their contexts", func(t *testing.T) {
		b := setup(t, nil)
		b.outage.begin(durabletest.Fault{Action: durabletest.Hang})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := b.q.Check(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("check: %v after %v", err, time.Since(start))
		}
		if s, err := b.q.Stats(ctx); !errors.Is(err, context.DeadlineExceeded) || s.Front.Capacity != 1024 {
			t.Errorf("stats: %+v, %v", s, err)
		}
		monitor := make(chan error)
		go func() { _, err := b.q.Stats(context.Background()); monitor <- err }()
		synctest.Wait()
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if _, err := b.q.Shutdown(ctx); err != nil || time.Since(start) > time.Second {
			t.Errorf("shutdown: %v after %v", err, time.Since(start))
		}
		if err := <-monitor; err == nil {
			t.Error("stats of a store that does not answer")
		}
	})
}

// Exchanges were once counted by a sync.WaitGroup: asking for numbers while the queue shut
// down was a misuse of it, and could panic.
func TestAskingForNumbersMayRaceShutdown(t *testing.T) {
	t.Parallel()
	for range 200 {
		q, err := bridge.Open(durable.NewMemory(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		kind := bridge.NewKind[int](q, "count", nil)
		if _, err := kind.TrySubmit(1); err != nil {
			t.Fatal(err)
		}
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			for range 20 {
				_, _ = q.Stats(context.Background())
				_ = q.Check(context.Background())
			}
		}()
		shutdown(t, q)
		<-asked
	}
}
