package main

import (
	"fmt"
	"time"
)

// killWorkers: worker processes are killed at random while they work. What they held runs again,
// nothing else does, and no job is charged with an attempt it did not have.
func killWorkers(l *lab) {
	const workers, each = 4, 16
	jobs := pick(l, 10_000, 100_000)
	server := l.server(untracked...)
	rdb := l.dial(server.Addr())
	work := func(i int) role {
		return role{Name: fmt.Sprint("worker", i), Addr: server.Addr(), Workers: each}
	}
	crew := make([]*child, workers)
	for i := range crew {
		crew[i] = l.spawn(work(i))
	}
	memory, leases := l.memory(rdb), l.watchLeases(rdb)
	producer := l.spawn(role{
		Name: "producer", Addr: server.Addr(), Producers: 4, Jobs: jobs, Task: task{Work: 10}, WorkMax: pick(l, 120, 60),
	})
	random, kills, next := stream(l.set.seed, l.name), 0, workers
	for l.counter(rdb, l.name, "completed") < int64(jobs)*95/100 {
		l.pause(500*time.Millisecond + time.Duration(random.IntN(2500))*time.Millisecond)
		i := random.IntN(workers)
		crew[i].kill()
		kills++
		l.say("killed %s, %d completed", crew[i].role.Name, l.counter(rdb, l.name, "completed"))
		crew[i] = l.spawn(work(next))
		next++
	}
	producer.wait(time.Minute)
	l.drained(rdb, l.name, time.Minute)
	l.dismiss()

	h := l.check(rdb, expectation{steady: true, memory: memory})
	leases.judge(l, 2*time.Second, time.Second)
	p := l.look(rdb, l.name)
	dup := 0
	for _, j := range h.jobs {
		dup += max(0, len(j.runs)-1)
	}
	l.figure("kills", kills)
	l.figure("dead", p.count("dead"))
	l.require(dup <= kills*each, "%d repeated executions for %d kills of %d handlers", dup, kills, each)
	l.require(p.count("dead") == 0, "%d innocent jobs are dead", p.count("dead"))
}
