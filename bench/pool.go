package main

import (
	"context"
	"fmt"
	"sync"
)

// pool is an in-process pool under test.
type pool interface {
	// run hands the task over, and waits for room if there is none.
	run() error
	// stop waits for the end of all tasks.
	stop() error
}

// pools is who takes part. A new pool is a line here.
var pools = []struct {
	name   string
	module string
	config string
	open   func(workers int, task func()) (pool, error)
}{
	{weir, "github.com/seed-9dec4fca/weir", "local.Pool, Capacity 1,024, Go with policy.Wait", openLocalPool},
	{"weir Submit", "github.com/seed-9dec4fca/weir", "the same, Submit with a ticket", openLocalPoolSubmit},
	{"ants", "github.com/panjf2000/ants/v2", "NewPool(workers, WithPreAlloc, WithDisablePurge), Submit blocks; no queue", openAnts},
	{"pond Go", "github.com/alitto/pond/v2", "NewPool(workers, WithQueueSize(1024)), Go blocks", openPondGo},
	{"pond Submit", "github.com/alitto/pond/v2", "the same, Submit with a handle", openPondSubmit},
	{"workerpool", "github.com/gammazero/workerpool", "New(workers); its queue is not bounded", openWorkerpool},
	{"channel", "", "a channel of 1,024 functions, and workers that range over it", openChannel},
}

// poolRoom is how many tasks may wait, where that can be said.
const poolRoom = 1024

func poolSides(l load) (sides []side) {
	for _, p := range pools {
		sides = append(sides, side{name: p.name, load: l})
	}
	return sides
}

// poolThroughput is tasks that do nothing, from the first submit to the end of the last one.
func poolThroughput(_ context.Context, t *task) (*outcome, error) {
	for _, kind := range pools {
		if kind.name != t.Side {
			continue
		}
		ran := newCountdown(t.Load.Jobs)
		p, err := kind.open(t.Load.Workers, ran.hit)
		if err != nil {
			return nil, err
		}
		var l laps
		err = l.time(func() error {
			if err := inParts(t.Load.Producers, t.Load.Jobs, p.run); err != nil {
				return err
			}
			<-ran.done
			return nil
		})
		if err != nil {
			return nil, err
		}
		return l.outcome(t.Load.Jobs), p.stop()
	}
	return nil, fmt.Errorf("no pool is called %q", t.Side)
}

// inParts gives each producer its own part of n, so that they share nothing but the pool.
func inParts(producers, n int, do func() error) error {
	errs := make(chan error, producers)
	var wg sync.WaitGroup
	for i := range producers {
		wg.Go(func() {
			for range n/producers + min(1, max(0, n%producers-i)) {
				if err := do(); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}
