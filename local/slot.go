package local

import (
	"context"
	"math"
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
	f.mu.Lock()
	if f.queue.n > 0 {
		defer f.mu.Unlock()
		return f.gather(buf, 0, limit, maxBytes), nil
	}
	f.parked = true
	f.mu.Unlock()
	select {
	case s := <-f.jobs:
		buf = append(buf, s)
	case <-ctx.Done():
		f.mu.Lock()
		alone := f.parked
		f.parked = false
		f.mu.Unlock()
		if alone {
			return buf, contextError(ctx)
		}
		buf = append(buf, <-f.jobs) // handed over in the same instant
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gather(buf, 1, limit, maxBytes), nil
}

// TryTake is Take without the wait: it appends nothing when nothing is there, or limit
// is less than 1. It may be called at any time, by any goroutine.
func (f *Front[T]) TryTake(buf []Slot[T], limit int, maxBytes int64) []Slot[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gather(buf, 0, limit, maxBytes)
}

// Drain takes everything that has not been taken, for after Close. The slots are still
// held: Release them like any other.
func (f *Front[T]) Drain() []Slot[T] { return f.TryTake(nil, math.MaxInt, math.MaxInt64) }

// Remove takes out those that match of the jobs that have not been taken, gives their slots back, and returns them in
// the order of admission. match is called for each, under the front's lock: it must be quick and must not call the front. It
// does not block.
func (f *Front[T]) Remove(match func(job T) bool) []T {
	now := f.now()
	f.mu.Lock()
	removed := f.queue.remove(nil, match)
	if len(removed) == 0 {
		f.mu.Unlock()
		return nil
	}
	jobs, bytes := make([]T, len(removed)), int64(0)
	for i := range removed {
		jobs[i] = removed[i].Job
		bytes += removed[i].size
	}
	f.queuedBytes -= bytes
	f.depart(removed)
	f.free(now, len(removed), bytes)
	f.unlock(false)
	return jobs
}

// gather takes up to limit jobs; the last so many of buf, 0 or 1, are the first of them. mu is held.
func (f *Front[T]) gather(buf []Slot[T], taken, limit int, maxBytes int64) []Slot[T] {
	if taken > 0 {
		maxBytes -= buf[len(buf)-1].size
	}
	for ; taken < limit && f.queue.n > 0; taken++ {
		first := f.queue.first()
		if taken > 0 && first.size > maxBytes {
			break
		}
		maxBytes -= first.size
		buf = append(buf, *first)
		f.drop()
	}
	if taken > 0 {
		// The last one came last, and has waited least.
		f.sojourned(f.now(), buf[len(buf)-1].admitted)
	}
	return buf
}

// drop removes the first of queue, which somebody has taken. mu is held.
func (f *Front[T]) drop() {
	f.queuedBytes -= f.queue.first().size
	f.queue.drop()
}

// Release gives slots back, because their jobs are durable or have ended: to those who
// wait, in the order of their arrival. Each slot that was taken is released once. It does not
// block.
func (f *Front[T]) Release(slots ...Slot[T]) {
	if len(slots) == 0 {
		return
	}
	now, bytes := f.now(), int64(0)
	for i := range slots {
		bytes += slots[i].size
	}
	f.mu.Lock()
	if len(slots) > f.held-f.queue.n {
		f.mu.Unlock()
		panic("local: Release: more slots than were taken")
	}
	f.depart(slots)
	f.free(now, len(slots), bytes)
	f.unlock(false)
}

// depart tells the barriers of slots that are given back. mu is held.
func (f *Front[T]) depart(slots []Slot[T]) {
	for i := range slots {
		if f.barriers.slots == 0 {
			return
		}
		f.barriers.leave(slots[i].number)
	}
}

// free gives n slots of that many bytes back; now may be unread. mu is held.
func (f *Front[T]) free(now time.Duration, n int, bytes int64) {
	if f.held == n {
		now = f.read(now)
	}
	if f.glanced != 0 {
		f.glanced = 0
	}
	f.letGo(bytes)
	if f.held == f.capacity {
		f.crowded.Store(false)
	}
	f.held -= n
	if now != unread { // those after the last look count with the next
		f.drain.note(f.released(), f.busy.at(now))
	}
	if f.held == 0 {
		f.busy.halt(now)
	}
	if f.waiters.first != nil {
		f.grant(now)
	}
}

// letGo gives bytes back. mu is held.
func (f *Front[T]) letGo(bytes int64) {
	f.bytes -= bytes
	if f.weights != nil {
		f.weights.Release(bytes)
	}
}

// Barrier returns a channel that closes when everything admitted before the call has
// left: released or evicted. What is admitted later does not hold it up. It does not block.
func (f *Front[T]) Barrier() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recall()
	return f.barriers.raise(f.admissions, f.held)
}
