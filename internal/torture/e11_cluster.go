package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// shakeCluster: the queue's slot is moved to and fro, its master is replaced in order, then killed.
func shakeCluster(l *lab) {
	c := l.cluster()
	for i := range 2 {
		l.spawn(role{Name: fmt.Sprint("worker", i), Nodes: c.addrs(), Workers: 16, Timeout: time.Second})
	}
	producer := l.spawn(role{Name: "producer", Nodes: c.addrs(), Producers: 4, Rate: 300, Task: task{Work: 5}, WorkMax: 30, Timeout: time.Second})
	l.pause(time.Second)

	moves := 0
	for began := time.Now(); moves < 2 || time.Since(began) < pick(l, time.Second, 2*time.Minute); moves += 2 {
		home := c.owner()
		var away *node
		for _, n := range c.nodes[:3] {
			if n != home {
				away = n
			}
		}
		c.move(home, away)
		l.goesOn(c.owner().rdb, "the slot was moved away")
		l.pause(300 * time.Millisecond)
		c.move(away, home)
		l.goesOn(c.owner().rdb, "the slot was moved back")
	}

	replica, old := c.nodes[3], c.owner()
	l.do(replica.rdb, "CLUSTER", "FAILOVER")
	l.must(c.within("the planned failover did not come", func() bool { return c.owner() == replica }))
	l.goesOn(c.owner().rdb, "a planned failover")
	l.must(c.within("the old master did not become a replica", func() bool {
		return strings.Contains(old.rdb.Info(l.ctx, "replication").Val(), "master_link_status:up")
	}))
	l.pause(time.Second)

	killed := time.Now()
	l.book.note(entry{E: noteLossy})
	replica.Kill()
	l.must(c.within("nobody took over from the killed master", func() bool { return c.owner() == old }))
	l.figure("failover", time.Since(killed))
	l.goesOn(c.owner().rdb, "a master was killed")
	l.pause(time.Second)
	rdb := old.rdb
	producer.term()
	producer.wait(time.Minute)
	l.drained(rdb, l.name, time.Minute)
	l.dismiss()

	h := l.check(rdb, expectation{lossy: killed.UnixNano()})
	l.figure("moves", moves)
	for _, end := range []string{"refused", "abandoned", "uncertain", "unsettled"} {
		l.require(h.count[end] == 0, "%d jobs ended %s", h.count[end], end)
	}
	cross := 0
	for _, child := range l.children {
		cross += strings.Count(child.log(), "CROSSSLOT")
	}
	l.figure("crossslot", cross)
	l.require(cross == 0, "CROSSSLOT %d times", cross)
}

// goesOn waits for progress, and holds its time against the promise.
func (l *lab) goesOn(rdb redis.UniversalClient, after string) {
	before, began := l.counter(rdb, l.name, "completed"), time.Now()
	ok := l.within(20*time.Second, func() bool { return l.counter(rdb, l.name, "completed") > before+5 })
	took := time.Since(began)
	l.say("%s: progress after %v", after, took.Round(time.Millisecond))
	l.require(ok && took <= 5*time.Second+grace, "no progress for %v after %s", took, after)
}
