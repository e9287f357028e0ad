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

// noHand is so much that no pool of these tests ever deals one.
const noHand = 1 << 20

// What has ended on a hand does not count as if it had ended when somebody looks.
func TestNoHandMakesADrainThatStandsStillLookQuick(t *testing.T) {
	t.Parallel()
	rates := map[int]float64{}
	for _, hands := range []int{noHand, 32} {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, &local.PoolOptions{Workers: 1, Capacity: 2000})
			p.DealHands(hands)
			first, second := newGate(), newGate()
			mustGo(t, p, first.task)
			for range 32*30 + 25 {
				mustGo(t, p, noTask)
			}
			mustGo(t, p, second.task)
			for range 40 {
				mustGo(t, p, noTask)
			}
			time.Sleep(100 * time.Microsecond)
			close(first.let)
			<-second.begun
			if _, ended := p.InHand(); (ended > 0) != (hands == 32) {
				t.Fatalf("hands of %d: %d have ended in one", hands, ended)
			}
			time.Sleep(time.Minute)
			rates[hands] = p.Stats().Front.DrainRate
			close(second.let)
		})
	}
	if q := rates[32] / rates[noHand]; !(q > 0.9 && q < 1.1) {
		t.Errorf("a second drains %v, and %v without a hand", rates[32], rates[noHand])
	}
}

// A refusal for want of room says that there is none, whatever ends on a hand in the same instant.
func TestARefusalIsOfTheInstantThatItWasDecidedIn(t *testing.T) {
	t.Parallel()
	for _, hands := range []int{1, 5, 32} {
		p := newPool(t, &local.PoolOptions{Workers: 2, Capacity: 64})
		p.DealHands(hands)
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				for range 20_000 {
					err := p.Go(context.Background(), noTask, policy.Reject())
					if r, ok := errors.AsType[*policy.Rejection](err); ok && r.Depth != r.Capacity {
						t.Errorf("hands of %d: full with %d of %d", hands, r.Depth, r.Capacity)
						return
					}
				}
			})
		}
		callers.Wait()
	}
}

// Where all ends on a hand while DropOldest is about to displace something, the time goes on to count.
func TestDropOldestKeepsTheTime(t *testing.T) {
	t.Parallel()
	for range 10 {
		p := newPool(t, &local.PoolOptions{Workers: 2, Capacity: 2})
		p.DealHands(1)
		var callers sync.WaitGroup
		var over atomic.Bool
		for range 3 {
			callers.Go(func() {
				for !over.Load() {
					if err := p.Go(context.Background(), noTask, policy.DropOldest()); err != nil && !errors.Is(err, policy.ErrFull) { // all run
						t.Error(err)
						return
					}
				}
			})
		}
		for n := range 5000 {
			if !p.BusyAsHeld() {
				t.Error("the time stands still")
				break
			}
			if n%50 == 0 {
				runtime.Gosched()
			}
		}
		over.Store(true)
		callers.Wait()
	}
}
