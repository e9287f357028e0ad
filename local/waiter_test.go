package local_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// outcome is what a call to Admit returns, once it has.
type outcome struct{ p atomic.Pointer[returned] }

type returned struct {
	accepted bool
	err      error
	after    time.Duration
}

func (o *outcome) done() bool     { return o.p.Load() != nil }
func (o *outcome) accepted() bool { return o.done() && o.p.Load().accepted }

func (o *outcome) err() error {
	if !o.done() {
		return errors.New("has not returned yet")
	}
	return o.p.Load().err
}

func (o *outcome) after() time.Duration {
	if !o.done() {
		return -1
	}
	return o.p.Load().after
}

func (o *outcome) String() string {
	return fmt.Sprintf("returned %v, accepted %v after %v, %v", o.done(), o.accepted(), o.after(), o.err())
}

func (o *outcome) reason(t *testing.T) policy.Reason {
	t.Helper()
	rej, ok := errors.AsType[*policy.Rejection](o.err())
	if !ok {
		t.Fatalf("not a rejection: %v", o)
	}
	return rej.Reason
}

// admitting calls Admit in a goroutine of the bubble and returns once it waits or has ended.
func admitting[T any](ctx context.Context, f *local.Front[T], job T, size int64, p policy.Policy) *outcome {
	o, begin := &outcome{}, time.Now()
	go func() {
		accepted, err := f.Admit(ctx, job, size, p)
		o.p.Store(&returned{accepted, err, time.Since(begin)})
	}()
	synctest.Wait()
	return o
}

// fullFront has one slot, which is held.
func fullFront(t *testing.T) (*local.Front[int], []local.Slot[int]) {
	t.Helper()
	f := newFront(t, &local.FrontOptions[int]{Capacity: 1})
	mustAdmit(t, f, 1, 0)
	return f, f.Drain()
}

func TestWait(t *testing.T) {
	t.Parallel()
	t.Run("returns when a slot frees", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f, slots := fullFront(t)
			o := admitting(t.Context(), f, 1, 1, policy.Wait(time.Minute))
			time.Sleep(time.Second)
			f.Release(slots...)
			synctest.Wait()
			if !o.accepted() || o.err() != nil || o.after() != time.Second {
				t.Errorf("%v", o)
			}
			if _, jobs := takeAll(f); !slices.Equal(jobs, []int{1}) {
				t.Errorf("took %v", jobs)
			}
			balanced(t, f)
		})
	})
	t.Run("returns when its own limit passes, which is not the context's deadline", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f, _ := fullFront(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			o := admitting(ctx, f, 1, 1, policy.Wait(time.Second))
			time.Sleep(time.Second)
			synctest.Wait()
			if o.reason(t) != policy.ReasonTimeout || o.after() != time.Second ||
				!errors.Is(o.err(), policy.ErrFull) || errors.Is(o.err(), context.DeadlineExceeded) {
				t.Errorf("%v", o)
			}
			if rej, _ := errors.AsType[*policy.Rejection](o.err()); rej.Waited != time.Second {
				t.Errorf("waited %v", rej.Waited)
			}
			if s := balanced(t, f); s.Waiting != 0 {
				t.Errorf("%+v", s)
			}
		})
	})
	for name, p := range map[string]policy.Policy{"shorter than the limit": policy.Wait(time.Hour), "alone": policy.Wait(0), "equal to the limit": policy.Wait(time.Second)} {
		t.Run("returns when the context's deadline passes, "+name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, _ := fullFront(t)
				boom := errors.New("boom")
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, boom)
				defer cancel()
				o := admitting(ctx, f, 1, 1, p)
				time.Sleep(time.Second)
				synctest.Wait()
				if o.reason(t) != policy.ReasonTimeout || o.after() != time.Second ||
					!errors.Is(o.err(), policy.ErrFull) || !errors.Is(o.err(), context.DeadlineExceeded) {
					t.Errorf("%v", o)
				}
				if p.Max() != time.Second && !errors.Is(o.err(), boom) { // with both at once either may be first
					t.Errorf("the cause is lost: %v", o.err())
				}
			})
		})
	}
	t.Run("a cancelled context is cancelled and not full", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f, _ := fullFront(t)
			boom := errors.New("boom")
			ctx, cancel := context.WithCancelCause(t.Context())
			o := admitting(ctx, f, 1, 1, policy.Wait(time.Hour))
			cancel(boom)
			synctest.Wait()
			if o.reason(t) != policy.ReasonCancelled || errors.Is(o.err(), policy.ErrFull) ||
				!errors.Is(o.err(), context.Canceled) || !errors.Is(o.err(), boom) {
				t.Errorf("%v", o)
			}
			if s := balanced(t, f); s.Rejected[policy.ReasonCancelled] != 1 {
				t.Errorf("%+v", s)
			}
		})
	})
	t.Run("a deadline that is only past on the clock refuses at once", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f, _ := fullFront(t)
			ctx := lateContext{t.Context(), time.Now().Add(-time.Second)}
			if rej := mustReject(ctx, t, f, 1, 1, policy.Wait(0), policy.ReasonTimeout); !errors.Is(rej, context.DeadlineExceeded) {
				t.Error(rej)
			}
		})
	})
	t.Run("serves in the order of arrival, and nobody overtakes", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f, slots := fullFront(t)
			var waiting []*outcome
			for i := range 5 {
				waiting = append(waiting, admitting(t.Context(), f, i+1, 1, policy.Wait(time.Hour)))
			}
			for i, o := range waiting {
				f.Release(slots...)
				mustReject(t.Context(), t, f, 99, 1, policy.Reject(), policy.ReasonFull)
				synctest.Wait()
				if !o.accepted() {
					t.Fatalf("number %d is not served", i)
				}
				var jobs []int
				if slots, jobs = takeAll(f); !slices.Equal(jobs, []int{i + 1}) {
					t.Fatalf("took %v, want %d", jobs, i+1)
				}
			}
			balanced(t, f)
		})
	})
	t.Run("a newcomer does not overtake one who waits for bytes", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newFront(t, &local.FrontOptions[string]{Capacity: 9, Bytes: 100})
			mustAdmit(t, f, 60, "a")
			slots, _ := takeAll(f)
			large := admitting(t.Context(), f, "large", 50, policy.Wait(time.Hour))
			small := admitting(t.Context(), f, "small", 1, policy.Wait(time.Hour))
			mustReject(t.Context(), t, f, "x", 1, policy.Reject(), policy.ReasonFull)
			if ok, err := f.Admit(t.Context(), "x", 1, policy.DropIncoming()); ok || err != nil {
				t.Errorf("%v, %v", ok, err)
			}
			if large.done() || small.done() {
				t.Fatal("served without room")
			}
			f.Release(slots...)
			synctest.Wait()
			if _, jobs := takeAll(f); !slices.Equal(jobs, []string{"large", "small"}) {
				t.Errorf("took %v", jobs)
			}
		})
	})
	t.Run("a grant and a cancellation in the same instant: one of them holds", func(t *testing.T) {
		t.Parallel()
		granted := 0
		for range 200 {
			f, slots := fullFront(t)
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			var accepted bool
			var err error
			wg.Go(func() { accepted, err = f.Admit(ctx, 1, 1, policy.Wait(patience)) })
			for f.Stats().Waiting == 0 { // until it waits
				select {
				case <-time.After(time.Microsecond):
				case <-t.Context().Done():
				}
			}
			wg.Go(cancel)
			wg.Go(func() { f.Release(slots...) })
			wg.Wait()
			_, jobs := takeAll(f)
			if accepted != (err == nil) || accepted != (len(jobs) == 1) {
				t.Fatalf("accepted %v, %v, and in the front: %v", accepted, err, jobs)
			}
			if s := balanced(t, f); s.Waiting != 0 {
				t.Fatalf("%+v", s)
			}
			if accepted {
				granted++
			}
		}
		t.Logf("granted %d of 200", granted)
	})
}

