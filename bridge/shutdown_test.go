package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

func TestFlush(t *testing.T) {
	t.Parallel()
	bubble(t, "of nothing returns at once, also before the first Submit and after Shutdown", func(t *testing.T) {
		b := setup(t, nil)
		if err := b.q.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		shutdown(t, b.q)
		if err := b.q.Flush(t.Context()); err != nil {
			t.Error(err)
		}
	})
	bubble(t, "waits for what was accepted before, not for what comes later", func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		b.gate.Hold(durabletest.OpAppend)
		first := submit(t, kind, 1)
		synctest.Wait()
		second := submit(t, kind, 2)
		flushed := make(chan error, 1)
		go func() { flushed <- b.q.Flush(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-flushed:
			t.Fatalf("returned %v while both are only accepted", err)
		default:
		}
		b.gate.Release(durabletest.OpAppend)
		if err := <-flushed; err != nil {
			t.Fatal(err)
		}
		for _, ticket := range []*bridge.Ticket{first, second} {
			if ticket.State() != local.Enqueued {
				t.Errorf("after Flush: %v", ticket.State())
			}
		}
	})
	bubble(t, "evictions meanwhile count as ends", func(t *testing.T) {
		b := setup(t, &bridge.Options{Capacity: 3})
		kind := bridge.NewKind[int](b.q, "count", nil)
		b.gate.Hold(durabletest.OpAppend)
		taken := submit(t, kind, 1)
		synctest.Wait()
		evicted := []*bridge.Ticket{submit(t, kind, 2), submit(t, kind, 3)}
		flushed := make(chan error, 1)
		go func() { flushed <- b.q.Flush(t.Context()) }()
		synctest.Wait()
		var later []*bridge.Ticket
		for i := range 2 {
			ticket, err := kind.Submit(t.Context(), 4+i, policy.DropOldest())
			if err != nil {
				t.Fatal(err)
			}
			later = append(later, ticket)
		}
		for _, ticket := range evicted {
			if ticket.State() != local.Evicted {
				t.Errorf("got %v", ticket.State())
			}
		}
		synctest.Wait()
		if len(flushed) != 0 {
			t.Error("returned while one of those before is only accepted")
		}
		b.gate.Release(durabletest.OpAppend)
		if err := <-flushed; err != nil || taken.State() != local.Enqueued {
			t.Errorf("flush: %v, %v", err, taken.State())
		}
		for _, ticket := range later {
			if err := ticket.WaitEnqueued(t.Context()); err != nil {
				t.Error(err)
			}
		}
		b.conserved(t)
	})
	bubble(t, "ends with its context, by its cause", func(t *testing.T) {
		b := setup(t, nil)
		b.gate.Hold(durabletest.OpAppend)
		submit(t, bridge.NewKind[int](b.q, "count", nil), 1)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errBroken)
		defer cancel()
		if err := b.q.Flush(ctx); !errors.Is(err, errBroken) {
			t.Errorf("got %v", err)
		}
		b.gate.Release(durabletest.OpAppend)
	})
}

func TestShutdownIsIdempotentAndConcurrent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return nil })
		b.outage.begin(durabletest.Fault{Action: durabletest.Refuse}, durabletest.OpAppend)
		b.run(t, nil)
		synctest.Wait()
		for i := range 10 {
			submit(t, kind, i)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		reports := make(chan bridge.Report, 10)
		for range 10 {
			go func() {
				report, err := b.q.Shutdown(ctx)
				if err != nil {
					t.Error(err)
				}
				reports <- report
			}()
		}
		first := <-reports
		if len(first.Returned) != 10 {
			t.Errorf("returned %d, want 10", len(first.Returned))
		}
		for range 9 {
			if diff := cmp.Diff(first, <-reports, cmp.Comparer(errors.Is)); diff != "" {
				t.Errorf("reports differ (-first +other):\n%s", diff)
			}
		}
		again, err := b.q.Shutdown(t.Context())
		if err != nil || len(again.Returned) != 10 {
			t.Errorf("afterwards: %d returned, %v", len(again.Returned), err)
		}
		if err := <-b.ran; err != nil {
			t.Errorf("run: %v", err)
		}
		b.conserved(t)
	})
}

func TestShutdownOfAQueueThatWasNeverUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		report, err := b.q.Shutdown(t.Context())
		if diff := cmp.Diff(bridge.Report{}, report); err != nil || diff != "" {
			t.Errorf("%v, report (-want +got):\n%s", err, diff)
		}
		if n := b.outage.total(); n != 0 {
			t.Errorf("the store was asked %d times", n)
		}
	})
}

func TestReturnedJobsAreAsTheyWereSubmitted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		b.outage.begin(durabletest.Fault{Action: durabletest.Refuse})
		headers, later := map[string]string{"trace": "1"}, time.Now().Add(time.Minute)
		submitJob(t, kind, bridge.Job[int]{
			ID: "1", Value: 42, Headers: headers, MaxAttempts: 3, Timeout: time.Minute, Retention: time.Hour, Priority: -3,
			NotBefore: later, Expiry: time.Hour, Unique: durable.Unique{Key: "k", Window: time.Hour},
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		report, err := b.q.Shutdown(ctx)
		if err != nil || len(report.Returned) != 1 {
			t.Fatalf("%+v, %v", report, err)
		}
		back := report.Returned[0]
		if !errors.Is(back.Err, bridge.ErrShutdown) || !errors.Is(back.Err, policy.ErrClosed) {
			t.Errorf("because of %v", back.Err)
		}
		back.Err = nil
		want := bridge.Returned{
			ID: "1", Kind: "count", Payload: []byte("42"), Headers: headers,
			MaxAttempts: 3, Timeout: time.Minute, Retention: time.Hour, Priority: -3,
			NotBefore: later, Expiry: time.Hour, Unique: durable.Unique{Key: "k", Window: time.Hour},
		}
		if diff := cmp.Diff(want, back); diff != "" {
			t.Errorf("returned (-want +got):\n%s", diff)
		}
	})
}

func TestShutdownGivesRunningHandlersTheirGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		causes := make(chan error, 2)
		kind := b.handle(t, "count", func(ctx context.Context, d *bridge.Delivery[int]) error {
			select {
			case <-time.After(time.Duration(d.Value) * time.Second):
			case <-ctx.Done():
				causes <- context.Cause(ctx)
				return ctx.Err()
			}
			return nil
		})
		b.run(t, &bridge.RunOptions{Workers: 2, Grace: 10 * time.Second})
		quick, slow := submit(t, kind, 5), submit(t, kind, 3600)
		<-quick.Started()
		<-slow.Started()
		waiting := submit(t, kind, 1) // is not claimed any more
		if err := waiting.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := b.q.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d < 10*time.Second || d > 11*time.Second {
			t.Errorf("took %v, want the grace of 10 s", d)
		}
		if err := quick.Err(); err != nil || quick.State() != local.Completed {
			t.Errorf("within the grace: %v", err)
		}
		if cause := <-causes; !errors.Is(cause, bridge.ErrStopping) {
			t.Errorf("beyond it, the context ended by %v", cause)
		}
		for _, ticket := range []*bridge.Ticket{slow, waiting} {
			if err := ticket.Err(); !errors.Is(err, local.ErrDetached) {
				t.Errorf("got %v, want detached", err)
			}
		}
		if got := b.q.Counters(); got.Released != 1 || got.Completed != 1 || got.Retried+got.Dead != 0 {
			t.Errorf("counters %+v", got)
		}

		if s := b.stored(t); s.Consumers != 0 || s.Processing != 0 || s.Pending != 2 {
			t.Errorf("after an orderly end: %+v", s)
		}

		// Its next run is a second delivery of the first attempt; nothing waits for a lease.
		next := setupOn(t, b.memory, nil)
		deliveries := make(chan *bridge.Delivery[int], 2)
		next.handle(t, "count", func(_ context.Context, d *bridge.Delivery[int]) error { deliveries <- d; return nil })
		start = time.Now()
		next.run(t, &bridge.RunOptions{Workers: 1})
		d := <-deliveries
		if d.ID != slow.ID() || d.Attempt != 1 || d.Deliveries != 2 || time.Since(start) > time.Second {
			t.Errorf("got %+v after %v", d, time.Since(start))
		}
		<-deliveries
	})
}

