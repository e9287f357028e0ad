package local

import (
	"cmp"
	"slices"
)

// barriers are the open ones, in the order in which they were raised. Admissions are
// numbered; a barrier stands behind one number and before the next. A slot belongs to the
// first barrier behind it, and a barrier falls when no slot is left that belongs to
// it or to one before it: so evictions may go around jobs that are held for long. There
// are no more than were raised since the oldest held slot was admitted, and normally none.
type barriers struct {
	open  []barrier
	slots int // that belong to any of them
}

type barrier struct {
	last  uint64 // admission before it
	slots int
	fell  chan struct{}
}

// raise puts a barrier behind the last admission, when that many slots are held.
func (b *barriers) raise(last uint64, held int) <-chan struct{} {
	slots := held - b.slots
	if slots == 0 && len(b.open) > 0 {
		return b.open[len(b.open)-1].fell
	}
	fell := make(chan struct{})
	if slots == 0 {
		close(fell)
		return fell
	}
	b.open = append(b.open, barrier{last: last, slots: slots, fell: fell})
	b.slots = held
	return fell
}

// leave notes that the slot of that admission has been given back, while there are any that belong to a barrier.
func (b *barriers) leave(number uint64) {
	i, _ := slices.BinarySearchFunc(b.open, number, func(b barrier, n uint64) int { return cmp.Compare(b.last, n) })
	if i == len(b.open) {
		return
	}
	b.open[i].slots--
	b.slots--
	for len(b.open) > 0 && b.open[0].slots == 0 {
		close(b.open[0].fell)
		b.open = slices.Delete(b.open, 0, 1)
	}
}