// lateContext has a deadline that its channel does not know of.
type lateContext struct {
	context.Context
	deadline time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.deadline, true }

func TestClose(t *testing.T) {
	t.Parallel()
	t.Run("fresh and waiting callers get the same", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f, slots := fullFront(t)
			var waiting []*outcome
			for i := range 3 {
				waiting = append(waiting, admitting(t.Context(), f, i, 1, policy.Wait(time.Hour)))
			}
			f.Close()
			f.Close()
			f.Release(slots...)
			synctest.Wait()
			for _, p := range []policy.Policy{
				policy.Wait(time.Hour), policy.Reject(), policy.DropIncoming(), policy.DropOldest(), policy.Shed(), {},
			} {
				waiting = append(waiting, admitting(t.Context(), f, 9, 1, p))
			}
			for i, o := range waiting {
				if o.accepted() || o.err() != waiting[0].err() || !errors.Is(o.err(), policy.ErrClosed) { //nolint:errorlint // the very same
					t.Errorf("caller %d: %v", i, o)
				}
			}
			if s := balanced(t, f); s.Rejected[policy.ReasonClosed] != 9 || s.Length != 0 || s.Waiting != 0 {
				t.Errorf("%+v", s)
			}
		})
	})
	t.Run("what was accepted before can be drained and released", func(t *testing.T) {
		t.Parallel()
		f := newFront(t, &local.FrontOptions[int]{Capacity: 3})
		mustAdmit(t, f, 1, 1, 2, 3)
		f.Close()
		slots, jobs := takeAll(f)
		if !slices.Equal(jobs, []int{1, 2, 3}) {
			t.Errorf("drained %v", jobs)
		}
		if s := balanced(t, f); s.Length != 3 {
			t.Errorf("draining gives nothing back by itself: %+v", s)
		}
		f.Release(slots...)
		if s := balanced(t, f); s.Length != 0 || s.Released != 3 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("does not wake who takes, and the jobs channel stays open", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newFront[int](t, nil)
			ctx, cancel := context.WithCancel(t.Context())
			var err error
			returned := false
			go func() {
				_, err = f.Take(ctx, nil, 1, 1)
				returned = true
			}()
			synctest.Wait()
			f.Close()
			synctest.Wait()
			if returned {
				t.Errorf("Take returned: %v", err)
			}
			cancel()
			synctest.Wait()
			if !returned || !errors.Is(err, context.Canceled) {
				t.Errorf("Take returned %v, %v", returned, err)
			}
		})
	})
}
