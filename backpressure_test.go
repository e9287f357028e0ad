// The promises of the whole, end to end, on a real Redis.
package weir_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// frozen is a queue whose Redis has stopped answering, and whose front is full.
type frozen struct {
	server  *redistest.Server
	q       *bridge.Queue
	kind    *bridge.Kind[int]
	tickets []*bridge.Ticket // of the jobs in the front, oldest first
}

const frontCapacity = 8

// freeze fills the front of a queue while its Redis is stopped by SIGSTOP. The first job is
// the bridge's, which has sent it; the others wait in the front.
func freeze(t *testing.T) *frozen {
	t.Helper()
	f := &frozen{server: redistest.Start(t)}
	var watch func() func()
	f.q, watch = openWatching(t, f.server.Client(t), "bp", nil, &bridge.Options{Capacity: frontCapacity})
	f.kind = bridge.NewKind[int](f.q, "n", nil)
	first, err := f.kind.TrySubmit(-1)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.WaitEnqueued(patient(t)); err != nil {
		t.Fatal(err)
	}
	if err := f.server.Freeze(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.server.Thaw() })
	sent := watch()
	for i := range frontCapacity {
		ticket, err := f.kind.TrySubmit(i)
		if err != nil {
			t.Fatalf("job %d of %d: %v", i, frontCapacity, err)
		}
		f.tickets = append(f.tickets, ticket)
		if i == 0 {
			sent()
		}
	}
	return f
}

func (f *frozen) front(t *testing.T) local.FrontStats {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // the process's own numbers need no Redis
	s, _ := f.q.Stats(ctx)
	return s.Front
}

func (f *frozen) thaw(t *testing.T) {
	t.Helper()
	if err := f.server.Thaw(); err != nil {
		t.Fatal(err)
	}
}

func TestFullFrontRefusesAndSaysSo(t *testing.T) {
	t.Parallel()
	f := freeze(t)
	_, err := f.kind.Submit(t.Context(), 99, policy.Reject())
	rejection, ok := errors.AsType[*policy.Rejection](err)
	if !ok || !errors.Is(err, policy.ErrFull) {
		t.Fatalf("got %v, want a rejection that matches ErrFull", err)
	}
	if rejection.Reason != policy.ReasonFull || rejection.Depth != frontCapacity || rejection.Capacity != frontCapacity {
		t.Errorf("rejection %+v", rejection)
	}
	if rejection.RetryAfter <= 0 {
		t.Error("no RetryAfter")
	}
	if p := f.q.Pressure(); p != 1 {
		t.Errorf("pressure %v, want 1", p)
	}
	f.thaw(t)
	for _, ticket := range f.tickets {
		if err := ticket.WaitEnqueued(patient(t)); err != nil {
			t.Errorf("accepted job: %v", err)
		}
	}
	if err := f.q.Flush(patient(t)); err != nil { // a ticket says enqueued before its slot is given back
		t.Error(err)
	}
	if s := f.front(t); s.Accepted != frontCapacity+1 || s.Rejected[policy.ReasonFull] != 1 || s.Length != 0 {
		t.Errorf("front at the end: %+v", s)
	}
}

func TestWaitReturnsWhenASlotFrees(t *testing.T) {
	t.Parallel()
	f := freeze(t)
	type result struct {
		ticket *bridge.Ticket
		err    error
	}
	got := make(chan result, 1)
	go func() {
		ticket, err := f.kind.Submit(patient(t), 99, policy.Wait(0))
		got <- result{ticket, err}
	}()
	eventually(t, "the producer waits", func() bool { return f.front(t).Waiting == 1 })
	f.thaw(t)
	r := <-got
	if r.err != nil {
		t.Fatal(r.err)
	}
	if err := r.ticket.WaitEnqueued(patient(t)); err != nil {
		t.Fatal(err)
	}
}

