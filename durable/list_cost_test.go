package durable_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

// TestListCost counts what a batch of jobs costs the server: three requests, and inside them
// no more commands for each job than reading and writing its hash takes.
func TestListCost(t *testing.T) {
	t.Parallel()
	onBoth(t, cost)
}

func cost(t *testing.T, of maker) {
	s := redistest.Start(t)
	b := setupQueueAt(t, of, s.Addr(), s.Client(t), "q", nil)
	p, w := b.producer(), b.worker()
	const jobs = 256
	ids := make([]string, jobs)
	for i := range ids {
		ids[i] = fmt.Sprint("job", i)
	}
	round := func(n uint64) {
		if a, err := p.Append(b.ctx, n, jobsOf(ids...)); err != nil || a.Taken != jobs {
			t.Fatal(a, err)
		}
		c := w.claim(jobs)
		if len(c.Jobs) != jobs || strings.Trim(w.settle(durable.Done, c.Jobs...), "O") != "" {
			t.Fatal(len(c.Jobs), "jobs")
		}
	}
	round(1) // loads the scripts
	if err := b.rdb.ConfigResetStat(b.ctx).Err(); err != nil {
		t.Fatal(err)
	}
	round(2)
	requests, inside := commandsOf(b.ctx, b.rdb)
	// Write the hash; read it and stamp it; read what its end depends on. Deleting is one command for all.
	if requests != 3 || inside > jobs*4+100 || inside < jobs*4 {
		t.Errorf("%d requests and %.2f commands for each job, want 3 and 4 with a little for the batch", requests, float64(inside)/jobs)
	}
	plain := inside
	f := b.follower()
	f.adopt(p.ID())
	round(3) // loads one more
	b.rdb.ConfigResetStat(b.ctx)
	round(4)
	if _, inside = commandsOf(b.ctx, b.rdb); inside > plain+40 {
		t.Errorf("%d commands for %d jobs, and %d when they are followed: want no more for each job", plain, jobs, inside)
	}
	if n := b.rdb.XLen(b.ctx, b.key("told:"+f.ID())).Val(); n != 2 {
		t.Errorf("%d entries for two batches", n)
	}
	b.limit(durable.Limits{Concurrency: jobs, Rate: durable.Rate{Count: 1000, Burst: 10 * jobs}})
	b.rdb.ConfigResetStat(b.ctx)
	round(5)
	if _, inside = commandsOf(b.ctx, b.rdb); inside > plain+60 {
		t.Errorf("%d commands for %d jobs, and %d when the queue is limited: want no more for each job", plain, jobs, inside)
	}
}
