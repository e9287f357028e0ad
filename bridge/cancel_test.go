package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// cancelled expects that the job was ended at once, and its ticket says so.
func (b *bench) cancelled(t *testing.T, ticket *bridge.Ticket) {
	t.Helper()
	got, err := b.q.Cancel(t.Context(), ticket.ID())
	if err != nil || got != (durable.Cancelled{}) {
		t.Errorf("cancelled: %+v, %v", got, err)
	}
	if err := ticket.Err(); !errors.Is(err, bridge.ErrCancelled) || ticket.State() != local.Cancelled {
		t.Errorf("ticket: %v", err)
	}
	if e := b.events.of(ticket.ID()); e[len(e)-1] != bridge.EventCancelled {
		t.Errorf("events: %v", names(e))
	}
}

func TestCancelInTheFront(t *testing.T) {
	t.Parallel()
	bubble(t, "what has not been taken ends at once, gives its slot back, and is never sent", func(t *testing.T) {
		b := setup(t, &bridge.Options{Capacity: 3})
		kind := bridge.NewKind[int](b.q, "count", nil)
		b.gate.Hold(durabletest.OpAppend)
		under := submit(t, kind, 1)
		synctest.Wait()
		first, second := submit(t, kind, 2), submit(t, kind, 3)
		b.cancelled(t, first)
		third := submit(t, kind, 4) // there is room again
		b.gate.Release(durabletest.OpAppend)
		for _, ticket := range []*bridge.Ticket{under, second, third} {
			if err := ticket.WaitEnqueued(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if c := b.q.Counters(); c.Cancelled != 1 || c.FrontCancelled != 1 || b.stored(t).Pending != 3 {
			t.Errorf("%+v, stored %+v", c, b.stored(t))
		}
		b.conserved(t)
	})
	bubble(t, "what was taken and not sent ends at once, also while the store is away", func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		b.outage.begin(durabletest.Fault{Action: durabletest.Refuse})
		ticket, other := submit(t, kind, 1), submit(t, kind, 2)
		time.Sleep(time.Minute)
		began := time.Now()
		b.cancelled(t, ticket)
		if took := time.Since(began); took != 0 {
			t.Errorf("after %v", took)
		}
		if got := b.q.Front().Length; got != 1 {
			t.Errorf("%d slots are held", got)
		}
		if _, err := b.q.Cancel(t.Context(), "somewhere else"); !errors.Is(err, durable.ErrNotExecuted) {
			t.Errorf("another job: %v", err)
		}
		b.outage.end()
		if err := other.WaitEnqueued(t.Context()); err != nil {
			t.Error(err)
		}
		b.conserved(t)
	})
	bubble(t, "what is under way is waited for, and cancelled in the store", func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		b.gate.Hold(durabletest.OpAppend)
		ticket := submit(t, kind, 1)
		synctest.Wait()
		time.AfterFunc(time.Second, func() { b.gate.Release(durabletest.OpAppend) })
		b.cancelled(t, ticket)
		if c := b.q.Counters(); c.Cancelled != 1 || c.FrontCancelled != 0 || c.Enqueued != 1 || b.stored(t).Pending != 0 {
			t.Errorf("%+v, stored %+v", c, b.stored(t))
		}
		b.conserved(t)
	})
	bubble(t, "what is in doubt is waited for too, as long as the caller likes", func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		b.outage.begin(durabletest.Fault{Action: durabletest.Lose}, durabletest.OpAppend)
		ticket := submit(t, kind, 1)
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := b.q.Cancel(ctx, ticket.ID()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("in vain: %v", err)
		}
		time.AfterFunc(time.Second, b.outage.end)
		b.cancelled(t, ticket)
		b.conserved(t)
	})
	bubble(t, "a duplicate takes the first one along, which is in the store", func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		first := submitJob(t, kind, bridge.Job[int]{ID: "a"})
		if err := first.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.gate.Hold(durabletest.OpAppend)
		submit(t, kind, 1)
		synctest.Wait()
		second := submitJob(t, kind, bridge.Job[int]{ID: "a"})
		b.cancelled(t, second)
		if first.State() != local.Cancelled {
			t.Errorf("the first is %v", first.State())
		}
		b.gate.Release(durabletest.OpAppend)
		b.conserved(t)
	})
}

