package local_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

const ms = time.Millisecond

// tally is what calls to a pool came to.
type tally struct {
	calls, accepted, shed int
	longest               atomic.Int64 // from accept to begin, of any so far
}

func (s *tally) String() string {
	return fmt.Sprintf("%d calls, %d accepted, %d shed, the longest stayed for %v", s.calls, s.accepted, s.shed, time.Duration(s.longest.Load()))
}

// offer has a task that takes that long submitted every so often, and drains the pool.
func offer(t *testing.T, p *local.Pool, pl policy.Policy, n int, every, takes time.Duration) *tally {
	t.Helper()
	sum := &tally{}
	for range n {
		accepted := time.Now()
		ticket, err := p.Submit(t.Context(), func(context.Context) error {
			if stayed := int64(time.Since(accepted)); stayed > sum.longest.Load() {
				sum.longest.Store(stayed) // one worker
			}
			time.Sleep(takes)
			return nil
		}, pl)
		rej, refused := errors.AsType[*policy.Rejection](err)
		sum.calls++
		switch {
		case ticket != nil:
			sum.accepted++
		case refused && rej.Reason == policy.ReasonShed:
			sum.shed++
		default:
			t.Errorf("call %d: %v", sum.calls, err)
		}
		time.Sleep(every)
	}
	return sum
}

func TestCoDelOnAFront(t *testing.T) {
	t.Parallel()

	t.Run("a burst is let through, although its last jobs stay long", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, &local.PoolOptions{Workers: 1})
			burst := offer(t, p, policy.CoDel(0, policy.Reject()), 80, 0, ms)
			time.Sleep(time.Second)
			if burst.shed != 0 || burst.longest.Load() < int64(70*ms) {
				t.Errorf("%v", burst)
			}
		})
	})

	t.Run("a standing queue is kept short while all there is to do is done", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, &local.PoolOptions{Workers: 1})
			pl := policy.CoDel(0, policy.Reject())
			offer(t, p, pl, 2000, ms, 10*ms) // ten times what can be done, until it has settled
			before := p.Stats()
			settled := offer(t, p, pl, 5000, ms, 10*ms)
			after := p.Stats()
			if done := after.Completed - before.Completed; done < 490 {
				t.Errorf("%d of 500 were done", done)
			}
			if settled.shed < 4400 || settled.longest.Load() > int64(200*ms) || after.Front.HighWater > 150 {
				t.Errorf("%v, high water %d", settled, after.Front.HighWater)
			}
		})
	})

	t.Run("nothing is refused once the overload is over", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, &local.PoolOptions{Workers: 1})
			pl := policy.CoDel(0, policy.Reject())
			offer(t, p, pl, 2000, ms, 10*ms)
			time.Sleep(2 * time.Second)
			if after := offer(t, p, pl, 100, 20*ms, 10*ms); after.shed != 0 {
				t.Errorf("%v", after)
			}
		})
	})

	t.Run("long tasks on some workers are no overload while others are free", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, &local.PoolOptions{Workers: 2})
			mustSubmit(t, p, untilStopped)
			time.Sleep(time.Minute)
			if sum := offer(t, p, policy.CoDel(0, policy.Reject()), 100, time.Second, ms); sum.shed != 0 || sum.longest.Load() != 0 {
				t.Errorf("%v", sum)
			}
		})
	})

	t.Run("a drain that has stopped is an overload too, as soon as something waits", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, &local.PoolOptions{Workers: 1})
			mustSubmit(t, p, untilStopped)
			time.Sleep(time.Minute)
			if sum := offer(t, p, policy.CoDel(0, policy.Reject()), 100, ms, ms); sum.accepted != 11 {
				t.Errorf("%v", sum)
			}
		})
	})

	t.Run("of a durable side it is one as soon as what was taken is stuck", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newFront(t, &local.FrontOptions[int]{Capacity: 100})
			mustAdmit(t, f, 0, 1)
			taken := f.Drain()
			pl := policy.CoDel(0, policy.Reject())
			time.Sleep(time.Second)
			mustReject(t.Context(), t, f, 2, 0, pl, policy.ReasonShed)
			f.Release(taken...)
			if ok, err := f.Admit(t.Context(), 3, 0, pl); !ok {
				t.Error(err)
			}
		})
	})
}

func TestRampOnAFront(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, &local.PoolOptions{Workers: 1, Capacity: 100})
		pl := policy.Ramp(0.5, 0.9, policy.Reject())
		// Ten times what can be done: it settles where a tenth is let in, at 0.5 + 0.9 · 0.4.
		offer(t, p, pl, 5000, ms, 10*ms)
		before := p.Stats()
		settled := offer(t, p, pl, 5000, ms, 10*ms)
		after := p.Stats()
		if done := after.Completed - before.Completed; done < 495 || done > 505 {
			t.Errorf("%d of 500 were done", done)
		}
		if settled.accepted < 480 || settled.accepted > 520 || after.Front.HighWater > 90 || after.Front.Length < 83 || after.Front.Length > 89 {
			t.Errorf("%v, %+v", settled, after.Front)
		}
	})
}

func TestReadyPoliciesAreCheckedWhereTheyAreUsed(t *testing.T) {
	t.Parallel()
	if _, err := local.NewFront(&local.FrontOptions[int]{Policy: policy.CoDel(-1, policy.Reject())}); err == nil {
		t.Error("a front took it")
	}
	f := newFront[int](t, nil)
	mustReject(t.Context(), t, f, 1, 0, policy.Ramp(1, 0, policy.Reject()), policy.ReasonInvalid)
}
