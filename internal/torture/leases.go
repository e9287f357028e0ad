package main

import (
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// overdue watches how long consumers without a lease stay in the registry with jobs in their list:
// the time it takes to recover what a dead one held, less the lease.
type overdue struct {
	mu   sync.Mutex
	most time.Duration
}

// watchLeases looks at the queue of the experiment every 50 ms, from now to its end.
func (l *lab) watchLeases(rdb redis.UniversalClient) *overdue {
	o := &overdue{}
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				o.look(l, rdb)
			case <-done:
				return
			}
		}
	})
	l.later(func() { close(done); watching.Wait() })
	return o
}

func (o *overdue) look(l *lab, rdb redis.UniversalClient) {
	now, err := rdb.Time(l.ctx).Result()
	if err != nil {
		return
	}
	consumers, err := rdb.ZRangeWithScores(l.ctx, prefixOf(l.name)+"consumers", 0, -1).Result()
	if err != nil {
		return
	}
	for _, c := range consumers {
		end := time.UnixMilli(int64(c.Score))
		if c.Score == 0 || !now.After(end) { // at 0 it is being emptied, step by step
			continue
		}
		held, err := l.holds(rdb, c.Member.(string))
		if err == nil && held {
			o.mu.Lock()
			o.most = max(o.most, now.Sub(end))
			o.mu.Unlock()
		}
	}
}

// judge adds the time of recovery and holds it against the promise.
func (o *overdue) judge(l *lab, lease, sweepEvery time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l.figure("recovered_p100", lease+o.most)
	l.require(o.most <= sweepEvery+2*time.Second+grace, "claims of a dead worker were left for %v after its lease", o.most)
}
