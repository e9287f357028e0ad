package local_test

import (
	"context"
	"errors"
	"sync"
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
	shown := 0
	for before := 10; before < 30; before++ {
		p := newPool(t, &local.PoolOptions{Workers: 1, Capacity: 64})
		p.DealHands(5)
		first, last, displacing := newGate(), newGate(), newGate()
		mustGo(t, p, first.task)
		for range before {
			mustGo(t, p, noTask)
		}
		mustGo(t, p, last.task)
		close(first.let)
		<-last.begun
		if p.DropOldestAsAllEnds(func() { close(last.let) }, displacing.task) {
			shown++
		}
		<-displacing.begun
		if !p.BusyAsHeld() {
			t.Errorf("after %d: the time stands still", before)
		}
		close(displacing.let)
	}
	if shown == 0 {
		t.Error("never did all end on a hand: this shows nothing")
	}
}
