package main

import (
	"fmt"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/internal/redisproc"
)

// cancelUnderFire: many processes cancel jobs that wait, run, have ended or are not there yet, while workers are killed and
// replies are lost. What was cancelled never runs again, whoever held it; nothing else is lost; and every ticket is told.
func cancelUnderFire(l *lab) {
	const workers, rate = 3, 100
	server := l.server()
	rdb := l.dial(server.Addr())
	shared := l.proxy(server.Addr())
	names := []string{"producer0", "producer1"}
	both := func(r role) role {
		r.Addr, r.Timeout, r.SweepEvery = shared.Addr(), 400*time.Millisecond, 300*time.Millisecond
		r.Cancels, r.Others, r.OthersRate = 20, names, rate
		return r
	}
	work := func(i int) role { return both(role{Name: fmt.Sprint("worker", i), Workers: 12}) }
	crew := l.crew(workers, work)
	marks := l.scan(rdb, scanMarks)
	var producers []*child
	for _, name := range names {
		producers = append(producers, l.spawn(both(role{
			Name: name, Producers: 2, Rate: rate, Task: task{Work: 10, Sign: true}, WorkMax: 250, DelayMax: 2000,
			Retention: time.Hour, Mixed: true, Watch: true, Wait: 20 * time.Second,
		})))
	}
	stop := l.loseShare([]*redisproc.Proxy{shared}, 0.01, l.set.seed)
	random := stream(l.set.seed, l.name)
	for range pick(l, 5, 60) {
		l.pause(500*time.Millisecond + time.Duration(random.IntN(800))*time.Millisecond)
		crew.replace(random.IntN(workers))
	}
	stop()
	l.enough(rdb, 30*time.Second, producers...)
	l.dismiss()

	h := l.check(rdb, expectation{})
	p := l.look(rdb, l.name)
	marks.judge(l)
	l.checkTickets(h, p)
	l.allTold(h)
	l.checkCancels(h, p)
	l.figure("kills", crew.kills)
	l.figure("cancelled", p.counters["cancelled"])
}

// checkCancels holds what every Cancel was told against what came after.
func (l *lab) checkCancels(h *history, p *picture) {
	told := map[string]int{}
	var heard time.Duration
	for id, j := range h.jobs {
		status, asked := p.hashes[id]["status"], int64(0) // when the last one was
		for _, e := range j.cancels {
			switch e.E {
			case noteAsked:
				asked = e.T
			case noteTold:
				told[e.S]++
			}
			switch {
			case e.E == noteTold && e.S == toldEnded:
				l.require(len(j.completed) == 0 && !j.dead, "%s was cancelled before it ran, and completed or is dead", id)
				l.require(status == "" || status == "cancelled", "%s was cancelled before it ran, and is %s", id, status)
				for _, r := range j.runs {
					l.require(r.T <= e.T || since(h.fate(r.A).lost, r.T), "%s: delivery %d started %v after it was cancelled", id, r.D, time.Duration(r.T-e.T))
				}
			case e.E == noteTold && e.S == toldNoJob && j.reported > 0 && j.reported < asked:
				for _, r := range j.runs {
					l.require(r.T <= e.T || since(h.fate(r.A).lost, r.T), "%s: delivery %d started %v after Cancel found no such job", id, r.D, time.Duration(r.T-e.T))
				}
			case e.E == noteMarked:
				heard = max(heard, l.checkMarked(j, e, asked))
			}
		}
		if len(j.cancels) > 0 && status != "" {
			l.require(status == "cancelled" || status == "completed" || status == "dead", "%s was to be cancelled, and is %s", id, status)
		}
	}
	for _, what := range []string{toldEnded, toldRunning, toldNoJob, toldOver} {
		l.figure(what, told[what])
	}
	l.figure("heard_p100", heard)
	l.require(told[toldEnded] > 20 && told[toldRunning] > 20, "%d were cancelled as they waited, and %d as they ran: nothing was seen", told[toldEnded], told[toldRunning])
}

// checkMarked sees that the run that was asked to end is the last, and that only its verdict counts; it returns how long after
// a moment its handler was told.
func (l *lab) checkMarked(j *life, mark entry, asked int64) (heard time.Duration) {
	for _, r := range j.runs {
		l.require(r.D <= mark.D, "%s: delivery %d was to be cancelled, and delivery %d began", j.id, mark.D, r.D)
		if r.D != mark.D {
			continue
		}
		for _, again := range []string{"retried", "snoozed", "released"} {
			at, was := r.told[again]
			l.require(!was || r.end < mark.T, "%s: delivery %d was to be cancelled, and was %s %v later", j.id, r.D, again, time.Duration(at-mark.T))
		}
		_, cancelled := r.told["cancelled"]
		l.require(!cancelled || r.outcome != "ok", "%s: delivery %d succeeded, and was told cancelled", j.id, r.D)
	}
	for _, e := range j.contexts {
		if e.D == mark.D && e.S == bridge.ErrCancelled.Error() {
			return time.Duration(e.T - asked)
		}
	}
	return 0
}
