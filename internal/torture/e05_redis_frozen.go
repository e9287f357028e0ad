package main

import (
	"fmt"
	"time"
)

// freezeRedis: the server is stopped while 200 handlers run, and goes on. What it then executes
// late does no harm, and every loop is back soon.
func freezeRedis(l *lab) {
	const workers, each = 4, 50
	freeze := pick(l, 6*time.Second, 30*time.Second)
	server := l.server()
	rdb := l.dial(server.Addr())
	for i := range workers {
		l.spawn(role{Name: fmt.Sprint("worker", i), Addr: server.Addr(), Workers: each, SweepEvery: 500 * time.Millisecond})
	}
	producer := l.spawn(role{Name: "producer", Addr: server.Addr(), Producers: 4, Rate: 1200, Task: task{Work: 100}, WorkMax: 200})
	l.pause(3 * time.Second)
	l.say("frozen for %v with %d handlers", freeze, workers*each)
	l.must(server.Freeze())
	l.pause(freeze)
	l.must(server.Thaw())
	thawed := time.Now().UnixNano()
	l.pause(pick(l, 2*time.Second, 10*time.Second))
	producer.term()
	producer.wait(30 * time.Second)
	l.drained(rdb, l.name, 30*time.Second)
	l.dismiss()

	h := l.check(rdb, expectation{})
	var slowest time.Duration
	back := func(actor string, moments []int64) {
		first := firstSince(moments, thawed)
		if first == thawed {
			l.breach("%s was not heard of again", actor)
			return
		}
		slowest = max(slowest, time.Duration(first-thawed))
	}
	for i := range workers {
		name := fmt.Sprint("worker", i)
		back(name, h.starts(name))
	}
	var reported []int64
	for _, j := range h.jobs {
		if j.reported > thawed {
			reported = append(reported, j.reported)
		}
	}
	l.require(len(reported) > 0, "nothing was enqueued after the thaw")
	for _, t := range reported[:min(1, len(reported))] {
		for _, o := range reported {
			t = min(t, o)
		}
		slowest = max(slowest, time.Duration(t-thawed))
	}
	l.figure("frozen", freeze)
	l.figure("charged", l.counter(rdb, l.name, "crashed"))
	l.figure("back_p100", slowest)
	l.require(slowest <= 15*time.Second, "the last loop was back after %v", slowest)
}
