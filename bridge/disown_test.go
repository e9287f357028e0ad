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
)

// ranTwice is a job that a process has claimed a second time, as the first claim was lost, and that runs there twice, until each of
// the gates is closed.
func ranTwice(t *testing.T) (a *apart, ticket *bridge.Ticket, gates []chan struct{}) {
	t.Helper()
	a = setupApart(t, func(context.Context, *bridge.Delivery[int]) error { return errors.New("not here") })
	gates = []chan struct{}{make(chan struct{}), make(chan struct{}), make(chan struct{})}
	var runs atomic.Int64
	if err := a.kind.Handle(func(context.Context, *bridge.Delivery[int]) error { <-gates[runs.Add(1)-1]; return nil }); err != nil {
		t.Fatal(err)
	}
	a.producer.run(t, &bridge.RunOptions{Lease: 10 * time.Second, Workers: 4})
	ticket = submitJob(t, a.kind, bridge.Job[int]{ID: "a"})
	soon(t, ticket.Started())
	ticket.Done()
	refuse := durabletest.Fault{Action: durabletest.Refuse}
	a.producer.outage.begin(refuse, durabletest.OpRenew, durabletest.OpFollowAwait)
	time.Sleep(15 * time.Second)
	a.producer.outage.begin(refuse, durabletest.OpFollowAwait)
	time.Sleep(3 * time.Minute)
	if n := runs.Load(); n != 2 {
		t.Fatalf("%d runs: this shows nothing", n)
	}
	return a, ticket, gates
}

// A run that had lost its claim let go of the ticket, though a later one of the same process had it.
func TestTheTicketIsThatOfTheLaterRun(t *testing.T) {
	t.Parallel()
	bubble(t, "as old news comes", func(t *testing.T) {
		a, ticket, gates := ranTwice(t)
		close(gates[0])
		time.Sleep(time.Second)
		if n := a.producer.q.Counters().Stale; n != 1 {
			t.Errorf("%d stale", n)
		}
		a.producer.outage.end()
		time.Sleep(time.Minute)
		if s := ticket.State(); s != local.Processing {
			t.Errorf("%v while its handler runs", s)
		}
		close(gates[1])
		ends(t, ticket, nil, "")
	})
	bubble(t, "as the ID is used again", func(t *testing.T) {
		a, ticket, gates := ranTwice(t)
		close(gates[0])
		time.Sleep(time.Second)
		a.producer.outage.begin(durabletest.Fault{Action: durabletest.Lose}, durabletest.OpSettle, durabletest.OpFollowAwait)
		close(gates[1])
		synctest.Wait()
		close(gates[2])
		again := submitJob(t, a.kind, bridge.Job[int]{ID: "a"})
		time.Sleep(20 * time.Millisecond)
		a.producer.outage.end()
		ends(t, ticket, nil, "")
		ends(t, again, nil, "")
	})
}

// racing is an engine whose Settle is answered, once it was to be late, when it is let go.
type racing struct {
	*durable.Memory
	late atomic.Bool
	let  chan struct{}
}

func (r *racing) OpenConsumer(ctx context.Context, lease time.Duration) (durable.Consumer, error) {
	c, err := r.Memory.OpenConsumer(ctx, lease)
	return &racer{c, r}, err
}

type racer struct {
	durable.Consumer
	r *racing
}

func (c *racer) Settle(ctx context.Context, n uint64, outcomes []durable.Outcome) (durable.Settled, error) {
	settled, err := c.Consumer.Settle(ctx, n, outcomes)
	if c.r.late.Swap(false) {
		<-c.r.let
	}
	return settled, err
}

// What others had made of a job before the answer to its retry came was undone by that.
func TestTheAnswerToARetryIsLate(t *testing.T) {
	t.Parallel()
	late := func(t *testing.T, here bool) {
		t.Helper()
		memory := durable.NewMemory(nil)
		r := &racing{Memory: memory, let: make(chan struct{})}
		producer, consumer := setupOn(t, r, nil), setupOn(t, memory, nil)
		again := make(chan struct{})
		run := func(_ context.Context, d *bridge.Delivery[int]) error {
			if d.Deliveries == 1 {
				return bridge.Snooze(time.Second)
			}
			<-again
			return nil
		}
		kind := producer.handle(t, "count", run)
		consumer.handle(t, "count", run)
		r.late.Store(true)
		producer.run(t, &bridge.RunOptions{Workers: 2})
		ticket := submitJob(t, kind, bridge.Job[int]{ID: "a"})
		soon(t, ticket.Started())
		ticket.Done()
		if !here {
			producer.outage.begin(durabletest.Fault{Action: durabletest.Refuse}, durabletest.OpClaim)
			consumer.run(t, nil)
		}
		time.Sleep(2 * time.Second)
		close(r.let)
		time.Sleep(10 * time.Second)
		if there := consumer.q.Counters().Started; (there == 1) == here {
			t.Fatalf("%d started there: this shows nothing", there)
		}
		if s := ticket.State(); s != local.Processing {
			t.Errorf("%v while its handler runs", s)
		}
		close(again)
		ends(t, ticket, nil, "")
	}
	bubble(t, "and another process has it", func(t *testing.T) { late(t, false) })
	bubble(t, "and this process has it again", func(t *testing.T) { late(t, true) })
}
