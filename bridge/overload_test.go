package bridge_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// rejected expects a rejection for a reason.
func rejected(t *testing.T, ticket *bridge.Ticket, err error, reason policy.Reason) policy.Rejection {
	t.Helper()
	rejection, ok := errors.AsType[*policy.Rejection](err)
	if !ok || ticket != nil || rejection.Reason != reason {
		t.Fatalf("got %v, %v; want a rejection: %v", ticket, err, reason)
	}
	return *rejection
}

// full is a queue whose front of 4 slots is full: one job is in the shipper's hand and cannot be appended.
type full struct {
	*bench
	kind    *bridge.Kind[int]
	shipped *bridge.Ticket // in the shipper's hand
	queued  []*bridge.Ticket
	free    func() // lets everything go on
}

// jams are the ways for a front to fill: the store does not answer, does not work, or has no room.
func jams(t *testing.T, test func(t *testing.T, f *full)) {
	t.Helper()
	const backlog = 3
	jam := func(name string, opts *durable.MemoryOptions, begin func(t *testing.T, f *full)) {
		bubble(t, name, func(t *testing.T) {
			f := &full{bench: setupOn(t, durable.NewMemory(opts), &bridge.Options{Capacity: 4})}
			f.kind = f.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return nil })
			begin(t, f)
			f.shipped = submit(t, f.kind, 0)
			time.Sleep(time.Second)
			synctest.Wait()
			for i := range 3 {
				f.queued = append(f.queued, submit(t, f.kind, 1+i))
			}
			test(t, f)
			f.free()
			for _, ticket := range append(f.queued, f.shipped) {
				if err := ticket.WaitEnqueued(t.Context()); err != nil && !errors.Is(err, local.ErrEvicted) {
					t.Errorf("afterwards: %v", err)
				}
			}
			if err := f.q.Flush(t.Context()); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			f.conserved(t)
			if s, err := f.q.Stats(t.Context()); err != nil || s.Front.HighWater != 4 || s.Front.Length != 0 {
				t.Errorf("stats %+v, %v", s, err)
			}
		})
	}
	hold := func(_ *testing.T, f *full) {
		f.gate.Hold(durabletest.OpAppend)
		f.free = func() { f.gate.Release(durabletest.OpAppend) }
	}
	jam("a held append", nil, hold)
	jam("an outage", nil, func(_ *testing.T, f *full) {
		f.outage.begin(durabletest.Fault{Action: durabletest.Refuse}, durabletest.OpAppend)
		f.free = f.outage.end
	})
	jam("a full backlog", &durable.MemoryOptions{MaxBacklog: backlog}, func(t *testing.T, f *full) {
		for i := range backlog {
			if err := submit(t, f.kind, i).WaitEnqueued(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		f.free = func() { f.run(t, nil) }
	})
}

func TestFullFrontReachesTheProducerThroughReject(t *testing.T) {
	t.Parallel()
	jams(t, func(t *testing.T, f *full) {
		start := time.Now()
		ticket, err := f.kind.Submit(t.Context(), 9, policy.Reject())
		r := rejected(t, ticket, err, policy.ReasonFull)
		if r.Depth != 4 || r.Capacity != 4 || r.RetryAfter <= 0 || !errors.Is(err, policy.ErrFull) || time.Since(start) != 0 {
			t.Errorf("got %+v after %v", r, time.Since(start))
		}
		ticket, err = f.kind.TrySubmit(9)
		rejected(t, ticket, err, policy.ReasonFull)
		ticket, err = f.kind.Submit(t.Context(), 9, policy.Policy{}) // the queue's default
		rejected(t, ticket, err, policy.ReasonFull)
		if p := f.q.Pressure(); p != 1 {
			t.Errorf("pressure %v", p)
		}
	})
}

func TestFullFrontReachesTheProducerThroughWait(t *testing.T) {
	t.Parallel()
	jams(t, func(t *testing.T, f *full) {
		start := time.Now()
		if _, err := f.kind.Submit(t.Context(), 9, policy.Wait(50*time.Millisecond)); !errors.Is(err, policy.ErrFull) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("at its own limit: %v", err)
		}
		if d := time.Since(start); d != 50*time.Millisecond && d != 0 { // 0: predicted
			t.Errorf("waited %v", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		waited := make(chan error, 1)
		var ticket *bridge.Ticket
		go func() {
			var err error
			ticket, err = f.kind.Submit(ctx, 9, policy.Wait(0))
			waited <- err
		}()
		synctest.Wait()
		if _, err := f.kind.TrySubmit(9); !errors.Is(err, policy.ErrFull) {
			t.Errorf("TrySubmit beside it: %v", err)
		}
		f.free()
		f.free = func() {}
		if err := <-waited; err != nil {
			t.Fatalf("when there is room: %v", err)
		}
		if err := ticket.WaitEnqueued(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestFullFrontReachesTheProducerThroughDropIncoming(t *testing.T) {
	t.Parallel()
	jams(t, func(t *testing.T, f *full) {
		ticket, err := f.kind.Submit(t.Context(), 9, policy.DropIncoming())
		if err != nil || ticket.State() != local.Dropped || !errors.Is(ticket.Err(), local.ErrDropped) {
			t.Fatalf("got %v, %v", ticket, err)
		}
		closed(t, ticket)
		if s, err := f.q.Stats(t.Context()); err != nil || s.Front.Dropped != 1 || s.Front.RejectedTotal() != 0 {
			t.Errorf("stats %+v, %v", s.Front, err)
		}
	})
}

func TestFullFrontReachesTheProducerThroughDropOldest(t *testing.T) {
	t.Parallel()
	jams(t, func(t *testing.T, f *full) {
		var incoming []*bridge.Ticket
		for i := range 2 {
			ticket, err := f.kind.Submit(t.Context(), 10+i, policy.DropOldest())
			if err != nil {
				t.Fatal(err)
			}
			incoming = append(incoming, ticket)
		}
		for _, ticket := range f.queued[:2] {
			if ticket.State() != local.Evicted {
				t.Errorf("the oldest: %v", ticket.State())
			}
			closed(t, ticket)
		}
		if f.shipped.State() != local.Accepted || f.queued[2].State() != local.Accepted {
			t.Errorf("in the shipper's hand: %v; younger: %v", f.shipped.State(), f.queued[2].State())
		}
		f.queued = append(f.queued, incoming...)
	})
}

func TestFullFrontReachesTheProducerThroughFunc(t *testing.T) {
	t.Parallel()
	jams(t, func(t *testing.T, f *full) {
		var seen policy.Snapshot
		ticket, err := f.kind.Submit(t.Context(), 9, policy.Func(func(s policy.Snapshot) policy.Policy { seen = s; return policy.DropIncoming() }))
		if err != nil || ticket.State() != local.Dropped {
			t.Errorf("planned to drop: %v, %v", ticket, err)
		}
		if seen.Length != 4 || seen.Capacity != 4 || seen.Size != 1 || seen.ByteCapacity == 0 {
			t.Errorf("snapshot %+v", seen)
		}
		ticket, err = f.kind.Submit(t.Context(), 9, policy.Func(func(policy.Snapshot) policy.Policy { return policy.Shed() }))
		rejected(t, ticket, err, policy.ReasonShed)
		ticket, err = f.kind.Submit(t.Context(), 9, policy.Func(func(policy.Snapshot) policy.Policy { return policy.Func(nil) }))
		rejected(t, ticket, err, policy.ReasonInvalid)
	})
}

func TestEvictionSparesWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, &bridge.Options{Capacity: 4, Policy: policy.DropOldest()})
		kind := bridge.NewKind[int](b.q, "count", nil)
		b.gate.Hold(durabletest.OpAppend)
		taken := submit(t, kind, 0)
		synctest.Wait()
		var tickets []*bridge.Ticket
		for i := range 10 {
			ticket, err := kind.Submit(t.Context(), i, policy.Policy{})
			if err != nil {
				t.Fatal(err)
			}
			tickets = append(tickets, ticket)
		}
		b.gate.Release(durabletest.OpAppend)
		if err := taken.WaitEnqueued(t.Context()); err != nil {
			t.Errorf("on its way: %v", err)
		}
		for i, ticket := range tickets {
			err := ticket.WaitEnqueued(t.Context())
			if i < 7 && !errors.Is(err, local.ErrEvicted) || i >= 7 && err != nil {
				t.Errorf("job %d: %v, want the oldest 7 evicted and the last 3 kept", i, err)
			}
		}
		b.conserved(t)
	})
}

func TestWaitThatIsHopelessIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupOn(t, durable.NewMemory(&durable.MemoryOptions{MaxBacklog: 1}), &bridge.Options{Capacity: 1})
		kind := b.handle(t, "slow", func(context.Context, *bridge.Delivery[int]) error { time.Sleep(time.Second); return nil })
		b.run(t, &bridge.RunOptions{Workers: 1})
		for i := range 20 { // one a second goes through
			if _, err := kind.Submit(t.Context(), i, policy.Wait(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		ticket, err := kind.Submit(t.Context(), 9, policy.Wait(100*time.Millisecond))
		r := rejected(t, ticket, err, policy.ReasonPredicted)
		if time.Since(start) != 0 || r.Waited != 0 || r.RetryAfter < 500*time.Millisecond || r.RetryAfter > 3*time.Second {
			t.Errorf("got %+v after %v", r, time.Since(start))
		}
	})
}

func TestPressureIsTheLargestOfJobsBytesAndBacklog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupOn(t, durable.NewMemory(&durable.MemoryOptions{MaxBacklog: 10}), &bridge.Options{Capacity: 10, CapacityBytes: 100, MaxPayload: 100})
		kind := bridge.NewKind(b.q, "bytes", &bridge.KindOptions[[]byte]{Codec: bridge.Bytes{}})
		expect := func(want float64, why string) {
			t.Helper()
			if got := b.q.Pressure(); got != want {
				t.Errorf("%s: %v, want %v", why, got, want)
			}
		}
		expect(0, "at the start")
		for range 3 {
			if _, err := kind.TrySubmit(nil); err != nil {
				t.Fatal(err)
			}
			if err := b.q.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		expect(0.3, "a backlog of 3 of 10")
		b.gate.Hold(durabletest.OpAppend)
		for range 5 {
			if _, err := kind.TrySubmit(nil); err != nil {
				t.Fatal(err)
			}
		}
		expect(0.5, "5 jobs of 10")
		if _, err := kind.TrySubmit(make([]byte, 80)); err != nil {
			t.Fatal(err)
		}
		expect(0.8, "80 bytes of 100")
		if _, err := kind.TrySubmit(make([]byte, 21)); !errors.Is(err, policy.ErrFull) {
			t.Errorf("21 bytes more: %v", err)
		}
		b.gate.Release(durabletest.OpAppend)
	})
}

