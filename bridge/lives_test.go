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

// A cancel of a job ended the ticket of another one, which the ID was of before and which had completed elsewhere.
func TestCancelIsAboutOneLifeOfTheID(t *testing.T) {
	t.Parallel()
	for name, looked := range map[string]bool{"looked at": true, "not looked at": false} {
		bubble(t, name, func(t *testing.T) {
			a := setupApart(t, nop)
			other := setupOn(t, a.memory, nil)
			kind := bridge.NewKind[int](other.q, "count", nil)
			a.consumer.run(t, nil)
			a.producer.outage.begin(durabletest.Fault{Action: durabletest.Refuse}, durabletest.OpFollowAwait)
			first := submitJob(t, a.kind, bridge.Job[int]{ID: "a"})
			if looked {
				first.Done()
			}
			time.Sleep(time.Second)
			submitJob(t, kind, bridge.Job[int]{ID: "a", Delay: time.Hour})
			if err := other.q.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := a.producer.q.Cancel(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			a.producer.outage.end()
			time.Sleep(time.Minute)
			if s := first.State(); s != local.Completed && (looked || s != local.Enqueued) {
				t.Errorf("the first one, completed, is %v", s)
			}
		})
	}
}

// A result that is too long for news was never asked for, where the start of the job was told before the answer to its append, too.
func TestAllIsToldBeforeTheAppendIsAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := setupApart(t, func(ctx context.Context, d *bridge.Delivery[int]) error {
			if d.ID == "other" {
				<-ctx.Done()
				return nil
			}
			time.Sleep(300 * time.Millisecond)
			return d.SetResult(make([]byte, durable.MaxNoticed+1), time.Minute)
		})
		submitJob(t, a.kind, bridge.Job[int]{ID: "other"}).Done() // news is read
		a.consumer.run(t, &bridge.RunOptions{Grace: time.Second})
		time.Sleep(time.Second)
		a.producer.outage.begin(durabletest.Fault{Action: durabletest.Lose}, durabletest.OpAppend)
		ticket := submitJob(t, a.kind, bridge.Job[int]{ID: "a"})
		done := ticket.Done()
		time.Sleep(3 * time.Second)
		a.producer.outage.end()
		soon(t, done)
		if ticket.State() != local.Completed || len(ticket.Result()) != durable.MaxNoticed+1 {
			t.Errorf("%v with %d bytes", ticket.State(), len(ticket.Result()))
		}
	})
}

// setupArranged is setup for a process that runs jobs, and has all arranged that is to be for its tickets.
func setupArranged(t *testing.T) (*bench, *bridge.Kind[int]) {
	t.Helper()
	b := setup(t, nil)
	kind := b.handle(t, "count", nop)
	b.run(t, nil)
	if err := submit(t, kind, 0).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b, kind
}

// Who looked at a ticket only after the process had given up on telling the store learned of its end an hour later.
func TestALookAfterTheOutcomeWasGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, kind := setupArranged(t)
		b.outage.begin(durabletest.Fault{Action: durabletest.Lose}, durabletest.OpSettle)
		ticket := submitJob(t, kind, bridge.Job[int]{ID: "a", Retention: time.Hour})
		time.Sleep(time.Second)
		b.stop()
		<-b.ran
		b.outage.end()
		if n := b.q.Counters().Unsettled; n != 1 {
			t.Fatalf("%d unsettled: this shows nothing", n)
		}
		time.Sleep(time.Minute)
		soon(t, ticket.Done())
		ends(t, ticket, nil, "")
	})
}

// After an outcome had been given up the store was asked before the identity was left: what came of that was learned of an hour later.
func TestWhatBecomesOfAJobWhoseOutcomeWasGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, kind := setupArranged(t)
		b.outage.begin(durabletest.Fault{Action: durabletest.Refuse}, durabletest.OpSettle)
		b.gate.Hold(durabletest.OpLeave)
		ticket := submitJob(t, kind, bridge.Job[int]{ID: "a"})
		ticket.Done()
		time.Sleep(time.Second)
		b.stop()
		if err := b.gate.Held(t.Context(), durabletest.OpLeave); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s, n := ticket.State(), b.q.Counters().Unsettled; s != local.Processing || n != 1 {
			t.Fatalf("%v, %d unsettled: this shows nothing", s, n)
		}
		b.gate.Release(durabletest.OpLeave)
		<-b.ran
		time.Sleep(time.Minute)
		if s := ticket.State(); s != local.Enqueued {
			t.Errorf("%v", s)
		}
	})
}

