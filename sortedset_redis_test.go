package weir_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
	"github.com/seed-9dec4fca/weir/policy"
)

// prioritised opens a queue in a sorted set, which is shut down when the test ends.
func prioritised(t *testing.T, addr, name string) *bridge.Queue {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = rdb.Close() })
	store, err := durable.NewRedis(rdb, &durable.RedisOptions{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	q, err := bridge.Open(store.SortedSet(name, &durable.SortedSetOptions{Ageing: time.Minute}), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if _, err := q.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return q
}

// Two processes share a queue with priorities, through a network that loses replies of every kind: every job
// runs once, and nothing is left.
func TestSortedSetBehindTheBridge(t *testing.T) {
	t.Parallel()
	const jobs = 600
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	proxy, name := redistest.NewProxy(t, redistest.Addr(t)), redistest.Name(t)
	var mu sync.Mutex
	runs := map[string]int{}
	run := func(_ context.Context, d *bridge.Delivery[int]) error {
		mu.Lock()
		defer mu.Unlock()
		runs[d.ID]++
		return nil
	}
	var wg sync.WaitGroup
	ctxRun, stop := context.WithCancel(ctx)
	var kinds []*bridge.Kind[int]
	var queues []*bridge.Queue
	for range 2 {
		q := prioritised(t, proxy.Addr(), name)
		kind := bridge.NewKind[int](q, "count", nil)
		if err := kind.Handle(run); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if err := q.Run(ctxRun, nil); err != nil {
				t.Error(err)
			}
		})
		kinds, queues = append(kinds, kind), append(queues, q)
	}
	for _, verb := range []string{"append", "claim", "settle", "blpop", "renew"} {
		proxy.Lose(3, redistest.With(verb), redistest.RST)
	}
	var tickets []*bridge.Ticket
	for i := range jobs {
		job := bridge.Job[int]{ID: fmt.Sprint("job-", i), Value: i, Priority: i%5 - 2}
		ticket, err := kinds[i%2].SubmitJob(ctx, job, policy.Wait(30*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		tickets = append(tickets, ticket)
	}
	for _, ticket := range tickets {
		if err := ticket.WaitEnqueued(ctx); err != nil {
			t.Fatal(err)
		}
	}
	left := func() int64 {
		s, err := queues[0].Stats(ctx)
		if err != nil {
			return -1
		}
		return s.Durable.Pending + s.Durable.Scheduled + s.Durable.Processing + s.Durable.Dead + s.Durable.Corrupt
	}
	for left() != 0 {
		if ctx.Err() != nil {
			t.Fatal(left(), "are left")
		}
	}
	stop()
	wg.Wait()
	if len(runs) != jobs {
		t.Errorf("%d jobs ran, want %d", len(runs), jobs)
	}
	for id, n := range runs {
		if n != 1 {
			t.Errorf("%s ran %d times", id, n)
		}
	}
}

// A worker with nothing to do hears of a job at once, and not when it would look again.
func TestSortedSetWakesAnIdleWorker(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := redistest.Start(t)
	q := prioritised(t, s.Addr(), "q")
	kind := bridge.NewKind[int](q, "count", nil)
	if err := kind.Handle(func(context.Context, *bridge.Delivery[int]) error { return nil }); err != nil {
		t.Fatal(err)
	}
	ctxRun, stop := context.WithCancel(ctx)
	ran := make(chan error, 1)
	go func() { ran <- q.Run(ctxRun, nil) }()
	quick := 0
	for range 20 { // one that happened to look is not enough to pass
		started := time.Now()
		ticket, err := kind.TrySubmit(1)
		if err != nil {
			t.Fatal(err)
		}
		if err := ticket.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		if time.Since(started) < durable.Park/4 {
			quick++
		}
	}
	if quick < 10 {
		t.Errorf("%d of 20 jobs were done at once", quick)
	}
	stop()
	if err := <-ran; err != nil {
		t.Error(err)
	}
}
