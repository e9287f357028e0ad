package main

import (
	"fmt"
	"time"
)

// overload: ten times more is offered than can be done, with each policy. Memory stays flat, and what can be done is
// done as if there were no overload.
func overload(l *lab) {
	const workers, work = 8, 10 // ms: at most 800 a second
	last := pick(l, 2*time.Second, 10*time.Minute)
	server := l.server()
	rdb := l.dial(server.Addr())
	r := role{
		Addr: server.Addr(), Workers: workers, Producers: 8, Task: task{Work: work}, Capacity: 64, Wait: 100 * time.Millisecond, Grace: time.Second, Terse: true, Patience: 1500 * time.Millisecond,
	}
	r.List.MaxBacklog = 200
	rate := func(name, policy string, offered float64, d time.Duration) float64 {
		r.Name, r.Policy, r.Rate = name, policy, offered
		c := l.spawn(r)
		l.pause(300 * time.Millisecond)
		before, began := l.counter(rdb, l.name, "completed"), time.Now()
		for time.Since(began) < d {
			l.pause(50 * time.Millisecond)
			// What is claimed or comes back counts beside the bound.
			n := l.load(rdb, l.name)
			l.require(n <= r.List.MaxBacklog+4*workers, "%s: %d jobs in Redis, with a bound of %d", name, n, r.List.MaxBacklog)
		}
		done := float64(l.counter(rdb, l.name, "completed")-before) / time.Since(began).Seconds()
		c.term()
		c.wait(20 * time.Second)
		l.say("%s: %.0f a second", name, done)
		return done
	}
	// What can be done: as much is offered as is taken, and no more.
	capacity := rate("baseline", "wait", 0, min(last, 2500*time.Millisecond))
	least, limit := 10.0, pick(l, 0.75, 0.95) // 0.95, on a machine of its own
	for _, p := range []string{"wait", "reject", "drop-incoming", "drop-oldest"} {
		share := rate("over-"+p, p, 10*capacity, last) / capacity
		// The machine may have got slower since; then what can be done has, too.
		for again := range 2 {
			if share >= limit {
				break
			}
			capacity = rate(fmt.Sprint("baseline-", p, again), "wait", 0, min(last, 2500*time.Millisecond))
			share = max(share, rate(fmt.Sprint("over-", p, again), p, 10*capacity, last)/capacity)
		}
		least = min(least, share)
	}
	r2 := role{Name: "last", Addr: server.Addr(), Workers: 16}
	l.spawn(r2)
	l.drained(rdb, l.name, time.Minute)
	l.dismiss()
	l.check(rdb, expectation{steady: true})
	var heaps []int64
	refused := int64(0)
	for _, e := range l.notes("", noteDown) {
		var heap, n int64
		_, _ = fmt.Sscanf(e.S, "heap=%d rejected=%d", &heap, &n)
		heaps = append(heaps, heap>>20)
		refused += n
	}
	l.figure("capacity", fmt.Sprintf("%.0f/s", capacity))
	l.figure("goodput", percent(least))
	l.figure("refused", refused)
	l.figure("heaps_mib", fmt.Sprint(heaps))
	l.require(least >= limit, "goodput fell to %s of what can be done", percent(least))
	for _, mib := range heaps {
		l.require(mib <= 64+64, "a heap of %d MiB", mib)
	}
}
