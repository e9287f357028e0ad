package bridge

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/local"
)

// Report tells what became of the jobs that were in memory when Shutdown was called.
type Report struct {
	// Enqueued is how many became durable meanwhile.
	Enqueued int
	// Returned are those that could not be made durable and never will be: they are the
	// caller's again.
	Returned []Returned
	// Uncertain are those that were sent and not answered: they may still run. Submit
	// them again under the same ID if they must.
	Uncertain []Returned
}

// Returned is a job that comes back to its owner, as it was submitted: see Job.
type Returned struct {
	ID, Kind    string
	Payload     []byte // as encoded
	Headers     map[string]string
	Delay       time.Duration
	NotBefore   time.Time
	Expiry      time.Duration // of the job, or else of its kind
	Unique      durable.Unique
	LimitKey    string
	MaxAttempts int
	Timeout     time.Duration
	Retention   time.Duration // of the job, or else of its kind
	Priority    int
	Err         error
}

// shutdown is the one shutdown of a queue.
type shutdown struct {
	done   chan struct{}
	report Report
	err    error
	left   bool // Run goes on, and lets go of the store at its end; guarded by the queue's mu
}

// Shutdown ends the queue: no more jobs come in, waiting callers of Submit get
// policy.ErrClosed, what was accepted is flushed to the store, and Run ends as it does when
// its context does. Tickets of durable jobs end detached; those jobs go on.
//
// It blocks until all of that is done, and until ctx's deadline at most; shortly before,
// it stops flushing and cuts Run's grace short. What could not be made durable is in the
// report. An error says that Run has not ended or that its handlers did not return.
//
// Shutdown is idempotent: a later or concurrent call waits for the first and returns the
// same. It may be called from a handler, with a deadline.
func (q *Queue) Shutdown(ctx context.Context) (Report, error) {
	by := reserve(ctx) // before anything is done: it panics for a nil ctx
	q.mu.Lock()
	down, first := q.down, q.down == nil
	if first {
		down = &shutdown{done: make(chan struct{})}
		q.down = down
	}
	running := q.running
	q.mu.Unlock()

	if first {
		q.shut(ctx, by, down, running)
		return down.report, down.err
	}
	select {
	case <-down.done:
		return down.report, down.err
	case <-ctx.Done():
		return Report{}, fmt.Errorf("bridge: shutdown: %w", context.Cause(ctx))
	}
}

func (q *Queue) shut(ctx context.Context, by time.Time, down *shutdown, running *run) {
	defer close(down.done)
	before := q.tally.by[EventEnqueued].Load()
	flushing, cancel := context.WithDeadline(ctx, by)
	defer cancel()

	q.front.Close()
	q.shipOnce.Do(func() {}) // none will be started from now on
	q.expiries.close()
	if running != nil {
		running.finish(ctx)
		defer context.AfterFunc(flushing, running.hasten)()
	}
	if q.ship != nil {
		select {
		case <-q.front.Barrier():
		case <-flushing.Done():
		}
		q.ship.closing = ctx
		q.ship.stop()
		<-q.ship.done
		down.report = Report{
			Enqueued:  int(q.tally.by[EventEnqueued].Load() - before),
			Returned:  q.ship.returned,
			Uncertain: q.ship.uncertain,
		}
	}
	if running != nil {
		down.err = running.await(ctx)
	} else if n := q.stuck.Load(); n > 0 { // since a Run that has ended
		down.err = fmt.Errorf("%w: %d", ErrStuck, n)
	}
	q.following.close(ctx)
	q.watched.DetachAll(ErrShutdown)
	q.mu.Lock()
	down.left = q.running != nil
	q.mu.Unlock()
	if !down.left {
		q.calls.close()
		defer q.calls.wait(ctx) // with their connections closed, they end now
	}
	if err := q.engine.Close(); err != nil && down.err == nil {
		down.err = fmt.Errorf("bridge: shutdown: %w", err)
	}
}

// reserve is when to stop flushing, so that there is time left to ask about what is in
// doubt before ctx ends.
func reserve(ctx context.Context) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Now().Add(100 * 365 * 24 * time.Hour)
	}
	return deadline.Add(-min(time.Second, time.Until(deadline)/4))
}

// ErrShutdown is the cause of what Shutdown ends or returns. It is local.ErrShutdown and matches policy.ErrClosed.
var ErrShutdown = local.ErrShutdown
