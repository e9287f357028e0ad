package bridge_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// Stories from the field about admission; see case 1 beside Shutdown, and 2 beside the policies.

func TestCase03_EveryTicketEndsWhenTheRootContextIsCancelled(t *testing.T) {
	t.Parallel()
	// Elsewhere waiting on the group never returned: jobs that were still queued never ended.
	synctest.Test(t, func(t *testing.T) {
		root, cancel := context.WithCancel(t.Context())
		b := setup(t, &bridge.Options{Capacity: 50})
		kind := b.handle(t, "count", func(ctx context.Context, _ *bridge.Delivery[int]) error { <-ctx.Done(); return ctx.Err() })
		go func() { b.ran <- b.q.Run(root, &bridge.RunOptions{Workers: 2, Grace: time.Second}) }()
		var tickets []*bridge.Ticket
		add := func() {
			ticket, err := kind.Submit(root, 1, policy.Reject())
			if err != nil {
				t.Fatal(err)
			}
			tickets = append(tickets, ticket)
		}
		for range 20 {
			add()
		}
		time.Sleep(time.Second)
		b.outage.begin(durabletest.Fault{Action: durabletest.Refuse}, durabletest.OpAppend)
		for range 20 {
			add()
		}
		cancel()
		waited := make(chan error, len(tickets))
		for _, ticket := range tickets {
			go func() { waited <- ticket.Wait(context.Background()) }()
		}
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		report, err := b.q.Shutdown(ctx)
		if err != nil || len(report.Returned) != 20 {
			t.Errorf("%d returned, %v", len(report.Returned), err)
		}
		for range tickets {
			if err := <-waited; !errors.Is(err, local.ErrDetached) && !errors.Is(err, local.ErrAbandoned) {
				t.Errorf("got %v", err)
			}
		}
		if err := <-b.ran; err != nil {
			t.Error(err)
		}
	})
}

func TestCase08_AStoreThatIsAwayFromTheStartIsAnsweredInTime(t *testing.T) {
	t.Parallel()
	// Elsewhere the call that enqueues waited for ever, fail-fast or not, if the store was down at the start.
	for name, fault := range map[string]durabletest.Fault{
		"down":                 {Action: durabletest.Refuse},
		"black-holed":          {Action: durabletest.Hang},
		"replies take seconds": {Delay: 5 * time.Second},
	} {
		bubble(t, name, func(t *testing.T) {
			began := time.Now()
			b := setup(t, &bridge.Options{Capacity: 2})
			b.outage.begin(fault)
			kind := bridge.NewKind[int](b.q, "count", nil)
			tickets := []*bridge.Ticket{submit(t, kind, 1), submit(t, kind, 2)}
			if d := time.Since(began); d != 0 {
				t.Errorf("opening and accepting took %v", d)
			}
			_, err := kind.Submit(t.Context(), 3, policy.Wait(100*time.Millisecond))
			if d := time.Since(began); !errors.Is(err, policy.ErrFull) || d != 100*time.Millisecond {
				t.Errorf("a wait of 100 ms: %v after %v", err, d)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, err = kind.Submit(ctx, 3, policy.Wait(0)); !errors.Is(err, policy.ErrFull) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a wait until the deadline: %v", err)
			}
			if err := tickets[0].WaitEnqueued(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("waiting for the store: %v", err)
			}
			if d := time.Since(began); d != 200*time.Millisecond {
				t.Errorf("all of it took %v", d)
			}
			b.outage.end()
			for _, ticket := range tickets {
				if err := ticket.WaitEnqueued(t.Context()); err != nil {
					t.Errorf("once it answers: %v", err)
				}
			}
		})
	}
}

