package main

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// crew are processes of which one is killed now and then, and replaced by a new one.
type crew struct {
	l     *lab
	work  func(i int) role // what number i does: nobody has the number of one who was there before
	hands []*child
	kills int
}

func (l *lab) crew(n int, work func(i int) role) *crew {
	c := &crew{l: l, work: work, hands: make([]*child, n)}
	for i := range c.hands {
		c.hands[i] = l.spawn(work(i))
	}
	return c
}

func (c *crew) replace(i int) {
	c.hands[i].kill()
	c.hands[i] = c.l.spawn(c.work(len(c.hands) + c.kills))
	c.kills++
}

// enough has those who submit or follow jobs stop, sees the queue drained, and waits until each knows the ends of its jobs.
func (l *lab) enough(rdb redis.UniversalClient, limit time.Duration, actors ...*child) {
	for _, a := range actors {
		a.tell("enough")
	}
	l.drained(rdb, l.name, limit)
	for _, a := range actors {
		a.wait(limit)
	}
}
