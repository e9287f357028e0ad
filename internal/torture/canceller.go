package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
)

const (
	cancelLimit = 10 * time.Second // of one call
	cancelTries = 5                // while it is in doubt
)

// What a Cancel has told.
const (
	toldEnded   = "ended"
	toldRunning = "running"
	toldNoJob   = "nojob"
	toldOver    = "over"
)

// cancelSome cancels jobs by their IDs, until ctx ends: new ones, those that wait for long, and late ones; one in four twice at
// once.
func (a *actor) cancelSome(ctx context.Context) {
	var second sync.WaitGroup
	defer second.Wait()
	a.manyTimes(ctx, a.role.Cancels, func(k int, id string) {
		if k%4 == 0 {
			second.Go(func() { a.cancel(ctx, id) })
		}
		a.cancel(ctx, id)
	})
}

// manyTimes does something to jobs of others, so many times a second and each time on a goroutine of its own, until ctx ends. It waits
// for all.
func (a *actor) manyTimes(ctx context.Context, rate float64, do func(k int, id string)) {
	r := &a.role
	random := stream(r.Seed, r.Name, "others")
	began := time.Now()
	var calls sync.WaitGroup
	defer calls.Wait()
	for k := 1; until(ctx, began.Add(time.Duration(float64(k)/rate*float64(time.Second)))); k++ {
		id := jobID(r.Others[random.IntN(len(r.Others))], r.other(random, time.Since(began)))
		calls.Go(func() { do(k, id) })
	}
}

// other is the number of a job that is worth a try.
func (r *role) other(random *rand.Rand, running time.Duration) int {
	last := max(1, int(running.Seconds()*r.OthersRate))
	back := last // any
	switch random.IntN(4) {
	case 0, 1:
		back = min(last, int(r.OthersRate/2)) // of the last 500 ms
	case 2:
		back = min(last, int(r.OthersRate))
	}
	return last - random.IntN(back)
}

// cancel cancels one job, until the answer is not in doubt.
func (a *actor) cancel(ctx context.Context, id string) {
	q := a.queues[0]
	for try := range cancelTries {
		calling, end := context.WithTimeout(context.WithoutCancel(ctx), cancelLimit)
		a.book.note(entry{E: noteAsked, ID: id, D: try})
		c, err := q.Cancel(calling, id)
		end()
		told := entry{E: noteTold, ID: id, S: toldEnded, N: int64(try)}
		switch {
		case err == nil && c.Running:
			told.S = toldRunning
		case errors.Is(err, durable.ErrNoJob):
			told.S = toldNoJob
		case errors.Is(err, bridge.ErrEnded):
			told.S = toldOver
		case err != nil:
			told.S = fmt.Sprint("failed: ", err)
		}
		a.book.note(told)
		if told.S == toldRunning {
			a.lookMarked(ctx, id)
		}
		if err == nil || told.S == toldNoJob || told.S == toldOver || ctx.Err() != nil {
			return
		}
	}
}

// lookMarked notes which delivery of a job it is that was asked to end.
func (a *actor) lookMarked(ctx context.Context, id string) {
	looking, end := context.WithTimeout(context.WithoutCancel(ctx), cancelLimit)
	defer end()
	info, err := a.queues[0].Operator().Lookup(looking, id)
	if err == nil && info.State == durable.StateProcessing && info.Cancelling {
		a.book.note(entry{E: noteMarked, ID: id, D: info.Deliveries})
	}
}
