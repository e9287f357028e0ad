package main

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// meddle: somebody deletes keys of each kind, flushes data and scripts, kills connections. What they
// deleted is gone; nothing else is, no half job comes to be, and new jobs flow at once.
func meddle(l *lab) {
	server := l.server()
	rdb := l.dial(server.Addr())
	for _, name := range []string{"worker0", "worker1"} {
		l.spawn(role{Name: name, Addr: server.Addr(), Workers: 8, Timeout: time.Second})
	}
	producer := l.spawn(role{Name: "producer", Addr: server.Addr(), Producers: 2, Rate: 200, Task: task{Work: 20}, WorkMax: 60, DelayMax: 1000, Timeout: time.Second})
	l.goesOn(rdb, "the start")
	began := time.Now().UnixNano()
	l.book.note(entry{E: noteLossy})
	var worst time.Duration
	flows := func(what string) {
		before, from := l.counter(rdb, l.name, "completed"), time.Now()
		ok := l.within(15*time.Second, func() bool { n := l.counter(rdb, l.name, "completed"); return n < before || n > before+3 })
		took := time.Since(from)
		worst = max(worst, took)
		l.require(ok && took <= 2*time.Second+grace, "after %s nothing was completed for %v", what, took)
	}
	prefix := prefixOf(l.name)
	kinds := append(slices.Clone(l.engine().keys), "processing:", "sender:", "job:")
	for range pick(l, 1, 5) {
		for _, kind := range kinds {
			keys := []string{prefix + kind}
			if strings.HasSuffix(kind, ":") {
				var err error
				keys, err = rdb.Keys(l.ctx, prefix+kind+"*").Result()
				l.must(err)
			}
			for _, key := range keys {
				l.do(rdb, "DEL", key)
			}
			flows("DEL " + kind)
		}
		l.do(rdb, "SCRIPT", "FLUSH")
		flows("SCRIPT FLUSH")
		l.do(rdb, "FLUSHALL")
		flows("FLUSHALL")
		l.killConnections(rdb, pick(l, 3*time.Second, 20*time.Second))
		flows("CLIENT KILL")
	}
	// What is left of the meddling goes; then the jobs go from under their handlers, whose outcomes must not bring
	// half of them back. From there on nobody meddles, and what remains must be whole.
	l.do(rdb, "FLUSHALL")
	l.goesOn(rdb, "the last FLUSHALL")
	for id := range l.look(rdb, l.name).hashes {
		l.do(rdb, "DEL", prefix+"job:"+id)
	}
	flushed := time.Now().UnixNano()
	l.pause(time.Second)
	producer.term()
	producer.wait(30 * time.Second)
	late := l.spawn(role{Name: "late", Addr: server.Addr(), Producers: 2, Jobs: 500, Task: task{Work: 5}})
	late.wait(30 * time.Second)
	l.drained(rdb, l.name, 30*time.Second)
	l.dismiss()

	h := l.check(rdb, expectation{lossy: began, memory: 0})
	for id, j := range h.jobs {
		if j.offered > flushed {
			l.require(len(j.completed) == 1 && len(j.runs) == 1, "%s, of after the meddling, ran %d times and was completed %d times", id, len(j.runs), len(j.completed))
		}
	}
	l.figure("flows_p100", worst)
}

// killConnections kills every connection but our own, ten times a second.
func (l *lab) killConnections(rdb *redis.Client, d time.Duration) {
	var once sync.Once
	for end := time.Now().Add(d); time.Now().Before(end); l.pause(100 * time.Millisecond) {
		once.Do(func() { l.say("killing connections") })
		l.do(rdb, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	}
}
