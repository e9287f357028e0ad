package local_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// opEnd is the end of a task: between its return, and the end of its ticket.
const opEnd frontOp = "end"

// places is a pool without concurrency, by what can be seen of it from outside: how many hold a slot.
type places int

// step tells whether the answer is right, and what comes of the call.
func (s places) step(capacity int, c frontCall, a frontAnswer) (bool, places) {
	isFull := int(s) == capacity
	switch {
	case c.op == opEnd:
		return s > 0, s - 1
	case a.what == full:
		return isFull, s
	case a.what == dropped:
		return isFull && c.op == opDropIncoming, s
	case a.what != accepted:
		return false, s
	case isFull: // in the place of another
		return c.op == opDropOldest, s
	}
	return true, s + 1
}

// A pool that refuses although a place is free, or accepts although none is, gives answers that no order of calls explains.
// It looks before it makes anything, and without a lock.
func TestPoolIsLinearizable(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	counts := map[answer]int{}
	for i := range 300 {
		capacity := []int{1, 2, 3, 8}[i%4]
		h := recordPool(t, capacity, 1+i%3, seed+uint64(i))
		model := porcupine.Model{
			Init: func() any { return places(0) },
			Step: func(state, input, output any) (bool, any) {
				return state.(places).step(capacity, input.(frontCall), output.(frontAnswer))
			},
		}
		switch porcupine.CheckOperationsTimeout(model, h.ops, patience) {
		case porcupine.Illegal:
			t.Fatalf("history %d, capacity %d: no order of these calls explains the answers:\n%v", i, capacity, h)
		case porcupine.Unknown:
			t.Fatalf("history %d, capacity %d: not decided within %v:\n%v", i, capacity, patience, h)
		case porcupine.Ok:
		}
		for _, o := range h.ops {
			counts[o.Output.(frontAnswer).what]++
		}
	}
	for _, a := range []answer{accepted, dropped, full, done} {
		if counts[a] == 0 {
			t.Errorf("no call was answered %q: these histories show nothing about it (%v)", a, counts)
		}
	}
}

func recordPool(t *testing.T, capacity, hands int, seed uint64) *frontHistory {
	t.Helper()
	const clients, each = 5, 16
	p, err := local.NewPool(&local.PoolOptions{Workers: 2, Capacity: capacity})
	if err != nil {
		t.Fatal(err)
	}
	p.DealHands(hands)
	h := &frontHistory{}
	var submitting, ending sync.WaitGroup
	for client := range clients {
		submitting.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(client)))
			for n := range each {
				ops := []frontOp{opReject, opReject, opDropIncoming, opDropOldest, opWait}
				op, turns := ops[rng.IntN(len(ops))], rng.IntN(20)
				pl := map[frontOp]policy.Policy{
					opReject: policy.Reject(), opDropIncoming: policy.DropIncoming(), opDropOldest: policy.DropOldest(),
					opWait: policy.Wait(time.Duration(1+rng.IntN(300)) * time.Microsecond),
				}[op]
				c := frontCall{op: op, job: rune(1 + client*each + n)}
				var returned int64
				var ticket *local.Ticket
				h.call(client, c, func() []frontAnswer {
					var err error
					ticket, err = p.Submit(context.Background(), func(context.Context) error {
						for range turns {
							runtime.Gosched()
						}
						returned = h.tick.Add(1)
						return nil
					}, pl)
					switch {
					case errors.Is(err, policy.ErrFull):
						return []frontAnswer{{what: full}}
					case err != nil:
						return []frontAnswer{{what: answer(err.Error())}}
					case ticket.State() == local.Dropped:
						return []frontAnswer{{what: dropped}}
					}
					return []frontAnswer{{what: accepted}}
				})
				if ticket == nil || ticket.State() == local.Dropped {
					continue
				}
				ended := func() {
					if <-ticket.Done(); !errors.Is(ticket.Err(), local.ErrEvicted) {
						h.note(client, returned, frontCall{op: opEnd, job: c.job}, frontAnswer{what: done})
					}
				}
				if rng.IntN(2) == 0 { // often one after the other, so that there are moments without anybody
					ended()
					continue
				}
				ending.Go(ended)
			}
		})
	}
	submitting.Wait()
	ending.Wait()
	if _, err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}
