package bridge

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/policy"
)

// run is one call of Run: the workers and the loops around them.
//
//	consume  claims jobs for the crew           one, on Run's goroutine
//	keep     renews the lease                   one for each identity, ended with it
//	tell     tells what handlers report         one for each identity, ended with it
//	settler  tells the store how runs ended     one
//	sweep    returns what dead processes hold   one
//	outlived counts handlers of a lost lease    one for each identity lost, for a second
//	crew     calls handlers                     one for each delivery under way, at most Workers
//
// Two contexts: stopped ends when nothing more is to be claimed; the handlers' contexts
// descend from the session that claimed their job, and end when it is lost or the grace is over.
type run struct {
	q       *Queue
	opts    RunOptions
	stopped context.Context // the fetch context
	stop    context.CancelCauseFunc
	hurry   chan struct{} // closed by Shutdown: no more grace
	done    chan struct{} // closed at the end, after err was set
	err     error

	hurryOnce sync.Once
	values    context.Context // of Run's context: what handlers find in theirs
	crew      *crew
	settler   *settler

	mu sync.Mutex // guards by
	by time.Time  // when Run is to have ended; zero: nobody has said
}

var errStopped = errors.New("bridge: queue is shutting down")

// Run takes jobs from the store and calls their handlers until ctx ends or Shutdown is
// called. It checks the store first; unreachable, it is waited for. At the end it stops
// claiming, lets handlers finish for the grace time, ends the contexts of the rest with
// ErrStopping, returns their jobs to the queue without charging an attempt, and returns nil.
//
// Other results: ErrRunning for a second concurrent Run, ErrNoHandler, policy.ErrClosed
// after Shutdown, policy.ErrUnusable with the cause when the check fails, ErrStuck when
// handlers ignored their contexts.
//
// Handlers' contexts carry the values of ctx but do not end with it.
func (q *Queue) Run(ctx context.Context, opts *RunOptions) error {
	o, err := opts.withDefaults()
	if err != nil {
		return err
	}
	r := &run{
		q: q, opts: o, values: context.WithoutCancel(ctx),
		hurry: make(chan struct{}), done: make(chan struct{}),
	}
	r.crew = newCrew(r)
	r.stopped, r.stop = context.WithCancelCause(ctx)
	defer r.stop(nil)
	if err := q.begin(r); err != nil {
		return err
	}
	r.err = r.run()
	q.mu.Lock()
	q.running = nil
	left := q.down != nil && q.down.left
	q.mu.Unlock()
	close(r.done)
	if left { // Shutdown could not wait, and closed what this Run has opened again since
		q.calls.close()
		if err := q.engine.Close(); err != nil {
			q.log.Warn("weir: the store was not closed in order", "error", err)
		}
	}
	return r.err
}

func (q *Queue) begin(r *run) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.down != nil:
		return fmt.Errorf("bridge: run: %w", ErrShutdown)
	case q.running != nil:
		return ErrRunning
	case !q.handled.Load():
		return ErrNoHandler
	}
	q.running = r
	return nil
}

func (r *run) run() error {
	if err := r.check(); err != nil || r.stopped.Err() != nil {
		return err
	}
	defer context.AfterFunc(r.stopped, func() { r.endBy(time.Now().Add(r.opts.Grace).Add(endWithin)) })()
	r.settler = newSettler(r)
	var loops sync.WaitGroup
	loops.Go(r.sweep)

	var s *session
	identities := r.q.storePacer("keep an identity")
	for r.stopped.Err() == nil {
		opened := time.Now()
		if s = r.open(); s == nil {
			break
		}
		s.consume()
		if r.stopped.Err() != nil {
			break
		}
		s.close() // lost: its handlers' contexts have ended; go on under a new identity
		lost := s
		loops.Go(func() { r.outlived(lost) })
		if time.Since(opened) > r.opts.Lease/2 {
			identities.ok()
		} else { // lost at once: the next one may be no better
			sleep(r.stopped, identities.fail(context.Cause(s.ctx)))
		}
	}
	stuck := r.drain(s)
	loops.Wait()
	if stuck > 0 {
		return fmt.Errorf("%w: %d", ErrStuck, stuck)
	}
	return nil
}

// check asks the store whether it can be used, for as long as it does not answer.
func (r *run) check() error {
	for p := r.q.storePacer("check"); ; {
		err := r.q.Check(r.stopped)
		if err == nil || errors.Is(err, policy.ErrUnusable) {
			return err
		}
		if !sleep(r.stopped, p.fail(err)) {
			return nil
		}
	}
}

// open obtains an identity, for as long as it takes. One that is being given at a stop is waited for a little: nobody would
// give it back.
func (r *run) open() *session {
	asking, endAsking := r.outlasting(context.Background())
	defer endAsking()
	for p := r.q.storePacer("open consumer"); ; {
		sent := time.Now()
		consumer, err := call(asking, r.q, callTimeout, func(ctx context.Context) (durable.Consumer, error) {
			return r.q.engine.OpenConsumer(ctx, r.opts.Lease)
		})
		if err == nil {
			return newSession(r, consumer, sent)
		}
		if !sleep(r.stopped, p.fail(err)) {
			return nil
		}
	}
}

