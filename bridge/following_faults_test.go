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
)

func TestFollowingSurvivesWhatTheStoreDoes(t *testing.T) {
	t.Parallel()
	following := []durabletest.Op{durabletest.OpFollowAwait, durabletest.OpFollow, durabletest.OpAdopt, durabletest.OpOpenFollower}
	for name, fault := range map[string]durabletest.Fault{
		"refused":  {Action: durabletest.Refuse},
		"lost":     {Action: durabletest.Lose},
		"unknown":  {Action: durabletest.Refuse, Err: durable.ErrNoSender},
		"repeated": {Action: durabletest.Repeat},
	} {
		bubble(t, name+", from the first call on for a minute", func(t *testing.T) {
			a := setupApart(t, nop)
			a.producer.outage.begin(fault, following...)
			ticket := submit(t, a.kind, 1)
			done := ticket.Done()
			time.Sleep(time.Minute)
			if got := ticket.State(); got != local.Enqueued {
				t.Errorf("what is submitted does not wait for that: %v", got)
			}
			if n := a.producer.outage.Calls(durabletest.OpOpenFollower); n > 200 {
				t.Errorf("%d followers in a minute", n)
			}
			a.producer.outage.end()
			time.Sleep(time.Minute)
			a.consumer.run(t, nil)
			soon(t, done)
			ends(t, ticket, nil, "")
		})
		bubble(t, name+", while a ticket is looked at", func(t *testing.T) {
			a := setupApart(t, nop)
			ticket := submit(t, a.kind, 1)
			done := ticket.Done()
			time.Sleep(time.Second)
			a.producer.outage.begin(fault, following...)
			time.Sleep(30 * time.Second)
			a.producer.outage.end()
			time.Sleep(10 * time.Second)
			a.consumer.run(t, nil)
			soon(t, done)
			ends(t, ticket, nil, "")
		})
	}
	// To open the follower had no longer than the job had to live, and was begun anew when the job was stored: too late.
	bubble(t, "slow to begin with, for a job that does not live long", func(t *testing.T) {
		a := setupApart(t, nop)
		a.consumer.run(t, nil)
		a.producer.outage.begin(durabletest.Fault{Delay: 150 * time.Millisecond}, durabletest.OpOpenFollower)
		short := 200 * time.Millisecond
		ticket := submitJob(t, a.kind, bridge.Job[int]{ID: "short", Delay: short, Expiry: short})
		ends(t, ticket, local.ErrExpired, "")
		if n := a.producer.outage.Calls(durabletest.OpOpenFollower); n != 1 {
			t.Errorf("opened %d times", n)
		}
	})
	bubble(t, "frozen for a minute", func(t *testing.T) {
		a := setupApart(t, nop)
		ticket := submit(t, a.kind, 1)
		done := ticket.Done()
		time.Sleep(time.Second)
		a.producer.outage.begin(durabletest.Fault{Action: durabletest.Hang})
		a.consumer.run(t, nil)
		time.Sleep(time.Minute)
		a.producer.outage.end()
		a.producer.outage.Release()
		soon(t, done)
		ends(t, ticket, nil, "")
	})
	bubble(t, "notices are dropped", func(t *testing.T) {
		a := setupApart(t, nop)
		a.producer.gate.Hold(durabletest.OpFollowAwait)
		done := submitJob(t, a.kind, bridge.Job[int]{ID: "kept", Retention: time.Hour})
		gone, waits := submit(t, a.kind, 1), submitJob(t, a.kind, bridge.Job[int]{ID: "later", Delay: time.Hour / 2})
		for _, ticket := range []*bridge.Ticket{done, gone, waits} {
			ticket.Done()
		}
		a.consumer.run(t, nil)
		for range durable.MaxNotices + 10 {
			submit(t, a.kind, 1)
			time.Sleep(10 * time.Millisecond) // a step for each
		}
		a.producer.gate.Release(durabletest.OpFollowAwait)
		ends(t, done, nil, "")
		ends(t, gone, bridge.ErrNoRecord, "")
		ends(t, waits, nil, "")
	})
	bubble(t, "what it is asked for has ended, and that is not read yet", func(t *testing.T) {
		a := setupApart(t, nop)
		first := submit(t, a.kind, 1)
		done := first.Done()
		time.Sleep(time.Second)
		a.producer.gate.Hold(durabletest.OpFollowAwait)
		time.Sleep(2 * durable.Park)
		a.consumer.run(t, nil)
		time.Sleep(time.Second)
		a.producer.outage.once(durabletest.Fault{Action: durabletest.Refuse, Err: durable.ErrNoSender}, durabletest.OpAppend)
		submit(t, a.kind, 2)
		time.Sleep(time.Second)
		if n := a.producer.outage.Calls(durabletest.OpFollow); n != 1 {
			t.Errorf("asked %d times", n)
		}
		a.producer.gate.Release(durabletest.OpFollowAwait)
		soon(t, done)
		ends(t, first, nil, "")
	})
	bubble(t, "the follower is forgotten, for nothing was asked", func(t *testing.T) {
		a := setupApart(t, nop)
		a.consumer.run(t, nil)
		submit(t, a.kind, 1)
		time.Sleep(durable.FollowFor + time.Minute)
		ticket := submit(t, a.kind, 2)
		time.Sleep(time.Minute)
		ends(t, ticket, nil, "")
		if n := a.producer.outage.Calls(durabletest.OpOpenFollower); n != 2 {
			t.Errorf("%d followers", n)
		}
	})
	bubble(t, "another identity appends", func(t *testing.T) {
		a := setupApart(t, nop)
		first := submit(t, a.kind, 1)
		first.Done()
		time.Sleep(time.Second)
		a.producer.outage.once(durabletest.Fault{Action: durabletest.Refuse, Err: durable.ErrNoSender}, durabletest.OpAppend)
		second := submit(t, a.kind, 2)
		second.Done()
		time.Sleep(time.Second)
		a.consumer.run(t, nil)
		ends(t, first, nil, "")
		ends(t, second, nil, "")
		if n := a.producer.outage.Calls(durabletest.OpOpenProducer); n != 2 {
			t.Errorf("%d identities", n)
		}
	})
}

