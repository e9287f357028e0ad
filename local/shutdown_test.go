package local_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// untilStopped is a task that goes on until its context ends, and says how.
func untilStopped(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestPoolShutdown(t *testing.T) {
	t.Parallel()

	t.Run("with time enough everything that was accepted is done", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p, err := local.NewPool(&local.PoolOptions{Workers: 3})
			if err != nil {
				t.Fatal(err)
			}
			var done atomic.Int64
			for range 100 {
				mustSubmit(t, p, func(context.Context) error { time.Sleep(time.Second); done.Add(1); return nil })
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			report, err := p.Shutdown(ctx)
			if err != nil || len(report.Returned) != 0 || done.Load() != 100 {
				t.Errorf("%v, %d returned, %d done", err, len(report.Returned), done.Load())
			}
			if s := poolBalanced(t, p); s.Started != 0 || s.Completed != 100 || s.Front.Length != 0 {
				t.Errorf("%+v", s)
			}
		})
	})

	t.Run("what was not begun comes back task by task, what runs is told to end", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p, err := local.NewPool(&local.PoolOptions{Workers: 2, Capacity: 10})
			if err != nil {
				t.Fatal(err)
			}
			running := []*local.Ticket{mustSubmit(t, p, untilStopped), mustSubmit(t, p, untilStopped)}
			var ran []int
			var waiting []*local.Ticket
			for i := range 5 {
				ticket, err := p.SubmitSized(t.Context(), func(context.Context) error { ran = append(ran, i); return nil }, int64(i), policy.Reject())
				if err != nil {
					t.Fatal(err)
				}
				waiting = append(waiting, ticket)
			}
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			report, err := p.Shutdown(ctx)
			if took := time.Since(begun); err != nil || took != 9*time.Second {
				t.Errorf("%v, after %v", err, took)
			}
			for i, ticket := range running {
				if err := ticket.Err(); !errors.Is(err, local.ErrCancelled) || !errors.Is(err, local.ErrStopping) {
					t.Errorf("running %d: %v", i, err)
				}
			}
			if len(report.Returned) != len(waiting) || len(ran) != 0 {
				t.Fatalf("%d came back, %v ran", len(report.Returned), ran)
			}
			for i, r := range report.Returned {
				if err := r.Ticket.Err(); r.Ticket != waiting[i] || r.Size != int64(i) || !errors.Is(err, local.ErrAbandoned) || !errors.Is(err, policy.ErrClosed) {
					t.Errorf("%d: %+v, %v", i, r, err)
				}
				if err := r.Do(t.Context()); err != nil || len(ran) != i+1 || ran[i] != i {
					t.Errorf("%d: done by the caller: %v, %v", i, err, ran)
				}
			}
			if s := poolBalanced(t, p); s.Abandoned != 5 || s.Cancelled != 2 || s.Started != 0 {
				t.Errorf("%+v", s)
			}
			again, err := p.Shutdown(t.Context())
			if err != nil || len(again.Returned) != 5 || again.Returned[0].Ticket != waiting[0] {
				t.Errorf("the second time: %v, %v", again, err)
			}
		})
	})

	t.Run("fresh and waiting callers are refused as closed", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p, err := local.NewPool(&local.PoolOptions{Workers: 1, Capacity: 1})
			if err != nil {
				t.Fatal(err)
			}
			mustSubmit(t, p, untilStopped)
			waited := make(chan error, 1)
			go func() {
				_, err := p.Submit(t.Context(), noTask, policy.Wait(time.Hour))
				waited <- err
			}()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := p.Shutdown(ctx); err != nil {
				t.Error(err)
			}
			if err := <-waited; !errors.Is(err, policy.ErrClosed) {
				t.Errorf("who waited: %v", err)
			}
			if _, err := p.TrySubmit(noTask); !errors.Is(err, policy.ErrClosed) {
				t.Errorf("who came later: %v", err)
			}
		})
	})

	t.Run("a task that ignores its context is reported, and its ticket stays true", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p, err := local.NewPool(nil)
			if err != nil {
				t.Fatal(err)
			}
			ticket := mustSubmit(t, p, func(context.Context) error { time.Sleep(time.Hour); return nil })
			synctest.Wait()
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err = p.Shutdown(ctx)
			if took := time.Since(begun); !errors.Is(err, local.ErrStuck) || took != time.Second || ticket.State() != local.Processing {
				t.Errorf("%v, after %v, ticket %v", err, took, ticket.State())
			}
			if _, err := p.Shutdown(t.Context()); err != nil || ticket.State() != local.Completed || time.Since(begun) != time.Hour {
				t.Errorf("waiting on: %v, ticket %v, after %v", err, ticket.State(), time.Since(begun))
			}
		})
	})

	t.Run("without any time it stops everything at once, and an idle pool is no reason to complain", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			over, cancel := context.WithCancel(t.Context())
			cancel()
			for _, before := range []int{0, 3} {
				p, err := local.NewPool(&local.PoolOptions{Workers: 3})
				if err != nil {
					t.Fatal(err)
				}
				for range before {
					mustSubmit(t, p, noTask)
				}
				synctest.Wait()
				if report, err := p.Shutdown(over); err != nil || len(report.Returned) != 0 {
					t.Errorf("%d idle workers: %v, %v", before, report, err)
				}
				if s := p.Stats(); s.Started != 0 {
					t.Errorf("%d idle workers: not all have ended: %+v", before, s)
				}
			}
		})
	})

	t.Run("calls at once share one end, and the one in a hurry decides", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p, err := local.NewPool(&local.PoolOptions{Workers: 1})
			if err != nil {
				t.Fatal(err)
			}
			mustSubmit(t, p, untilStopped)
			mustSubmit(t, p, noTask)
			begun := time.Now()
			var wg sync.WaitGroup
			for _, limit := range []time.Duration{time.Minute, 8 * time.Second, time.Hour} {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), limit)
					defer cancel()
					report, err := p.Shutdown(ctx)
					if took := time.Since(begun); err != nil || len(report.Returned) != 1 || took != 7*time.Second {
						t.Errorf("limit %v: %v, %v after %v", limit, report, err, took)
					}
				})
			}
			wg.Wait()
		})
	})

	t.Run("a task may call it, with a deadline", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p, err := local.NewPool(nil)
			if err != nil {
				t.Fatal(err)
			}
			ticket := mustSubmit(t, p, func(ctx context.Context) error {
				limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
				defer cancel()
				_, err := p.Shutdown(limited)
				return err
			})
			if err := ticket.Wait(t.Context()); !errors.Is(err, local.ErrStuck) {
				t.Error(err)
			}
			if _, err := p.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	})
}

