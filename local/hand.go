package local

import (
	"slices"
	"sync/atomic"
	"time"
)

// hand is jobs that were taken off the queue together, for whichever worker is free next: one step on word both ends a
// worker's job and gives it the next one, without the front's mutex. All take from the one hand, so that jobs begin in the
// order of the queue and none waits behind a slow one.
//
// The front's numbers do not know yet of those that have ended on the hand. Whoever decides by them collects first. While somebody
// must hear of each end at once there is no hand: he takes it back when he comes.
type hand[T any] struct {
	word  atomic.Uint64 // how many of slots were begun, how many jobs have ended since it was collected, and isDead
	slots []Slot[T]     // one that was begun belongs to who began it
	taken atomic.Int32  // how many of these have been copied by who began them
	begun int32         // how many were begun, when the hand was taken back
}

const (
	begunBits = 32
	oneEnded  = 1 << begunBits
	begunMask = oneEnded - 1
	isDead    = 1 << 63 // the hand was taken back
)

// handful is how many jobs a pool's hand has: half as many call for the mutex noticeably more often, twice as many hardly less.
const handful = 32

// next begins a job; ending: it also ends one. Not counted: the hand was taken back, and has neither ended nor begun any.
func (h *hand[T]) next(ending bool) (s Slot[T], found, counted bool) {
	step := uint64(1)
	if ending {
		step += oneEnded
	}
	word := h.word.Add(step)
	if word&isDead != 0 {
		return s, false, false
	}
	n := word & begunMask
	if n > uint64(len(h.slots)) {
		return s, false, true
	}
	s = h.slots[n-1]
	h.slots[n-1] = Slot[T]{} // keep nothing alive
	h.taken.Add(1)
	return s, true, true
}

// left are the slots that nobody had begun at that word.
func (h *hand[T]) left(word uint64) []Slot[T] {
	return h.slots[min(word&begunMask, uint64(len(h.slots))):]
}

// pick takes the next job off the hand, or off the queue, and deals the next hand from that, if jobs are quick: when those of a
// hand end is not known to the millisecond. mu is held.
func (f *Front[T]) pick(now time.Duration, quick bool) (s Slot[T], found bool) {
	if h := f.hand.Load(); h != nil {
		if s, found, _ = h.next(false); found {
			return s, true
		}
		f.recall()
	}
	if f.queue.n == 0 {
		return s, false
	}
	s = *f.queue.first()
	f.drop()
	f.sojourned(now, s.admitted)
	if quick && f.queue.n >= f.handful && f.patient() {
		f.deal()
	}
	return s, true
}

// patient: nobody needs to hear of each end at once. Whoever changes that takes the hand back. mu is held.
func (f *Front[T]) patient() bool {
	return f.waiters.first == nil && f.barriers.slots == 0 && f.alarm.hook == nil && !f.measuring.Load()
}

// deal makes a hand of the first ones of the queue. mu is held, and there is none.
//
// It is the last one again, if all that was begun on that has been copied: memory that is new is dearer than all else about a hand. A
// worker that found the last one before it was taken back may step only now: that is a step like any other.
func (f *Front[T]) deal() {
	h := f.spare
	if h == nil || h.taken.Load() != h.begun {
		h = &hand[T]{slots: make([]Slot[T], f.handful)}
	}
	f.spare = nil
	for i := range h.slots {
		h.slots[i] = *f.queue.first()
		f.drop()
	}
	h.taken.Store(0)
	h.word.Store(0)
	f.hand.Store(h)
}

// collect gives back the slots of jobs that have ended on the hand, and tells how many have not begun. mu is held.
func (f *Front[T]) collect() (left int) {
	h := f.hand.Load()
	if h == nil {
		return 0
	}
	word := h.word.And(begunMask)
	f.count(word)
	return len(h.left(word))
}

// recall collects, and puts what has not begun back on the queue: there is no hand any more. mu is held.
func (f *Front[T]) recall() {
	h := f.hand.Load()
	if h == nil {
		return
	}
	f.hand.Store(nil)
	word := h.word.Or(isDead)
	f.count(word)
	left := h.left(word)
	f.spare, h.begun = h, int32(len(h.slots)-len(left)) //nolint:gosec // at most handful
	for _, s := range slices.Backward(left) {
		f.queue.putBack(s)
		f.queuedBytes += s.size
	}
	clear(left)
}

// count gives back the slots of those that had ended on a hand.
func (f *Front[T]) count(word uint64) {
	if n := int(word >> begunBits); n > 0 {
		f.free(unread, n, 0)
	}
}
