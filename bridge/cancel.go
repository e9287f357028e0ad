package bridge

import (
	"context"
	"fmt"
	"sync"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/local"
)

// Cancel ends a job wherever it is, by its ID:
//
//   - in the front, or waiting in the store: it ends cancelled, at once, and is never run
//   - running, in whatever process: the context of its handler ends with ErrCancelled, here at once and elsewhere within about a
//     second. The answer says so: Running, and the Consumer that has it. What the handler makes of it counts: nil completes the job,
//     Permanent makes it dead, and with anything else it ends cancelled. It never waits or runs again, and no failure is counted
//
// Cancelled is what its ticket ends as, and what EventCancelled tells where it is seen.
//
// Errors: ErrEnded if the job has ended already, durable.ErrNoJob if there is none (any more), durable.ErrUnsupported if
// the engine cannot do it (for what is in the front it can), an id that is empty or longer than durable.MaxIDBytes, and those of
// every exchange with the store: durable.ErrNotExecuted, and durable.ErrInDoubt, after which to call again. After Shutdown it
// matches policy.ErrClosed.
//
// It blocks for two exchanges with the store, and before that while one is under way that may store the job; at
// most until ctx ends, whose error and cause it returns then: the job may be cancelled or not.
func (q *Queue) Cancel(ctx context.Context, id string) (durable.Cancelled, error) {
	if err := validateLength("cancel: the ID", id, durable.MaxIDBytes); err != nil {
		return durable.Cancelled{}, err
	}
	found := false
	for _, j := range q.front.Remove(func(j *job) bool { return j.id() == id }) {
		q.endUnstored(j, EventCancelled, local.Cancelled, nil)
		found = true
	}
	if !found {
		var err error
		if found, err = q.cancelTaken(ctx, id); err != nil {
			return durable.Cancelled{}, fmt.Errorf("bridge: cancel: %w", err)
		}
	}
	if found && q.watched.Find(id) == nil { // else that was a duplicate of one in the store
		return durable.Cancelled{}, nil
	}
	return q.cancelStored(ctx, id)
}

// cancelTaken has the shipper look for the job in its hands, and tells whether it was there and has ended. A job that has been sent
// is waited for until the answer is there: then it is in the store, or it is not.
func (q *Queue) cancelTaken(ctx context.Context, id string) (bool, error) {
	if s := q.front.Stats(); s.Length == s.Queued {
		return false, nil // there is nothing in its hands
	}
	left := q.front.Barrier() // the shipper may let go of all, and sleep
	w := q.cancels.want(id)
	var j *job
	select {
	case j = <-w.found:
	case <-left:
		if q.cancels.drop(w) {
			return false, nil
		}
		j = <-w.found
	case <-ctx.Done():
		q.cancels.drop(w)
		return false, context.Cause(ctx)
	}
	if j == nil {
		return false, nil
	}
	select {
	case <-j.Ticket().Enqueued():
		return j.Ticket().State() == local.Cancelled, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// cancelStored has the store end it.
func (q *Queue) cancelStored(ctx context.Context, id string) (durable.Cancelled, error) {
	o := q.Operator()
	info, err := o.lookup(ctx, "cancel", durable.LookupRequest{ID: id})
	if err != nil {
		return durable.Cancelled{}, err
	}
	switch info.State {
	case durable.StatePending, durable.StateScheduled, durable.StateProcessing:
	default:
		return durable.Cancelled{}, fmt.Errorf("bridge: cancel: %w: it is %s", ErrEnded, info.State)
	}
	cancelled, err := operate(ctx, o, "cancel", func(ctx context.Context, e durable.Operator) (durable.Cancelled, error) {
		// Whenever that is executed, it is about the job that was seen.
		return e.Cancel(ctx, durable.CancelRequest{ID: id, Life: info.Life})
	})
	switch {
	case err != nil:
	case cancelled.Running:
		for _, e := range q.runsOf(id) {
			e.work.cancel(ErrCancelled)
		}
	default:
		q.ended(EventCancelled, local.Cancelled, id, info.Kind, q.following.life(info.Life))
	}
	return cancelled, err
}

// ended takes up that the store has ended a job that nobody had claimed; life 0: of whatever life of its ID.
func (q *Queue) ended(event EventType, state local.State, id, kind string, life uint64) {
	q.count(event)
	if p := q.promise(id); p != nil && (life == 0 || p.IsOf(life)) {
		q.finish(p, id, state, nil)
	}
	q.tell(Event{Type: event, ID: id, Kind: kind})
}

// cancels are the jobs that Queue.Cancel wants looked for in the shipper's hands.
type cancels struct {
	some chan struct{} // a token when there may be one

	mu   sync.Mutex // guards list
	list []*wanted
}

// wanted is one of them.
type wanted struct {
	id    string
	found chan *job // gets the job, which has ended or was sent; nil: it is not there
}

func (c *cancels) init() { c.some = make(chan struct{}, 1) }

func (c *cancels) want(id string) *wanted {
	w := &wanted{id, make(chan *job, 1)}
	c.mu.Lock()
	c.list = append(c.list, w)
	c.mu.Unlock()
	select {
	case c.some <- struct{}{}:
	default:
	}
	return w
}

// drop takes one back; false: it is being answered.
func (c *cancels) drop(w *wanted) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, other := range c.list {
		if other == w {
			c.list = append(c.list[:i], c.list[i+1:]...)
			return true
		}
	}
	return false
}

func (c *cancels) take() []*wanted {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.list
	c.list = nil
	return list
}

// cancelWanted looks for what is wanted: what has not been sent ends.
func (s *shipper) cancelWanted() {
	list := s.q.cancels.take()
	for _, w := range list {
		var found *job
		for i, j := range s.hand {
			if j.id() != w.id || j.over {
				continue
			}
			if s.doubts == 0 || i >= s.request {
				s.end(j, local.Cancelled, nil)
			}
			found = j
		}
		w.found <- found
	}
	if len(list) > 0 {
		s.expire() // drops what is over
	}
}

// runsOf are the runs of a job here, under way or waiting for a worker: those are not begun once they are cancelled.
func (q *Queue) runsOf(id string) (runs []*execution) {
	q.mu.Lock()
	r := q.running
	q.mu.Unlock()
	if r == nil {
		return nil
	}
	c := r.crew
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, all := range [][]*execution{c.seats, c.waiting} {
		for _, e := range all {
			if e != nil && e.claim.ID == id {
				runs = append(runs, e)
			}
		}
	}
	return runs
}
