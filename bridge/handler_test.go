package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

var errBroken = errors.New("broken")

// life is one run of a job, from the inside.
type life struct {
	Attempt, Deliveries int
	After               time.Duration // since the run before
}

func TestHandlerThatReturnsNilCompletesTheJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return nil })
		b.run(t, nil)
		ticket := submit(t, kind, 1)
		if err := ticket.Wait(t.Context()); err != nil || ticket.State() != local.Completed {
			t.Errorf("got %v, %v", ticket.State(), err)
		}
		s := b.stored(t)
		if got := b.q.Counters(); got.Completed != 1 || s.Pending+s.Scheduled+s.Processing+s.Dead != 0 {
			t.Errorf("counters %+v, stored %+v", got, s)
		}
	})
}

// Each way in which a run can fail has the job run again, after delays that policy.Retry
// gives within its jitter, until the attempts are used up.
func TestHandlerThatFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run   func() error
		cause error  // that the ticket matches; nil: a *PanicError
		says  string // in the ticket's error
	}{
		"by an error":                    {func() error { return errBroken }, errBroken, "broken"},
		"by a wrapped error":             {func() error { return fmt.Errorf("run: %w", errBroken) }, errBroken, "run: broken"},
		"by a panic":                     {func() error { panic("at the disco") }, nil, "panicked: at the disco"},
		"by a panic of an error":         {func() error { panic(errBroken) }, errBroken, "panicked: broken"},
		"by a panic of nil":              {func() error { panic(errors.Join()) }, nil, "panicked: panic called with nil argument"},
		"by a runtime error":             {func() error { panic([]int{}[len(os.Args):]) }, nil, "slice bounds"},
		"by runtime.Goexit":              {func() error { runtime.Goexit(); return nil }, nil, "runtime.Goexit"},
		"by an error that wraps a panic": {func() error { return errors.Join(errBroken, &bridge.PanicError{Message: "old"}) }, errBroken, "broken"},
	} {
		bubble(t, name, func(t *testing.T) {
			const attempts = 4
			b := setup(t, &bridge.Options{Retry: policy.Retry{MaxAttempts: attempts, Initial: time.Second, Multiplier: 2, Jitter: 0.25}})
			var runs []life
			var last time.Time
			kind := b.handle(t, "fail", func(_ context.Context, d *bridge.Delivery[int]) error {
				if d.MaxAttempts != attempts {
					t.Errorf("MaxAttempts is %d", d.MaxAttempts)
				}
				runs = append(runs, life{d.Attempt, d.Deliveries, time.Since(last)})
				last = time.Now()
				return c.run()
			})
			b.run(t, &bridge.RunOptions{Workers: 1})
			ticket := submit(t, kind, 1)
			<-ticket.Started()
			synctest.Wait()
			if got := ticket.State(); got != local.Enqueued {
				t.Errorf("while the retry waits: %v, want enqueued", got)
			}
			err := ticket.Wait(t.Context())
			if !errors.Is(err, local.ErrDead) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v, want dead that says %q", err, c.says)
			}
			if c.cause != nil && !errors.Is(err, c.cause) {
				t.Errorf("%v does not match %v", err, c.cause)
			}
			if _, ok := errors.AsType[*bridge.PanicError](err); c.cause == nil && (!ok || !strings.Contains(err.Error(), "handler_test.go")) {
				t.Errorf("no PanicError with the stack: %v", err)
			}
			if len(runs) != attempts {
				t.Fatalf("%d runs, want %d", len(runs), attempts)
			}
			for i, r := range runs {
				if r.Attempt != i+1 || r.Deliveries != i+1 {
					t.Errorf("run %d: %+v", i+1, r)
				}
				// The timer is at the store's due time; a millisecond is for rounding.
				delay := time.Second << max(i-1, 0)
				if i > 0 && (r.After < delay*3/4-time.Millisecond || r.After > delay*5/4+time.Millisecond) {
					t.Errorf("run %d came after %v, want %v within a quarter", i+1, r.After, delay)
				}
			}
			if got := b.q.Counters(); got.Retried != attempts-1 || got.Dead != 1 || got.Started != attempts {
				t.Errorf("counters %+v", got)
			}
			// The worker is still there.
			b.goesOn(t)
		})
	}
}

// goesOn runs a job of another kind, to see that the only worker is not lost.
func (b *bench) goesOn(t *testing.T) {
	t.Helper()
	fine := b.handle(t, "fine", func(context.Context, *bridge.Delivery[int]) error { return nil })
	if err := submit(t, fine, 1).Wait(t.Context()); err != nil {
		t.Errorf("the job after it: %v", err)
	}
}

