package local

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"
)

// Slot is a job that holds a slot of the front, between Take and Release.
type Slot[T any] struct {
	Job      T
	size     int64
	number   uint64        // of its admission
	admitted time.Duration // when, on the front's clock
}

// Size is the payload in bytes, as it was given to Admit.
func (s Slot[T]) Size() int64 { return s.size }

// Take blocks until there is a job, then appends to buf what is there without waiting,
// in the order of admission: at most limit jobs (less than 1 counts as 1), ending before
// maxBytes of payload is exceeded, though the first job is taken whatever its size.
//
// When ctx ends it returns an error that matches ctx's and its cause, and has taken
// nothing. It is for one goroutine at a time.
func (f *Front[T]) Take(ctx context.Context, buf []Slot[T], limit int, maxBytes int64) ([]Slot[T], error) {
	if ctx.Err() != nil {
		return buf, contextError(ctx)
	}
	limit = max(limit, 1)
	before := len(buf)
	if buf = f.TryTake(buf, limit, maxBytes); len(buf) > before {
		return buf, nil
	}
	select {
	case s := <-f.jobs:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.restore(s) // it is still counted as queued
		return f.gather(buf, limit, maxBytes), nil
	case <-ctx.Done():
		return buf, contextError(ctx)
	}
}

// TryTake is Take without the wait: it appends nothing when nothing is there, or limit
// is less than 1. It may be called at any time, by any goroutine.
func (f *Front[T]) TryTake(buf []Slot[T], limit int, maxBytes int64) []Slot[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gather(buf, limit, maxBytes)
}

// Drain takes everything that has not been taken, for after Close. The slots are still
// held: Release them like any other.
func (f *Front[T]) Drain() []Slot[T] { return f.TryTake(nil, math.MaxInt, math.MaxInt64) }

// gather takes up to limit jobs. mu is held.
func (f *Front[T]) gather(buf []Slot[T], limit int, maxBytes int64) []Slot[T] {
	taken := 0
	for ; taken < limit; taken++ {
		s, ok := f.pop()
		if !ok {
			break
		}
		if taken > 0 && s.size > maxBytes {
			f.unpop(s)
			break
		}
		maxBytes -= s.size
		buf = append(buf, s)
	}
	if taken > 0 {
		// The last one came last, and has waited least.
		now := f.now()
		f.sojourns.add(now, now-buf[len(buf)-1].admitted)
	}
	return buf
}

// pop removes the oldest job within reach. mu is held.
func (f *Front[T]) pop() (s Slot[T], ok bool) {
	if len(f.ahead) > 0 {
		s = f.ahead[0]
		f.ahead[0] = Slot[T]{} // keep nothing alive
		if len(f.ahead) == 1 {
			f.ahead = f.ahead[:0] // as nearly always, and the next one allocates nothing
		} else {
			f.ahead = f.ahead[1:]
		}
	} else {
		select {
		case s = <-f.jobs:
		default:
			return s, false
		}
	}
	f.queued--
	f.queuedBytes -= s.size
	return s, true
}

// unpop gives back what pop gave. mu is held.
func (f *Front[T]) unpop(slots ...Slot[T]) {
	for _, s := range slots {
		f.queued++
		f.queuedBytes += s.size
		f.restore(s)
	}
}

// restore puts a job where it belongs among those that are ahead of the channel. mu is held.
func (f *Front[T]) restore(s Slot[T]) {
	i, _ := slices.BinarySearchFunc(f.ahead, s.number, func(s Slot[T], n uint64) int { return cmp.Compare(s.number, n) })
	f.ahead = slices.Insert(f.ahead, i, s)
}

// Release gives slots back, because their jobs are durable or have ended: to those who
// wait, in the order of their arrival. Each slot that was taken is released once. It does not
// block.
func (f *Front[T]) Release(slots ...Slot[T]) {
	if len(slots) == 0 {
		return
	}
	now := f.now()
	f.mu.Lock()
	if len(slots) > f.held-f.queued {
		f.mu.Unlock()
		panic("local: Release: more slots than were taken")
	}
	f.free(now, slots...)
	f.unlock(false)
}

// free gives slots back. mu is held.
func (f *Front[T]) free(now time.Duration, slots ...Slot[T]) {
	f.drain.add(len(slots), f.busy.at(now))
	for _, s := range slots {
		f.leave(s)
	}
	f.counts.released += int64(len(slots))
	if f.held -= len(slots); f.held == 0 {
		f.busy.halt(now)
	}
	f.grant(now)
}

// leave gives back all of a slot but the slot itself. mu is held.
func (f *Front[T]) leave(s Slot[T]) {
	f.bytes -= s.size
	if f.weights != nil {
		f.weights.Release(s.size)
	}
	f.barriers.leave(s.number)
}

// Barrier returns a channel that closes when everything admitted before the call has
// left: released or evicted. What is admitted later does not hold it up. It does not block.
func (f *Front[T]) Barrier() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.barriers.raise(f.admissions, f.held)
}
