package local

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/seed-9dec4fca/weir/policy"
)

// waiter is a call to Admit that waits for room. It is on the list from then until
// somebody decides on it.
type waiter[T any] struct {
	job        T
	size       int64
	ready      chan struct{} // gets one once decided by somebody else
	timer      *time.Timer   // for the call's own limit; nil: none was needed yet
	refusal    *policy.Rejection
	listed     bool
	prev, next *waiter[T]
}

// wake tells the waiter, which has been taken off the list, what was decided: admitted
// if refusal is nil.
func (w *waiter[T]) wake(refusal *policy.Rejection) {
	w.refusal = refusal
	w.ready <- struct{}{}
}

// outcome is what was decided, once ready has told. The waiter may serve another call then.
func (f *Front[T]) outcome(w *waiter[T]) (bool, error) {
	refusal := w.refusal
	f.retire(w)
	if refusal != nil {
		return false, refusal
	}
	return true, nil
}

// enlist makes a waiter, of one that was before if there is one: its channel and its timer are
// dearer than the wait. mu is held.
func (f *Front[T]) enlist(job T, size int64) *waiter[T] {
	w, _ := f.retired.Get().(*waiter[T])
	if w == nil {
		w = &waiter[T]{ready: make(chan struct{}, 1)}
	}
	w.job, w.size = job, size
	f.waiters.push(w)
	return w
}

// retire keeps a waiter for another call. It is not listed, and ready is empty.
func (f *Front[T]) retire(w *waiter[T]) {
	if w.timer != nil {
		w.timer.Stop()
	}
	*w = waiter[T]{ready: w.ready, timer: w.timer}
	f.retired.Put(w)
}

// waiters is the list of them in the order of arrival, guarded by the front's mutex.
type waiters[T any] struct {
	first, last *waiter[T]
	n           int
}

func (l *waiters[T]) push(w *waiter[T]) {
	w.prev, w.listed = l.last, true
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
	l.n++
}

func (l *waiters[T]) remove(w *waiter[T]) {
	if w.prev == nil {
		l.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.listed = nil, nil, false
	l.n--
}

// waitAndUnlock waits for the job's turn, at most limit (0: no limit of its own) and while
// the context lasts. mu is held, and released.
func (f *Front[T]) waitAndUnlock(ctx context.Context, job T, size int64, limit, began time.Duration) (bool, error) {
	began = f.read(began)
	left, deadline := limit, time.Duration(math.MaxInt64) // the context's, on our clock
	if d, bounded := ctx.Deadline(); bounded {
		deadline = d.Sub(f.start)
		if left = deadline - began; limit > 0 {
			left = min(left, limit)
		}
	}
	if left <= 0 { // the deadline has passed, but the context does not know yet
		return false, f.refuseAndUnlock(policy.ReasonTimeout, policy.StageFront, 0, context.DeadlineExceeded)
	}
	if rate := f.drain.perSecond(f.released(), f.busy.at(began)); rate > 0 && float64(f.waiters.n+1)/rate > left.Seconds() {
		return false, f.refuseAndUnlock(policy.ReasonPredicted, policy.StageFront, 0, nil)
	}
	w := f.enlist(job, size)
	f.unlock(true)

	var timeout <-chan time.Time
	if limit > 0 {
		if w.timer == nil {
			w.timer = time.NewTimer(limit)
		} else {
			w.timer.Reset(limit)
		}
		timeout = w.timer.C
	}
	reason, cause := policy.ReasonTimeout, error(nil)
	select {
	case <-w.ready:
		return f.outcome(w)
	case <-ctx.Done():
		reason, cause = contextReason(ctx)
	case <-timeout:
		if ctx.Err() != nil {
			reason, cause = contextReason(ctx)
		} else if f.now() >= deadline {
			cause = context.DeadlineExceeded
		}
	}

	f.mu.Lock()
	if !w.listed { // decided, perhaps in the same instant
		f.mu.Unlock()
		<-w.ready
		return f.outcome(w)
	}
	now := f.now()
	first := f.waiters.first == w
	f.waiters.remove(w)
	f.retire(w)
	if first { // the next one may need less room
		f.grant(now)
	}
	return false, f.refuseAndUnlock(reason, policy.StageFront, max(now-began, 0), cause)
}

// grant admits waiters from the first on, until one does not fit. mu is held.
func (f *Front[T]) grant(now time.Duration) {
	for w := f.waiters.first; w != nil && f.reserve(w.size, now); w = f.waiters.first {
		f.waiters.remove(w)
		f.enter(w.job, w.size, now)
		w.wake(nil)
	}
}

// contextReason tells why a call whose context has ended is refused.
func contextReason(ctx context.Context) (policy.Reason, error) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return policy.ReasonTimeout, contextError(ctx)
	}
	return policy.ReasonCancelled, contextError(ctx)
}

// contextError is the error of a context that has ended; it matches the cause too.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
