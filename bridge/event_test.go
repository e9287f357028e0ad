package bridge_test

import (
	"context"
	"errors"
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

// Counters once lagged behind tickets: a program that waited for all tickets and then printed
// the counters was one short now and then.
func TestWhoHasWaitedForATicketFindsItCounted(t *testing.T) {
	t.Parallel()
	bubble(t, "enqueued", func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		for i := range uint64(1000) {
			if err := submit(t, kind, 1).WaitEnqueued(t.Context()); err != nil {
				t.Fatal(err)
			}
			if c := b.q.Counters(); c.Enqueued != i+1 {
				t.Fatalf("%d are enqueued, counted %d", i+1, c.Enqueued)
			}
		}
	})
	bubble(t, "completed", func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return nil })
		b.run(t, nil)
		for i := range uint64(1000) {
			if err := submit(t, kind, 1).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if c := b.q.Counters(); c.Completed != i+1 || c.Started != i+1 {
				t.Fatalf("%d have completed, counted %+v", i+1, c)
			}
		}
	})
}

func TestEventsTellEachTransitionOnceAndInOrder(t *testing.T) {
	t.Parallel()
	const (
		accepted  = bridge.EventAccepted
		enqueued  = bridge.EventEnqueued
		started   = bridge.EventStarted
		completed = bridge.EventCompleted
	)
	type fate struct {
		run  func(d *bridge.Delivery[int]) error
		want []bridge.EventType
	}
	for name, c := range map[string]fate{
		"completed": {
			func(*bridge.Delivery[int]) error { return nil },
			[]bridge.EventType{accepted, enqueued, started, completed},
		},
		"retried, then completed": {
			func(d *bridge.Delivery[int]) error {
				if d.Attempt == 1 {
					return errBroken
				}
				return nil
			},
			[]bridge.EventType{accepted, enqueued, started, bridge.EventRetried, started, completed},
		},
		"snoozed, then dead by a permanent error": {
			func(d *bridge.Delivery[int]) error {
				if d.Deliveries == 1 {
					return bridge.Snooze(time.Second)
				}
				return bridge.Permanent(errBroken)
			},
			[]bridge.EventType{accepted, enqueued, started, bridge.EventSnoozed, started, bridge.EventDead},
		},
		"dead by its attempts": {
			func(*bridge.Delivery[int]) error { return errBroken },
			[]bridge.EventType{accepted, enqueued, started, bridge.EventRetried, started, bridge.EventDead},
		},
	} {
		bubble(t, name, func(t *testing.T) {
			b := setup(t, &bridge.Options{Retry: policy.Retry{MaxAttempts: 2}})
			kind := b.handle(t, "count", func(_ context.Context, d *bridge.Delivery[int]) error { return c.run(d) })
			ticket := submit(t, kind, 1)
			if err := ticket.WaitEnqueued(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.run(t, nil)
			<-ticket.Done()
			synctest.Wait()
			if diff := cmp.Diff(names(c.want), names(b.events.of(ticket.ID()))); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			for _, e := range b.events.every(started) {
				if e.Kind != "count" || e.Deliveries < 1 || e.Time.IsZero() {
					t.Errorf("event %+v", e)
				}
			}
		})
	}
}

func names(types []bridge.EventType) (out []string) {
	for _, e := range types {
		out = append(out, e.String())
	}
	return out
}

func TestEventsOfJobsThatNeverBecomeDurable(t *testing.T) {
	t.Parallel()
	bubble(t, "dropped: that alone", func(t *testing.T) {
		b := setup(t, &bridge.Options{Capacity: 1})
		b.gate.Hold(durabletest.OpAppend)
		kind := bridge.NewKind[int](b.q, "count", nil)
		submit(t, kind, 1)
		ticket, err := kind.Submit(t.Context(), 2, policy.DropIncoming())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"dropped"}, names(b.events.of(ticket.ID()))); diff != "" {
			t.Error(diff)
		}
		b.gate.Release(durabletest.OpAppend)
	})
	bubble(t, "evicted: accepted, evicted, told by the call that displaced it", func(t *testing.T) {
		b := setup(t, &bridge.Options{Capacity: 2})
		b.gate.Hold(durabletest.OpAppend)
		kind := bridge.NewKind[int](b.q, "count", nil)
		submit(t, kind, 1) // in the shipper's hand: out of reach
		synctest.Wait()
		victim := submit(t, kind, 2)
		if _, err := kind.Submit(t.Context(), 3, policy.DropOldest()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"accepted", "evicted"}, names(b.events.of(victim.ID()))); diff != "" {
			t.Error(diff)
		}
		if err := victim.Wait(t.Context()); !errors.Is(err, local.ErrEvicted) {
			t.Error(err)
		}
		b.gate.Release(durabletest.OpAppend)
	})
	bubble(t, "duplicate, with the ID of the first", func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		for range 2 {
			_ = submitJob(t, kind, bridge.Job[int]{ID: "same"}).WaitEnqueued(t.Context())
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{"accepted", "enqueued", "accepted", "duplicate"}, names(b.events.of("same"))); diff != "" {
			t.Error(diff)
		}
		if e := b.events.every(bridge.EventDuplicate); e[0].Of != "same" || e[0].Err != nil {
			t.Errorf("got %+v", e)
		}
	})
	bubble(t, "rejected, with the rejection and no ID", func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		_, err := kind.SubmitJob(t.Context(), bridge.Job[int]{}, policy.Reject())
		e := b.events.every(bridge.EventRejected)
		if len(e) != 1 || e[0].ID != "" || !errors.Is(e[0].Err, policy.ErrInvalid) || !errors.Is(err, policy.ErrInvalid) {
			t.Errorf("got %+v, %v", e, err)
		}
	})
}

// A worker of the same process can be quicker than the answer to the append; the hook then
// hears of the start, and even of the end, before Enqueued.
func TestEnqueuedIsToldWhenTheStoreAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return nil })
		b.run(t, nil)
		b.outage.once(durabletest.Fault{Action: durabletest.Lose}, durabletest.OpAppend)
		ticket := submit(t, kind, 1)
		if err := ticket.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		want := []string{"accepted", "started", "completed", "enqueued"}
		if diff := cmp.Diff(want, names(b.events.of(ticket.ID()))); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if ticket.State() != local.Completed {
			t.Errorf("its ticket is %v", ticket.State())
		}
		b.conserved(t)
	})
}

func TestHookMaySubmitWithoutWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := durable.NewMemory(nil)
		var follow *bridge.Kind[int]
		b := setupOn(t, memory, &bridge.Options{OnEvent: func(e bridge.Event) {
			if e.Type == bridge.EventCompleted && e.Kind == "count" {
				if _, err := follow.TrySubmit(1); err != nil {
					t.Error(err)
				}
			}
		}})
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return nil })
		done := make(chan struct{}, 10)
		follow = b.handle(t, "follow", func(context.Context, *bridge.Delivery[int]) error { done <- struct{}{}; return nil })
		b.run(t, nil)
		for range 10 {
			submit(t, kind, 1)
		}
		for range 10 {
			<-done
		}
	})
}

func TestEventTypesHaveNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for e := bridge.EventAccepted; e <= bridge.EventPurged; e++ {
		name := e.String()
		if name == "" || name == "unknown" || seen[name] {
			t.Errorf("event %d is called %q", e, name)
		}
		seen[name] = true
	}
	if got := (bridge.EventPurged + 1).String(); got != "unknown" {
		t.Errorf("one too many is called %q", got)
	}
}
