package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// fillRedis: the server reaches its maxmemory and gets no more. Claiming, settling and renewing go
// on, producers get their policy, and the queue drains unaided.
func fillRedis(l *lab) {
	server := l.server("--maxmemory", pick(l, "24mb", "128mb"), "--maxmemory-policy", "noeviction")
	rdb := l.dial(server.Addr())
	first := l.spawn(role{Name: "worker0", Addr: server.Addr(), Workers: 4, SweepEvery: time.Second})
	pad := strings.Repeat("x", 4<<10)
	var producers []*child
	for _, p := range []string{"reject", "wait", "drop-oldest"} {
		producers = append(producers, l.spawn(role{
			Name: p, Addr: server.Addr(), Producers: 2, Rate: 2500, Policy: p, Wait: 500 * time.Millisecond, Capacity: 64,
			Task: task{Pad: pad}, WorkMax: 20,
		}))
	}
	full := l.within(30*time.Second, func() bool { return l.refused(rdb, "OOM") > 10 })
	l.require(full, "the server did not become full")
	l.say("full with %d jobs", l.load(rdb, l.name))
	l.pause(pick(l, 3*time.Second, time.Minute)) // more than a lease: renewals must pass
	before := l.counter(rdb, l.name, "completed")
	second := l.spawn(role{Name: "worker1", Addr: server.Addr(), Workers: 16, SweepEvery: time.Second}) // opens on a full server
	l.pause(time.Second)
	l.require(l.counter(rdb, l.name, "completed") > before, "nothing is completed while the server is full")
	for _, p := range producers {
		p.term()
	}
	for _, p := range producers {
		p.wait(time.Minute)
	}
	l.drained(rdb, l.name, time.Minute)
	l.dismiss()

	h := l.check(rdb, expectation{steady: true})
	l.figure("refused_for_memory", l.refused(rdb, "OOM"))
	l.figure("rejected", h.count["rejected"])
	l.figure("evicted", h.count["evicted"])
	l.require(h.count["rejected"] > 0 && h.count["evicted"] > 0, "producers did not get their policies")
	l.require(len(h.starts("worker1")) > 0, "a worker that came to a full server did nothing")
	for _, e := range l.notes("", "rejected") {
		l.require(strings.Contains(e.S, "refused by the front stage"), "a producer was told: %s", e.S)
	}
	log := first.log() + second.log()
	for _, loop := range []string{"renew", "settle", "claim", "sweep", "open consumer"} {
		line := excerpt(log, loop+" failed", "out of memory")
		l.require(line == "", "on a full server: %s", line)
	}
}

// refused is how many commands the server has answered with an error of that kind.
func (l *lab) refused(rdb *redis.Client, kind string) (n int) {
	info, err := rdb.Info(l.ctx, "errorstats").Result()
	l.must(err)
	for line := range strings.Lines(info) {
		if rest, ok := strings.CutPrefix(line, "errorstat_"+kind+":count="); ok {
			_, _ = fmt.Sscan(rest, &n)
		}
	}
	return n
}

// excerpt is the first line of a log with all of some words in it.
func excerpt(log string, words ...string) string {
	for line := range strings.Lines(log) {
		found := 0
		for _, w := range words {
			if strings.Contains(line, w) {
				found++
			}
		}
		if found == len(words) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