func TestPermanentIsDeadAtOnce(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]error{
		"itself":  bridge.Permanent(errBroken),
		"wrapped": fmt.Errorf("run: %w", bridge.Permanent(errBroken)),
	} {
		bubble(t, name, func(t *testing.T) {
			b := setup(t, nil)
			kind := b.handle(t, "fail", func(context.Context, *bridge.Delivery[int]) error { return result })
			b.run(t, &bridge.RunOptions{Workers: 1})
			ticket := submit(t, kind, 1)
			if err := ticket.Wait(t.Context()); !errors.Is(err, local.ErrDead) || !errors.Is(err, errBroken) {
				t.Errorf("got %v", err)
			}
			if got := b.q.Counters(); got.Started != 1 || got.Dead != 1 || got.Retried != 0 || b.stored(t).Dead != 1 {
				t.Errorf("counters %+v", got)
			}
			b.goesOn(t)
		})
	}
	t.Run("of nil is nil", func(t *testing.T) {
		t.Parallel()
		if err := bridge.Permanent(nil); err != nil {
			t.Errorf("got %v", err)
		}
	})
}

func TestSnoozeChargesNoAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, &bridge.Options{Retry: policy.Retry{MaxAttempts: 1}})
		var runs []life
		var last time.Time
		kind := b.handle(t, "nap", func(_ context.Context, d *bridge.Delivery[int]) error {
			runs = append(runs, life{d.Attempt, d.Deliveries, time.Since(last).Round(time.Millisecond)})
			last = time.Now()
			if len(runs) <= 3 {
				return fmt.Errorf("not yet: %w", bridge.Snooze(time.Minute))
			}
			return nil
		})
		b.run(t, nil)
		ticket := submit(t, kind, 1)
		if err := ticket.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		runs[0].After = 0
		want := []life{{1, 1, 0}, {1, 2, time.Minute}, {1, 3, time.Minute}, {1, 4, time.Minute}}
		if diff := cmp.Diff(want, runs); diff != "" {
			t.Errorf("runs (-want +got):\n%s", diff)
		}
		if got := b.q.Counters(); got.Snoozed != 3 || got.Retried != 0 || got.Completed != 1 {
			t.Errorf("counters %+v", got)
		}
		for _, e := range b.events.every(bridge.EventSnoozed) {
			if e.Delay != time.Minute {
				t.Errorf("event %+v", e)
			}
		}
	})
}

