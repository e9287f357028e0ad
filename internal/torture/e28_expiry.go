package main

import (
	"fmt"
	"time"
)

// tooLate: jobs that are worth waiting for a short time, or a long one, behind a backlog, while a worker is frozen for some
// leases and Redis is frozen, and killed and started again. No run is claimed after its job has expired; each that has is counted
// once, and its ticket told.
func tooLate(l *lab) {
	const workers, workMax = 3, 150
	server := l.server("--appendonly", "yes", "--appendfsync", "always")
	rdb := l.dial(server.Addr())
	crew := make([]*child, workers)
	for i := range crew {
		crew[i] = l.spawn(role{Name: fmt.Sprint("worker", i), Addr: server.Addr(), Workers: 8, SweepEvery: 500 * time.Millisecond})
	}
	var producers []*child
	for i := range 2 {
		producers = append(producers, l.spawn(role{
			Name: fmt.Sprint("producer", i), Addr: server.Addr(), Producers: 2, Rate: 160, Task: task{Work: 20, Look: true}, WorkMax: workMax,
			DelayMax: 1500, Expiries: []int{0, 300, 1000, 3000, 600_000}, Retention: time.Hour, Mixed: true, Watch: true, Wait: 30 * time.Second,
		}))
	}
	for range pick(l, 1, 20) {
		l.pause(1500 * time.Millisecond)
		crew[0].freeze()
		l.pause(500 * time.Millisecond)
		l.say("Redis is frozen")
		l.must(server.Freeze())
		l.pause(1500 * time.Millisecond)
		l.must(server.Thaw())
		l.pause(time.Second)
		l.say("Redis is killed")
		server.Kill()
		l.pause(time.Second)
		l.must(server.Restart())
		l.pause(2 * time.Second)
		crew[0].thaw()
	}
	l.enough(rdb, 40*time.Second, producers...)
	l.dismiss()

	h := l.check(rdb, expectation{})
	p := l.look(rdb, l.name)
	l.checkTickets(h, p)
	l.allTold(h)
	l.checkExpiry(h, p)
}

// checkExpiry holds when jobs were claimed against when they expired, both by Redis's clock, and counts.
func (l *lab) checkExpiry(h *history, p *picture) {
	looked, told, unknown, front := 0, 0, 0, int64(0)
	var waited, late time.Duration
	for id, j := range h.jobs {
		for _, r := range j.runs {
			c, known := j.claims[r.D]
			if !known || c.A != r.A {
				continue
			}
			looked++
			l.require(c.N < c.F, "%s: delivery %d was claimed %d ms after the job had expired", id, r.D, c.N-c.F)
			waited = max(waited, time.Duration(r.T)-time.Duration(c.N)*time.Millisecond)
			late = max(late, time.Duration(r.T)-time.Duration(c.F)*time.Millisecond)
		}
		for _, e := range j.ends {
			switch e.state() {
			case "detached":
				unknown++
			case "expired":
				told++
				for _, r := range j.runs {
					l.require(r.T < e.T || since(h.fate(r.A).lost, r.T), "%s: delivery %d began after its ticket was told that it has expired", id, r.D)
				}
			}
		}
	}
	for _, e := range l.notes("", noteFront) {
		front += e.N
	}
	counted := int(p.counters["expired"] + front)
	l.figure("expired", fmtPair(p.counters["expired"], front))
	l.figure("claims_seen", looked)
	l.figure("begun_after_claim_p100", waited)
	l.figure("begun_late_p100", late)
	l.require(told <= counted && counted <= told+unknown, "%d have expired, %d tickets were told so, and %d know nothing", counted, told, unknown)
	l.require(looked > 100 && told > 100, "%d claims and %d expired ones: nothing was seen", looked, told)
	// What was claimed in time waits for a worker of its process, for a run or two, and on a loaded machine for the processor.
	l.require(late <= 2*grace, "a run began %v after its job had expired", late)
}