func TestCancelInTheStore(t *testing.T) {
	t.Parallel()
	bubble(t, "pending and scheduled end at once, and never run", func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { t.Error("run"); return nil })
		pending, scheduled := submit(t, kind, 1), submitJob(t, kind, bridge.Job[int]{ID: "later", Delay: time.Minute})
		if err := errors.Join(pending.WaitEnqueued(t.Context()), scheduled.WaitEnqueued(t.Context())); err != nil {
			t.Fatal(err)
		}
		b.cancelled(t, pending)
		b.cancelled(t, scheduled)
		b.run(t, nil)
		time.Sleep(time.Hour)
		if e := b.events.every(bridge.EventCancelled); len(e) != 2 || e[0].Kind != "count" {
			t.Errorf("events: %+v", e)
		}
		b.conserved(t)
	})
	bubble(t, "by a process that has not submitted it", func(t *testing.T) {
		memory := durable.NewMemory(nil)
		producer, operator := setupOn(t, memory, nil), setupOn(t, memory, nil)
		kind := bridge.NewKind[int](producer.q, "count", nil)
		ticket := submitJob(t, kind, bridge.Job[int]{ID: "a", Retention: time.Hour})
		if err := ticket.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := operator.q.Cancel(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		if job, err := operator.q.Operator().Lookup(t.Context(), "a"); err != nil || job.State != durable.StateCancelled {
			t.Errorf("%+v, %v", job, err)
		}
		if _, err := operator.q.Cancel(t.Context(), "a"); !errors.Is(err, bridge.ErrEnded) {
			t.Errorf("again: %v", err)
		}
	})
	bubble(t, "errors by name", func(t *testing.T) {
		b := open(t, durable.NewMemory(nil), nil)
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return bridge.Permanent(errors.New("no")) })
		b.run(t, nil)
		if err := submitJob(t, kind, bridge.Job[int]{ID: "dead"}).Wait(t.Context()); !errors.Is(err, local.ErrDead) {
			t.Fatal(err)
		}
		cases := map[string]error{"nowhere": durable.ErrNoJob, "dead": bridge.ErrEnded}
		for id, want := range cases {
			if _, err := b.q.Cancel(t.Context(), id); !errors.Is(err, want) || !strings.HasPrefix(err.Error(), "bridge: cancel: ") {
				t.Errorf("%s: %v", id, err)
			}
		}
		b.outage.begin(durabletest.Fault{Action: durabletest.Lose}, durabletest.OpCancel)
		later := submitJob(t, kind, bridge.Job[int]{ID: "later", Delay: time.Hour})
		if err := later.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := b.q.Cancel(t.Context(), "later"); !errors.Is(err, durable.ErrInDoubt) {
			t.Errorf("no answer: %v", err)
		}
		shutdown(t, b.q)
		if _, err := b.q.Cancel(t.Context(), "later"); !errors.Is(err, policy.ErrClosed) {
			t.Errorf("after Shutdown: %v", err)
		}
	})
}

