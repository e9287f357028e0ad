package main

import (
	"fmt"
	"time"
)

// killProducers: producers are killed at random. Every job that was reported enqueued is there;
// what was lost with a front was never reported.
func killProducers(l *lab) {
	const producers = 3
	kills := pick(l, 8, 60)
	server := l.server()
	rdb := l.dial(server.Addr())
	l.spawn(role{Name: "worker", Addr: server.Addr(), Workers: 64})
	produce := func(i int) *child {
		return l.spawn(role{Name: fmt.Sprint("producer", i), Addr: server.Addr(), Producers: 8, Rate: 1500, Task: task{Work: 1}})
	}
	crew := make([]*child, producers)
	for i := range crew {
		crew[i] = produce(i)
	}
	random := stream(l.set.seed, l.name)
	for k := range kills {
		l.pause(200*time.Millisecond + time.Duration(random.IntN(1000))*time.Millisecond)
		i := random.IntN(producers)
		crew[i].kill()
		l.say("killed %s", crew[i].role.Name)
		crew[i] = produce(producers + k)
	}
	for _, c := range crew {
		c.kill()
	}
	l.drained(rdb, l.name, time.Minute)
	l.dismiss()

	h := l.check(rdb, expectation{steady: true})
	accepted, gone := 0, 0
	for id, j := range h.jobs {
		if j.accepted == 0 {
			continue
		}
		accepted++
		if j.reported == 0 && len(j.runs) == 0 {
			gone++
		}
		l.require(j.reported == 0 || len(j.runs) > 0, "%s was reported and never ran", id)
	}
	l.figure("kills", kills+producers)
	l.figure("accepted", accepted)
	l.figure("lost_with_front", gone)
	l.require(gone <= (kills+producers)*1024, "%d jobs were lost with %d fronts of 1024", gone, kills+producers)
}
