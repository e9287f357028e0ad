package bridge_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
	"github.com/seed-9dec4fca/weir/local"
)

// setupHung has b run a job whose handler ignores that the lease was lost, and other complete it. b has read nothing of that yet.
func setupHung(t *testing.T, look bool) (b, other *bench, kind *bridge.Kind[int], first *bridge.Ticket, goOn chan struct{}) {
	t.Helper()
	memory := durable.NewMemory(nil)
	b, other = setupOn(t, memory, nil), setupOn(t, memory, nil)
	goOn = make(chan struct{})
	kind = b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { <-goOn; return nil })
	other.handle(t, "count", nop)
	b.run(t, nil)
	first = submitJob(t, kind, bridge.Job[int]{ID: "a"})
	if look {
		first.Done()
	}
	time.Sleep(time.Second)
	if first.State() != local.Processing {
		t.Fatal(first.State())
	}
	b.outage.begin(durabletest.Fault{Action: durabletest.Refuse}, durabletest.OpRenew, durabletest.OpFollowAwait, durabletest.OpOpenConsumer)
	time.Sleep(2 * time.Minute)
	other.run(t, nil)
	for other.q.Counters().Completed == 0 {
		time.Sleep(time.Second)
	}
	other.stop()
	<-other.ran
	return b, other, kind, first, goOn
}

// What was noted of a job was dropped where a worker of this process had lost its lease, and another job had got the ID.
func TestIDUsedAgainWhileALostWorkerHasIt(t *testing.T) {
	t.Parallel()
	for name, hangs := range map[string]bool{"its handler hangs": true, "its handler returns": false} {
		bubble(t, name, func(t *testing.T) {
			b, _, kind, first, goOn := setupHung(t, true)
			defer func() {
				if hangs {
					close(goOn)
				}
			}()
			second := submitJob(t, kind, bridge.Job[int]{ID: "a", Delay: 1000 * time.Hour})
			if err := second.WaitEnqueued(t.Context()); err != nil || second.Duplicate() != "" {
				t.Fatal(err, second.Duplicate())
			}
			b.outage.begin(durabletest.Fault{Action: durabletest.Refuse}, durabletest.OpOpenConsumer)
			time.Sleep(time.Minute)
			if !hangs {
				close(goOn)
			}
			time.Sleep(3 * time.Hour)
			if s := first.State(); s != local.Completed {
				t.Errorf("%v, %v", s, first.Err())
			}
		})
	}
}

// The same of a ticket of somebody who has followed the ID.
func TestFollowedIDUsedAgainWhileALostWorkerHasIt(t *testing.T) {
	t.Parallel()
	for name, hangs := range map[string]bool{"its handler hangs": true, "its handler returns": false} {
		bubble(t, name, func(t *testing.T) {
			memory := durable.NewMemory(nil)
			b, other := setupOn(t, memory, nil), setupOn(t, memory, nil)
			goOn := make(chan struct{})
			kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { <-goOn; return nil })
			defer func() {
				if hangs {
					close(goOn)
				}
			}()
			theirs := other.handle(t, "count", nop)
			submitJob(t, theirs, bridge.Job[int]{ID: "a"})
			if err := other.q.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			first, err := b.q.Follow(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			first.Done()
			b.run(t, nil)
			time.Sleep(time.Second)
			if first.State() != local.Processing {
				t.Fatal(first.State())
			}
			b.outage.begin(durabletest.Fault{Action: durabletest.Refuse}, durabletest.OpRenew, durabletest.OpFollowAwait, durabletest.OpOpenConsumer)
			time.Sleep(2 * time.Minute)
			other.run(t, nil)
			for other.q.Counters().Completed == 0 {
				time.Sleep(time.Second)
			}
			other.stop()
			<-other.ran
			second := submitJob(t, kind, bridge.Job[int]{ID: "a", Delay: 1000 * time.Hour})
			if err := second.WaitEnqueued(t.Context()); err != nil || second.Duplicate() != "" {
				t.Fatal(err, second.Duplicate())
			}
			b.outage.begin(durabletest.Fault{Action: durabletest.Refuse}, durabletest.OpOpenConsumer)
			time.Sleep(time.Minute)
			if !hangs {
				close(goOn)
			}
			time.Sleep(3 * time.Hour)
			if s := first.State(); s != local.Completed {
				t.Errorf("%v, %v", s, first.Err())
			}
		})
	}
}