func TestPoolRun(t *testing.T) {
	t.Parallel()

	t.Run("when its context ends running tasks get the grace, and the rest comes back", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p, err := local.NewPool(&local.PoolOptions{Workers: 7})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			result := make(chan error, 1)
			go func() { result <- p.Run(ctx, &local.RunOptions{Workers: 2, Grace: time.Minute}) }()
			synctest.Wait()
			quick := mustSubmit(t, p, func(context.Context) error { time.Sleep(59 * time.Second); return nil })
			slow := mustSubmit(t, p, untilStopped)
			never := mustSubmit(t, p, noTask)
			synctest.Wait()
			begun := time.Now()
			cancel()
			if err := <-result; err != nil || time.Since(begun) != time.Minute {
				t.Errorf("%v, after %v", err, time.Since(begun))
			}
			if _, err := p.TrySubmit(noTask); !errors.Is(err, policy.ErrClosed) {
				t.Errorf("a task that would never run: %v", err)
			}
			if quick.Err() != nil || !errors.Is(slow.Err(), local.ErrStopping) || !errors.Is(never.Err(), local.ErrAbandoned) {
				t.Errorf("%v; %v; %v", quick.Err(), slow.Err(), never.Err())
			}
			if report, err := p.Shutdown(t.Context()); err != nil || len(report.Returned) != 1 || report.Returned[0].Ticket != never {
				t.Errorf("%v, %v", report, err)
			}
			if err := p.Run(t.Context(), nil); !errors.Is(err, policy.ErrClosed) {
				t.Errorf("again: %v", err)
			}
		})
	})

	t.Run("it ends with Shutdown", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p, err := local.NewPool(nil)
			if err != nil {
				t.Fatal(err)
			}
			result := make(chan error, 1)
			go func() { result <- p.Run(t.Context(), nil) }()
			synctest.Wait()
			if err := p.Run(t.Context(), nil); !errors.Is(err, local.ErrRunning) {
				t.Errorf("a second one: %v", err)
			}
			if _, err := p.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			if err := <-result; err != nil {
				t.Error(err)
			}
		})
	})

	t.Run("tasks that ignore the end of their context are reported a second later", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p, err := local.NewPool(nil)
			if err != nil {
				t.Fatal(err)
			}
			mustSubmit(t, p, func(context.Context) error { time.Sleep(time.Hour); return nil })
			synctest.Wait()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			begun := time.Now()
			if err := p.Run(ctx, nil); !errors.Is(err, local.ErrStuck) || time.Since(begun) != 26*time.Second {
				t.Errorf("%v, after %v", err, time.Since(begun))
			}
			if _, err := p.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	})

	t.Run("bad options are refused by name", func(t *testing.T) {
		t.Parallel()
		p := newPool(t, nil)
		for name, o := range map[string]*local.RunOptions{"Workers": {Workers: -1}, "Grace": {Grace: -1}} {
			if err := p.Run(t.Context(), o); err == nil || err.Error() != "local: RunOptions."+name+" is negative: -1" && err.Error() != "local: RunOptions."+name+" is negative: -1ns" {
				t.Error(err)
			}
		}
	})
}
