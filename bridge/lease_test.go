package bridge_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

func TestCase25_AHandlerOfManyLeasesKeepsItsJob(t *testing.T) {
	t.Parallel()
	// Elsewhere a half-hour job lost its lease although its worker lived: renewal shared a
	// connection, a loop or a clock with the work.
	const lease = 30 * time.Second
	synctest.Test(t, func(t *testing.T) {
		memory := durable.NewMemory(nil)
		b, other := setupOn(t, memory, nil), setupOn(t, memory, nil)
		long := b.handle(t, "long", func(ctx context.Context, d *bridge.Delivery[int]) error {
			select {
			case <-time.After(10 * lease):
			case <-ctx.Done():
				t.Errorf("the context ended: %v", context.Cause(ctx))
			}
			if d.Deliveries != 1 {
				t.Errorf("delivery %d", d.Deliveries)
			}
			return nil
		})
		fine := func(context.Context, *bridge.Delivery[int]) error { return nil }
		short := b.handle(t, "short", fine)
		other.handle(t, "short", fine)
		b.run(t, &bridge.RunOptions{Workers: 4, Lease: lease})
		ticket := submit(t, long, 1)
		<-ticket.Started()
		other.run(t, &bridge.RunOptions{Workers: 1, Lease: lease}) // and sweeps

		// Everything else stalls for a lease and more.
		stalled := []durabletest.Op{durabletest.OpAppend, durabletest.OpClaim, durabletest.OpSettle, durabletest.OpAwait, durabletest.OpSweep}
		for _, op := range stalled {
			b.gate.Hold(op)
		}
		for i := range 500 {
			submit(t, short, i)
		}
		time.Sleep(40 * time.Second)
		for _, op := range stalled {
			b.gate.Release(op)
		}
		// And a burst.
		for i := range 500 {
			submit(t, short, i)
		}
		if err := ticket.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if got := b.q.Counters(); got.LeaseLost+got.Stale+other.q.Counters().Swept != 0 {
			t.Errorf("counters %+v", got)
		}
	})
}

func TestLeaseThatCannotBeRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lease = 20 * time.Second
		memory := durable.NewMemory(nil)
		b, other := setupOn(t, memory, nil), setupOn(t, memory, nil)
		opened := time.Now()
		ended, late := make(chan time.Duration, 1), make(chan struct{})
		kind := b.handle(t, "count", func(ctx context.Context, d *bridge.Delivery[int]) error {
			if d.Value != 1 {
				return nil
			}
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), bridge.ErrLeaseLost) {
				t.Errorf("ended by %v", context.Cause(ctx))
			}
			ended <- time.Since(opened)
			<-late
			return nil
		})
		again, finish := make(chan *bridge.Delivery[int], 1), make(chan struct{})
		other.handle(t, "count", func(_ context.Context, d *bridge.Delivery[int]) error {
			again <- d
			<-finish
			return nil
		})
		b.gate.Hold(durabletest.OpRenew)
		b.run(t, &bridge.RunOptions{Workers: 1, Lease: lease})
		ticket := submit(t, kind, 1)
		<-ticket.Started()
		other.run(t, &bridge.RunOptions{Workers: 1, Lease: lease})

		// Its context ends before the store would hand the job on, with a tenth of the lease to spare.
		if at := <-ended; at > lease-lease/10 || at < lease/2 {
			t.Errorf("the handler was told %v after the lease of %v began", at, lease)
		}
		synctest.Wait()
		if s := memoryStats(t, memory); s.Processing != 1 {
			t.Errorf("by then the store had taken it back: %+v", s)
		}
		if e := b.events.every(bridge.EventLeaseLost); len(e) != 1 || e[0].Err == nil {
			t.Errorf("events %+v", e)
		}
		// A new identity, which renews and works.
		b.gate.Release(durabletest.OpRenew)
		if n := b.outage.Calls(durabletest.OpOpenConsumer); n != 2 {
			t.Errorf("%d identities, want 2", n)
		}

		// It runs elsewhere, as a second delivery of the same attempt, and with a larger fence.
		second := <-again
		if second.Deliveries != 2 || second.Attempt != 1 || second.ID != ticket.ID() {
			t.Errorf("elsewhere: %+v", second)
		}
		// The late outcome changes nothing.
		before := memoryStats(t, memory)
		close(late)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := b.q.Counters(); got.Stale != 1 || got.Completed != 0 {
			t.Errorf("late outcome: %+v", got)
		}
		if after := memoryStats(t, memory); after.Processing != 1 || after.Counters["completed"] != before.Counters["completed"] {
			t.Errorf("before %+v, after %+v", before, after)
		}
		if got := ticket.State(); got != local.Processing { // elsewhere
			t.Errorf("its ticket is %v", got)
		}
		// The worker is free again.
		if err := submit(t, kind, 2).Wait(t.Context()); err != nil {
			t.Error(err)
		}
		close(finish)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := other.q.Counters(); got.Completed != 1 || memoryStats(t, memory).Counters["completed"] != 2 {
			t.Errorf("elsewhere: %+v", got)
		}
	})
}