// A duplicate of another process's job was told of the end of an earlier job, which this process had had.
func TestDuplicateOfAnIDThatEndedHere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := durable.NewMemory(nil)
		b, other := setupOn(t, memory, nil), setupOn(t, memory, nil)
		goOn := make(chan struct{})
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { <-goOn; return nil })
		b.run(t, nil)
		first := submitJob(t, kind, bridge.Job[int]{ID: "a"})
		<-first.Started()
		b.gate.Hold(durabletest.OpAppend)
		third := submitJob(t, kind, bridge.Job[int]{ID: "a"})
		if err := b.gate.Held(t.Context(), durabletest.OpAppend); err != nil {
			t.Fatal(err)
		}
		close(goOn)
		ends(t, first, nil, "")
		b.stop()
		<-b.ran
		elsewhere := submitJob(t, bridge.NewKind[int](other.q, "count", nil), bridge.Job[int]{ID: "a"})
		if err := elsewhere.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.gate.Release(durabletest.OpAppend)
		time.Sleep(time.Minute)
		if s := third.State(); s != local.Enqueued {
			t.Errorf("%v, a duplicate of %q which is %v", s, third.Duplicate(), elsewhere.State())
		}
	})
}

// So was one of a job whose ID a worker of this process still had that had lost its lease.
func TestDuplicateOfAnIDThatALostWorkerHas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, other, kind, first, goOn := setupHung(t, false)
		elsewhere := submitJob(t, bridge.NewKind[int](other.q, "count", nil), bridge.Job[int]{ID: "a"})
		if err := elsewhere.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		third := submitJob(t, kind, bridge.Job[int]{ID: "a"})
		third.Done()
		b.outage.begin(durabletest.Fault{Action: durabletest.Refuse}, durabletest.OpOpenConsumer)
		time.Sleep(time.Minute)
		close(goOn)
		time.Sleep(time.Minute)
		if s := third.State(); s != local.Enqueued {
			t.Errorf("%v, a duplicate of %q which is %v; the first is %v", s, third.Duplicate(), elsewhere.State(), first.State())
		}
	})
}

// The store may have applied a settle that it has not answered, and another process have used the ID since.
func TestDuplicateOfAnIDThatIsBeingSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := durable.NewMemory(nil)
		b, other := setupOn(t, memory, nil), setupOn(t, memory, nil)
		goOn := make(chan struct{})
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { <-goOn; return nil })
		b.run(t, nil)
		first := submitJob(t, kind, bridge.Job[int]{ID: "a"})
		<-first.Started()
		b.outage.begin(durabletest.Fault{Action: durabletest.Lose}, durabletest.OpSettle)
		close(goOn)
		time.Sleep(time.Second)
		elsewhere := submitJob(t, bridge.NewKind[int](other.q, "count", nil), bridge.Job[int]{ID: "a", Delay: time.Hour})
		if err := elsewhere.WaitEnqueued(t.Context()); err != nil || elsewhere.Duplicate() != "" {
			t.Fatal(err, elsewhere.Duplicate())
		}
		third := submitJob(t, kind, bridge.Job[int]{ID: "a"})
		third.Done()
		time.Sleep(time.Second)
		b.outage.end()
		time.Sleep(time.Minute)
		if s := third.State(); s != local.Enqueued {
			t.Errorf("%v, a duplicate of %q which is %v; first %v", s, third.Duplicate(), elsewhere.State(), first.State())
		}
	})
}

// Whether the lost worker of one job hangs is nothing to the duplicates of another: each was asked about.
func TestDuplicatesOfARunningJobWhileAnotherHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		goOn := make(chan struct{})
		defer close(goOn)
		kind := b.handle(t, "count", func(_ context.Context, d *bridge.Delivery[int]) error {
			if d.ID == "runs" || d.Deliveries == 1 {
				<-goOn
			}
			return nil
		})
		b.run(t, &bridge.RunOptions{Workers: 4, Lease: 10 * time.Second})
		submitJob(t, kind, bridge.Job[int]{ID: "hangs"})
		time.Sleep(time.Second)
		b.outage.begin(durabletest.Fault{Action: durabletest.Refuse}, durabletest.OpRenew)
		time.Sleep(2 * time.Minute)
		b.outage.end()
		time.Sleep(time.Minute)
		runs := submitJob(t, kind, bridge.Job[int]{ID: "runs"})
		runs.Done()
		time.Sleep(time.Second)
		if runs.State() != local.Processing {
			t.Fatal(runs.State())
		}
		if b.q.Counters().LeaseLost == 0 {
			t.Fatal("no lease was lost")
		}
		before := b.outage.Calls(durabletest.OpFollow)
		for range 100 {
			if err := submitJob(t, kind, bridge.Job[int]{ID: "runs"}).WaitEnqueued(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := b.outage.Calls(durabletest.OpFollow) - before; n > 10 {
			t.Errorf("%d questions", n)
		}
	})
}