func TestHandlerThatSucceedsAfterItWasStoppedCompletes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "count", func(ctx context.Context, _ *bridge.Delivery[int]) error { <-ctx.Done(); return nil })
		b.run(t, &bridge.RunOptions{Grace: time.Second})
		ticket := submit(t, kind, 1)
		<-ticket.Started()
		shutdown(t, b.q)
		if ticket.State() != local.Completed {
			t.Errorf("got %v", ticket.Err())
		}
	})
}

func TestStuckHandlersAreReportedAtAStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := open(t, durable.NewMemory(nil), nil)
		release := make(chan struct{})
		kind := b.handle(t, "deaf", func(context.Context, *bridge.Delivery[int]) error { <-release; return nil })
		b.run(t, &bridge.RunOptions{Grace: 5 * time.Second})
		ticket := submit(t, kind, 1)
		<-ticket.Started()
		start := time.Now()
		_, err := b.q.Shutdown(t.Context())
		if !errors.Is(err, bridge.ErrStuck) || time.Since(start) > 7*time.Second {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
		if err := <-b.ran; !errors.Is(err, bridge.ErrStuck) {
			t.Errorf("run: %v", err)
		}
		s, _ := b.q.Stats(t.Context()) // the store is not asked any more
		stored := memoryStats(t, b.memory)
		if s.Stuck != 1 || s.Counters.Stuck != 1 || s.Counters.Released != 1 || stored.Pending != 1 {
			t.Errorf("stats %+v, stored %+v", s, stored)
		}
		if err := ticket.Err(); !errors.Is(err, local.ErrDetached) {
			t.Errorf("its ticket: %v", err)
		}
		close(release)
		synctest.Wait()
		s, _ = b.q.Stats(t.Context())
		stored = memoryStats(t, b.memory)
		if s.Stuck != 0 || stored.Pending != 1 || stored.Counters["completed"] != 0 {
			t.Errorf("what it returned changed something: %+v, stored %+v", s, stored)
		}
	})
}

func TestShutdownFromAHandler(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]time.Duration{
		"with a deadline":    10 * time.Second,
		"without a deadline": 0, // the end of the grace time ends the handler's own context
	} {
		bubble(t, name, func(t *testing.T) {
			b := open(t, durable.NewMemory(nil), nil)
			inside := make(chan error, 1)
			kind := b.handle(t, "count", func(ctx context.Context, _ *bridge.Delivery[int]) error {
				if limit > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, limit)
					defer cancel()
				}
				_, err := b.q.Shutdown(ctx)
				inside <- err
				return nil
			})
			b.run(t, &bridge.RunOptions{Grace: 20 * time.Second})
			start := time.Now()
			ticket := submit(t, kind, 1)
			if err := <-inside; err == nil {
				t.Error("it says that Run has ended, from within one of its handlers")
			}
			if err := <-b.ran; err != nil {
				t.Errorf("run: %v", err)
			}
			if d := time.Since(start); d > 22*time.Second {
				t.Errorf("took %v", d)
			}
			if _, err := kind.TrySubmit(1); !errors.Is(err, policy.ErrClosed) {
				t.Errorf("submit: %v", err)
			}
			synctest.Wait()
			if !ticket.State().Ended() {
				t.Errorf("its ticket is %v", ticket.State())
			}
			if s := b.stored(t); s.Counters["completed"] != 1 {
				t.Errorf("in the store: %+v", s)
			}
		})
	}
}

