package bridge_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

func TestTimeoutEndsTheContextWithItsCauseAndCountsAsFailedRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, &bridge.Options{Retry: policy.Retry{MaxAttempts: 2}})
		kind := bridge.NewKind(b.q, "slow", &bridge.KindOptions[int]{Timeout: time.Minute, Retry: policy.Retry{MaxAttempts: 2}})
		var causes []error
		if err := kind.Handle(func(ctx context.Context, _ *bridge.Delivery[int]) error {
			start := time.Now()
			<-ctx.Done()
			if d := time.Since(start); d != time.Minute {
				t.Errorf("ended after %v", d)
			}
			causes = append(causes, context.Cause(ctx))
			return ctx.Err()
		}); err != nil {
			t.Fatal(err)
		}
		b.run(t, nil)
		err := submit(t, kind, 1).Wait(t.Context())
		if !errors.Is(err, local.ErrDead) || !errors.Is(err, bridge.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if len(causes) != 2 || !errors.Is(causes[0], bridge.ErrTimeout) {
			t.Errorf("causes %v", causes)
		}
		if got := b.q.Counters(); got.Retried != 1 || got.Dead != 1 || got.Stuck != 0 {
			t.Errorf("counters %+v", got)
		}
	})
}

func TestHandlerThatSucceedsAfterItsTimeoutButReturnsInTimeCompletes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind(b.q, "slow", &bridge.KindOptions[int]{Timeout: time.Minute})
		if err := kind.Handle(func(ctx context.Context, _ *bridge.Delivery[int]) error {
			<-ctx.Done()
			time.Sleep(100 * time.Millisecond)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		b.run(t, nil)
		if err := submit(t, kind, 1).Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestHandlerThatIgnoresItsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind(b.q, "deaf", &bridge.KindOptions[int]{Timeout: time.Minute, Retry: policy.Retry{Initial: time.Second}})
		release := make(chan struct{})
		var fences []int64
		if err := kind.Handle(func(_ context.Context, d *bridge.Delivery[int]) error {
			fences = append(fences, d.Fence)
			if d.Deliveries == 1 {
				<-release
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		b.run(t, &bridge.RunOptions{Workers: 1})
		ticket := submit(t, kind, 1)
		<-ticket.Started()

		// Reported, and its token is void.
		time.Sleep(time.Minute + 2*time.Second)
		synctest.Wait()
		stuck := b.events.every(bridge.EventStuck)
		if len(stuck) != 1 || stuck[0].ID != ticket.ID() || !errors.Is(stuck[0].Err, bridge.ErrTimeout) {
			t.Fatalf("events %+v", stuck)
		}
		s, err := b.q.Stats(t.Context())
		if err != nil || s.Stuck != 1 || s.Counters.Stuck != 1 || s.Counters.Retried != 1 {
			t.Errorf("stats %+v, %v", s, err)
		}
		if got := ticket.State(); got != local.Enqueued {
			t.Errorf("its ticket is %v, want enqueued", got)
		}

		// The only worker stays taken, so nothing else runs here, however long it takes.
		other := submit(t, kind, 2)
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := other.State(); got != local.Enqueued || len(fences) != 1 {
			t.Errorf("another job is %v, %d runs: more handlers than workers", got, len(fences))
		}

		// It comes back with the handler; what that returns changes nothing.
		close(release)
		if err := errors.Join(ticket.Wait(t.Context()), other.Wait(t.Context())); err != nil {
			t.Error(err)
		}
		if len(fences) != 3 || fences[1] <= fences[0] {
			t.Errorf("fences %v: want three runs, growing", fences)
		}
		synctest.Wait()
		s, err = b.q.Stats(t.Context())
		if err != nil || s.Stuck != 0 || s.Counters.Stuck != 1 || s.Counters.Completed != 2 || s.Counters.Stale != 0 {
			t.Errorf("afterwards: %+v, %v", s, err)
		}
	})
}
