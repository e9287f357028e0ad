package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// evictKeys: a server that deletes keys when it is full is refused at the start, and reported when it
// becomes one later; entries whose hash is gone are dropped once.
func evictKeys(l *lab) {
	server := l.server("--maxmemory", "200mb", "--maxmemory-policy", "allkeys-lru")
	rdb := l.dial(server.Addr())
	refused := l.spawn(role{Name: "refused", Addr: server.Addr(), Workers: 2, Producers: 1, Jobs: 1})
	refused.mayDie = true
	l.require(l.within(10*time.Second, refused.Ended), "a worker runs on a server that evicts")
	refused.dead = true
	l.require(strings.Contains(refused.Output(), "maxmemory-policy is allkeys-lru"), "the refusal does not name the policy: %s", tail(refused.Output()))

	l.do(rdb, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	worker := l.spawn(role{Name: "worker", Addr: server.Addr(), Workers: 2})
	producer := l.spawn(role{Name: "producer", Addr: server.Addr(), Producers: 2, Rate: 50})
	l.require(l.within(10*time.Second, func() bool { return l.counter(rdb, l.name, "completed") > 20 }), "nothing is completed on a server that does not evict")

	l.do(rdb, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	switched := time.Now()
	if l.set.quick { // a running queue looks by itself every 50 s
		worker.tell("check")
		producer.tell("check")
	}
	reported := func() bool {
		return len(l.notes("worker", "unusable")) > 0 && len(l.notes("producer", "unusable")) > 0
	}
	ok := l.within(time.Minute+grace, reported)
	l.figure("reported_after", time.Since(switched))
	l.figure("by", pick(l, "asked", "itself"))
	l.require(ok, "the change was not reported within a minute")
	rejected := l.within(5*time.Second, func() bool {
		for _, e := range l.notes("producer", "rejected") {
			if strings.Contains(e.S, "unusable") && strings.Contains(e.S, "allkeys-lru") {
				return true
			}
		}
		return false
	})
	l.require(rejected, "Submit is not refused with the cause")
	producer.term()
	producer.wait(30 * time.Second)
	l.drained(rdb, l.name, 30*time.Second)

	// What eviction leaves: entries without a hash.
	l.do(rdb, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	const missing = 500
	calls := l.calls(rdb)
	began := time.Now()
	_, err := rdb.TxPipelined(l.ctx, func(pipe redis.Pipeliner) error {
		for i := range missing {
			l.engine().enqueue(l.ctx, pipe, prefixOf(l.name), fmt.Sprint("evicted.", i))
		}
		return nil
	})
	l.must(err)
	l.require(l.within(5*time.Second, func() bool { return l.load(rdb, l.name) == 0 }), "entries without a hash stay")
	l.pause(2*time.Second - time.Since(began))
	rate := float64(l.calls(rdb)-calls) / time.Since(began).Seconds()
	dropped := l.counter(rdb, l.name, "dropped")
	l.figure("dropped", dropped)
	l.figure("scripts_per_s", fmt.Sprintf("%.1f", rate))
	l.require(dropped == missing, "%d entries without a hash were counted, want %d", dropped, missing)
	l.require(rate < 40, "%.0f scripts a second for entries without a hash", rate)
	l.dismiss()
	l.check(rdb, expectation{})
}