func TestJobSettingsTravel(t *testing.T) {
	t.Parallel()
	bubble(t, "ID, kind, headers and value reach the handler", func(t *testing.T) {
		b := setup(t, nil)
		var got *bridge.Delivery[int]
		kind := b.handle(t, "count", func(_ context.Context, d *bridge.Delivery[int]) error { got = d; return nil })
		b.run(t, nil)
		headers := map[string]string{"trace": "01-ü-\"\n", "empty": ""}
		ticket := submitJob(t, kind, bridge.Job[int]{ID: "job-ü", Value: 1 << 53, Headers: headers})
		if err := ticket.Wait(t.Context()); err != nil || ticket.ID() != "job-ü" {
			t.Fatal(ticket.ID(), err)
		}
		if got.Fence <= 0 {
			t.Errorf("fence %d", got.Fence)
		}
		got.Fence, got.Reporter = 0, nil
		want := &bridge.Delivery[int]{
			ID: "job-ü", Kind: "count", Value: 1 << 53, Headers: headers,
			Attempt: 1, MaxAttempts: policy.DefaultMaxAttempts, Deliveries: 1,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("delivery (-want +got):\n%s", diff)
		}
	})
	bubble(t, "Delay: not before", func(t *testing.T) {
		b := setup(t, nil)
		var ran time.Time
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { ran = time.Now(); return nil })
		b.run(t, nil)
		start := time.Now()
		ticket := submitJob(t, kind, bridge.Job[int]{ID: "1", Delay: time.Hour})
		if err := ticket.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := ticket.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if late := ran.Sub(start) - time.Hour; late < 0 || late > 10*time.Millisecond {
			t.Errorf("ran %v late", late)
		}
	})
	bubble(t, "MaxAttempts: goes before the kind's, which goes before the queue's", func(t *testing.T) {
		b := setup(t, &bridge.Options{Retry: policy.Retry{MaxAttempts: 5, Initial: time.Second}})
		runs := map[string]int{}
		fail := func(_ context.Context, d *bridge.Delivery[int]) error { runs[d.ID]++; return errBroken }
		plain := b.handle(t, "plain", fail)
		special := bridge.NewKind(b.q, "special", &bridge.KindOptions[int]{Retry: policy.Retry{MaxAttempts: 3, Initial: time.Second}})
		if err := special.Handle(fail); err != nil {
			t.Fatal(err)
		}
		b.run(t, &bridge.RunOptions{Workers: 1})
		tickets := []*bridge.Ticket{
			submitJob(t, plain, bridge.Job[int]{ID: "queue"}),
			submitJob(t, special, bridge.Job[int]{ID: "kind"}),
			submitJob(t, special, bridge.Job[int]{ID: "job", MaxAttempts: 2}),
		}
		for _, ticket := range tickets {
			if err := ticket.Wait(t.Context()); !errors.Is(err, local.ErrDead) {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(map[string]int{"queue": 5, "kind": 3, "job": 2}, runs); diff != "" {
			t.Errorf("runs (-want +got):\n%s", diff)
		}
	})
	bubble(t, "Timeout: goes before the kind's", func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind(b.q, "slow", &bridge.KindOptions[int]{Timeout: time.Minute})
		limits := map[string]time.Duration{}
		if err := kind.Handle(func(ctx context.Context, d *bridge.Delivery[int]) error {
			deadline, _ := ctx.Deadline()
			limits[d.ID] = time.Until(deadline)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		b.run(t, &bridge.RunOptions{Workers: 1})
		for _, ticket := range []*bridge.Ticket{
			submitJob(t, kind, bridge.Job[int]{ID: "kind"}),
			submitJob(t, kind, bridge.Job[int]{ID: "job", Timeout: time.Hour}),
		} {
			if err := ticket.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(map[string]time.Duration{"kind": time.Minute, "job": time.Hour}, limits); diff != "" {
			t.Errorf("limits (-want +got):\n%s", diff)
		}
	})
	bubble(t, "values of Run's context, not its end", func(t *testing.T) {
		type key struct{}
		b := setup(t, nil)
		var value any
		release, ended := make(chan struct{}), make(chan error, 1)
		kind := b.handle(t, "count", func(ctx context.Context, _ *bridge.Delivery[int]) error {
			value = ctx.Value(key{})
			<-release
			ended <- ctx.Err()
			return nil
		})
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "found"))
		go func() { b.ran <- b.q.Run(ctx, nil) }()
		ticket := submit(t, kind, 1)
		<-ticket.Started()
		cancel()
		synctest.Wait()
		close(release)
		if err := <-ended; err != nil || value != "found" {
			t.Errorf("in the grace time: %v, value %v", err, value)
		}
		if err := errors.Join(ticket.Wait(t.Context()), <-b.ran); err != nil {
			t.Error(err)
		}
	})
}

func TestMiddlewareGoesAroundEveryHandlerTheFirstOutermost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		mark := func(name string) bridge.Middleware {
			return func(next bridge.Handler) bridge.Handler {
				return func(ctx context.Context, d *bridge.Delivery[[]byte]) error {
					calls = append(calls, name+" sees "+string(d.Value))
					err := next(ctx, d)
					calls = append(calls, name+" sees "+fmt.Sprint(err))
					return err
				}
			}
		}
		deny := func(next bridge.Handler) bridge.Handler {
			return func(ctx context.Context, d *bridge.Delivery[[]byte]) error {
				if d.Headers["deny"] != "" {
					return bridge.Permanent(errors.New("denied"))
				}
				return next(ctx, d)
			}
		}
		b := setup(t, &bridge.Options{Middleware: []bridge.Middleware{mark("outer"), mark("inner"), deny}})
		kind := b.handle(t, "count", func(_ context.Context, d *bridge.Delivery[int]) error {
			calls = append(calls, fmt.Sprint("handler ", d.Value))
			return nil
		})
		b.run(t, &bridge.RunOptions{Workers: 1})
		if err := submit(t, kind, 7).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []string{"outer sees 7", "inner sees 7", "handler 7", "inner sees <nil>", "outer sees <nil>"}
		if diff := cmp.Diff(want, calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		denied := submitJob(t, kind, bridge.Job[int]{ID: "1", Headers: map[string]string{"deny": "yes"}})
		if err := denied.Wait(t.Context()); !errors.Is(err, local.ErrDead) || !strings.Contains(err.Error(), "denied") {
			t.Errorf("a middleware that does not call the next one: %v", err)
		}
	})
}