// What the store says of the end of a job is a text. The worker of this process knows the error.
func TestEndThatTheStoreKnowsBeforeTheWorkerDoes(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	// told has settled a dead job, and the answer is lost, and has asked the store what the job is.
	told := func(t *testing.T, b *bench) (ticket, again *bridge.Ticket) {
		t.Helper()
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return bridge.Permanent(boom) })
		b.outage.begin(durabletest.Fault{Action: durabletest.Lose}, durabletest.OpSettle)
		b.run(t, nil)
		ticket = submitJob(t, kind, bridge.Job[int]{ID: "a"})
		synctest.Wait()
		again, err := b.q.Follow(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		again.Done()
		synctest.Wait()
		return ticket, again
	}
	bubble(t, "it is asked again", func(t *testing.T) {
		b := setup(t, nil)
		ticket, again := told(t, b)
		b.outage.end()
		ends(t, ticket, boom, "")
		ends(t, again, boom, "")
	})
	bubble(t, "and never told", func(t *testing.T) {
		b := setup(t, nil)
		ticket, again := told(t, b)
		ends(t, ticket, local.ErrDead, "boom")
		ends(t, again, local.ErrDead, "boom")
	})
	bubble(t, "and never told, nor is anything else", func(t *testing.T) {
		b := setup(t, nil)
		ticket, again := told(t, b)
		b.outage.begin(durabletest.Fault{Action: durabletest.Refuse})
		time.Sleep(time.Minute)
		for _, ticket := range []*bridge.Ticket{ticket, again} {
			if state := ticket.State(); state != local.Dead {
				t.Errorf("%v", state)
			}
		}
		b.outage.end()
	})
	bubble(t, "after the lease was lost", func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return bridge.Permanent(boom) })
		cut := func(settle durabletest.Action) {
			b.outage.decide(func(c durabletest.Call) durabletest.Fault {
				switch c.Op {
				case durabletest.OpSettle:
					return durabletest.Fault{Action: settle}
				case durabletest.OpRenew, durabletest.OpSweep: // nobody takes it for dead
					return durabletest.Fault{Action: durabletest.Refuse}
				}
				return durabletest.Fault{}
			})
		}
		cut(durabletest.Refuse)
		b.run(t, &bridge.RunOptions{Lease: 10 * time.Second})
		ticket := submitJob(t, kind, bridge.Job[int]{ID: "a"})
		ticket.Done()
		time.Sleep(12 * time.Second)
		if n := b.q.Counters().LeaseLost; n != 1 {
			t.Fatalf("%d leases lost", n)
		}
		cut(durabletest.Lose)
		for b.stored(t).Dead == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(1500 * time.Millisecond) // with the next settle, after three seconds at most, less than the store's word is kept back
		if s, n := ticket.State(), b.q.Counters().Dead; s.Ended() {
			t.Errorf("%v, while %d are counted as dead", s, n)
		}
		b.outage.end()
		ends(t, ticket, boom, "")
		if n := b.q.Counters().Dead; n != 1 {
			t.Errorf("%d are counted as dead", n)
		}
	})
}