func TestShutdownKeepsItsDeadline(t *testing.T) {
	t.Parallel()
	for _, action := range []durabletest.Action{durabletest.Refuse, durabletest.Lose, durabletest.Hang} {
		for _, limit := range []time.Duration{0, 10 * time.Millisecond, time.Second, time.Minute} {
			bubble(t, fmt.Sprint("all calls ", action, ", ", limit), func(t *testing.T) {
				b := open(t, durable.NewMemory(nil), nil)
				kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return nil })
				b.run(t, nil)
				var tickets []*bridge.Ticket
				for i := range 100 {
					tickets = append(tickets, submit(t, kind, i))
				}
				for _, ticket := range tickets {
					if err := ticket.Wait(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if err := b.q.Flush(t.Context()); err != nil { // a job can complete before the answer to its append is here
					t.Fatal(err)
				}
				b.outage.begin(durabletest.Fault{Action: action})
				for i := range 1000 {
					tickets = append(tickets, submit(t, kind, i))
				}
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				start := time.Now()
				report, err := b.q.Shutdown(ctx)
				if late := time.Since(start) - limit; late > 0 {
					t.Errorf("%v late: %v", late, err)
				}
				b.outage.end()
				<-b.ran
				if got := report.Enqueued + len(report.Returned) + len(report.Uncertain); got != 1000 {
					t.Errorf("%d enqueued, %d returned, %d uncertain; want 1000 together", report.Enqueued, len(report.Returned), len(report.Uncertain))
				}
				for _, ticket := range tickets {
					closed(t, ticket)
				}
				b.conserved(t)
			})
		}
	}
}

// closed expects that nobody waits for a ticket for ever.
func closed(t *testing.T, ticket *bridge.Ticket) {
	t.Helper()
	for name, c := range map[string]<-chan struct{}{"Enqueued": ticket.Enqueued(), "Started": ticket.Started(), "Done": ticket.Done()} {
		select {
		case <-c:
		default:
			t.Errorf("ticket of %s in state %v: %s is open", ticket.ID(), ticket.State(), name)
		}
	}
}

func TestCase01_SubmitRacingShutdown(t *testing.T) {
	t.Parallel()
	// Elsewhere this panicked with "send on closed channel".
	const rounds, producers, each = 300, 100, 3
	var accepted, closed atomic.Int64
	for round := range rounds {
		before := accepted.Load()
		memory := durable.NewMemory(nil)
		q, err := bridge.Open(memory, &bridge.Options{Capacity: 20})
		if err != nil {
			t.Fatal(err)
		}
		kind := bridge.NewKind[int](q, "count", nil)
		if round%2 == 0 {
			if err := kind.Handle(func(context.Context, *bridge.Delivery[int]) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		ran := make(chan struct{})
		go func() { defer close(ran); _ = q.Run(context.Background(), nil) }()
		var mu sync.Mutex
		var tickets []*bridge.Ticket
		var all sync.WaitGroup
		start := make(chan struct{})
		for i := range producers {
			all.Go(func() {
				<-start
				for range each {
					p := []policy.Policy{policy.Wait(time.Minute), policy.Reject(), policy.DropOldest(), policy.DropIncoming()}[i%4]
					ticket, err := kind.Submit(context.Background(), i, p)
					switch {
					case err == nil:
						accepted.Add(1)
						mu.Lock()
						tickets = append(tickets, ticket)
						mu.Unlock()
					case errors.Is(err, policy.ErrClosed):
						closed.Add(1)
						if ticket != nil {
							t.Error("a ticket and an error")
						}
					case !errors.Is(err, policy.ErrFull) || i%4 == 0:
						t.Errorf("got %v", err)
					}
				}
			})
		}
		close(start)
		for accepted.Load()-before < int64(round%30) { // it closes among them, sooner or later
			runtime.Gosched()
		}
		shutdown(t, q)
		all.Wait()
		<-ran
		for _, ticket := range tickets {
			if !ticket.State().Ended() {
				t.Fatalf("round %d: a ticket is %v after Shutdown", round, ticket.State())
			}
		}
		front, counters, stored := q.Front(), q.Counters(), memoryStats(t, memory).Counters["appended"]
		if front.Accepted+front.Dropped != int64(len(tickets)) || front.Length != 0 {
			t.Fatalf("round %d: %d tickets, %+v", round, len(tickets), front)
		}
		if stored != int64(counters.Enqueued) {
			t.Fatalf("round %d: %d stored, %d reported", round, stored, counters.Enqueued)
		}
	}
	if accepted.Load() == 0 || closed.Load() == 0 {
		t.Errorf("%d accepted, %d came too late", accepted.Load(), closed.Load())
	}
}
