package bridge_test

import (
	"context"
	"errors"
	"log/slog"
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

// Stories from the field about the store and what stands before it; see case 25 beside the lease, 30
// beside unknown kinds, and 39 beside several processes.

func TestCase13_TheBufferOfAnOutageIsNeitherLostNorStuckNorSilent(t *testing.T) {
	t.Parallel()
	// Elsewhere it was lost on exit, drained only by the next push, and dropped silently on overflow.
	fill := func(t *testing.T) (b *bench, kind *bridge.Kind[int], tickets []*bridge.Ticket) {
		b = setup(t, &bridge.Options{Capacity: 10})
		kind = bridge.NewKind[int](b.q, "count", nil)
		b.outage.begin(durabletest.Fault{Action: durabletest.Refuse})
		tickets = append(tickets, submit(t, kind, 0))
		time.Sleep(time.Second) // the bridge has it, and tries
		for i := 1; i < 10; i++ {
			tickets = append(tickets, submit(t, kind, i))
		}
		return b, kind, tickets
	}
	bubble(t, "the store is back, and nothing is pushed: drained, in order", func(t *testing.T) {
		b, kind, tickets := fill(t)
		time.Sleep(time.Hour)
		b.outage.end()
		for _, ticket := range tickets {
			if err := ticket.WaitEnqueued(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		var ran []int
		if err := kind.Handle(func(_ context.Context, d *bridge.Delivery[int]) error { ran = append(ran, d.Value); return nil }); err != nil {
			t.Fatal(err)
		}
		b.run(t, &bridge.RunOptions{Workers: 1})
		for _, ticket := range tickets {
			if err := ticket.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, ran); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
	bubble(t, "shutdown in the outage: exactly what is not durable comes back, in order", func(t *testing.T) {
		b, _, tickets := fill(t)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		report, err := b.q.Shutdown(ctx)
		if err != nil || len(report.Returned) != len(tickets) || report.Enqueued+len(report.Uncertain) != 0 {
			t.Fatalf("%+v, %v", report, err)
		}
		for i, back := range report.Returned {
			if back.ID != tickets[i].ID() || !errors.Is(tickets[i].Err(), local.ErrAbandoned) {
				t.Errorf("place %d: %s came back, its ticket is %v", i, back.ID, tickets[i].Err())
			}
		}
		if s := b.stored(t); s.Pending != 0 {
			t.Errorf("stored all the same: %+v", s)
		}
	})
	bubble(t, "overflow: each caller knows which policy hit which job", func(t *testing.T) {
		b, kind, tickets := fill(t)
		if _, err := kind.Submit(t.Context(), 10, policy.Reject()); !errors.Is(err, policy.ErrFull) {
			t.Errorf("reject: %v", err)
		}
		if _, err := kind.Submit(t.Context(), 11, policy.Wait(time.Second)); !errors.Is(err, policy.ErrFull) {
			t.Errorf("wait: %v", err)
		}
		dropped, err := kind.Submit(t.Context(), 12, policy.DropIncoming())
		if err != nil || !errors.Is(dropped.Err(), local.ErrDropped) {
			t.Errorf("drop incoming: %v, %v", dropped, err)
		}
		kept, err := kind.Submit(t.Context(), 13, policy.DropOldest())
		if err != nil || !errors.Is(tickets[1].Err(), local.ErrEvicted) {
			t.Errorf("drop oldest: %v, the oldest that could be: %v", err, tickets[1].Err())
		}
		b.outage.end()
		for i, ticket := range append(tickets, kept) {
			if err := ticket.WaitEnqueued(t.Context()); (err != nil) != (i == 1) {
				t.Errorf("job %d: %v", i, err)
			}
		}
		synctest.Wait()
		b.conserved(t)
	})
}

func TestCase14_StoppingNeverEndsAJob(t *testing.T) {
	t.Parallel()
	// Elsewhere items failed once because the destination was down at shutdown, and were deleted
	// from the durable queue.
	synctest.Test(t, func(t *testing.T) {
		memory := durable.NewMemory(nil)
		b := setupOn(t, memory, &bridge.Options{Retry: policy.Retry{MaxAttempts: 1}})
		kind := b.handle(t, "send", func(ctx context.Context, _ *bridge.Delivery[int]) error {
			<-ctx.Done()
			return errors.New("destination is down")
		})
		b.run(t, &bridge.RunOptions{Workers: 5, Grace: time.Second, Lease: 10 * time.Second})
		var tickets []*bridge.Ticket
		for i := range 20 {
			tickets = append(tickets, submit(t, kind, i))
		}
		if err := b.q.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.outage.begin(durabletest.Fault{Action: durabletest.Refuse}) // and the store is, too
		shutdown(t, b.q)
		if got := b.q.Counters(); got.Started != 5 || got.Dead+got.Retried+got.Completed != 0 {
			t.Errorf("counters %+v", got)
		}
		next := setupOn(t, memory, nil)
		var ran runs
		next.handle(t, "send", func(_ context.Context, d *bridge.Delivery[int]) error {
			if d.Attempt != 1 {
				t.Errorf("%s was charged: attempt %d", d.ID, d.Attempt)
			}
			ran.add(d.ID)
			return nil
		})
		next.run(t, nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		ran.onceEach(t, tickets)
	})
}

func TestCase15_TheContextOfShutdownDecidesHowMuchIsDrained(t *testing.T) {
	t.Parallel()
	// Elsewhere one had to choose: everything is lost, or the signal to stop holds for minutes.
	const jobs = 30
	for name, c := range map[string]struct {
		limit       time.Duration
		least, most int // enqueued
	}{
		"time for all":  {time.Hour, jobs, jobs},
		"time for some": {10 * time.Second, 7, 11},
		"no time":       {0, 0, 1},
	} {
		bubble(t, name, func(t *testing.T) {
			b := setup(t, nil)
			kind := bridge.NewKind(b.q, "large", &bridge.KindOptions[[]byte]{Codec: bridge.Bytes{}})
			b.outage.begin(durabletest.Fault{Delay: time.Second}, durabletest.OpAppend)
			for range jobs { // each fills a request, and each request takes a second
				if _, err := kind.TrySubmit(make([]byte, 600<<10)); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), c.limit)
			defer cancel()
			start := time.Now()
			report, err := b.q.Shutdown(ctx)
			if d := time.Since(start); err != nil || d > min(c.limit, (jobs+1)*time.Second) {
				t.Errorf("took %v: %v", d, err)
			}
			if report.Enqueued < c.least || report.Enqueued > c.most {
				t.Errorf("%d enqueued, want %d to %d", report.Enqueued, c.least, c.most)
			}
			if report.Enqueued+len(report.Returned)+len(report.Uncertain) != jobs {
				t.Errorf("%d enqueued, %d returned, %d uncertain", report.Enqueued, len(report.Returned), len(report.Uncertain))
			}
			if stored := int(b.stored(t).Pending); stored < report.Enqueued || stored > report.Enqueued+len(report.Uncertain) {
				t.Errorf("%d stored, report %d and %d uncertain", stored, report.Enqueued, len(report.Uncertain))
			}
		})
	}
}

func TestCase17_ARetryWhoseReplyIsLostIsScheduledOnce(t *testing.T) {
	t.Parallel()
	// Elsewhere the error path scheduled it again, and copies multiplied.
	for _, action := range []durabletest.Action{durabletest.Lose, durabletest.Repeat, durabletest.Postpone} {
		bubble(t, action.String(), func(t *testing.T) {
			b := setup(t, &bridge.Options{Retry: policy.Retry{MaxAttempts: 4, Initial: time.Second}})
			count := 0
			kind := b.handle(t, "fail", func(_ context.Context, d *bridge.Delivery[int]) error {
				count++
				if d.Attempt != count || d.Deliveries != count {
					t.Errorf("run %d is attempt %d, delivery %d", count, d.Attempt, d.Deliveries)
				}
				return errBroken
			})
			b.outage.decide(func(c durabletest.Call) durabletest.Fault {
				if c.Op == durabletest.OpSettle && c.Seq%2 == 1 {
					return durabletest.Fault{Action: action, Delay: 200 * time.Millisecond}
				}
				return durabletest.Fault{}
			})
			b.run(t, nil)
			if err := submit(t, kind, 1).Wait(t.Context()); !errors.Is(err, local.ErrDead) {
				t.Error(err)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			s := b.stored(t)
			if count != 4 || s.Counters["retried"] != 3 || s.Dead != 1 || s.Pending+s.Scheduled+s.Processing != 0 {
				t.Errorf("%d runs; %+v", count, s)
			}
			if got := b.q.Counters(); got.Retried != 3 || got.Dead != 1 || got.Stale+got.Gone != 0 {
				t.Errorf("counters %+v", got)
			}
		})
	}
}

func TestCase20_ALoopDoesNotSpinWhileTheStoreRefuses(t *testing.T) {
	t.Parallel()
	// Elsewhere the loop that fetches ran at full speed, one log line each time.
	synctest.Test(t, func(t *testing.T) {
		log := &lineCounter{}
		b := setup(t, &bridge.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return nil })
		b.run(t, &bridge.RunOptions{Lease: time.Hour})
		if err := submit(t, kind, 1).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		for round := range 3 {
			b.outage.begin(durabletest.Fault{Action: durabletest.Refuse}, durabletest.OpClaim, durabletest.OpAwait)
			first := b.outage.total()
			time.Sleep(time.Second + 500*time.Millisecond) // an Await that was parked has returned
			if calls := b.outage.total() - first; calls < 3 {
				t.Errorf("round %d: %d calls at its beginning: the back-off did not start anew", round, calls)
			}
			before, lines := b.outage.total(), log.lines.Load()
			time.Sleep(time.Minute)
			synctest.Wait()
			if calls := b.outage.total() - before; calls < 10 || calls > 70 {
				t.Errorf("round %d: %d calls in a minute", round, calls)
			}
			if n := log.lines.Load() - lines; n < 1 || n > 14 {
				t.Errorf("round %d: %d log lines in a minute", round, n)
			}
			b.outage.end()
			start := time.Now()
			if err := submit(t, kind, 1).Wait(t.Context()); err != nil || time.Since(start) > 3*time.Second {
				t.Errorf("round %d: %v after %v", round, err, time.Since(start))
			}
		}
	})
}

func TestCase26_NoTimeoutUnlessOneIsSet(t *testing.T) {
	t.Parallel()
	// Elsewhere a hidden timeout of 30 minutes ran a job again that was about to succeed.
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		count := 0
		kind := b.handle(t, "hours", func(ctx context.Context, _ *bridge.Delivery[int]) error {
			count++
			if deadline, ok := ctx.Deadline(); ok {
				t.Errorf("there is a deadline: %v", deadline)
			}
			select {
			case <-time.After(2 * time.Hour):
			case <-ctx.Done():
				t.Errorf("ended by %v", context.Cause(ctx))
			}
			return nil
		})
		b.run(t, nil)
		if err := submit(t, kind, 1).Wait(t.Context()); err != nil || count != 1 {
			t.Errorf("%v, %d runs", err, count)
		}
		if got := b.q.Counters(); got.Stuck+got.LeaseLost+got.Retried != 0 {
			t.Errorf("counters %+v", got)
		}
	})
}

func TestCase26_WithATimeoutTheSlotStaysTakenUntilTheHandlerReturns(t *testing.T) {
	t.Parallel()
	// Elsewhere a job that had timed out was taken for ended, and another one ran beside it.
	for name, c := range map[string]struct {
		deaf  time.Duration // how long after its timeout the handler returns
		stuck uint64        // counted
	}{
		"in time":                       {900 * time.Millisecond, 0},
		"late, and is counted as stuck": {time.Hour, 1},
	} {
		bubble(t, name, func(t *testing.T) {
			b := setup(t, nil)
			var running atomic.Int64
			kind := bridge.NewKind(b.q, "deaf", &bridge.KindOptions[int]{Timeout: time.Minute})
			if err := kind.Handle(func(_ context.Context, d *bridge.Delivery[int]) error {
				if n := running.Add(1); n > 1 {
					t.Errorf("%d handlers on one worker", n)
				}
				defer running.Add(-1)
				if d.Value == 1 && d.Deliveries == 1 {
					time.Sleep(time.Minute + c.deaf)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			b.run(t, &bridge.RunOptions{Workers: 1})
			deaf := submit(t, kind, 1)
			<-deaf.Started()
			next := submit(t, kind, 2)

			time.Sleep(time.Minute + c.deaf - time.Millisecond)
			synctest.Wait()
			s, err := b.q.Stats(t.Context())
			if err != nil || s.Counters.Stuck != c.stuck || s.Stuck != int(c.stuck) {
				t.Errorf("while it runs: %+v, %v", s, err)
			}
			if n := running.Load(); n != 1 || next.State() != local.Enqueued {
				t.Errorf("%d handlers are running, the next job is %v", n, next.State())
			}
			start := time.Now()
			if err := next.Wait(t.Context()); err != nil || time.Since(start) > 2*time.Second {
				t.Errorf("the next job: %v after %v", err, time.Since(start))
			}
			if err := deaf.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if s, err := b.q.Stats(t.Context()); err != nil || s.Stuck != 0 || s.Counters.Retried != c.stuck || s.Counters.Completed != 2 {
				t.Errorf("afterwards: %+v, %v", s, err)
			}
		})
	}
}
