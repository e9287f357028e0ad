package local

import (
	"time"

	"github.com/seed-9dec4fca/weir/policy"
)

// FrontStats is the state of a front at one instant. Its counts add up:
//
//	Submitted = Accepted + the sum of Rejected + Dropped + Waiting
//	Accepted  = Released + Evicted + Length
type FrontStats struct {
	Submitted int64 // calls to Admit and Refuse
	Accepted  int64 // got a slot
	Dropped   int64 // discarded by DropIncoming
	Evicted   int64 // accepted, then displaced by DropOldest
	Released  int64 // slots given back by Release
	Rejected  [policy.NumReasons]int64

	Length    int // slots held now
	Capacity  int
	HighWater int // the most slots ever held
	Queued    int // of Length, those not taken yet
	Waiting   int // calls that wait for a slot

	Bytes        int64 // payload of the held slots
	ByteCapacity int64 // 0: not bounded by bytes

	DrainRate float64 // slots per second given back while any are held; 0: unknown
}

// RejectedTotal is the sum over all reasons.
func (s FrontStats) RejectedTotal() int64 {
	total := int64(0)
	for _, n := range s.Rejected {
		total += n
	}
	return total
}

// counts are the ends of calls that are not admissions, guarded by the front's mutex, and the evictions. The other counts
// follow from them.
type counts struct {
	dropped, evicted int64
	rejected         [policy.NumReasons]int64
}

// Stats reads all numbers at one instant. It does not block.
func (f *Front[T]) Stats() FrontStats {
	now := f.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats(now)
}

// stats is Stats while mu is held.
func (f *Front[T]) stats(now time.Duration) FrontStats {
	left := f.collect()
	s := FrontStats{
		Accepted:     int64(f.admissions),
		Dropped:      f.counts.dropped,
		Evicted:      f.counts.evicted,
		Released:     f.released(),
		Rejected:     f.counts.rejected,
		Length:       f.held,
		Capacity:     f.capacity,
		HighWater:    f.highWater,
		Queued:       f.queue.n + left,
		Waiting:      f.waiters.n,
		Bytes:        f.bytes,
		ByteCapacity: f.byteCapacity,
		DrainRate:    f.drain.perSecond(f.released(), f.busy.at(now)),
	}
	s.Submitted = s.Accepted + s.RejectedTotal() + s.Dropped + int64(s.Waiting)
	return s
}

// released is how many slots have been given back. mu is held.
func (f *Front[T]) released() int64 { return int64(f.admissions) - f.counts.evicted - int64(f.held) }

// Pressure says how close the front is to refusing, 0 to 1: the largest of the shares of
// slots, bytes and durable backlog in use. It does not block.
func (f *Front[T]) Pressure() float64 {
	backlog := f.backlog()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.collect()
	return max(backlog, f.fill())
}

// backlog asks for the durable share. mu is not held.
func (f *Front[T]) backlog() float64 {
	if f.backlogFn == nil {
		return 0
	}
	if share := f.backlogFn(); share > 0 { // not NaN
		return min(share, 1)
	}
	return 0
}

// snapshot is what a Func decides from. mu is not held.
func (f *Front[T]) snapshot(size int64, now time.Duration) policy.Snapshot {
	backlog := f.backlog()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.measuring.Load() {
		f.recall()
		f.measured = now
		f.measuring.Store(true)
		if f.sojourns.taken == unread {
			f.sojourns.taken = now
		}
	}
	busy := f.busy.lap(now)
	return policy.Snapshot{
		Length:       f.held,
		Capacity:     f.capacity,
		Bytes:        f.bytes,
		ByteCapacity: f.byteCapacity,
		Waiting:      f.waiters.n,
		Size:         size,
		HeadSojourn:  f.sojourns.head(now, f.standing(now)),
		MinSojourn:   f.sojourns.min(now, f.standing(now)),
		SinceEmpty:   busy,
		DrainRate:    f.drain.perSecond(f.released(), f.busy.at(now)),
		Backlog:      backlog,
	}
}

// standing is how long jobs may have been waiting to be taken without a break. With one
// taker that is as long as any slot is held: it is busy with those. With many, as a pool has
// them, held slots say nothing about whether the next one is taken at once. mu is held.
func (f *Front[T]) standing(now time.Duration) time.Duration {
	switch {
	case f.arrived == nil:
		return f.busy.lap(now)
	case f.queue.n == 0:
		return 0
	}
	return max(now-max(f.lined, f.measured), 0)
}

// sojourned notes that a job was taken now, which may be unread unless sojourns are measured, and perhaps others
// before it. mu is held.
func (f *Front[T]) sojourned(now, admitted time.Duration) {
	if f.measuring.Load() {
		f.sojourns.add(now, now-max(admitted, f.measured))
	} else if f.sojourns.taken != now {
		f.sojourns.taken = now
	}
}