func TestWaitReturnsWhenItsDeadlinePasses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	if err := server.Freeze(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Thaw() })
	// Nothing has ever left the front, so no wait can be told to be hopeless.
	q := open(t, server.Client(t), "bp", nil, &bridge.Options{Capacity: 1})
	kind := bridge.NewKind[int](q, "n", nil)
	if _, err := kind.TrySubmit(0); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ context, limit time.Duration }{
		"its own":       {time.Hour, 100 * time.Millisecond},
		"the context's": {100 * time.Millisecond, time.Hour},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), c.context)
		defer cancel()
		start := time.Now()
		_, err := kind.Submit(ctx, 99, policy.Wait(c.limit))
		waited := time.Since(start)
		rejection, ok := errors.AsType[*policy.Rejection](err)
		if !ok || rejection.Reason != policy.ReasonTimeout || !errors.Is(err, policy.ErrFull) {
			t.Fatalf("%s: %v", name, err)
		}
		if errors.Is(err, context.DeadlineExceeded) != (c.context < c.limit) {
			t.Errorf("%s: %v", name, err)
		}
		if waited < 100*time.Millisecond || waited > 10*time.Second {
			t.Errorf("%s: after %v", name, waited)
		}
	}
}

func TestFrozenRedisReachesTheProducerThroughEachPolicy(t *testing.T) {
	t.Parallel()
	f := freeze(t)
	t.Run("reject", func(t *testing.T) { // in order: they share one front
		if _, err := f.kind.Submit(t.Context(), 99, policy.Reject()); !errors.Is(err, policy.ErrFull) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("drop incoming", func(t *testing.T) {
		ticket, err := f.kind.Submit(t.Context(), 99, policy.DropIncoming())
		if err != nil || ticket.State() != local.Dropped || !errors.Is(ticket.Err(), local.ErrDropped) {
			t.Errorf("got %v, %v", ticket, err)
		}
	})
	t.Run("drop oldest", func(t *testing.T) {
		newest, err := f.kind.Submit(t.Context(), 99, policy.DropOldest())
		if err != nil {
			t.Fatal(err)
		}
		if got := f.tickets[0].State(); got != local.Accepted {
			t.Errorf("what the bridge has taken is %v, want accepted still", got)
		}
		if err := f.tickets[1].WaitEnqueued(t.Context()); !errors.Is(err, local.ErrEvicted) {
			t.Errorf("the oldest in the front: %v, want evicted", err)
		}
		if got := newest.State(); got != local.Accepted {
			t.Errorf("the newest is %v", got)
		}
	})
	t.Run("a policy of one's own", func(t *testing.T) {
		var seen policy.Snapshot
		_, err := f.kind.Submit(t.Context(), 99, policy.Func(func(s policy.Snapshot) policy.Policy {
			seen = s
			return policy.Shed()
		}))
		if r, _ := errors.AsType[*policy.Rejection](err); r == nil || r.Reason != policy.ReasonShed {
			t.Errorf("got %v", err)
		}
		if seen.Length != frontCapacity || seen.Capacity != frontCapacity || seen.HeadSojourn <= 0 {
			t.Errorf("snapshot %+v", seen)
		}
	})
	f.thaw(t)
	if err := f.q.Flush(patient(t)); err != nil {
		t.Fatal(err)
	}
	s := f.front(t)
	if s.Evicted != 1 || s.Dropped != 1 || s.Length != 0 || s.Accepted != frontCapacity+2 {
		t.Errorf("front at the end: %+v", s)
	}
	if c := f.q.Counters(); c.Enqueued != frontCapacity+1 {
		t.Errorf("enqueued %d, want %d", c.Enqueued, frontCapacity+1)
	}
}

func TestFullBacklogReachesTheProducerThroughEachPolicy(t *testing.T) {
	t.Parallel()
	const backlog, capacity = 20, 5
	rdb, name := redistest.Client(t), redistest.Name(t)
	q := open(t, rdb, name, &durable.ListOptions{MaxBacklog: backlog}, &bridge.Options{Capacity: capacity})
	kind := bridge.NewKind[int](q, "n", nil)
	tickets := make([]*bridge.Ticket, 0, backlog+capacity)
	for i := range backlog + capacity {
		ticket, err := kind.Submit(patient(t), i, policy.Wait(0))
		if err != nil {
			t.Fatalf("job %d: %v", i, err)
		}
		tickets = append(tickets, ticket)
	}
	for _, ticket := range tickets[:backlog] {
		if err := ticket.WaitEnqueued(patient(t)); err != nil {
			t.Fatal(err)
		}
	}
	if n := rdb.LLen(patient(t), "{"+name+"}:pending").Val(); n != backlog {
		t.Errorf("%d pending, want the bound of %d", n, backlog)
	}
	eventually(t, "the pressure of a full backlog", func() bool { return q.Pressure() == 1 })

	if _, err := kind.TrySubmit(0); !errors.Is(err, policy.ErrFull) {
		t.Errorf("reject: %v", err)
	}
	if _, err := kind.Submit(t.Context(), 0, policy.Wait(50*time.Millisecond)); !errors.Is(err, policy.ErrFull) {
		t.Errorf("wait: %v", err)
	}
	if ticket, err := kind.Submit(t.Context(), 0, policy.DropIncoming()); err != nil || ticket.State() != local.Dropped {
		t.Errorf("drop incoming: %v, %v", ticket, err)
	}
	var share float64
	if _, err := kind.Submit(t.Context(), 0, policy.Func(func(s policy.Snapshot) policy.Policy {
		share = s.Backlog
		return policy.Shed()
	})); !errors.Is(err, policy.ErrFull) || share != 1 {
		t.Errorf("a policy of one's own: %v, backlog share %v", err, share)
	}
	newest, err := kind.Submit(t.Context(), 0, policy.DropOldest())
	if err != nil {
		t.Fatalf("drop oldest: %v", err)
	}
	evicted := 0
	for _, ticket := range tickets[backlog:] {
		if ticket.State() == local.Evicted {
			evicted++
		}
	}
	if evicted != 1 {
		t.Errorf("drop oldest evicted %d of those in the front", evicted)
	}

	_ = kind.Handle(func(context.Context, *bridge.Delivery[int]) error { return nil })
	run(t, q, nil)
	for i, ticket := range append(tickets, newest) {
		if err := ticket.Wait(patient(t)); err != nil && !errors.Is(err, local.ErrEvicted) {
			t.Errorf("job %d: %v", i, err)
		}
	}
}

func TestAcceptedEnqueuedAndCompletedAreSeenApart(t *testing.T) {
	t.Parallel()
	f := freeze(t)
	ticket := f.tickets[0]
	select {
	case <-ticket.Enqueued():
		t.Fatal("enqueued while Redis does not answer")
	default:
	}
	if got := ticket.State(); got != local.Accepted {
		t.Fatalf("state %v, want accepted", got)
	}
	f.thaw(t)
	if err := ticket.WaitEnqueued(patient(t)); err != nil {
		t.Fatal(err)
	}
	if got := ticket.State(); got != local.Enqueued {
		t.Fatalf("state %v, want enqueued", got)
	}
	release := make(chan struct{})
	_ = f.kind.Handle(func(context.Context, *bridge.Delivery[int]) error { <-release; return nil })
	run(t, f.q, nil)
	<-ticket.Started()
	if got := ticket.State(); got != local.Processing {
		t.Fatalf("state %v, want processing", got)
	}
	select {
	case <-ticket.Done():
		t.Fatal("done while its handler runs")
	default:
	}
	close(release)
	if err := ticket.Wait(patient(t)); err != nil {
		t.Fatal(err)
	}
}

func TestBoundsHoldAtEveryInstant(t *testing.T) {
	t.Parallel()
	const backlog, capacity, producers, each, workers = 30, 10, 16, 100, 4
	rdb, name := redistest.Client(t), redistest.Name(t)
	q := open(t, rdb, name, &durable.ListOptions{MaxBacklog: backlog}, &bridge.Options{Capacity: capacity})
	kind := bridge.NewKind[int](q, "n", nil)
	var ran atomic.Int64
	_ = kind.Handle(func(context.Context, *bridge.Delivery[int]) error { ran.Add(1); return nil })
	run(t, q, &bridge.RunOptions{Workers: workers})

	ctx := patient(t)
	over := make(chan string, 1)
	samples := 0
	watching, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for watching.Err() == nil {
			s, err := q.Stats(watching)
			if err != nil {
				continue
			}
			samples++
			if s.Front.Length > capacity || s.Durable.Pending+s.Durable.Scheduled > backlog || s.Durable.Processing > 2*(workers+768) {
				select {
				case over <- fmt.Sprintf("front %d, durable %+v", s.Front.Length, s.Durable):
				default:
				}
			}
		}
	})
	var wg sync.WaitGroup
	for range producers {
		wg.Go(func() {
			for i := range each {
				if _, err := kind.Submit(ctx, i, policy.Wait(0)); err != nil {
					t.Errorf("submit: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	eventually(t, "all jobs have run", func() bool { return ran.Load() >= producers*each })
	stop()
	watcher.Wait()
	if samples == 0 {
		t.Error("the bounds were never looked at")
	}
	select {
	case what := <-over:
		t.Errorf("above the bounds: %s", what)
	default:
	}
	if n := ran.Load(); n != producers*each {
		t.Errorf("%d runs of %d jobs", n, producers*each)
	}
	s, err := q.Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if s.Front.HighWater > capacity || s.Front.HighWater == 0 {
		t.Errorf("high-water mark %d, capacity %d", s.Front.HighWater, capacity)
	}
}

func TestEmptyQueueDoesNotMeanThatProcessingIsDone(t *testing.T) {
	t.Parallel()
	rdb, name := redistest.Client(t), redistest.Name(t)
	q := open(t, rdb, name, nil, nil)
	kind := bridge.NewKind[int](q, "n", nil)
	release := make(chan struct{})
	_ = kind.Handle(func(context.Context, *bridge.Delivery[int]) error { <-release; return nil })
	run(t, q, nil)
	ticket, err := kind.TrySubmit(1)
	if err != nil {
		t.Fatal(err)
	}
	<-ticket.Started()
	if err := q.Flush(patient(t)); err != nil {
		t.Fatal(err)
	}
	s, err := q.Stats(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	if s.Front.Length != 0 || s.Durable.Pending != 0 {
		t.Fatalf("queue is not empty: %+v", s)
	}
	if s.Durable.Processing != 1 || ticket.State() != local.Processing {
		t.Errorf("processing %d, ticket %v: an empty queue with a job under way", s.Durable.Processing, ticket.State())
	}
	close(release)
	if err := ticket.Wait(patient(t)); err != nil {
		t.Fatal(err)
	}
}

// A call that waited for its turn when Shutdown closed the connections made a new one, and nobody
// closed that.
func TestNothingConnectsAfterShutdown(t *testing.T) {
	t.Parallel()
	f := freeze(t)
	const calls = 8
	asked := make(chan error, calls)
	for range calls {
		go func() {
			_, err := f.q.Stats(context.Background())
			asked <- err
		}()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := f.q.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	f.thaw(t)
	for range calls {
		if err := <-asked; err == nil {
			t.Error("answered after Shutdown")
		}
	}
	rdb := f.server.Client(t)
	eventually(t, "no connection but that of the test", func() bool {
		return strings.Count(rdb.ClientList(patient(t)).Val(), "\n") == 1
	})
}

func TestShutdownHandsBackExactlyWhatIsNotDurable(t *testing.T) {
	t.Parallel()
	f := freeze(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	start := time.Now()
	report, err := f.q.Shutdown(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("took %v with a deadline of 1 s", took)
	}
	// The first job was sent and not answered; the others never left the process.
	if len(report.Uncertain) != 1 || report.Uncertain[0].ID != f.tickets[0].ID() {
		t.Errorf("uncertain: %+v", report.Uncertain)
	}
	if len(report.Returned) != frontCapacity-1 {
		t.Errorf("%d returned, want %d", len(report.Returned), frontCapacity-1)
	}
	f.thaw(t)
	rdb := f.server.Client(t)
	for _, back := range report.Returned {
		if got := places(t, rdb, "bp", back.ID); len(got) != 0 {
			t.Errorf("job %s was returned and is in %v", back.ID, got)
		}
	}
	// Frozen commands are executed late: the uncertain one may be there, once.
	if got := places(t, rdb, "bp", report.Uncertain[0].ID); len(got) > 1 {
		t.Errorf("the uncertain job is in %v", got)
	}
}