// slowOpener answers late.
type slowOpener struct {
	durable.Engine
	by time.Duration
}

func (e *slowOpener) OpenConsumer(ctx context.Context, lease time.Duration) (durable.Consumer, error) {
	c, err := e.Engine.OpenConsumer(ctx, lease)
	time.Sleep(e.by)
	return c, err
}

func TestLeaseIsCountedFromBeforeItWasAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupOn(t, &slowOpener{durable.NewMemory(nil), 4 * time.Second}, nil)
		ended := make(chan time.Time, 1)
		kind := b.handle(t, "count", func(ctx context.Context, d *bridge.Delivery[int]) error {
			if d.Deliveries == 1 {
				<-ctx.Done()
				ended <- time.Now()
			}
			return context.Cause(ctx)
		})
		b.gate.Hold(durabletest.OpRenew)
		asked := time.Now()
		b.run(t, &bridge.RunOptions{Workers: 1, Lease: 10 * time.Second})
		ticket := submit(t, kind, 1)
		// The store counts from when it executed the call, and the answer does not say when.
		if lived := (<-ended).Sub(asked); lived > 9*time.Second {
			t.Errorf("the handler was told after %v of a lease of 10 s", lived)
		}
		b.gate.Release(durabletest.OpRenew)
		if err := ticket.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestHandlerThatObeysTheLossOfItsLeaseIsNotCharged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, &bridge.Options{Retry: policy.Retry{MaxAttempts: 1}})
		kind := b.handle(t, "count", func(ctx context.Context, d *bridge.Delivery[int]) error {
			if d.Deliveries > 1 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
		b.run(t, &bridge.RunOptions{Workers: 1, Lease: 10 * time.Second})
		ticket := submit(t, kind, 1)
		<-ticket.Started()
		b.outage.begin(durabletest.Fault{Action: durabletest.Refuse, Err: durable.ErrFenced}, durabletest.OpRenew)
		time.Sleep(5 * time.Second)
		b.outage.end()
		if err := ticket.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if got := b.q.Counters(); got.LeaseLost != 1 || got.Released != 1 || got.Completed != 1 || got.Dead+got.Retried != 0 {
			t.Errorf("counters %+v", got)
		}
	})
}

func TestOutcomeOfBeforeTheLossCountsWhileNobodyElseHasTheJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		var ran atomic.Int32
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { ran.Add(1); return nil })
		held := []durabletest.Op{durabletest.OpSettle, durabletest.OpRenew, durabletest.OpSweep}
		b.run(t, &bridge.RunOptions{Workers: 1, Lease: 10 * time.Second})
		synctest.Wait()
		for _, op := range held {
			b.gate.Hold(op)
		}
		ticket := submit(t, kind, 1)
		time.Sleep(9500 * time.Millisecond)
		synctest.Wait()
		if n := b.q.Counters().LeaseLost; n != 1 {
			t.Fatalf("%d leases lost", n)
		}
		for _, op := range held {
			b.gate.Release(op)
		}
		if err := ticket.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if got := b.q.Counters(); got.Completed != 1 || got.Stale != 0 || ran.Load() != 1 {
			t.Errorf("counters %+v, ran %d times", got, ran.Load())
		}
	})
}

// claimer lets a test stand between a consumer and its answers to Claim.
type claimer struct {
	durable.Engine
	claim func(context.Context, durable.Consumer, durable.ClaimRequest) (durable.Claimed, error)
}

func (e *claimer) OpenConsumer(ctx context.Context, lease time.Duration) (durable.Consumer, error) {
	c, err := e.Engine.OpenConsumer(ctx, lease)
	if err != nil {
		return nil, err
	}
	return &claimerConsumer{c, e}, nil
}

type claimerConsumer struct {
	durable.Consumer
	e *claimer
}

func (c *claimerConsumer) Claim(ctx context.Context, r durable.ClaimRequest) (durable.Claimed, error) {
	return c.e.claim(ctx, c.Consumer, r)
}

func TestClaimAnsweredAfterTheLeaseIsThrownAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var late atomic.Bool // an answer came late
		engine := &claimer{Engine: durable.NewMemory(nil), claim: func(ctx context.Context, c durable.Consumer, r durable.ClaimRequest) (durable.Claimed, error) {
			claimed, err := c.Claim(ctx, r)
			if len(claimed.Jobs) > 0 && late.CompareAndSwap(false, true) {
				time.Sleep(6 * time.Second)
			}
			return claimed, err
		}}
		b := setupOn(t, engine, nil)
		var deliveries []int
		kind := b.handle(t, "count", func(ctx context.Context, d *bridge.Delivery[int]) error {
			deliveries = append(deliveries, d.Deliveries)
			return context.Cause(ctx)
		})
		b.gate.Hold(durabletest.OpRenew)
		b.run(t, &bridge.RunOptions{Workers: 1, Lease: 5 * time.Second})
		ticket := submit(t, kind, 1)
		time.Sleep(5 * time.Second)
		b.gate.Release(durabletest.OpRenew)
		if err := ticket.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if len(deliveries) != 1 || deliveries[0] != 2 || !late.Load() {
			t.Errorf("deliveries %v, want the second alone", deliveries)
		}
		if got := b.q.Counters(); got.LeaseLost != 1 || got.Started != 1 || got.Swept != 1 {
			t.Errorf("counters %+v", got)
		}
	})
}

