package local

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/seed-9dec4fca/weir/policy"
)

// Defaults of FrontOptions.
const (
	DefaultCapacity      = 1024
	DefaultMaxRetryAfter = 30 * time.Second
)

// FrontOptions configures a Front. Zero fields mean the default, negative ones are refused.
type FrontOptions[T any] struct {
	// Capacity is how many slots there are, one per job; 1024.
	Capacity int
	// Bytes bounds the payload of all held slots together; 0: not bounded by bytes.
	Bytes int64
	// Policy is for calls that give the zero Policy; policy.Reject().
	Policy policy.Policy
	// MaxRetryAfter is the longest RetryAfter of a rejection, and the one that is given
	// while nothing is known about the drain rate; 30 s.
	MaxRetryAfter time.Duration
	// Evicted is told of each job that DropOldest displaced, by the Admit call that
	// displaced it, before that returns and while no lock is held; nil: nobody is told.
	Evicted func(job T)
	// Backlog is asked for the share of the durable bound that is in use, 0 to 1, while
	// no lock is held; nil: 0.
	Backlog func() float64
	// Full is told once that the front has become full, and once that it no longer is, in
	// turns, by the call that made the difference, before that returns and while no lock is
	// held. It should be quick and must not panic; it may call the front. Changes that come
	// while it runs are told after it by the same call; of those that cancel each other out
	// it is not told. Nil: nobody is told.
	Full func(full bool)
	// Marks say when that is. Full at 1, no longer at 0.5; see policy.Marks.
	Marks policy.Marks
}

func (o *FrontOptions[T]) validate() error {
	switch {
	case o.Capacity < 0:
		return fmt.Errorf("local: FrontOptions.Capacity is negative: %d", o.Capacity)
	case o.Bytes < 0:
		return fmt.Errorf("local: FrontOptions.Bytes is negative: %d", o.Bytes)
	case o.MaxRetryAfter < 0:
		return fmt.Errorf("local: FrontOptions.MaxRetryAfter is negative: %v", o.MaxRetryAfter)
	}
	if err := o.Policy.Validate(); err != nil {
		return fmt.Errorf("local: FrontOptions.Policy: %w", err)
	}
	if err := o.Marks.Validate(); err != nil {
		return fmt.Errorf("local: FrontOptions.Marks: %w", err)
	}
	return nil
}

// Front is the bounded place where accepted jobs are until they are durable. A job
// takes a slot when it is admitted and gives it back at Release, wherever it is in between.
//
// Every method is safe for concurrent use, except that Take belongs to one goroutine.
type Front[T any] struct {
	capacity      int
	byteCapacity  int64 // 0: not bounded by bytes
	fallback      policy.Policy
	maxRetryAfter time.Duration
	evictedFn     func(T)
	backlogFn     func() float64
	arrived       func(*Slot[T]) // told, under mu, of each admission; nil: nobody
	start         time.Time      // all times below are since then

	// crowded: every slot is held, and the front is not closed. It is written under mu and looked at
	// without it first, by calls that would not wait, to be refused before they make anything.
	crowded atomic.Bool
	// measuring: sojourns are. Only a Func looks at them, so they are measured from the first
	// call with one on, from the beginning if the default policy is one. Written under mu.
	measuring atomic.Bool
	retired   sync.Pool               // waiters that have been
	handful   int                     // how many jobs a hand has; set where there is a crew to pick
	hand      atomic.Pointer[hand[T]] // goes before queue; written under mu; nil: none

	// jobs is the hand-over to a Take that waits. It is never closed. It has room for one job
	// and gets one only while parked is set, so that a send, under mu, never blocks.
	jobs chan Slot[T]

	// mu guards all that follows, and every decision on a slot is made under it, but for those of a hand.
	//
	// Order. A job goes to the end of queue in the critical section that admits it, also a
	// waiting caller's: whoever frees the room puts the job there and only then wakes the
	// caller. So the order of admission is the order in queue. A newcomer is admitted only if
	// nobody waits, and waiters are admitted from the first on, until one does not fit: nobody
	// is overtaken. The first one fits or not for two reasons only, room and being first;
	// grant runs wherever either changes: Release, an eviction with something left over, the first
	// waiter leaving.
	//
	// Hand-over. A Take that finds queue empty sets parked and waits. The next job admitted goes
	// to it directly, which clears parked, and counts as taken from then on: nobody evicts it.
	// So queue is empty while parked is set, and a Take whose context ends has been handed a job
	// if, and only if, parked is no longer set.
	//
	// Races. A waiter is admitted by being taken off the list, and gives up by taking
	// itself off it; Close takes all of them off. Whoever finds it on the list wins.
	//
	// What every admission and every release writes comes first, and apart from what is only read: that is what the
	// processors take from each other. All else that can be told from it is, or is written only where it changes.
	_           [cacheLine]byte
	mu          sync.Mutex
	held        int      // slots
	bytes       int64    // their payload
	admissions  uint64   // so far; numbers the slots
	queuedBytes int64    // the payload of those in queue
	queue       queue[T] // admitted and not taken, in the order of admission

	weights   *semaphore.Weighted // bytes as a bound; nil: none. TryAcquire only, waiters are ours
	highWater int                 // of held
	lined     time.Duration       // when queue was last empty before a job came
	parked    bool                // Take waits for a job
	waiters   waiters[T]
	barriers  barriers
	spare     *hand[T]          // the last one, for the next; nil: none
	closed    *policy.Rejection // once closed, what everybody gets
	counts    counts
	busy      stopwatch // runs while held > 0
	drain     drainRate
	slotTimed float64       // as slotTime has last looked
	glanced   int           // rejections since the last release
	jitter    uint64        // of the last rejection; see spread
	measured  time.Duration // sojourns are since then, once they are
	sojourns  sojourns
	alarm     alarm
}

