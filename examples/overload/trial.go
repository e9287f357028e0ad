package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

const (
	// calibrate is how long the pool is kept full, to see what it can do.
	calibrate = 300 * time.Millisecond
	// tick is how often new callers come, and how often the depth is read.
	tick = 5 * time.Millisecond
	// drainWithin bounds the time from the last caller until all is done.
	drainWithin = 20 * time.Second
)

// trial is what one policy has made of the overload.
type trial struct {
	contender
	can      float64 // jobs a second: measured before, then the mean with after
	offered  time.Duration
	done     int64 // completed while work was offered
	depth    []int // every tick
	stats    local.PoolStats
	turned   atomic.Int64 // how often it became full
	callers  sync.WaitGroup
	accounts accounts
}

// accounts are what the callers and the jobs were told, to be compared with what the
// pool has counted.
type accounts struct {
	mu        sync.Mutex
	submitted int64
	rejected  [policy.NumReasons]int64
	tickets   []*local.Ticket
	stayed    []time.Duration // in the front, of those that were begun
	ends      map[local.State]int64
}

// try is one trial.
func try(ctx context.Context, c contender, b book, workers int, o options) (*trial, error) {
	t := &trial{contender: c}
	var err error
	if t.can, err = measure(ctx, b, workers); err != nil {
		return nil, err
	}
	pool, err := local.NewPool(&local.PoolOptions{
		Workers: workers, Capacity: capacity,
		Full: func(full bool) {
			if full {
				t.turned.Add(1)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	t.offer(ctx, pool, b, o)
	t.callers.Wait()
	draining, cancel := context.WithTimeout(context.Background(), drainWithin)
	defer cancel()
	_, err = pool.Shutdown(draining)
	t.stats = pool.Stats()
	if err := errors.Join(err, ctx.Err(), t.accounts.disagreements(t.stats)); err != nil {
		return nil, err
	}
	after, err := measure(ctx, b, workers)
	t.can = (t.can + after) / 2
	return t, err
}

// measure keeps a pool busy and returns how many jobs a second it does.
func measure(ctx context.Context, b book, workers int) (float64, error) {
	pool, err := local.NewPool(&local.PoolOptions{Workers: workers, Capacity: 2 * workers})
	if err != nil {
		return 0, err
	}
	begun, n := time.Now(), 0
	for ; time.Since(begun) < calibrate && err == nil; n++ {
		_, err = pool.Submit(ctx, b.work(n), policy.Wait(drainWithin))
	}
	draining, cancel := context.WithTimeout(context.Background(), drainWithin)
	defer cancel()
	_, shutdownErr := pool.Shutdown(draining)
	return float64(n) / time.Since(begun).Seconds(), errors.Join(err, shutdownErr)
}

// offer has callers come at the rate that was asked for, whether or not the last ones
// have been served: each is a goroutine of its own, as in a server.
func (t *trial) offer(ctx context.Context, pool *local.Pool, b book, o options) {
	offering, cancel := context.WithTimeout(ctx, o.offerFor)
	defer cancel()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	begun, came := time.Now(), 0
	for offering.Err() == nil {
		due := int(time.Since(begun).Seconds() * t.can * o.times)
		for ; came < due; came++ {
			work := b.work(came)
			t.callers.Go(func() { t.call(ctx, pool, work) })
		}
		select {
		case <-ticker.C:
		case <-offering.Done():
		}
		t.depth = append(t.depth, pool.Stats().Front.Length)
	}
	t.offered, t.done = time.Since(begun), pool.Stats().Completed
}

// call is one caller with one job.
func (t *trial) call(ctx context.Context, pool *local.Pool, work func(context.Context) error) {
	var accepted time.Time // before Submit has returned: it can begin earlier than that
	job := func(ctx context.Context) error {
		t.accounts.begin(time.Since(accepted))
		return work(ctx)
	}
	accepted = time.Now()
	ticket, err := pool.Submit(ctx, job, t.policy)
	t.accounts.told(ticket, err)
}

func (a *accounts) begin(stayed time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stayed = append(a.stayed, stayed)
}

func (a *accounts) told(ticket *local.Ticket, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.submitted++
	if rejection, refused := errors.AsType[*policy.Rejection](err); refused {
		a.rejected[rejection.Reason]++
		return
	}
	a.tickets = append(a.tickets, ticket)
}

// disagreements looks at every ticket, now that all is over, and compares.
func (a *accounts) disagreements(s local.PoolStats) error {
	a.ends = map[local.State]int64{}
	for _, ticket := range a.tickets {
		a.ends[ticket.State()]++
	}
	slices.Sort(a.stayed)
	var errs []error
	agree := func(what string, callers, pool int64) {
		if callers != pool {
			errs = append(errs, fmt.Errorf("%s: the callers counted %d, the pool %d", what, callers, pool))
		}
	}
	agree("submitted", a.submitted, s.Front.Submitted)
	agree("accepted", int64(len(a.tickets))-a.ends[local.Dropped], s.Front.Accepted)
	agree("dropped", a.ends[local.Dropped], s.Front.Dropped)
	agree("evicted", a.ends[local.Evicted], s.Front.Evicted)
	agree("completed", a.ends[local.Completed], s.Completed)
	agree("failed", a.ends[local.Dead], 0)
	agree("begun", int64(len(a.stayed)), s.Completed)
	for reason := range policy.NumReasons {
		agree("rejected, "+reason.String(), a.rejected[reason], s.Front.Rejected[reason])
	}
	return errors.Join(errs...)
}

// goodput is what was done under overload as a share of what can be done without.
func (t *trial) goodput() float64 { return float64(t.done) / t.offered.Seconds() / t.can }

// stayed is a quantile of the time in the front.
func (t *trial) stayed(percent int) time.Duration {
	all := t.accounts.stayed
	if len(all) == 0 {
		return 0
	}
	return all[min(len(all)*percent/100, len(all)-1)]
}
