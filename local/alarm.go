package local

import "github.com/seed-9dec4fca/weir/policy"

// alarm tells a hook in turns that the front is full and that it no longer is. It is guarded
// by the front's mutex; the hook is called without it.
type alarm struct {
	hook    func(full bool) // nil: nothing of this is used
	marks   policy.Marks
	full    bool // as it is
	told    bool // as the hook knows it
	telling bool // somebody is in the hook, and will look again afterwards
}

// unlock releases mu after something may have changed, and tells the hook if it has to be
// told. crowded: somebody has just found no room.
//
// There is one teller at a time, so that the hook sees the turns in order and may itself
// call the front.
func (f *Front[T]) unlock(crowded bool) {
	a := &f.alarm
	if a.hook != nil {
		fill := f.fill()
		a.full = a.marks.Full(a.full, fill) || a.full && f.waiters.n > 0 || crowded && fill > a.marks.Low
		if !a.telling {
			a.telling = true
			for a.told != a.full {
				a.told = !a.told
				full := a.told
				f.mu.Unlock()
				a.hook(full)
				f.mu.Lock()
			}
			a.telling = false
		}
	}
	f.mu.Unlock()
}

// fill is the larger of the shares of slots and bytes in use. mu is held.
func (f *Front[T]) fill() float64 {
	fill := float64(f.held) / float64(f.capacity)
	if f.byteCapacity > 0 {
		fill = max(fill, float64(f.bytes)/float64(f.byteCapacity))
	}
	return fill
}
