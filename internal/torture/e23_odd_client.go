package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// oddClient: the user's client has one connection, retries and no patience, and 64 queues are consumed. Ours keeps
// to its own budget, and settling is never late.
func oddClient(l *lab) {
	const queues = 64
	server := l.server()
	rdb := l.dial(server.Addr())
	idle := l.connections(rdb)
	both := l.spawn(role{
		Name: "both", Addr: server.Addr(), Odd: true, Queues: queues, Workers: 2, Lease: 4 * time.Second,
		Producers: 4, Rate: 250, Task: task{Work: 2}, WorkMax: 20,
	})
	most := 0
	for end := time.Now().Add(pick(l, 6*time.Second, time.Minute)); time.Now().Before(end); l.pause(100 * time.Millisecond) {
		most = max(most, l.connections(rdb)-idle)
	}
	both.term()
	both.wait(30 * time.Second)
	h := l.readHistory()
	l.checkRuns(h, expectation{})
	reported, completed := 0, 0
	var settling []time.Duration
	for id, j := range h.jobs {
		if j.reported > 0 {
			reported++
		}
		if len(j.completed) > 0 {
			completed++
			settling = append(settling, time.Duration(j.completed[0].T-j.runs[0].end))
		}
		l.require(len(j.completed) <= 1 && len(j.runs) <= 1, "%s ran %d times", id, len(j.runs))
	}
	left := int64(0)
	for i := range queues {
		queue := fmt.Sprint(l.name, "-", i+1)
		left += l.load(rdb, queue)
		p := l.look(rdb, queue)
		l.require(p.counters["completed"]+int64(p.present()) == p.counters["appended"], "%s: %v, %d on their way", queue, p.counters, p.present())
	}
	slices.Sort(settling)
	l.figure("reported", reported)
	l.figure("completed", completed)
	l.figure("lost", reported-completed-int(left))
	l.require(reported == completed+int(left), "%d reported, %d completed, %d left", reported, completed, left)
	l.figure("connections", most)
	l.require(most <= 3+queues, "%d connections for %d queues", most, queues)
	if len(settling) > 0 {
		p99 := settling[len(settling)*99/100]
		l.figure("settling_p99", p99)
		l.require(p99 < 500*time.Millisecond, "settling took %v at p99", p99) // 100 ms, on a machine of its own
	}
	l.require(h.inexcusable() == 0, "%d leases were lost", h.count["lease lost"])
	l.require(h.count["leak"] == 0, "leaks: %v", l.notes("", "leak"))
}

// connections is how many the server has, ours included.
func (l *lab) connections(rdb *redis.Client) int {
	list, err := rdb.ClientList(l.ctx).Result()
	l.must(err)
	return strings.Count(list, "\n")
}
