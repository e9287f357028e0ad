package bridge_test

import (
	"context"
	"fmt"
	"slices"
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

// faultClasses is one fault of each class. Postponed calls are executed while their re-sends are
// under way, or long after.
func faultClasses() []durabletest.Fault {
	return []durabletest.Fault{
		{Action: durabletest.Refuse},
		{Action: durabletest.Lose},
		{Action: durabletest.Repeat},
		{Action: durabletest.Postpone, Delay: 70 * time.Millisecond},
		{Action: durabletest.Postpone, Delay: 3 * time.Second},
		{Action: durabletest.Pass, Delay: 12 * time.Second}, // longer than any exchange may take
	}
}

// flock submits jobs of a kind and sees each through. It checks, at the end, that each ran once unless
// a lease ended, and that all counters add up.
type flock struct {
	*bench
	kind    *bridge.Kind[int]
	all     runs
	again   atomic.Int64 // deliveries that were not a job's first
	tickets []*bridge.Ticket
}

func newFlock(t *testing.T, memory *durable.Memory) *flock {
	t.Helper()
	f := &flock{bench: setupOn(t, memory, &bridge.Options{Capacity: 64, Retry: policy.Retry{Initial: time.Second}})}
	f.kind = f.handle(t, "count", func(ctx context.Context, d *bridge.Delivery[int]) error {
		f.all.add(d.ID)
		if d.Deliveries > 1 {
			f.again.Add(1)
		}
		select {
		case <-time.After(time.Duration(d.Value%10) * time.Millisecond):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return f
}

func submitFlock(t *testing.T, f *flock, n int) {
	t.Helper()
	for i := range n {
		ticket, err := f.kind.Submit(t.Context(), i, policy.Wait(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		f.tickets = append(f.tickets, ticket)
		if i%20 == 0 {
			time.Sleep(20 * time.Millisecond)
		}
	}
}

func (f *flock) check(t *testing.T) {
	t.Helper()
	for _, ticket := range f.tickets {
		if err := ticket.Wait(t.Context()); err != nil {
			t.Errorf("%v", err)
		}
	}
	// A job may have been completed before its append was answered.
	if err := f.q.Flush(t.Context()); err != nil {
		t.Errorf("%v", err)
	}
	f.stop()
	if err := <-f.ran; err != nil {
		t.Errorf("run: %v", err)
	}
	f.outage.end()
	f.outage.Settled()
	synctest.Wait()

	c := f.q.Counters()
	// A run is repeated only where a lease ended or an outcome could not be told.
	repeats := c.LeaseLost + c.Unsettled + c.Stale
	if n := f.again.Load(); n != 0 && repeats == 0 {
		t.Errorf("%d deliveries again, and no lease ended: %+v", n, c)
	}
	for id, n := range f.all.counts() {
		if n != 1 && repeats == 0 {
			t.Errorf("job %s ran %d times, and no lease ended: %+v", id, n, c)
		}
	}
	if got := f.all.len(); got != len(f.tickets) {
		t.Errorf("%d jobs ran, %d were submitted", got, len(f.tickets))
	}
	n := uint64(len(f.tickets))
	if c.Enqueued != n || c.Completed != n || c.Refused+c.Abandoned+c.Uncertain+c.Dead+c.Retried+c.Gone != 0 || c.Gaps != 0 {
		t.Errorf("counters %+v", c)
	}
	s, err := f.q.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d := s.Durable; d.Pending+d.Scheduled+d.Processing+d.Dead != 0 || d.Counters["completed"] != int64(n) || d.Counters["appended"] != int64(n) {
		t.Errorf("in the store: %+v", d)
	}
	if s.Front.Length != 0 || s.Front.Waiting != 0 || s.Stuck != 0 {
		t.Errorf("left in memory: %+v", s)
	}
	f.conserved(t)
}

// The third call of each operation, with enough going on around it, fails once in each way; the first of
// those that there is one of. Shutdown in doubt and Stats have tests of their own.
func TestEachOperationFailingOnceInEachWay(t *testing.T) {
	t.Parallel()
	once := []durabletest.Op{durabletest.OpCheck, durabletest.OpOpenProducer, durabletest.OpOpenConsumer, durabletest.OpLeave}
	often := []durabletest.Op{
		durabletest.OpAppend, durabletest.OpClaim, durabletest.OpAwait, durabletest.OpSettle, durabletest.OpRenew, durabletest.OpSweep,
	}
	for _, op := range slices.Concat(once, often) {
		for _, fault := range faultClasses() {
			bubble(t, fmt.Sprint(op, " ", fault.Action, " ", fault.Delay), func(t *testing.T) {
				f := newFlock(t, durable.NewMemory(nil))
				hit := false
				f.outage.decide(func(c durabletest.Call) durabletest.Fault {
					if c.Op == op && (c.Seq == 3 || c.Seq == 1 && slices.Contains(once, op)) {
						hit = true
						return fault
					}
					return durabletest.Fault{}
				})
				f.run(t, &bridge.RunOptions{Workers: 8, Lease: 9 * time.Second, SweepEvery: time.Second})
				submitFlock(t, f, 200)
				for range 4 { // renewals, sweeps and awaits come with time
					time.Sleep(3 * time.Second)
					submitFlock(t, f, 20)
				}
				f.check(t)
				if !hit {
					t.Error("the fault was never met")
				}
			})
		}
	}
}

func TestManyFaultsOfAllKindsAtOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		bubble(t, fmt.Sprint("seed ", seed), func(t *testing.T) {
			f := newFlock(t, durable.NewMemory(&durable.MemoryOptions{MaxBacklog: 50, MaxCrashes: 1000}))
			f.outage.decide(durabletest.Seeded(seed, 0.3, faultClasses()...))
			f.run(t, &bridge.RunOptions{Workers: 8, Lease: 30 * time.Second})
			submitFlock(t, f, 300)
			f.check(t)
		})
	}
}

// Many leases end, since renewals fail most of the time. Then jobs do run twice, and the
// handler can tell; but each is completed once.
func TestLeasesEndingAllTheTime(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		bubble(t, fmt.Sprint("seed ", seed), func(t *testing.T) {
			memory := durable.NewMemory(&durable.MemoryOptions{MaxCrashes: 1000})
			f := newFlock(t, memory)
			flaky := durabletest.Seeded(seed, 0.9, durabletest.Fault{Action: durabletest.Refuse})
			f.outage.decide(func(c durabletest.Call) durabletest.Fault {
				if c.Op == durabletest.OpRenew {
					return flaky(c)
				}
				return durabletest.Fault{}
			})
			f.run(t, &bridge.RunOptions{Workers: 8, Lease: time.Second, SweepEvery: 300 * time.Millisecond})
			for range 20 {
				submitFlock(t, f, 10)
				time.Sleep(time.Second)
			}
			for _, ticket := range f.tickets {
				if err := ticket.Wait(t.Context()); err != nil {
					t.Error(err)
				}
			}
			f.check(t)
			if f.q.Counters().LeaseLost == 0 {
				t.Error("no lease ended")
			}
		})
	}
}

func TestRequestThatIsAnsweredByAnUnknownSender(t *testing.T) {
	t.Parallel()
	noSender := durabletest.Fault{Action: durabletest.Refuse, Err: durable.ErrNoSender}
	bubble(t, "sent once: nothing happened, and it goes out again under a new identity", func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		b.outage.once(noSender, durabletest.OpAppend)
		if err := submit(t, kind, 1).WaitEnqueued(t.Context()); err != nil {
			t.Error(err)
		}
		if n := b.outage.Calls(durabletest.OpOpenProducer); n != 2 {
			t.Errorf("%d identities", n)
		}
	})
	bubble(t, "sent before and not answered: uncertain, and the next go on", func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		b.outage.decide(func(c durabletest.Call) durabletest.Fault {
			switch {
			case c.Op == durabletest.OpAppend && c.Seq == 1:
				return durabletest.Fault{Action: durabletest.Lose}
			case c.Op == durabletest.OpAppend && c.Seq == 2:
				return noSender
			}
			return durabletest.Fault{}
		})
		first := submit(t, kind, 1)
		synctest.Wait()
		second := submit(t, kind, 2) // comes while the first is in doubt
		<-first.Done()
		if first.State() != local.Uncertain {
			t.Errorf("got %v", first.Err())
		}
		if err := second.WaitEnqueued(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		b.conserved(t)
	})
}