// NewFront makes an empty front. It starts no goroutine.
func NewFront[T any](o *FrontOptions[T]) (*Front[T], error) {
	if o == nil {
		o = &FrontOptions[T]{}
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	f := &Front[T]{
		capacity:      o.Capacity,
		byteCapacity:  o.Bytes,
		fallback:      o.Policy,
		maxRetryAfter: o.MaxRetryAfter,
		evictedFn:     o.Evicted,
		backlogFn:     o.Backlog,
		start:         time.Now(),
		jitter:        rand.Uint64(),
		alarm:         alarm{hook: o.Full, marks: o.Marks.WithDefaults()},
	}
	if f.capacity == 0 {
		f.capacity = DefaultCapacity
	}
	if f.byteCapacity > 0 {
		f.weights = semaphore.NewWeighted(f.byteCapacity)
	}
	if f.fallback.IsZero() {
		f.fallback = policy.Reject()
	}
	if f.maxRetryAfter == 0 {
		f.maxRetryAfter = DefaultMaxRetryAfter
	}
	f.jobs = make(chan Slot[T], 1)
	f.measuring.Store(f.fallback.Kind() == policy.KindFunc)
	return f, nil
}

// now is monotonic, and follows the clock of a synctest bubble.
func (f *Front[T]) now() time.Duration { return time.Since(f.start) }

// Admit asks for a slot for a job whose payload has that size in bytes. What happens
// when there is none is up to p; it blocks only for policy.Wait, and ends by the context's
// deadline. The context bounds this call, never the job.
//
//   - true, nil: the job holds a slot and is on its way to Take
//   - false, nil: discarded, as policy.DropIncoming wants it
//   - false, a *policy.Rejection: refused; the caller keeps the job
//
// A context that has ended admits nothing. If a slot is granted to a waiting call while
// its context ends, exactly one of the two holds.
func (f *Front[T]) Admit(ctx context.Context, job T, size int64, p policy.Policy) (accepted bool, err error) {
	p, err = f.plan(p, size)
	if err == nil && size < 0 {
		err = fmt.Errorf("local: Admit: size is negative: %d", size)
	}
	if err == nil && p.Kind() == policy.KindWait && p.Max() == 0 {
		if _, bounded := ctx.Deadline(); !bounded {
			err = errors.New("local: Admit: a wait needs a deadline: give Wait a maximum or the context a deadline")
		}
	}
	if err != nil {
		return false, f.Refuse(policy.ReasonInvalid, policy.StageFront, err)
	}
	if ctx.Err() != nil {
		reason, cause := contextReason(ctx)
		return false, f.Refuse(reason, policy.StageFront, cause)
	}

	now := f.nowFor(p)
	f.mu.Lock()
	switch {
	case f.closed != nil:
		f.counts.rejected[policy.ReasonClosed]++
		f.mu.Unlock()
		return false, f.closed
	case f.byteCapacity > 0 && size > f.byteCapacity:
		return false, f.refuseAndUnlock(policy.ReasonTooLarge, policy.StageFront, 0, nil)
	case p.Kind() == policy.KindShed:
		return false, f.refuseAndUnlock(policy.ReasonShed, policy.StageFront, 0, nil)
	case f.tryEnter(job, size, now):
		f.unlock(false)
		return true, nil
	}
	return f.decideAndUnlock(ctx, job, size, p, now)
}

// tryEnter puts a job on its way if there is a slot for it now, and nobody waits for that. mu is held.
func (f *Front[T]) tryEnter(job T, size int64, now time.Duration) bool {
	if f.waiters.first != nil || !f.reserve(size, now) {
		return false
	}
	f.enter(job, size, now)
	return true
}

// decideAndUnlock does what p is for, where there was no slot. mu is held, and released.
func (f *Front[T]) decideAndUnlock(ctx context.Context, job T, size int64, p policy.Policy, now time.Duration) (bool, error) {
	switch p.Kind() {
	case policy.KindDropIncoming:
		f.counts.dropped++
		f.unlock(true)
		return false, nil
	case policy.KindDropOldest, policy.KindWait:
		f.recall()
		switch {
		case f.tryEnter(job, size, now): // by what has ended on the hand since
			f.unlock(false)
			return true, nil
		case p.Kind() == policy.KindDropOldest:
			return f.displaceAndUnlock(job, size, now)
		}
		return f.waitAndUnlock(ctx, job, size, p.Max(), now)
	}
	return false, f.refuseAndUnlock(policy.ReasonFull, policy.StageFront, 0, nil)
}

// nowFor is the time for a call with that policy, or unread if nothing will be made of it: reading
// the clock is a third of an accept.
func (f *Front[T]) nowFor(p policy.Policy) time.Duration {
	if f.measuring.Load() || p.Kind() == policy.KindWait && f.crowded.Load() {
		return f.now()
	}
	return unread
}

// cacheLine is the bytes of one, of nearly all processors.
const cacheLine = 64

// unread stands for a time that was not asked for.
const unread = time.Duration(-1)

// read is now, asked for if it was not before.
func (f *Front[T]) read(now time.Duration) time.Duration {
	if now == unread {
		return f.now()
	}
	return now
}

// refuseFull refuses a call that is to be refused for want of a slot, before anything is made for it. nil: it may have to be, or
// not.
func (f *Front[T]) refuseFull(ctx context.Context, size int64, p policy.Policy) *policy.Rejection {
	if !f.crowded.Load() {
		return nil
	}
	if p.IsZero() {
		p = f.fallback
	}
	if apt := p.Kind() == policy.KindReject && size >= 0 && (f.byteCapacity == 0 || size <= f.byteCapacity) && ctx.Err() == nil; !apt {
		return nil
	}
	f.mu.Lock()
	if f.collect(); !f.crowded.Load() { // a moment ago, or by what has ended on the hand
		f.mu.Unlock()
		return nil
	}
	return f.refuseAndUnlock(policy.ReasonFull, policy.StageFront, 0, nil)
}

// plan turns p into a plain policy: the default for the zero value, the decision of a Func.
func (f *Front[T]) plan(p policy.Policy, size int64) (policy.Policy, error) {
	if p.IsZero() {
		p = f.fallback
	}
	if p.Kind() != policy.KindFunc {
		return p, p.Validate()
	}
	// decide runs without mu: it is foreign code, and may panic.
	p, err := p.Plan(f.snapshot(size, f.now()))
	if err != nil || !p.IsZero() {
		return p, err
	}
	if f.fallback.Kind() == policy.KindFunc {
		return p, errors.New("local: Admit: decide returned the zero Policy, and the default policy is a Func too")
	}
	return f.fallback, nil
}

// reserve takes a slot of that size, if it fits. mu is held.
func (f *Front[T]) reserve(size int64, now time.Duration) bool {
	if f.held >= f.capacity {
		f.collect()
	}
	if f.held >= f.capacity || f.weights != nil && !f.weights.TryAcquire(size) {
		return false
	}
	if f.held == 0 {
		f.busy.run(f.read(now))
	}
	f.held++
	if f.held == f.capacity {
		f.crowded.Store(f.closed == nil)
	}
	f.bytes += size
	if f.held > f.highWater {
		f.collect()
		f.highWater = max(f.highWater, f.held)
	}
	return true
}

// enter puts a job that has a slot on its way. now is unread unless sojourns are measured. mu is
// held.
func (f *Front[T]) enter(job T, size int64, now time.Duration) {
	f.admissions++
	if f.parked {
		f.parked = false
		f.jobs <- Slot[T]{Job: job, size: size, number: f.admissions, admitted: now}
		return
	}
	if f.queue.n == 0 {
		f.lined = now
	}
	s := f.queue.push()
	s.Job, s.size, s.number, s.admitted = job, size, f.admissions, now
	f.queuedBytes += size
	if f.arrived != nil {
		f.arrived(s)
	}
}

// displaceAndUnlock admits a job in the place of the oldest queued ones. mu is held, and
// released.
func (f *Front[T]) displaceAndUnlock(job T, size int64, now time.Duration) (bool, error) {
	// What the evicted must make up for. While somebody waits, free room is spoken for.
	slots, bytes := 1, int64(0)
	if f.weights != nil {
		bytes = size
	}
	if f.waiters.first == nil {
		slots -= f.capacity - f.held
		if f.weights != nil {
			bytes -= f.byteCapacity - f.bytes
		}
	}
	if slots > f.queue.n || bytes > f.queuedBytes {
		return false, f.refuseAndUnlock(policy.ReasonFull, policy.StageFront, 0, nil)
	}
	room, roomBytes := make([]Slot[T], 0, 1), int64(0)
	for len(room) < slots || roomBytes < bytes {
		first := f.queue.first()
		room = append(room, *first)
		roomBytes += first.size
		f.drop()
	}
	f.depart(room)
	f.letGo(roomBytes)
	if f.weights != nil && !f.weights.TryAcquire(size) {
		panic("local: evicted jobs did not make the room they had")
	}
	f.bytes += size
	f.held += 1 - len(room) // in one step: the front has not been empty in between
	f.crowded.Store(f.held == f.capacity)
	f.counts.evicted += int64(len(room))
	f.enter(job, size, now)
	f.grant(now)
	f.unlock(true)
	if f.evictedFn != nil {
		for _, s := range room {
			f.evictedFn(s.Job)
		}
	}
	return true, nil
}

// Refuse counts a call that the caller of the front refuses by itself, and returns the
// rejection for it, with the front's numbers filled in. It does not block.
func (f *Front[T]) Refuse(reason policy.Reason, stage policy.Stage, cause error) *policy.Rejection {
	f.mu.Lock()
	return f.refuseAndUnlock(reason, stage, 0, cause)
}

// refuseAndUnlock counts a rejection and describes it. mu is held, and released.
func (f *Front[T]) refuseAndUnlock(reason policy.Reason, stage policy.Stage, waited time.Duration, cause error) *policy.Rejection {
	if reason != policy.ReasonFull || f.held < f.capacity { // else that is decided by what was collected
		f.collect()
	}
	f.counts.rejected[reason]++
	f.jitter += golden
	held, bytes, slotTime, before := f.held, f.bytes, f.slotTime(), float64(f.held+f.waiters.n)*spread(f.jitter)
	f.unlock(reason == policy.ReasonFull || reason == policy.ReasonPredicted)
	return &policy.Rejection{ // the one allocation, and not under mu
		Reason:       reason,
		Stage:        stage,
		Depth:        held,
		Capacity:     f.capacity,
		Bytes:        bytes,
		ByteCapacity: f.byteCapacity,
		Waited:       waited,
		RetryAfter:   f.retryAfter(reason, before, slotTime),
		Cause:        cause,
	}
}

// Close refuses every call from now on, and those that wait: they all get the same
// rejection, which matches policy.ErrClosed. What has been admitted stays and can be taken.
// It does not block and is idempotent.
func (f *Front[T]) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed != nil {
		return
	}
	f.collect()
	f.crowded.Store(false)
	f.closed = &policy.Rejection{
		Reason:       policy.ReasonClosed,
		Stage:        policy.StageFront,
		Depth:        f.held,
		Capacity:     f.capacity,
		Bytes:        f.bytes,
		ByteCapacity: f.byteCapacity,
	}
	for w := f.waiters.first; w != nil; w = f.waiters.first {
		f.waiters.remove(w)
		f.counts.rejected[policy.ReasonClosed]++
		w.wake(f.closed)
	}
}
