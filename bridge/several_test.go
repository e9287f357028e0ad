package bridge_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
	"github.com/seed-9dec4fca/weir/local"
)

// runs counts the runs of each job.
type runs struct {
	mu sync.Mutex
	by map[string]int
}

func (r *runs) add(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[string]int{}
	}
	r.by[id]++
}

func (r *runs) counts() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.by)
}

func (r *runs) len() int { return len(r.counts()) }

// onceEach expects that every ticket's job ran once, and nothing else.
func (r *runs) onceEach(t *testing.T, tickets []*bridge.Ticket) {
	t.Helper()
	counts := r.counts()
	for _, ticket := range tickets {
		if n := counts[ticket.ID()]; n != 1 {
			t.Errorf("job %s ran %d times", ticket.ID(), n)
		}
	}
	if len(counts) != len(tickets) {
		t.Errorf("%d jobs ran, %d were submitted", len(counts), len(tickets))
	}
}

func TestProducerAndConsumerInProcessesOfTheirOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := durable.NewMemory(nil)
		producer, consumer := setupOn(t, memory, nil), setupOn(t, memory, nil)
		var ran runs
		consumer.handle(t, "count", func(_ context.Context, d *bridge.Delivery[int]) error { ran.add(d.ID); return nil })
		consumer.run(t, nil)
		kind := bridge.NewKind[int](producer.q, "count", nil)
		var tickets []*bridge.Ticket
		for i := range 300 {
			tickets = append(tickets, submit(t, kind, i))
		}
		if err := producer.q.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		ran.onceEach(t, tickets)
		// Nobody has looked, so what runs elsewhere is not heard of here: enqueued is the last that this process knows.
		for _, ticket := range tickets {
			if got := ticket.State(); got != local.Enqueued {
				t.Fatalf("ticket is %v, want enqueued", got)
			}
		}
		if got := producer.q.Counters(); got.Enqueued != 300 || got.Started != 0 {
			t.Errorf("producer %+v", got)
		}
		if got := consumer.q.Counters(); got.Enqueued != 0 || got.Completed != 300 {
			t.Errorf("consumer %+v", got)
		}
		if n := producer.outage.Calls(durabletest.OpOpenConsumer) + consumer.outage.Calls(durabletest.OpOpenProducer); n != 0 {
			t.Errorf("%d identities opened that nobody needs", n)
		}
		shutdown(t, producer.q)
		for _, ticket := range tickets {
			err := ticket.Wait(t.Context())
			if !errors.Is(err, local.ErrDetached) || !errors.Is(err, bridge.ErrShutdown) || ticket.WaitEnqueued(t.Context()) != nil {
				t.Fatalf("after Shutdown: %v", err)
			}
		}
		producer.conserved(t)
	})
}

func TestSeveralConsumersRunEachJobOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := durable.NewMemory(nil)
		var ran runs
		consumers := make([]*bench, 4)
		for i := range consumers {
			consumers[i] = setupOn(t, memory, nil)
			consumers[i].handle(t, "count", func(_ context.Context, d *bridge.Delivery[int]) error {
				if d.Deliveries != 1 {
					t.Errorf("%s: delivery %d", d.ID, d.Deliveries)
				}
				time.Sleep(time.Duration(d.Value%7) * time.Millisecond)
				ran.add(d.ID)
				return nil
			})
			consumers[i].run(t, &bridge.RunOptions{Workers: 4})
		}
		kind := bridge.NewKind[int](consumers[0].q, "count", nil)
		var tickets []*bridge.Ticket
		for i := range 800 {
			tickets = append(tickets, submit(t, kind, i))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		ran.onceEach(t, tickets)
		for i, c := range consumers {
			if n := c.q.Counters().Completed; n < 100 {
				t.Errorf("consumer %d had %d of 800 jobs", i, n)
			}
		}
		for _, ticket := range tickets { // whoever has run it
			if err := ticket.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestCase39_ABusyConsumerDoesNotHoardWhatAnotherCouldRun(t *testing.T) {
	t.Parallel()
	// Elsewhere a consumer prefetched jobs that waited behind its long one, while others idled.
	synctest.Test(t, func(t *testing.T) {
		memory := durable.NewMemory(nil)
		var began []time.Duration
		var mu sync.Mutex
		start := time.Now()
		long := func(context.Context, *bridge.Delivery[int]) error {
			mu.Lock()
			began = append(began, time.Since(start))
			mu.Unlock()
			time.Sleep(time.Minute)
			return nil
		}
		one, two := setupOn(t, memory, nil), setupOn(t, memory, nil)
		kind := one.handle(t, "long", long)
		two.handle(t, "long", long)
		one.run(t, &bridge.RunOptions{Workers: 1})
		two.run(t, &bridge.RunOptions{Workers: 1})
		synctest.Wait()
		for i := range 3 {
			submit(t, kind, i)
		}
		synctest.Wait()
		if s := memoryStats(t, memory); s.Processing != 2 || s.Pending != 1 {
			t.Errorf("%d claimed by two workers, %d left for whoever is free first", s.Processing, s.Pending)
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(began) != 3 || began[1] > time.Millisecond || began[2] > time.Minute+time.Millisecond {
			t.Errorf("began after %v, want 0, 0, 1m", began)
		}
	})
}

func memoryStats(t *testing.T, memory *durable.Memory) durable.Stats {
	t.Helper()
	s, err := memory.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMaxWatched(t *testing.T) {
	t.Parallel()
	bubble(t, "the ticket too many ends detached once its job is durable, and the job goes on", func(t *testing.T) {
		b := setup(t, &bridge.Options{MaxWatched: 3})
		var ran runs
		kind := b.handle(t, "count", func(_ context.Context, d *bridge.Delivery[int]) error { ran.add(d.ID); return nil })
		var tickets []*bridge.Ticket
		for i := range 5 {
			tickets = append(tickets, submit(t, kind, i))
			if err := tickets[i].WaitEnqueued(t.Context()); err != nil {
				t.Errorf("ticket %d: %v", i, err)
			}
		}
		b.run(t, nil)
		for i, ticket := range tickets {
			err := ticket.Wait(t.Context())
			if i < 3 && err != nil || i >= 3 && !errors.Is(err, local.ErrDetached) {
				t.Errorf("ticket %d: %v", i, err)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		ran.onceEach(t, tickets)
		// There is room again for those who come later.
		if err := submit(t, kind, 9).Wait(t.Context()); err != nil {
			t.Errorf("later: %v", err)
		}
		b.conserved(t)
	})
	// Tickets were once watched before the append, and those too many said detached, "the job goes
	// on", of jobs that were then refused or never sent.
	bubble(t, "a job that does not become durable ends as what it is", func(t *testing.T) {
		b := setup(t, &bridge.Options{MaxWatched: 1})
		kind := bridge.NewKind[int](b.q, "count", nil)
		first := submitJob(t, kind, bridge.Job[int]{ID: "same"})
		if err := first.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.outage.begin(durabletest.Fault{Action: durabletest.Refuse}, durabletest.OpAppend)
		later := submit(t, kind, 2)
		time.Sleep(time.Minute)
		if got := later.State(); got != local.Accepted {
			t.Errorf("in an outage: %v, want accepted", got)
		}
		b.outage.end()
		if err := later.WaitEnqueued(t.Context()); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		second := submitJob(t, kind, bridge.Job[int]{ID: "same"})
		if err := second.WaitEnqueued(t.Context()); err != nil || second.Duplicate() != "same" {
			t.Errorf("a duplicate: %v, of %q", err, second.Duplicate())
		}
		if first.State() != local.Enqueued {
			t.Errorf("the first: %v", first.State())
		}
	})
	bubble(t, "a worker that is quicker than the append's answer finds the ticket", func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return nil })
		b.run(t, nil)
		b.outage.begin(durabletest.Fault{Action: durabletest.Lose}, durabletest.OpAppend)
		ticket := submit(t, kind, 1)
		if err := ticket.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		b.outage.end()
	})
}
