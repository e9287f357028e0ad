package local

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/seed-9dec4fca/weir/policy"
)

// What the end of a pool comes with, and of a queue: package bridge has the same values under the same names.
var (
	// ErrStopping is the cause with which the contexts of running tasks end.
	ErrStopping = errors.New("local: stopping")
	// ErrShutdown is why tasks that were never run are abandoned. It matches policy.ErrClosed.
	ErrShutdown = fmt.Errorf("local: shut down: %w", policy.ErrClosed)
	// ErrStuck: tasks went on running after their contexts had ended. Their tickets stay
	// open until they return.
	ErrStuck = errors.New("local: tasks or handlers did not return")
	// ErrRunning: Run was called while another Run of the same pool is going on.
	ErrRunning = errors.New("local: running already")
)

// stopWait is what tasks get to return after their contexts have ended.
const stopWait = time.Second

// PoolReport tells what Shutdown or Run found undone.
type PoolReport struct {
	// Returned are the tasks that were accepted and never begun, in the order in which they
	// were accepted. They will never run here; their tickets have ended as abandoned.
	Returned []ReturnedTask
}

// ReturnedTask is a task that comes back to its owner.
type ReturnedTask struct {
	Ticket *Ticket
	Size   int64
	work   work
	number uint64
}

// Do runs the task after all, on the caller's goroutine, with the handler of its Kind if it
// has one. The ticket has ended and does not change.
func (r ReturnedTask) Do(ctx context.Context) error { return r.work.do(ctx, r.Ticket, r.number) }

// Shutdown ends the pool: nothing more is accepted, and waiting callers of Submit get
// policy.ErrClosed. It blocks until every accepted task has ended, or until shortly before
// ctx's deadline (a second, or a quarter of the time if that is less), or until ctx is cancelled.
// Then tasks that have not begun are handed back, the contexts of running ones end with the
// cause ErrStopping, and it waits for those until ctx ends.
//
// With a nil error no task runs any more, every ticket has ended, and no goroutine is left. Else
// it is ErrStuck; call it again to go on waiting.
//
// It is idempotent: each call waits as long as its own ctx allows, the first to lose
// patience stops the tasks for all, and all get the same report. It may be called by a
// task, with a deadline.
func (p *Pool) Shutdown(ctx context.Context) (PoolReport, error) {
	p.front.Close()
	patient, cancel := context.WithDeadline(ctx, reserve(ctx))
	defer cancel()
	select {
	case <-p.front.Barrier():
	case <-patient.Done():
	}
	return p.end(patient, ctx)
}

// end stops the pool, cancels the tasks when patient ends, and waits for them until last ends.
func (p *Pool) end(patient, last context.Context) (PoolReport, error) {
	p.stopOnce.Do(p.stop)
	select {
	case <-p.gone:
	case <-patient.Done():
		p.cancel(ErrStopping)
		select {
		case <-p.gone:
		case <-last.Done():
		}
	}
	report := PoolReport{Returned: p.returned}
	if running := p.Stats().Running; running > 0 {
		return report, fmt.Errorf("%w: %d", ErrStuck, running)
	}
	<-p.gone // those who are left have nothing to do but to leave
	p.cancel(ErrStopping)
	return report, nil
}

// stop takes out what has not begun, and lets the workers go. The front is closed.
func (p *Pool) stop() {
	f := p.front
	now := f.now()
	f.mu.Lock()
	f.recall()
	bytes := f.queuedBytes
	slots := f.gather(nil, 0, math.MaxInt, math.MaxInt64)
	f.depart(slots)
	f.free(now, len(slots), bytes)
	p.crew.ends.Abandoned += int64(len(slots))
	p.crew.stopped = true
	p.crew.resize(0)
	p.crew.goneIfEmpty()
	f.unlock(false)
	for _, s := range slots {
		t := s.Job
		if t.holder == nil { // now somebody is told after all
			t.holder = newHolder(nil)
			t.holder.ticket.number.Store(int64(s.number))
		}
		p.returned = append(p.returned, ReturnedTask{Ticket: &t.holder.ticket, Size: s.size, work: t.work, number: s.number})
		t.finish(Abandoned, ErrShutdown)
	}
}

// reserve is when to lose patience, so that there is time left for tasks to return.
func reserve(ctx context.Context) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Now().Add(100 * 365 * 24 * time.Hour)
	}
	return deadline.Add(-min(time.Second, time.Until(deadline)/4))
}

// RunOptions configures Pool.Run. Zero fields mean the default, negative ones are refused.
type RunOptions struct {
	// Workers is how many tasks run at once, at most; as PoolOptions say.
	Workers int
	// Grace is how long running tasks may go on after Run's context has ended, before
	// their own contexts do; 25 s.
	Grace time.Duration
}

const defaultGrace = 25 * time.Second

// Run blocks until ctx ends or the pool has been shut down. When ctx ends nothing more is
// accepted and nothing more begins; running tasks get the grace time, then their contexts end
// with ErrStopping. What was not begun is in the report of a later Shutdown. It returns nil, or
// ErrStuck when tasks ignored their contexts, ErrRunning for a second concurrent Run, and
// policy.ErrClosed after Shutdown.
//
// A pool works without it, from the first task on. It is what a program that is moved to a
// durable queue later, or comes from one, has around its life.
func (p *Pool) Run(ctx context.Context, o *RunOptions) error {
	if o == nil {
		o = &RunOptions{}
	}
	grace := o.Grace
	switch {
	case o.Workers < 0:
		return fmt.Errorf("local: RunOptions.Workers is negative: %d", o.Workers)
	case o.Grace < 0:
		return fmt.Errorf("local: RunOptions.Grace is negative: %v", o.Grace)
	case o.Grace == 0:
		grace = defaultGrace
	}
	if !p.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer p.running.Store(false)
	if p.front.isClosed() {
		return fmt.Errorf("local: run: %w", ErrShutdown)
	}
	if o.Workers > 0 {
		if err := p.Resize(o.Workers); err != nil {
			return err
		}
	}
	select {
	case <-p.gone:
		return nil
	case <-ctx.Done():
	}
	p.front.Close()
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	last, cancelLast := context.WithTimeout(context.WithoutCancel(ctx), grace+stopWait)
	defer cancelLast()
	_, err := p.end(patient, last)
	return err
}

// isClosed reports whether nothing is accepted any more.
func (f *Front[T]) isClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed != nil
}
