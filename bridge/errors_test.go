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

// A program that moved from a pool to a queue by its constructors went on testing for the pool's errors, which a queue did not
// return.
func TestErrorsOfPoolsAndQueuesAreTheSame(t *testing.T) {
	t.Parallel()
	for name, pair := range map[string][2]error{
		"ErrStopping":   {bridge.ErrStopping, local.ErrStopping},
		"ErrStuck":      {bridge.ErrStuck, local.ErrStuck},
		"ErrRunning":    {bridge.ErrRunning, local.ErrRunning},
		"ErrHandlerSet": {bridge.ErrHandlerSet, local.ErrHandlerSet},
		"ErrNoHandler":  {bridge.ErrNoHandler, local.ErrNoHandler},
		"ErrShutdown":   {bridge.ErrShutdown, local.ErrShutdown},
	} {
		if !errors.Is(pair[0], pair[1]) || !errors.Is(pair[1], pair[0]) {
			t.Errorf("%s: %v is not %v", name, pair[0], pair[1])
		}
	}
	if !errors.Is(bridge.ErrShutdown, policy.ErrClosed) {
		t.Error("ErrShutdown does not match policy.ErrClosed")
	}
}

// A handler that returned the cause of its context, as it should, had that told twice, and so had a request that was in doubt
// when it was given up.
func TestErrorsSayNothingTwice(t *testing.T) {
	t.Parallel()
	once := func(t *testing.T, err, is error, text string) {
		t.Helper()
		if err == nil || !errors.Is(err, is) || strings.Count(err.Error(), text) != 1 {
			t.Errorf("%q once: %v", text, err)
		}
	}
	// waiting is a queue that runs a job whose handler returns the cause of its context.
	waiting := func(t *testing.T) (*bench, *bridge.Ticket) {
		t.Helper()
		b := setup(t, nil)
		kind := b.handle(t, "count", func(ctx context.Context, _ *bridge.Delivery[int]) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		b.run(t, nil)
		ticket := submitJob(t, kind, bridge.Job[int]{ID: "a", Timeout: time.Minute, MaxAttempts: 1})
		<-ticket.Started()
		return b, ticket
	}
	bubble(t, "cancelled", func(t *testing.T) {
		b, ticket := waiting(t)
		if _, err := b.q.Cancel(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		once(t, ticket.Wait(t.Context()), bridge.ErrCancelled, "cancelled")
	})
	bubble(t, "timed out", func(t *testing.T) {
		_, ticket := waiting(t)
		once(t, ticket.Wait(t.Context()), bridge.ErrTimeout, bridge.ErrTimeout.Error())
	})
	bubble(t, "in doubt at Shutdown", func(t *testing.T) {
		b := open(t, durable.NewMemory(nil), nil)
		b.outage.begin(durabletest.Fault{Action: durabletest.Hang}, durabletest.OpAppend, durabletest.OpCloseProducer)
		ticket := submit(t, bridge.NewKind[int](b.q, "count", nil), 1)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		report, err := b.q.Shutdown(ctx)
		if err != nil || len(report.Uncertain) != 1 {
			t.Fatalf("%+v, %v", report, err)
		}
		once(t, ticket.Err(), durable.ErrInDoubt, durable.ErrInDoubt.Error())
		once(t, report.Uncertain[0].Err, durable.ErrInDoubt, durable.ErrInDoubt.Error())
		b.outage.end()
	})
}
