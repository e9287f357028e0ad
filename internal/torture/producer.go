package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/policy"
)

// produce offers jobs until all are offered or one of the contexts ends, then waits until none is in memory, and those that are
// watched have ended; or until ctx ends.
func (a *actor) produce(ctx, offering context.Context) {
	r := &a.role
	var next atomic.Int64
	var producers sync.WaitGroup
	began := time.Now()
	for p := range r.Producers {
		producers.Go(func() {
			random := stream(r.Seed, r.Name, fmt.Sprint(p))
			for offering.Err() == nil {
				n := next.Add(1)
				if r.Jobs > 0 && n > int64(r.Jobs) {
					return
				}
				if r.Rate > 0 && !until(offering, began.Add(time.Duration(float64(n)/r.Rate*float64(time.Second)))) {
					return
				}
				if !a.offer(ctx, a.drills[int(n)%len(a.drills)], r.job(r.First+int(n), random)) {
					return
				}
			}
		})
	}
	producers.Wait()
	flushing, cancel := context.WithTimeout(ctx, r.Wait)
	defer cancel()
	for _, q := range a.queues {
		if err := q.Flush(flushing); err != nil {
			return
		}
	}
	a.watching.rest(flushing)
}

// job is the n-th job.
func (r *role) job(n int, random *rand.Rand) bridge.Job[task] {
	job := bridge.Job[task]{ID: jobID(cmp.Or(r.IDs, r.Name), n), Value: r.Task}
	if r.WorkMax > r.Task.Work {
		job.Value.Work += random.IntN(r.WorkMax - r.Task.Work + 1)
	}
	if r.DelayMax > 0 && random.IntN(10) == 0 {
		job.Delay = time.Duration(random.IntN(r.DelayMax)) * time.Millisecond
	}
	if len(r.Expiries) > 0 {
		job.Expiry = time.Duration(r.Expiries[n%len(r.Expiries)]) * time.Millisecond
	}
	if r.Keys > 0 {
		job.Unique.Key = fmt.Sprint("key", n%r.Keys)
	}
	if n%3 > 0 || r.IDs != "" || r.Keys > 0 {
		job.Retention = r.Retention
	}
	if r.Mixed {
		switch n % 10 {
		case 0, 1:
			job.Value.Fail = 1
		case 2:
			job.Value.Do = "permanent"
		case 3:
			job.Value.Deaf = true
		}
	}
	return job
}

func jobID(begin string, n int) string { return fmt.Sprintf("%s.%d", begin, n) }

// offer submits one job and notes what it is told; false: the queue takes no more.
func (a *actor) offer(ctx context.Context, kind *bridge.Kind[task], job bridge.Job[task]) bool {
	if !a.role.Terse {
		a.book.note(entry{E: noteOffered, ID: job.ID})
	}
	ticket, err := kind.SubmitJob(ctx, job, a.role.policy())
	switch {
	case err == nil && ticket.State().Ended() && a.role.Policy == "drop-incoming":
	case err == nil:
		a.book.note(entry{E: noteAccepted, ID: job.ID})
		if a.role.Watch {
			var again func()
			if a.role.Again {
				again = func() {
					if ctx.Err() == nil {
						a.offer(ctx, kind, job)
					}
				}
			}
			a.watch(ticket, again)
		}
	case errors.Is(err, policy.ErrClosed):
		return false
	default:
		a.rejected.Add(1)
		if !a.role.Terse {
			a.book.note(entry{E: "rejected", ID: job.ID, S: err.Error()})
		}
	}
	return true
}

// until waits for a moment, and tells whether ctx is still alive.
func until(ctx context.Context, moment time.Time) bool {
	d := time.Until(moment)
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
