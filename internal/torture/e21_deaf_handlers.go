package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/policy"
)

// deafHandlers: handlers ignore the end of their contexts, run into their timeouts, and callers cancel while they
// submit. Slots stay exact, a stuck handler is reported, and what it says later is void.
func deafHandlers(l *lab) {
	const workers, deaf = 4, 2
	server := l.server()
	rdb := l.dial(server.Addr())
	store, err := durable.NewRedis(redis.NewClient(&redis.Options{Addr: server.Addr()}), nil)
	l.must(err)
	var mu sync.Mutex // guards events
	events := map[string]int{}
	q, err := bridge.Open(l.open(store), &bridge.Options{Capacity: 4, OnEvent: func(e bridge.Event) {
		mu.Lock()
		defer mu.Unlock()
		events[e.Type.String()+" "+e.Kind]++
	}})
	l.must(err)
	count := func(what string) int { mu.Lock(); defer mu.Unlock(); return events[what] }
	var deafRuns, timeouts atomic.Int64
	release := make(chan struct{})
	stubborn := bridge.NewKind[int](q, "deaf", nil)
	l.must(stubborn.Handle(func(context.Context, *bridge.Delivery[int]) error {
		deafRuns.Add(1)
		<-release
		return nil
	}))
	slow := bridge.NewKind[int](q, "slow", nil)
	l.must(slow.Handle(func(ctx context.Context, d *bridge.Delivery[int]) error {
		if d.Attempt > 1 {
			return nil
		}
		<-ctx.Done()
		if errors.Is(context.Cause(ctx), bridge.ErrTimeout) {
			timeouts.Add(1)
		}
		return ctx.Err()
	}))
	plain := bridge.NewKind[int](q, "plain", nil)
	l.must(plain.Handle(func(context.Context, *bridge.Delivery[int]) error { return nil }))
	ended := make(chan error, 1)
	go func() { ended <- q.Run(l.ctx, &bridge.RunOptions{Workers: workers, Lease: 2 * time.Second}) }()

	submit := func(kind *bridge.Kind[int], n int, timeout time.Duration, attempts int) {
		for range n {
			_, err := kind.SubmitJob(l.ctx, bridge.Job[int]{ID: q.NewID(), Timeout: timeout, MaxAttempts: attempts}, policy.Wait(10*time.Second))
			l.must(err)
		}
	}
	submit(slow, 4, 200*time.Millisecond, 3)
	l.require(l.within(15*time.Second, func() bool { return count("completed slow") == 4 }), "%d of 4 jobs with a timeout are completed", count("completed slow"))
	l.require(timeouts.Load() == 4, "%d handlers were told of their timeout, want 4", timeouts.Load())

	submit(stubborn, deaf, 200*time.Millisecond, 2)
	stuck := func() bool { return count("stuck deaf") == 2*deaf && count("dead deaf") == deaf }
	l.require(l.within(20*time.Second, stuck), "%d stuck, %d dead; want %d and %d", count("stuck deaf"), count("dead deaf"), 2*deaf, deaf)
	stats, err := q.Stats(l.ctx)
	l.must(err)
	l.figure("stuck", stats.Stuck)
	l.require(stats.Stuck == 2*deaf, "%d handlers are reported stuck, want %d", stats.Stuck, 2*deaf)
	before := l.look(rdb, l.name)
	close(release) // they return nil: too late
	l.require(l.within(5*time.Second, func() bool { s, _ := q.Stats(l.ctx); return s.Stuck == 0 }), "handlers that returned are still counted as stuck")
	l.cancelled(q, plain)
	submit(plain, 20, 0, 0)
	flushing, flushed := context.WithTimeout(l.ctx, 10*time.Second)
	defer flushed()
	l.must(q.Flush(flushing)) // what is in the front is on its way as well
	l.require(l.within(10*time.Second, func() bool { return l.load(rdb, l.name) == 0 }), "workers did not come back")
	after := l.look(rdb, l.name)
	l.require(count("completed deaf") == 0 && count("stale deaf") == 0 && len(after.hashes) == deaf && len(before.hashes) == deaf,
		"what a stuck handler said later changed something: %v", events)
	stats, err = q.Stats(l.ctx)
	l.must(err)
	l.require(stats.Front.Length == 0 && stats.Front.Accepted == int64(stats.Counters.Enqueued), "slots: %+v, %d enqueued", stats.Front, stats.Counters.Enqueued)
	ctx, cancel := context.WithTimeout(l.ctx, 10*time.Second)
	defer cancel()
	_, err = q.Shutdown(ctx)
	l.require(err == nil && <-ended == nil, "shutdown: %v", err)
	l.checkPlaces(l.look(rdb, l.name), expectation{})
	l.figure("deaf_runs", deafRuns.Load())
	l.figure("timeouts", timeouts.Load())
}

// cancelled submits with contexts that end in the same moment: one of the two holds, never both.
func (l *lab) cancelled(q *bridge.Queue, kind *bridge.Kind[int]) {
	already, cancel := context.WithCancel(l.ctx)
	cancel()
	_, err := kind.Submit(already, 1, policy.Wait(time.Second))
	l.require(errors.Is(err, context.Canceled) && !errors.Is(err, policy.ErrFull), "a cancelled context at Submit: %v", err)
	before, err := q.Stats(l.ctx)
	l.must(err)
	random := stream(l.set.seed, l.name)
	var accepted, refused atomic.Int64
	var racing sync.WaitGroup
	for range pick(l, 2000, 50_000) {
		ctx, cancel := context.WithCancel(l.ctx)
		spin := random.IntN(2000)
		racing.Go(func() {
			_, err := kind.Submit(ctx, 1, policy.Wait(time.Second))
			if err == nil {
				accepted.Add(1)
			} else {
				refused.Add(1)
				l.require(errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "predicted") || errors.Is(err, policy.ErrFull), "raced with a cancel: %v", err)
			}
		})
		racing.Go(func() {
			for range spin {
				_ = ctx.Err()
			}
			cancel()
		})
	}
	racing.Wait()
	stats, err := q.Stats(l.ctx)
	l.must(err)
	f, b := stats.Front, before.Front
	l.require(f.Accepted-b.Accepted == accepted.Load() && f.RejectedTotal()-b.RejectedTotal() == refused.Load(),
		"of cancelled calls %d were accepted and %d refused; counted: %d and %d", accepted.Load(), refused.Load(), f.Accepted-b.Accepted, f.RejectedTotal()-b.RejectedTotal())
	l.figure("raced", fmtPair(accepted.Load(), refused.Load()))
}