func TestCancelWhatRuns(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for _, c := range []struct {
		name    string
		verdict func() error
		end     local.State
		event   bridge.EventType
	}{
		{"nil completes it", func() error { return nil }, local.Completed, bridge.EventCompleted},
		{"Permanent makes it dead", func() error { return bridge.Permanent(boom) }, local.Dead, bridge.EventDead},
		{"an error ends it cancelled", func() error { return boom }, local.Cancelled, bridge.EventCancelled},
		{"a snooze ends it cancelled", func() error { return bridge.Snooze(time.Minute) }, local.Cancelled, bridge.EventCancelled},
		{"a panic ends it cancelled", func() error { panic("boom") }, local.Cancelled, bridge.EventCancelled},
	} {
		bubble(t, "the handler is told at once; "+c.name, func(t *testing.T) {
			b := setup(t, nil)
			kind := b.handle(t, "count", func(ctx context.Context, _ *bridge.Delivery[int]) error {
				<-ctx.Done()
				if cause := context.Cause(ctx); !errors.Is(cause, bridge.ErrCancelled) {
					t.Errorf("cause: %v", cause)
				}
				return c.verdict()
			})
			b.run(t, nil)
			ticket := submit(t, kind, 1)
			<-ticket.Started()
			began := time.Now()
			got, err := b.q.Cancel(t.Context(), ticket.ID())
			if err != nil || !got.Running || got.Consumer == "" {
				t.Errorf("%+v, %v", got, err)
			}
			<-ticket.Done()
			if took := time.Since(began); took != 0 || ticket.State() != c.end {
				t.Errorf("after %v: %v", took, ticket.Err())
			}
			time.Sleep(time.Hour)
			if e := b.events.of(ticket.ID()); e[len(e)-1] != c.event {
				t.Errorf("events: %v", names(e))
			}
			if n := b.q.Counters(); n.Started != 1 || n.Retried+n.Snoozed+n.Released != 0 {
				t.Errorf("%+v", n)
			}
			b.conserved(t)
		})
	}
	bubble(t, "elsewhere it is told within a second, and asked about while handlers run for long only", func(t *testing.T) {
		memory := durable.NewMemory(nil)
		operator, consumer := setupOn(t, memory, nil), setupOn(t, memory, nil)
		var heard time.Time
		kind := consumer.handle(t, "count", func(ctx context.Context, d *bridge.Delivery[int]) error {
			if d.Value == 0 {
				time.Sleep(300 * time.Millisecond)
				return nil
			}
			<-ctx.Done()
			heard = time.Now()
			return context.Cause(ctx)
		})
		consumer.run(t, nil)
		for range 100 {
			if err := submit(t, kind, 0).Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if n := consumer.outage.Calls(durabletest.OpCancels); n != 0 {
			t.Errorf("asked %d times, without a reason", n)
		}
		ticket := submit(t, kind, 1)
		<-ticket.Started()
		time.Sleep(123 * time.Millisecond)
		began := time.Now()
		if got, err := operator.q.Cancel(t.Context(), ticket.ID()); err != nil || !got.Running {
			t.Errorf("%+v, %v", got, err)
		}
		<-ticket.Done()
		asked := consumer.outage.Calls(durabletest.OpCancels)
		if took := heard.Sub(began); took > time.Second || ticket.State() != local.Cancelled || asked == 0 {
			t.Errorf("after %v, asked %d times: %v", took, asked, ticket.Err())
		}
	})
	bubble(t, "a handler that does not listen and fails has not failed", func(t *testing.T) {
		b := setup(t, nil)
		release := make(chan struct{})
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { <-release; return boom })
		b.run(t, nil)
		ticket := submit(t, kind, 1)
		<-ticket.Started()
		// As another process would, so that nobody here knows of it.
		if _, err := b.memory.Cancel(t.Context(), durable.CancelRequest{ID: ticket.ID()}); err != nil {
			t.Fatal(err)
		}
		close(release)
		if err := ticket.Wait(t.Context()); !errors.Is(err, bridge.ErrCancelled) || !errors.Is(err, boom) {
			t.Error(err)
		}
		if n := b.q.Counters(); n.Cancelled != 1 || n.Retried+n.Dead != 0 || b.stored(t).Scheduled != 0 {
			t.Errorf("%+v", n)
		}
	})
	bubble(t, "what waits for a worker is not begun", func(t *testing.T) {
		b := setup(t, nil)
		release := make(chan struct{})
		kind := b.handle(t, "count", func(_ context.Context, d *bridge.Delivery[int]) error {
			if d.Value == 7 {
				t.Error("run")
			}
			<-release
			return nil
		})
		b.run(t, &bridge.RunOptions{Workers: 1})
		// A rate at which claims are made ahead.
		quick := bridge.NewKind[int](b.q, "quick", nil)
		if err := quick.Handle(func(context.Context, *bridge.Delivery[int]) error { time.Sleep(10 * time.Microsecond); return nil }); err != nil {
			t.Fatal(err)
		}
		b.gate.Hold(durabletest.OpAppend)
		for i := range 1000 {
			submit(t, quick, i)
		}
		blocking, waiting := submit(t, kind, 1), submit(t, kind, 7)
		b.gate.Release(durabletest.OpAppend)
		<-blocking.Started()
		synctest.Wait()
		if got, err := b.q.Cancel(t.Context(), waiting.ID()); err != nil || !got.Running {
			t.Errorf("%+v, %v", got, err)
		}
		close(release)
		if err := waiting.Wait(t.Context()); !errors.Is(err, bridge.ErrCancelled) {
			t.Error(err)
		}
		b.conserved(t)
	})
	bubble(t, "its lost worker does not bring it back", func(t *testing.T) {
		b := setup(t, nil)
		consumer, err := b.memory.OpenConsumer(t.Context(), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { t.Error("run"); return nil })
		ticket := submit(t, kind, 1)
		if err := ticket.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		if claimed, err := consumer.Claim(t.Context(), durable.ClaimRequest{N: 1, Slots: 1, MaxBytes: 1000}); err != nil || len(claimed.Jobs) != 1 {
			t.Fatalf("%+v, %v", claimed, err)
		}
		if got, err := b.q.Cancel(t.Context(), ticket.ID()); err != nil || !got.Running {
			t.Fatalf("%+v, %v", got, err)
		}
		b.run(t, nil)
		time.Sleep(time.Minute)
		if n := b.q.Counters(); n.SweptEnded != 1 || n.Swept != 0 {
			t.Errorf("%+v", n)
		}
	})
}

