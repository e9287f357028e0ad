package main

import (
	"fmt"
	"slices"
	"time"
)

// tellAll: those who have submitted jobs, and one who follows them by their IDs, watch tickets; other processes run the jobs
// and are killed. Connections are cut, Redis is frozen, and killed and started again. Every ticket is told the truth.
func tellAll(l *lab) {
	const workers, rate = 3, 80
	server := l.server("--appendonly", "yes", "--appendfsync", "always")
	rdb := l.dial(server.Addr())
	work := func(i int) role {
		return role{Name: fmt.Sprint("worker", i), Addr: server.Addr(), Workers: 12, SweepEvery: 300 * time.Millisecond, Timeout: time.Second}
	}
	crew := l.crew(workers, work)
	names := []string{"producer0", "producer1"}
	var watchers []*child
	for _, name := range names {
		watchers = append(watchers, l.spawn(role{
			Name: name, Addr: server.Addr(), Timeout: time.Second, Producers: 2, Rate: rate, Task: task{Work: 10, Sign: true}, WorkMax: 200, DelayMax: 1000,
			Retention: time.Hour, Mixed: true, Watch: true, Wait: 30 * time.Second,
			Cancels: 5, Others: names, OthersRate: rate,
		}))
	}
	watchers = append(watchers, l.spawn(role{
		Name: "follower", Addr: server.Addr(), Timeout: time.Second, Follows: rate, Others: names, OthersRate: rate, Wait: 30 * time.Second,
	}))
	random := stream(l.set.seed, l.name)
	for range pick(l, 1, 15) {
		for _, fault := range []func(){
			func() { l.killConnections(rdb, 300*time.Millisecond) },
			func() {
				l.must(server.Freeze())
				l.pause(1200 * time.Millisecond)
				l.must(server.Thaw())
			},
			func() {
				server.Kill()
				l.pause(500 * time.Millisecond)
				l.must(server.Restart())
			},
			func() {},
		} {
			l.pause(300*time.Millisecond + time.Duration(random.IntN(500))*time.Millisecond)
			crew.replace(random.IntN(workers))
			fault()
		}
	}
	l.enough(rdb, 40*time.Second, watchers...)
	l.dismiss()

	h := l.check(rdb, expectation{})
	p := l.look(rdb, l.name)
	l.checkTickets(h, p)
	l.allTold(h)
	l.figure("kills", crew.kills)
	l.figure("followed", h.count[noteFollowed])
	l.require(h.count[noteFollowed] > 50, "%d jobs were followed: nothing was seen", h.count[noteFollowed])
	var after []time.Duration // the completion was confirmed
	for _, j := range h.jobs {
		for _, e := range j.ends {
			if e.state() == "completed" && len(j.completed) > 0 {
				after = append(after, time.Duration(e.T-j.completed[0].T))
			}
		}
	}
	slices.Sort(after)
	l.require(len(after) > 100, "%d tickets were told of a completion: nothing was seen", len(after))
	if n := len(after); n > 0 {
		l.figure("told_after_p50", after[n/2])
		l.figure("told_after_p99", after[n*99/100])
	}
}