func TestCase09_WaitersAreWokenWhenTheOneBeforeThemLeaves(t *testing.T) {
	t.Parallel()
	// Elsewhere cancelling the first waiter did not wake the next, and freeing many bytes woke only
	// one of two who fit.
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, &bridge.Options{CapacityBytes: 100})
		kind := bridge.NewKind(b.q, "bytes", &bridge.KindOptions[[]byte]{Codec: bridge.Bytes{}})
		b.gate.Hold(durabletest.OpAppend)
		if _, err := kind.TrySubmit(make([]byte, 70)); err != nil {
			t.Fatal(err)
		}
		wait := func(ctx context.Context, size int) chan error {
			done := make(chan error, 1)
			go func() {
				_, err := kind.Submit(ctx, make([]byte, size), policy.Wait(time.Hour))
				done <- err
			}()
			synctest.Wait()
			return done
		}
		ctx, cancel := context.WithCancel(t.Context())
		first := wait(ctx, 50) // does not fit
		second, third := wait(t.Context(), 15), wait(t.Context(), 15)
		if len(second) != 0 || len(third) != 0 {
			t.Error("overtaken: the first was there before them")
		}
		cancel()
		synctest.Wait()
		if err := <-first; !errors.Is(err, context.Canceled) || errors.Is(err, policy.ErrFull) {
			t.Errorf("the first: %v", err)
		}
		for _, done := range []chan error{second, third} {
			select {
			case err := <-done:
				if err != nil {
					t.Error(err)
				}
			default:
				t.Error("not woken, although it fits now")
			}
		}
		fourth, fifth := wait(t.Context(), 40), wait(t.Context(), 40)
		b.gate.Release(durabletest.OpAppend)
		if err := errors.Join(<-fourth, <-fifth); err != nil {
			t.Errorf("when many bytes are freed: %v", err)
		}
	})
}

func TestCase10_ABacklogLargerThanTheFrontIsConsumedAtStart(t *testing.T) {
	t.Parallel()
	// Elsewhere a stored backlog larger than the configured capacity blocked the start-up.
	synctest.Test(t, func(t *testing.T) {
		memory := durable.NewMemory(nil)
		before := setupOn(t, memory, nil)
		kind := bridge.NewKind[int](before.q, "count", nil)
		for i := range 1000 {
			submit(t, kind, i)
		}
		shutdown(t, before.q)

		b := setupOn(t, memory, &bridge.Options{Capacity: 10})
		next := 0
		b.handle(t, "count", func(_ context.Context, d *bridge.Delivery[int]) error {
			if d.Value != next {
				t.Errorf("job %d ran as number %d", d.Value, next)
			}
			next++
			return nil
		})
		b.run(t, &bridge.RunOptions{Workers: 1})
		time.Sleep(time.Minute)
		synctest.Wait()
		s, err := b.q.Stats(t.Context())
		if err != nil || next != 1000 || s.Counters.Completed != 1000 || s.Front.HighWater != 0 || s.Durable.Pending != 0 {
			t.Errorf("%d ran; %+v, %v", next, s, err)
		}
	})
}

func TestCase11_AJobThatCanNeverFitIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	// Elsewhere it waited for room that could never be.
	for name, opts := range map[string]bridge.Options{
		"larger than the front":      {CapacityBytes: 10},
		"larger than a payload may":  {MaxPayload: 10},
		"larger than either of them": {CapacityBytes: 10, MaxPayload: 10},
	} {
		bubble(t, name, func(t *testing.T) {
			b := setup(t, &opts)
			kind := bridge.NewKind(b.q, "bytes", &bridge.KindOptions[[]byte]{Codec: bridge.Bytes{}})
			for _, p := range []policy.Policy{policy.Wait(time.Hour), policy.Reject(), policy.DropIncoming(), policy.DropOldest()} {
				start := time.Now()
				ticket, err := kind.Submit(t.Context(), make([]byte, 11), p)
				if ticket != nil || !errors.Is(err, policy.ErrTooLarge) || errors.Is(err, policy.ErrFull) || time.Since(start) != 0 {
					t.Errorf("%v: %v after %v", p, err, time.Since(start))
				}
			}
		})
	}
}

func TestCase12_TheProducersContextDoesNotReachTheJob(t *testing.T) {
	t.Parallel()
	// Elsewhere the handle said cancelled while the job ran on.
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		release := make(chan struct{})
		kind := b.handle(t, "count", func(ctx context.Context, _ *bridge.Delivery[int]) error {
			<-release
			return ctx.Err()
		})
		b.run(t, nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		ticket, err := kind.Submit(ctx, 1, policy.Wait(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		<-ticket.Started()
		cancel(errBroken)
		synctest.Wait()
		if err := ticket.Wait(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, errBroken) {
			t.Errorf("waiting: %v", err)
		}
		if ticket.State() != local.Processing || ticket.Err() != nil {
			t.Errorf("while it runs on: %v, %v", ticket.State(), ticket.Err())
		}
		close(release)
		if err := ticket.Wait(t.Context()); err != nil {
			t.Errorf("at the end: %v", err)
		}
	})
}
