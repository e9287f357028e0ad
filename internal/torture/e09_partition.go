package main

import (
	"strings"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
)

// partition: a worker is cut off for two leases, then the network heals. Its handlers are told before the
// server hands their jobs to others.
func partition(l *lab) {
	const lease, each = 2 * time.Second, 4
	server := l.server()
	rdb := l.dial(server.Addr())
	proxy := l.proxy(server.Addr())
	rounds := pick(l, 1, 10)
	l.spawn(role{Name: "away", Addr: proxy.Addr(), Workers: each, Lease: lease, Timeout: time.Second})
	producer := l.spawn(role{Name: "producer", Addr: server.Addr(), Producers: 1, Rate: 5, Task: task{Work: 300}, WorkMax: 600})
	l.pause(1500 * time.Millisecond)
	least := 1.0
	for round := range rounds {
		if round == 0 {
			l.spawn(role{Name: "near", Addr: server.Addr(), Workers: 2, Lease: lease, SweepEvery: 500 * time.Millisecond})
		}
		// Long handlers, so that some are running when the lease ends.
		long := l.spawn(role{Name: "long" + strings.Repeat("g", round), Addr: server.Addr(), Producers: 1, Jobs: 2 * each, Task: task{Work: 3500}})
		long.wait(30 * time.Second)
		l.pause(700 * time.Millisecond)
		cut := time.Now().UnixNano()
		l.say("cut off")
		heal := proxy.Blackhole()
		l.pause(100 * time.Millisecond)
		ends := l.look(rdb, l.name).leases
		l.pause(lease / 2)
		deadline := 0.0 // of the one that is cut off: it does not renew
		for c, end := range l.look(rdb, l.name).leases {
			if ends[c] == end {
				deadline = end
			}
		}
		l.require(deadline > 0, "no lease stands still")
		l.pause(lease * 3 / 2)
		heal()
		told := 0
		for _, e := range l.notes("away", noteContext) {
			if e.T > cut && strings.HasPrefix(e.S, bridge.ErrLeaseLost.Error()) {
				told++
				least = min(least, (deadline*1e6-float64(e.T))/float64(lease))
			}
		}
		l.require(told > 0, "no handler was told that the lease is lost")
		l.pause(time.Second)
	}
	producer.term()
	producer.wait(30 * time.Second)
	l.drained(rdb, l.name, time.Minute)
	l.dismiss()
	l.check(rdb, expectation{})
	l.figure("margin", percent(least))
	// The timer itself may be late on a busy machine.
	l.require(least >= 0.10-0.04, "handlers were told %s of a lease before its end, less than 10 %%", percent(least))
}
