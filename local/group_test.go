package local_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

func TestGroup(t *testing.T) {
	t.Parallel()
	errFirst, errSecond := errors.New("first"), errors.New("second")

	t.Run("Wait returns when all have ended, and nil if all have completed", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, &local.PoolOptions{Workers: 4})
			g := p.Group(t.Context(), nil)
			var done atomic.Int64
			for range 100 {
				if _, err := g.Submit(t.Context(), func(context.Context) error { time.Sleep(time.Second); done.Add(1); return nil }, policy.Reject()); err != nil {
					t.Fatal(err)
				}
			}
			if err := g.Wait(t.Context()); err != nil || done.Load() != 100 {
				t.Errorf("%v, %d done", err, done.Load())
			}
			if _, err := g.Submit(t.Context(), noTask, policy.Reject()); !errors.Is(err, policy.ErrClosed) {
				t.Errorf("after Wait: %v", err)
			}
			if err := g.Wait(t.Context()); err != nil {
				t.Errorf("the second time: %v", err)
			}
		})
	})

	t.Run("Wait returns the first error in time, and lets the others go on", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, &local.PoolOptions{Workers: 3})
			g := p.Group(t.Context(), nil)
			var last *local.Ticket
			for d, result := range map[time.Duration]error{3 * time.Second: nil, 2 * time.Second: errSecond, time.Second: errFirst} {
				ticket, err := g.Submit(t.Context(), func(ctx context.Context) error {
					time.Sleep(d)
					return errors.Join(result, ctx.Err())
				}, policy.Reject())
				if err != nil {
					t.Fatal(err)
				}
				if result == nil {
					last = ticket
				}
			}
			if err := g.Wait(t.Context()); !errors.Is(err, errFirst) || !errors.Is(err, local.ErrDead) || last.Err() != nil {
				t.Errorf("%v; the last one: %v", err, last.Err())
			}
		})
	})

	t.Run("the first error cancels the rest if that is asked for", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, &local.PoolOptions{Workers: 2})
			g := p.Group(t.Context(), &local.GroupOptions{CancelOnError: true})
			submit := func(fn func(context.Context) error) *local.Ticket {
				ticket, err := g.Submit(t.Context(), fn, policy.Reject())
				if err != nil {
					t.Fatal(err)
				}
				return ticket
			}
			failing := submit(func(context.Context) error { time.Sleep(time.Second); return errFirst })
			running := submit(untilStopped)
			unrun := submit(func(context.Context) error { t.Error("a cancelled task was run"); return nil })
			stranger := mustSubmit(t, p, noTask)
			if err := g.Wait(t.Context()); !errors.Is(err, errFirst) || err != failing.Err() { //nolint:errorlint // the same one
				t.Error(err)
			}
			for name, err := range map[string]error{"running": running.Err(), "unrun": unrun.Err()} {
				if !errors.Is(err, local.ErrCancelled) || !errors.Is(err, local.ErrGroupFailed) || !errors.Is(err, errFirst) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if isClosed(unrun.Started()) && unrun.State() != local.Cancelled {
				t.Errorf("unrun: %v", unrun.State())
			}
			if err := stranger.Wait(t.Context()); err != nil {
				t.Errorf("a task of nobody's group: %v", err)
			}
			if s := poolBalanced(t, p); s.Cancelled != 2 || s.Dead != 1 || s.Completed != 1 {
				t.Errorf("%+v", s)
			}
		})
	})

	t.Run("a task that completes although it was cancelled has completed", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, &local.PoolOptions{Workers: 1})
			ctx, cancel := context.WithCancel(t.Context())
			g := p.Group(ctx, nil)
			ticket, err := g.Submit(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return nil }, policy.Reject())
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			cancel()
			if err := g.Wait(t.Context()); err != nil || ticket.State() != local.Completed {
				t.Errorf("%v, %v", err, ticket.State())
			}
		})
	})

	t.Run("other ends than completed are errors of the group too, refused calls are not", func(t *testing.T) {
		t.Parallel()
		p := newPool(t, &local.PoolOptions{Workers: 1, Capacity: 2})
		gate := occupy(t, p)
		g := p.Group(t.Context(), nil)
		ticket, err := g.Submit(t.Context(), noTask, policy.Reject())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Submit(t.Context(), noTask, policy.Reject()); !errors.Is(err, policy.ErrFull) {
			t.Error(err)
		}
		if _, err := g.Submit(t.Context(), nil, policy.Reject()); !errors.Is(err, policy.ErrInvalid) {
			t.Error(err)
		}
		if _, err := p.Submit(t.Context(), noTask, policy.DropOldest()); err != nil {
			t.Error(err)
		}
		if err := g.Wait(t.Context()); !errors.Is(err, local.ErrEvicted) || ticket.State() != local.Evicted {
			t.Errorf("%v, %v", err, ticket.State())
		}
		close(gate.let)
	})

	t.Run("Shutdown of the pool ends it", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p, err := local.NewPool(&local.PoolOptions{Workers: 1})
			if err != nil {
				t.Fatal(err)
			}
			running, waiting := p.Group(t.Context(), nil), p.Group(t.Context(), nil)
			for _, g := range []*local.Group{running, waiting} {
				if _, err := g.Submit(t.Context(), untilStopped, policy.Reject()); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if report, err := p.Shutdown(ctx); err != nil || len(report.Returned) != 1 {
				t.Errorf("%v, %v", report, err)
			}
			if err := running.Wait(t.Context()); !errors.Is(err, local.ErrCancelled) || !errors.Is(err, local.ErrStopping) {
				t.Errorf("what ran: %v", err)
			}
			if err := waiting.Wait(t.Context()); !errors.Is(err, local.ErrAbandoned) || !errors.Is(err, policy.ErrClosed) {
				t.Errorf("what waited: %v", err)
			}
		})
	})

	t.Run("Wait ends with its own context, and can be called again", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, nil)
			g := p.Group(t.Context(), nil)
			if _, err := g.Submit(t.Context(), func(context.Context) error { time.Sleep(time.Minute); return nil }, policy.Reject()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := g.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			if err := g.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		})
	})

	t.Run("a task may submit to its own group", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, &local.PoolOptions{Workers: 1})
			g := p.Group(t.Context(), nil)
			var runs int
			var grow func(context.Context) error
			grow = func(ctx context.Context) error {
				if runs++; runs < 10 {
					_, err := g.Submit(ctx, grow, policy.Reject())
					return err
				}
				return nil
			}
			if _, err := g.Submit(t.Context(), grow, policy.Reject()); err != nil {
				t.Fatal(err)
			}
			if err := g.Wait(t.Context()); err != nil || runs != 10 {
				t.Errorf("%v after %d runs", err, runs)
			}
		})
	})

	t.Run("its tasks find the values of its context", func(t *testing.T) {
		t.Parallel()
		type key struct{}
		g := newPool(t, nil).Group(context.WithValue(t.Context(), key{}, "here"), nil)
		var found bool
		if _, err := g.Submit(t.Context(), func(ctx context.Context) error { found = ctx.Value(key{}) == "here"; return nil }, policy.Reject()); err != nil {
			t.Fatal(err)
		}
		if err := g.Wait(t.Context()); err != nil || !found {
			t.Errorf("%v, found %v", err, found)
		}
	})
}
