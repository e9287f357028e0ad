package local_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// Stories from the field, as far as they are about pools.

func TestCase01_SubmitRacingShutdownOfAPool(t *testing.T) {
	t.Parallel()
	rounds := 1000
	if testing.Short() {
		rounds = 100
	}
	const producers = 32
	policies := []policy.Policy{policy.Wait(patience), policy.Reject(), policy.DropIncoming(), policy.DropOldest()}
	for n := range rounds {
		p, err := local.NewPool(&local.PoolOptions{Workers: 1 + n%3, Capacity: 1 + n%7})
		if err != nil {
			t.Fatal(err)
		}
		var tickets [producers]*local.Ticket
		var ran atomic.Int64
		var wg sync.WaitGroup
		for i := range producers {
			wg.Go(func() {
				ticket, err := p.Submit(context.Background(), func(context.Context) error { ran.Add(1); return nil }, policies[i%len(policies)])
				if tickets[i] = ticket; (ticket == nil) == (err == nil) {
					t.Errorf("ticket %v and error %v", ticket, err)
				}
				if err != nil && !errors.Is(err, policy.ErrClosed) && !errors.Is(err, policy.ErrFull) {
					t.Error(err)
				}
			})
		}
		var report local.PoolReport
		wg.Go(func() {
			if n%2 == 0 {
				runtime.Gosched()
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if n%5 == 0 {
				cancel() // returns what it can
			}
			report, err = p.Shutdown(ctx)
			if err != nil && !errors.Is(err, local.ErrStuck) {
				t.Error(err)
			}
		})
		wg.Wait()
		if _, err := p.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		ends := map[local.State]int64{}
		for _, ticket := range tickets {
			if ticket != nil {
				ends[ticket.State()]++
			}
		}
		s := poolBalanced(t, p)
		if ends[local.Completed] != ran.Load() || s.Completed != ran.Load() || ends[local.Abandoned] != int64(len(report.Returned)) ||
			ends[local.Evicted] != s.Front.Evicted || ends[local.Dropped] != s.Front.Dropped ||
			s.Front.Accepted != ends[local.Completed]+ends[local.Abandoned]+ends[local.Evicted] || s.Started != 0 {
			t.Errorf("round %d: %d ran, %d returned, %v, %+v", n, ran.Load(), len(report.Returned), ends, s)
		}
		if t.Failed() {
			return
		}
	}
}

func TestCase02_ATaskThatSubmitsToItsOwnExhaustedPoolEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, &local.PoolOptions{Workers: 1, Capacity: 1})
		child := func(limit time.Duration) (*local.Ticket, time.Duration) {
			begun := time.Now()
			parent := mustSubmit(t, p, func(ctx context.Context) error {
				_, err := p.Submit(ctx, noTask, policy.Wait(limit))
				return err
			})
			<-parent.Done()
			return parent, time.Since(begun)
		}
		// Nothing has ever ended here, so nothing is predicted: it waits to its deadline.
		parent, took := child(time.Second)
		if rej, ok := errors.AsType[*policy.Rejection](parent.Err()); !ok || rej.Reason != policy.ReasonTimeout || took != time.Second {
			t.Errorf("%v, after %v", parent.Err(), took)
		}
		// Now one task a second is what is known, and half a second is not enough.
		parent, took = child(time.Second / 2)
		if rej, ok := errors.AsType[*policy.Rejection](parent.Err()); !ok || rej.Reason != policy.ReasonPredicted || took != 0 {
			t.Errorf("%v, after %v", parent.Err(), took)
		}
	})
}

func TestCase03_CancellingTheRootWhileTasksAreQueuedEndsEveryTicket(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, err := local.NewPool(&local.PoolOptions{Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		root, cancel := context.WithCancelCause(t.Context())
		g := p.Group(root, nil)
		var tickets []*local.Ticket
		for range 100 {
			ticket, err := g.Submit(t.Context(), untilStopped, policy.Reject())
			if err != nil {
				t.Fatal(err)
			}
			tickets = append(tickets, ticket)
		}
		synctest.Wait()
		errRoot := errors.New("the root has ended")
		cancel(errRoot)
		if err := g.Wait(t.Context()); !errors.Is(err, errRoot) || !errors.Is(err, local.ErrCancelled) {
			t.Errorf("the group: %v", err)
		}
		for i, ticket := range tickets {
			if err := ticket.Err(); !errors.Is(err, local.ErrCancelled) || !errors.Is(err, errRoot) {
				t.Errorf("%d: %v", i, err)
			}
		}
		if report, err := p.Shutdown(t.Context()); err != nil || len(report.Returned) != 0 {
			t.Errorf("%v, %v", report, err)
		}
	})
}