// A handler's context is made when it is looked at. Whatever it is asked, in whatever order, it must be one.
func TestHandlersContext(t *testing.T) {
	t.Parallel()
	type key struct{}
	for name, timeout := range map[string]time.Duration{"with a timeout": time.Minute, "without": 0} {
		bubble(t, name, func(t *testing.T) {
			b := setup(t, nil)
			var after context.Context
			kind := bridge.NewKind(b.q, "count", &bridge.KindOptions[int]{Timeout: timeout})
			err := kind.Handle(func(ctx context.Context, _ *bridge.Delivery[int]) error {
				after = ctx //nolint:fatcontext // it is looked at afterwards, and no more
				_, bounded := ctx.Deadline()
				if ctx.Err() != nil || context.Cause(ctx) != nil || bounded != (timeout > 0) || ctx.Value(key{}) != 7 {
					t.Errorf("%v, %v, %v, %v", ctx.Err(), context.Cause(ctx), bounded, ctx.Value(key{}))
				}
				child, cancel := context.WithCancel(ctx)
				defer cancel()
				<-child.Done()
				<-ctx.Done()
				if !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(context.Cause(child), bridge.ErrCancelled) {
					t.Errorf("%v, %v", ctx.Err(), context.Cause(child))
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			go func() { b.ran <- b.q.Run(context.WithValue(t.Context(), key{}, 7), nil) }()
			ticket := submit(t, kind, 1)
			<-ticket.Started()
			synctest.Wait()
			if _, err := b.q.Cancel(t.Context(), ticket.ID()); err != nil {
				t.Error(err)
			}
			if err := ticket.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff("local: cancelled", fmt.Sprint(context.Cause(after))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
