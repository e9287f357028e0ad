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

// What has ended on a hand counts with the next look at the clock, which is no more than a worker's turns between two such looks.
func TestNoHandMakesADrainThatStandsStillLookQuick(t *testing.T) {
	t.Parallel()
	for _, hands := range []int{noHand, 32} {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, &local.PoolOptions{Workers: 1, Capacity: 2000})
			p.DealHands(hands)
			g := midway(t, p, 32*30+25, 40, func() { mustGo(t, p, noTask) })
			if _, ended := p.InHand(); (ended > 0) != (hands == 32) {
				t.Fatalf("hands of %d: %d have ended in one", hands, ended)
			}
			for looks, most := range []float64{32, 1} {
				time.Sleep(time.Minute)
				if rate := p.Stats().Front.DrainRate * 60; rate > most || rate < 0.9 {
					t.Errorf("hands of %d, look %d: a minute drains %v", hands, looks, rate)
				}
			}
			close(g.let)
		})
	}
}

// Nor, where tasks become slow in the middle of one, those before for long.
func TestAHandLearnsThatTasksBecameSlow(t *testing.T) {
	t.Parallel()
	for quick := 320; quick < 352; quick++ {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, &local.PoolOptions{Workers: 1, Capacity: 2000})
			first := newGate()
			mustGo(t, p, first.task)
			for range quick {
				mustGo(t, p, noTask)
			}
			for range 20 {
				mustGo(t, p, func(context.Context) error { time.Sleep(time.Second); return nil })
			}
			close(first.let)
			time.Sleep(5*time.Second + time.Second/2)
			if rate := p.Stats().Front.DrainRate; rate > 7 { // the quick ones of a hand may be among them
				t.Errorf("%d quick ones, and five slow ones since: a second drains %v", quick, rate)
			}
			for range 2 {
				time.Sleep(5 * time.Second)
				if rate := p.Stats().Front.DrainRate; rate < 0.8 || rate > 1.2 {
					t.Errorf("after %d quick ones a second drains %v, where one ends", quick, rate)
				}
			}
		})
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
		last, displacing := midway(t, p, before, 0, func() { mustGo(t, p, noTask) }), newGate()
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
