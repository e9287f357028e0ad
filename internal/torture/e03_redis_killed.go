package main

import (
	"fmt"
	"time"
)

// killRedis: the server is killed and started again, on the log it had synced. Nothing is
// lost, and work goes on within seconds.
func killRedis(l *lab) {
	times := pick(l, 4, 20)
	server := l.server("--appendonly", "yes", "--appendfsync", "always")
	rdb := l.dial(server.Addr())
	for i := range 2 {
		l.spawn(role{Name: fmt.Sprint("worker", i), Addr: server.Addr(), Workers: 8})
	}
	producer := l.spawn(role{Name: "producer", Addr: server.Addr(), Producers: 8, Rate: 300, Task: task{Work: 5}, WorkMax: 20})
	random := stream(l.set.seed, l.name)
	var slowest time.Duration
	for k := range times {
		l.pause(500*time.Millisecond + time.Duration(random.IntN(500))*time.Millisecond)
		server.Kill()
		down := time.Duration(random.IntN(pick(l, 1500, 5000))) * time.Millisecond
		l.pause(down)
		l.must(server.Restart())
		up, before := time.Now(), l.counter(rdb, l.name, "completed")
		ok := l.within(20*time.Second, func() bool { return l.counter(rdb, l.name, "completed") > before })
		took := time.Since(up)
		slowest = max(slowest, took)
		l.say("restart %d after %v, first completion %v later", k+1, down, took.Round(time.Millisecond))
		l.require(ok, "nothing was completed within 20 s after restart %d", k+1)
	}
	producer.term()
	producer.wait(time.Minute)
	l.drained(rdb, l.name, time.Minute)
	l.dismiss()

	l.check(rdb, expectation{})
	l.figure("restarts", times)
	l.figure("progress_p100", slowest)
	l.require(slowest <= 5*time.Second+grace, "progress after %v, more than 5 s", slowest)
}