// drain is the orderly end: grace for the handlers, then no more; every outcome told, every
// claim returned, as far as the store answers. It returns how many handlers are stuck.
func (r *run) drain(s *session) (stuck int) {
	idle := make(chan struct{})
	go func() { r.crew.busy.Wait(); close(idle) }() // ends with the last handler
	select {
	case <-idle:
	case <-r.hurry:
	case <-time.After(r.opts.Grace):
	}
	r.endBy(time.Now().Add(endWithin))
	if s != nil {
		s.end(ErrStopping)
	}
	select {
	case <-idle:
	case <-time.After(r.patience()):
		stuck = r.giveUp()
	}
	r.settler.drain(r.patience())
	if s != nil {
		s.leave(r.patience())
		s.close()
	}
	return stuck
}

// endBy is when Run wants to have ended, or Shutdown, whichever is sooner.
func (r *run) endBy(t time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by.IsZero() || t.Before(r.by) {
		r.by = t
	}
}

// outlasting is a context for an exchange whose answer is to be known also at a stop: it ends with ctx, and when the patience
// after a stop does, or the grace is cut short.
func (r *run) outlasting(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	unset := context.AfterFunc(r.stopped, func() {
		defer cancel()
		select {
		case <-time.After(r.patience()):
		case <-r.hurry:
		case <-ctx.Done():
		}
	})
	return ctx, func() { unset(); cancel() }
}

// patience is how long the next step of the end may take: stopWait, but never more than half of
// what is left, so that the steps after it have their turn too.
func (r *run) patience() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by.IsZero() {
		return stopWait
	}
	return max(min(stopWait, time.Until(r.by)/2), 0)
}

// finish makes Run end, by ctx's deadline if it has one.
func (r *run) finish(ctx context.Context) {
	if by, ok := ctx.Deadline(); ok {
		r.endBy(by)
	}
	r.stop(errStopped)
}

// giveUp returns the claims of the handlers that are still running, and counts them.
func (r *run) giveUp() (stuck int) {
	r.crew.each(func(e *execution) {
		if e.giveUp(ErrStopping); e.fate.Load() == givenUp { // now, or when its own time was over
			stuck++
		}
	})
	return stuck
}

// outlived counts the handlers that ignore the loss of their lease. What they return is told to the store all the
// same, which takes it if nobody else has the job yet.
func (r *run) outlived(lost *session) {
	if !sleep(r.stopped, stopWait) {
		return // drain gives them up
	}
	r.crew.each(func(e *execution) {
		if e.s == lost {
			e.countStuck(ErrLeaseLost)
		}
	})
}

// hasten cuts the grace short.
func (r *run) hasten() { r.hurryOnce.Do(func() { close(r.hurry) }) }

// await waits for Run to end.
func (r *run) await(ctx context.Context) error {
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
	}
	if r.ended() { // both at once
		return r.err
	}
	return fmt.Errorf("bridge: shutdown: Run has not ended: %w", context.Cause(ctx))
}

func (r *run) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// sweep returns what dead processes hold to the queue, now and then, and looks
// whether the store is still usable. When the store was away, as it may have been before
// Run, living consumers get one round of renewal to tell what they did meanwhile, before anybody
// is taken for dead.
func (r *run) sweep() {
	p := r.q.storePacer("sweep")
	away := true
	for {
		var swept durable.Swept
		var err error
		if away {
			err = r.q.learnBacklog(r.stopped)
		} else {
			swept, err = call(r.stopped, r.q, callTimeout, r.q.engine.Sweep)
		}
		wait := time.Duration(float64(r.opts.SweepEvery) * (0.75 + rand.Float64()/2)) // not all at once
		switch {
		case r.stopped.Err() != nil:
		case err != nil:
			wait, away = p.fail(err), true
		case away:
			p.ok()
			wait, away = r.opts.Lease/3, false
		default:
			p.ok()
			r.q.swept(swept)
			if swept.More {
				wait = time.Millisecond
			}
			r.q.recheck(r.stopped) //nolint:errcheck // it reports by itself; consuming goes on
		}
		if !sleep(r.stopped, wait) {
			return
		}
	}
}

func (q *Queue) swept(s durable.Swept) {
	q.tally.swept.Add(uint64(s.Returned))
	q.tally.sweptDead.Add(uint64(s.Dead))
	q.tally.sweptEnded.Add(uint64(s.Ended))
	q.trimmed(s.Trimmed)
	if s.Fenced > 0 || s.Returned > 0 || s.Dead > 0 || s.Ended > 0 {
		q.log.Warn("weir: returned the claims of lost workers", "consumers", s.Fenced, "returned", s.Returned, "dead", s.Dead, "ended", s.Ended)
	}
}

// trimmed reports dead letters that were discarded for good.
func (q *Queue) trimmed(n int) {
	if n == 0 {
		return
	}
	q.tally.trimmed.Add(uint64(n))
	q.log.Error("weir: dead letters were discarded to stay within their bound", "discarded", n)
	q.emit(Event{Type: EventTrimmed, Err: fmt.Errorf("bridge: %d dead letters discarded", n)})
}