// A settle that was given up was missed by the store as if it had lost it.
func TestAnOutcomeThatWasGivenUpIsNoGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, &bridge.Options{PersistWithin: time.Second})
		kind := b.handle(t, "count", func(ctx context.Context, d *bridge.Delivery[int]) error {
			select {
			case <-time.After(time.Duration(d.Value) * time.Second):
			case <-ctx.Done():
				time.Sleep(time.Second / 2)
			}
			return nil
		})
		b.run(t, &bridge.RunOptions{Workers: 2})
		synctest.Wait()
		submit(t, kind, 1)
		submit(t, kind, 60)
		time.Sleep(time.Second / 2)
		b.outage.begin(durabletest.Fault{Action: durabletest.Refuse}, durabletest.OpSettle)
		for b.q.Counters().LeaseLost == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		b.outage.end()
		time.Sleep(time.Minute)
		if c := b.q.Counters(); c.Gaps != 0 || c.Unsettled != 1 || c.Completed != 2 {
			t.Errorf("%+v", c)
		}
	})
}

// A duplicate was taken for one of a job that this process had submitted before under the ID, which had ended elsewhere meanwhile.
func TestADuplicateIsOfTheJobThatHasTheID(t *testing.T) {
	t.Parallel()
	bubble(t, "not of one that had it", func(t *testing.T) {
		a := setupApart(t, func(_ context.Context, d *bridge.Delivery[int]) error { return d.SetResult([]byte{byte(d.Value)}, 0) })
		other := setupOn(t, a.memory, nil)
		kind := bridge.NewKind[int](other.q, "count", nil)
		a.consumer.run(t, nil)
		first := submitJob(t, a.kind, bridge.Job[int]{ID: "a", Value: 1})
		time.Sleep(time.Minute)
		a.consumer.stop()
		<-a.consumer.ran
		submitJob(t, kind, bridge.Job[int]{ID: "a", Value: 2})
		if err := other.q.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		third := submitJob(t, a.kind, bridge.Job[int]{ID: "a", Value: 3})
		done := third.Done()
		time.Sleep(time.Minute)
		if s := third.State(); s != local.Enqueued || third.Duplicate() != "a" {
			t.Errorf("%v, a duplicate of %q", s, third.Duplicate())
		}
		a.consumer.run(t, nil)
		soon(t, done)
		if r := third.Result(); third.State() != local.Completed || string(r) != "\x02" {
			t.Errorf("%v with %v", third.State(), r)
		}
		if s := first.State(); s != local.Completed && s != local.Detached {
			t.Errorf("the first one is %v", s)
		}
	})
	bubble(t, "which this process has submitted", func(t *testing.T) {
		a := setupApart(t, func(_ context.Context, d *bridge.Delivery[int]) error { return d.SetResult([]byte{byte(d.Value)}, 0) })
		first := submitJob(t, a.kind, bridge.Job[int]{ID: "a", Value: 1})
		if err := a.producer.q.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := submitJob(t, a.kind, bridge.Job[int]{ID: "a", Value: 2})
		done := second.Done()
		time.Sleep(time.Minute)
		a.consumer.run(t, nil)
		soon(t, done)
		for _, ticket := range []*bridge.Ticket{first, second} {
			if r := ticket.Result(); ticket.State() != local.Completed || string(r) != "\x01" {
				t.Errorf("%v with %v", ticket.State(), r)
			}
		}
	})
}

// The same where the follower is lost, and the identity is adopted again by the next one before it is left.
func TestWhatBecomesOfAJobWhoseOutcomeWasGivenUpWhileTheFollowerIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, kind := setupArranged(t)
		b.outage.begin(durabletest.Fault{Action: durabletest.Refuse}, durabletest.OpSettle, durabletest.OpFollowAwait)
		b.gate.Hold(durabletest.OpLeave)
		ticket := submitJob(t, kind, bridge.Job[int]{ID: "a"})
		ticket.Done()
		time.Sleep(time.Second)
		b.stop()
		if err := b.gate.Held(t.Context(), durabletest.OpLeave); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := b.q.Counters().Unsettled; n != 1 {
			t.Fatalf("%d unsettled", n)
		}
		// the store has lost the follower
		opened := b.outage.Calls(durabletest.OpOpenFollower)
		b.outage.once(durabletest.Fault{Action: durabletest.Refuse, Err: durable.ErrNoSender}, durabletest.OpFollow)
		go func() { _, _ = b.q.Follow(t.Context(), "none") }()
		synctest.Wait()
		b.outage.end()
		if n := b.outage.Calls(durabletest.OpOpenFollower); n != opened+1 {
			t.Fatalf("%d followers opened, this shows nothing", n-opened)
		}
		if s := ticket.State(); s != local.Processing {
			t.Fatalf("%v", s)
		}
		b.gate.Release(durabletest.OpLeave)
		<-b.ran
		time.Sleep(50 * time.Minute)
		if s := ticket.State(); s != local.Enqueued {
			t.Errorf("%v", s)
		}
	})
}
