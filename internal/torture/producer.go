package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/policy"
)

// produce offers jobs until all are offered or ctx ends, then waits until none is in memory.
func (a *actor) produce(ctx context.Context) {
	r := &a.role
	var next atomic.Int64
	var offering sync.WaitGroup
	began := time.Now()
	for p := range r.Producers {
		offering.Go(func() {
			random := stream(r.Seed, r.Name, fmt.Sprint(p))
			for ctx.Err() == nil {
				n := next.Add(1)
				if r.Jobs > 0 && n > int64(r.Jobs) {
					return
				}
				if r.Rate > 0 && !until(ctx, began.Add(time.Duration(float64(n)/r.Rate*float64(time.Second)))) {
					return
				}
				job := bridge.Job[task]{ID: fmt.Sprintf("%s.%d", r.Name, n), Value: r.Task}
				if r.WorkMax > r.Task.Work {
					job.Value.Work += random.IntN(r.WorkMax - r.Task.Work + 1)
				}
				if r.DelayMax > 0 && random.IntN(10) == 0 {
					job.Delay = time.Duration(random.IntN(r.DelayMax)) * time.Millisecond
				}
				if !a.offer(ctx, a.drills[int(n)%len(a.drills)], job) {
					return
				}
			}
		})
	}
	offering.Wait()
	flushing, cancel := context.WithTimeout(ctx, r.Wait)
	defer cancel()
	for _, q := range a.queues {
		if err := q.Flush(flushing); err != nil {
			return
		}
	}
}

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