func TestCase12_ATicketIsNotCancelledWhileItsTaskRunsOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, &local.PoolOptions{Workers: 1})
		ctx, cancel := context.WithCancel(t.Context())
		g := p.Group(ctx, nil)
		ticket, err := g.Submit(ctx, func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Minute) // it takes a while to tidy up
			return ctx.Err()
		}, policy.Reject())
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		if s := p.Stats(); ticket.State() != local.Processing || isClosed(ticket.Done()) || s.Running != 1 || s.Front.Length != 1 {
			t.Errorf("ticket %v, %+v", ticket.State(), s)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := p.Stats(); !errors.Is(ticket.Err(), local.ErrCancelled) || !errors.Is(ticket.Err(), context.Canceled) || s.Running != 0 || s.Front.Length != 0 {
			t.Errorf("ticket %v, %+v", ticket.Err(), s)
		}
	})
}

// A worker that is woken or started for one task must not leave others lying when it finds
// more than one, whatever else happens at that moment.
func TestNoTaskIsLeftLyingWhileWorkersSleep(t *testing.T) {
	t.Parallel()
	p := newPool(t, &local.PoolOptions{Workers: 8})
	p.DealHands(7) // to the first of eight
	for round := range 2000 {
		// Eight tasks that end only together: each needs a worker of its own.
		var together sync.WaitGroup
		together.Add(8)
		var tickets []*local.Ticket
		for range 8 {
			tickets = append(tickets, mustSubmit(t, p, func(context.Context) error {
				together.Done()
				together.Wait()
				return nil
			}))
		}
		for _, ticket := range tickets {
			within(t, ticket.Done(), "the task ends")
		}
		if t.Failed() {
			t.Fatalf("round %d: %+v", round, p.Stats())
		}
	}
}

// Everything at once: all policies, groups, failures, panics, resizing, looking, and a shutdown
// in the middle. Each task has one fate, which is the one on its ticket, and the counters add up.
func TestPoolUnderRaces(t *testing.T) {
	t.Parallel()
	for _, o := range []local.PoolOptions{
		{Workers: 1, Capacity: 1}, {Workers: 2, Capacity: 3, Bytes: 100}, {Workers: 8, Capacity: 64}, {Workers: 32, Capacity: 1000, Bytes: 3000},
	} {
		for _, stopping := range []bool{false, true} {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				poolStress(t, o, stopping)
			})
		}
	}
}

func poolStress(t *testing.T, o local.PoolOptions, stopping bool) {
	t.Helper()
	const producers, each = 12, 800
	p, err := local.NewPool(&o)
	if err != nil {
		t.Fatal(err)
	}
	errBad := errors.New("bad")
	var completed, failed atomic.Int64
	tasks := []func(context.Context) error{
		func(context.Context) error { completed.Add(1); return nil },
		func(context.Context) error { runtime.Gosched(); completed.Add(1); return nil },
		func(context.Context) error { failed.Add(1); return errBad },
		func(context.Context) error { failed.Add(1); panic(errBad) },
		func(context.Context) error { failed.Add(1); runtime.Goexit(); return nil },
	}
	policies := []policy.Policy{policy.Wait(patience), policy.Reject(), policy.DropIncoming(), policy.DropOldest(), policy.Wait(50 * time.Microsecond)}
	var mu sync.Mutex
	var tickets []*local.Ticket
	var producing, others sync.WaitGroup
	over := make(chan struct{})
	others.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-over:
				return
			default:
			}
			poolBalanced(t, p)
			if err := p.Resize(1 + n%o.Workers); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range producers {
		producing.Go(func() {
			g := p.Group(context.Background(), &local.GroupOptions{CancelOnError: i%2 == 0})
			for n := range each {
				fn, pl, size := tasks[n%len(tasks)], policies[(i+n)%len(policies)], int64(n%90)
				submit := p.SubmitSized
				if n%3 == 0 {
					submit = g.SubmitSized
				}
				ticket, err := submit(context.Background(), fn, size, pl)
				if err != nil {
					if !errors.Is(err, policy.ErrFull) && !errors.Is(err, policy.ErrClosed) {
						t.Error(err)
					}
					continue
				}
				mu.Lock()
				tickets = append(tickets, ticket)
				mu.Unlock()
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := g.Wait(ctx); errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
	}
	if stopping {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
		if _, err := p.Shutdown(ctx); err != nil && !errors.Is(err, local.ErrStuck) {
			t.Error(err)
		}
		cancel()
	}
	producing.Wait()
	if _, err := p.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	close(over)
	others.Wait()
	s := poolBalanced(t, p)
	ends := map[local.State]int64{}
	for _, ticket := range tickets {
		ends[ticket.State()]++
	}
	if ends[local.Completed] != completed.Load() || s.Completed != completed.Load() || ends[local.Dead]+ends[local.Cancelled] < failed.Load() ||
		ends[local.Dead] != s.Dead || ends[local.Cancelled] != s.Cancelled || ends[local.Abandoned] != s.Abandoned ||
		ends[local.Evicted] != s.Front.Evicted || ends[local.Dropped] != s.Front.Dropped || s.Front.Length != 0 || s.Front.Bytes != 0 || s.Started != 0 {
		t.Errorf("completed %d, failed %d, %v, %+v", completed.Load(), failed.Load(), ends, s)
	}
}