func TestCase02_AHandlerThatSubmitsToItsOwnFullQueueCannotDeadlockIt(t *testing.T) {
	t.Parallel()
	// Elsewhere the only worker waited for a slot that only a worker could free, for ever.
	synctest.Test(t, func(t *testing.T) {
		b := setupOn(t, durable.NewMemory(&durable.MemoryOptions{MaxBacklog: 1}), &bridge.Options{Capacity: 1})
		var mu sync.Mutex
		parents, children, refused := 0, 0, 0
		var kind *bridge.Kind[int]
		kind = b.handle(t, "family", func(ctx context.Context, d *bridge.Delivery[int]) error {
			mu.Lock()
			defer mu.Unlock()
			if d.Value == 0 {
				children++
				return nil
			}
			parents++
			time.Sleep(time.Millisecond) // by then the next parent waits in the store, and one more in the front
			start := time.Now()
			_, err := kind.Submit(ctx, 0, policy.Wait(time.Second))
			if err != nil {
				refused++
			}
			if err != nil && !errors.Is(err, policy.ErrFull) || time.Since(start) > time.Second {
				t.Errorf("child: %v after %v", err, time.Since(start))
			}
			return nil
		})
		b.run(t, &bridge.RunOptions{Workers: 1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range 20 {
			if _, err := kind.Submit(ctx, 1, policy.Wait(0)); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.q.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if parents != 20 || children+refused != 20 || refused == 0 {
			t.Errorf("%d parents, %d children, %d refused", parents, children, refused)
		}
		b.conserved(t)
	})
}