func TestClaimsThatTheConsumerDoesNotKnowGoBackUncharged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := durable.NewMemory(nil)
		swallow := true
		engine := &claimer{Engine: memory, claim: func(ctx context.Context, c durable.Consumer, r durable.ClaimRequest) (durable.Claimed, error) {
			claimed, err := c.Claim(ctx, r)
			if swallow && len(claimed.Jobs) > 1 {
				swallow = false
				return durable.Claimed{Status: durable.ClaimEmpty, NextDue: -1}, nil
			}
			return claimed, err
		}}
		b := setupOn(t, engine, nil)
		var all runs
		kind := b.handle(t, "count", func(_ context.Context, d *bridge.Delivery[int]) error {
			if d.Attempt != 1 || d.Value > 0 && d.Deliveries != 2 {
				t.Errorf("run of %d: attempt %d, delivery %d", d.Value, d.Attempt, d.Deliveries)
			}
			all.add(d.ID)
			if d.Value == 0 {
				time.Sleep(3 * time.Second) // held, and known, while the others are reconciled
			}
			return nil
		})
		b.run(t, &bridge.RunOptions{Workers: 8})
		known := submit(t, kind, 0)
		<-known.Started()
		b.gate.Hold(durabletest.OpAppend)
		tickets := []*bridge.Ticket{known}
		plug := submit(t, kind, 0)
		synctest.Wait()
		for range 3 {
			tickets = append(tickets, submit(t, kind, 1))
		}
		tickets = append(tickets, plug)
		b.gate.Hold(durabletest.OpClaim)
		b.gate.Release(durabletest.OpAppend)
		time.Sleep(time.Second)
		b.gate.Release(durabletest.OpClaim)
		for i, ticket := range tickets {
			if err := ticket.Wait(t.Context()); err != nil {
				t.Errorf("job %d: %v", i, err)
			}
		}
		all.onceEach(t, tickets)
		s := memoryStats(t, memory)
		if got := b.q.Counters(); got.LeaseLost != 0 || s.Counters["crashed"] != 0 || swallow {
			t.Errorf("counters %+v, stats %+v, swallowed %v", got, s, !swallow)
		}
	})
}

func TestAnswersAboutTheIdentity(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		op        durabletest.Op
		err       error
		lost      uint64 // leases
		unsettled uint64
	}{
		"claim, lease expired: renewed, and the same asked again": {durabletest.OpClaim, durable.ErrLeaseExpired, 0, 0},
		"claim, fenced: a new identity":                           {durabletest.OpClaim, durable.ErrFenced, 1, 0},
		"claim, unknown sender: a new identity":                   {durabletest.OpClaim, durable.ErrNoSender, 1, 0},
		"renew, fenced: a new identity":                           {durabletest.OpRenew, durable.ErrFenced, 1, 0},
		"settle, unknown sender: told, and the job runs again":    {durabletest.OpSettle, durable.ErrNoSender, 1, 1},
		"await fails: claiming goes on":                           {durabletest.OpAwait, durable.ErrOutOfMemory, 0, 0},
		"sweep fails: nothing else does":                          {durabletest.OpSweep, durable.ErrNotExecuted, 0, 0},
	} {
		bubble(t, name, func(t *testing.T) {
			b := setup(t, nil)
			kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return nil })
			b.run(t, &bridge.RunOptions{Workers: 2, Lease: 10 * time.Second})
			synctest.Wait()
			b.outage.once(durabletest.Fault{Action: durabletest.Refuse, Err: c.err}, c.op)
			ticket := submit(t, kind, 1)
			time.Sleep(12 * time.Second)
			if err := ticket.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			if err := submit(t, kind, 2).Wait(t.Context()); err != nil {
				t.Errorf("the next: %v", err)
			}
			got := b.q.Counters()
			if got.LeaseLost != c.lost || got.Unsettled != c.unsettled || got.Completed != 2 {
				t.Errorf("counters %+v", got)
			}
			if e := b.events.every(bridge.EventUnsettled); c.unsettled > 0 && (len(e) != 1 || !errors.Is(e[0].Err, bridge.ErrUnsettled)) {
				t.Errorf("events %+v", e)
			}
			if s := b.stored(t); s.Pending+s.Scheduled+s.Processing != 0 || ticket.State() != local.Completed {
				t.Errorf("left: %+v", s)
			}
		})
	}
}
