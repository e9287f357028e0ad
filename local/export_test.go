package local

import (
	"context"
	"runtime"

	"github.com/seed-9dec4fca/weir/policy"
)

// DealHands makes the hands of a pool that has no task yet that large.
func (p *Pool) DealHands(of int) { p.front.handful = of }

// InHand tells how many jobs on the pool's hand have not begun, and how many ends on it are not collected.
func (p *Pool) InHand() (left, ended int) {
	h := p.front.hand.Load()
	if h == nil {
		return 0, 0
	}
	word := h.word.Load()
	return len(h.left(word)), int(word >> begunBits)
}

// BusyAsHeld reports whether the time counts as busy exactly while something is held.
func (p *Pool) BusyAsHeld() bool {
	p.front.mu.Lock()
	defer p.front.mu.Unlock()
	p.front.collect()
	return p.front.busy.running == (p.front.held > 0)
}

// DropOldestAsAllEnds is Go with policy.DropOldest when all that is held ends on the hand after it was found full: let has that end.
// It reports false if it did not end on a hand.
func (p *Pool) DropOldestAsAllEnds(let func(), fn func(context.Context) error) bool {
	f := p.front
	f.mu.Lock()
	h := f.hand.Load()
	let()
	ended := false
	for range 10_000 {
		if ended = h != nil && int(h.word.Load()>>begunBits) == f.held; ended { //nolint:gosec // a few
			break
		}
		runtime.Gosched()
	}
	_, _ = f.decideAndUnlock(context.Background(), task{work: funcWork(fn)}, 0, policy.DropOldest(), unread)
	return ended
}
