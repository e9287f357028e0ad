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

// setupRunning has b run a job "a" until goOn closes; other is another process, which has a handler too.
func setupRunning(t *testing.T, follows bool) (b, other *bench, kind *bridge.Kind[int], first *bridge.Ticket, goOn chan struct{}) {
	t.Helper()
	memory := durable.NewMemory(nil)
	b, other = setupOn(t, memory, nil), setupOn(t, memory, nil)
	goOn = make(chan struct{})
	kind = b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { <-goOn; return nil })
	theirs := other.handle(t, "count", nop)
	if follows {
		if err := submitJob(t, theirs, bridge.Job[int]{ID: "a"}).WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		var err error
		if first, err = b.q.Follow(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	} else {
		first = submitJob(t, kind, bridge.Job[int]{ID: "a"})
	}
	b.run(t, nil)
	time.Sleep(time.Second)
	if first.State() != local.Processing {
		t.Fatal(first.State())
	}
	return b, other, kind, first, goOn
}

// loseTo has b lose its lease without noticing what becomes of its job, which other completes.
func (b *bench) loseTo(t *testing.T, other *bench) {
	t.Helper()
	b.outage.begin(durabletest.Fault{Action: durabletest.Refuse}, durabletest.OpRenew, durabletest.OpFollowAwait, durabletest.OpOpenConsumer)
	time.Sleep(2 * time.Minute)
	other.run(t, nil)
	for other.q.Counters().Completed == 0 {
		time.Sleep(time.Second)
	}
	other.stop()
	<-other.ran
}

// What was noted of a job was dropped where a worker of this process had lost its lease, and another job had got the ID.
func TestIDUsedAgainWhileALostWorkerHasIt(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]struct{ hangs, follows bool }{
		"its handler hangs":                       {hangs: true},
		"its handler returns":                     {},
		"its handler hangs, of one who follows":   {hangs: true, follows: true},
		"its handler returns, of one who follows": {follows: true},
	} {
		bubble(t, name, func(t *testing.T) {
			b, other, kind, first, goOn := setupRunning(t, is.follows)
			first.Done()
			b.loseTo(t, other)
			second := submitJob(t, kind, bridge.Job[int]{ID: "a", Delay: 1000 * time.Hour})
			if err := second.WaitEnqueued(t.Context()); err != nil || second.Duplicate() != "" {
				t.Fatal(err, second.Duplicate())
			}
			b.outage.begin(durabletest.Fault{Action: durabletest.Refuse}, durabletest.OpOpenConsumer)
			time.Sleep(time.Minute)
			if is.hangs {
				defer close(goOn)
			} else {
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
		b, other, kind, first, goOn := setupRunning(t, false)
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
		b, other, kind, first, goOn := setupRunning(t, false)
		b.loseTo(t, other)
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
		b, other, kind, first, goOn := setupRunning(t, false)
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
