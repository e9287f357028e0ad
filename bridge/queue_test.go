package bridge_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

func TestFourStatesAreSeenApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind[string](b.q, "greet", nil)
		started, finish := make(chan string), make(chan struct{})
		if err := kind.Handle(func(_ context.Context, d *bridge.Delivery[string]) error {
			started <- d.Value
			<-finish
			return nil
		}); err != nil {
			t.Fatal(err)
		}

		b.gate.Hold(durabletest.OpAppend)
		ticket, err := kind.Submit(t.Context(), "hello", policy.Reject())
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := ticket.State(); got != local.Accepted {
			t.Fatalf("while the append is held: %v, want accepted", got)
		}

		b.gate.Release(durabletest.OpAppend)
		if err := ticket.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := ticket.State(); got != local.Enqueued {
			t.Fatalf("without a worker: %v, want enqueued", got)
		}

		b.run(t, nil)
		if got := <-started; got != "hello" {
			t.Fatalf("handler got %q", got)
		}
		<-ticket.Started()
		if got := ticket.State(); got != local.Processing {
			t.Fatalf("in the handler: %v, want processing", got)
		}

		b.gate.Hold(durabletest.OpSettle)
		close(finish)
		synctest.Wait()
		if got := ticket.State(); got != local.Processing {
			t.Fatalf("before the completion is confirmed: %v, want processing", got)
		}
		b.gate.Release(durabletest.OpSettle)
		if err := ticket.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := ticket.State(); got != local.Completed {
			t.Fatalf("at the end: %v, want completed", got)
		}
	})
}

func TestFailedHandlerRunsAgainUntilItsAttemptsAreUsedUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, &bridge.Options{Retry: policy.Retry{MaxAttempts: 3}})
		kind := bridge.NewKind[int](b.q, "fail", nil)
		broken := errors.New("broken")
		var attempts []int
		_ = kind.Handle(func(_ context.Context, d *bridge.Delivery[int]) error {
			attempts = append(attempts, d.Attempt)
			return broken
		})
		b.run(t, nil)
		ticket, err := kind.TrySubmit(1)
		if err != nil {
			t.Fatal(err)
		}
		err = ticket.Wait(t.Context())
		if !errors.Is(err, local.ErrDead) || !errors.Is(err, broken) {
			t.Fatalf("got %v, want dead because broken", err)
		}
		if len(attempts) != 3 || attempts[2] != 3 {
			t.Fatalf("attempts %v, want 1 2 3", attempts)
		}
		if c := b.q.Counters(); c.Retried != 2 || c.Dead != 1 {
			t.Fatalf("counters %+v", c)
		}
	})
}
