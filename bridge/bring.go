package bridge

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/local"
)

// bring brings a watched ticket where the store says that its job is.
func (q *Queue) bring(p *local.Promise, id string, r durable.Record) {
	if r.Progress != nil {
		p.MarkProgress(r.Progress)
	}
	switch r.State {
	case durable.StatePending, durable.StateScheduled:
		p.HeardRequeued()
	case durable.StateProcessing:
		p.HeardStarted()
	case durable.StateCompleted:
		q.heard(ending{p: p, id: id, state: local.Completed, result: r.Result})
	case durable.StateDead:
		q.heard(ending{p: p, id: id, state: local.Dead, cause: errors.New(r.Reason)})
	case durable.StateCorrupt:
		q.heard(ending{p: p, id: id, state: local.Dead, cause: fmt.Errorf("nobody can run it: %s", r.Reason)})
	case durable.StateCancelled:
		q.heard(ending{p: p, id: id, state: local.Cancelled})
	case durable.StateExpired:
		q.heard(ending{p: p, id: id, state: local.Expired})
	}
}

// ending is an end that the store has told of; as Detached, that it has no record of the job.
type ending struct {
	p      *local.Promise
	id     string
	state  local.State
	cause  error
	result []byte
	when   time.Duration // set by following.later
}

// heard ends the ticket, or leaves that to the consumer of this process that has the job, which is about to know: it counts the end
// before it tells of it, and has the error itself.
func (q *Queue) heard(e ending) {
	if f := &q.following; f.engine == nil || !f.mayTell(e.p, e.id, e.state) || !f.later(e) {
		q.apply(e)
		return
	}
	q.following.read()
}

// apply ends the ticket.
func (q *Queue) apply(e ending) {
	if e.state == local.Completed {
		q.complete(e.p, e.id, e.result)
	} else {
		q.finish(e.p, e.id, e.state, e.cause)
	}
}

// complete ends the ticket of a job that has completed.
func (q *Queue) complete(p *local.Promise, id string, result []byte) {
	p.Complete(result)
	q.watched.Forget(id, p)
}

// finish ends the ticket of one that has ended otherwise, or that nobody will tell of.
func (q *Queue) finish(p *local.Promise, id string, state local.State, cause error) {
	p.End(state, cause)
	q.watched.Forget(id, p)
}