// A result that the store had told of was lost where Shutdown came before it was the ticket's.
func TestResultThatTheStoreKnowsAtShutdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "count", func(_ context.Context, d *bridge.Delivery[int]) error {
			return d.SetResult([]byte("r"), 0)
		})
		b.outage.begin(durabletest.Fault{Action: durabletest.Lose}, durabletest.OpSettle)
		b.run(t, nil)
		ticket := submitJob(t, kind, bridge.Job[int]{ID: "a", Retention: time.Hour})
		synctest.Wait()
		again, err := b.q.Follow(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		again.Done()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = b.q.Shutdown(ctx)
		for _, ticket := range []*bridge.Ticket{ticket, again} {
			ends(t, ticket, nil, "")
			if got := ticket.Result(); string(got) != "r" {
				t.Errorf("result %q", got)
			}
		}
	})
}

// A ticket of a job that an operator had deleted was open for as long as its handler ran.
func TestEndWhileTheHandlerRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		gate := make(chan struct{})
		defer close(gate)
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { <-gate; return nil })
		b.run(t, nil)
		ticket := submitJob(t, kind, bridge.Job[int]{ID: "a"})
		done := ticket.Done()
		synctest.Wait()
		purge := durable.PurgeRequest{Confirm: "memory", States: []durable.State{durable.StateProcessing}}
		if _, err := b.q.Operator().Purge(t.Context(), purge); err != nil {
			t.Fatal(err)
		}
		soon(t, done)
		ends(t, ticket, bridge.ErrGone, "")
	})
}

// What others made of a job before a worker of this process got it says nothing about where it is now, whenever it is read.
func TestNewsThatIsOlderThanTheClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := setupApart(t, func(context.Context, *bridge.Delivery[int]) error { return errors.New("not here") })
		gate := make(chan struct{})
		if err := a.kind.Handle(func(context.Context, *bridge.Delivery[int]) error { <-gate; return nil }); err != nil {
			t.Fatal(err)
		}
		a.producer.outage.begin(durabletest.Fault{Action: durabletest.Refuse}, durabletest.OpFollowAwait)
		ticket := submitJob(t, a.kind, bridge.Job[int]{ID: "a"})
		done := ticket.Done()
		a.consumer.run(t, nil)
		synctest.Wait()
		a.consumer.stop()
		<-a.consumer.ran
		a.producer.run(t, nil)
		soon(t, ticket.Started())
		a.producer.outage.end()
		time.Sleep(time.Minute)
		if s := ticket.State(); s != local.Processing {
			t.Errorf("%v while its handler runs", s)
		}
		close(gate)
		soon(t, done)
		ends(t, ticket, nil, "")
	})
}

// Nor is it lost where the claim is.
func TestNewsWhileAClaimIsLost(t *testing.T) {
	t.Parallel()
	lost := func(t *testing.T, there func(context.Context, *bridge.Delivery[int]) error, cut ...durabletest.Op) (*apart, *bridge.Ticket) {
		t.Helper()
		a := setupApart(t, there)
		gate := make(chan struct{})
		if err := a.kind.Handle(func(context.Context, *bridge.Delivery[int]) error { <-gate; return nil }); err != nil {
			t.Fatal(err)
		}
		a.producer.run(t, &bridge.RunOptions{Lease: 10 * time.Second})
		ticket := submitJob(t, a.kind, bridge.Job[int]{ID: "a"})
		soon(t, ticket.Started())
		a.producer.outage.begin(durabletest.Fault{Action: durabletest.Refuse}, append(cut, durabletest.OpRenew, durabletest.OpSweep, durabletest.OpClaim)...)
		a.consumer.run(t, nil)
		time.Sleep(10 * time.Minute)
		if n := a.consumer.q.Counters().Started; n != 1 {
			t.Fatalf("%d started there: this shows nothing", n)
		}
		close(gate)
		time.Sleep(2*time.Hour + time.Minute) // it gives up after two
		return a, ticket
	}
	bubble(t, "it waits", func(t *testing.T) {
		a, ticket := lost(t, func(context.Context, *bridge.Delivery[int]) error { return bridge.Snooze(6 * time.Hour) })
		if s, n := ticket.State(), a.producer.q.Counters().Stale; s != local.Enqueued || n != 1 {
			t.Errorf("%v while it waits, %d stale", s, n)
		}
	})
	bubble(t, "it runs, and this process has given up on telling", func(t *testing.T) {
		finish := make(chan struct{})
		a, ticket := lost(t, func(context.Context, *bridge.Delivery[int]) error { <-finish; return nil }, durabletest.OpSettle)
		if s, n := ticket.State(), a.producer.q.Counters().Unsettled; s != local.Processing || n != 1 {
			t.Errorf("%v while it runs, %d unsettled", s, n)
		}
		close(finish)
		ends(t, ticket, nil, "")
	})
}
