package bridge

import (
	"errors"
	"fmt"

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
		if p.Claimed() { // since
			p.MarkEnqueued()
		} else {
			p.MarkRequeued()
		}
	case durable.StateProcessing:
		p.MarkStarted()
	case durable.StateCompleted:
		q.complete(p, id, r.Result)
	case durable.StateDead:
		q.heard(p, id, local.Dead, errors.New(r.Reason))
	case durable.StateCorrupt:
		q.heard(p, id, local.Dead, fmt.Errorf("nobody can run it: %s", r.Reason))
	case durable.StateCancelled:
		q.heard(p, id, local.Cancelled, nil)
	case durable.StateExpired:
		q.heard(p, id, local.Expired, nil)
	}
}

// heard is finish for an end that the store tells of. If a consumer of this process has the job, that tells first: with the error itself.
func (q *Queue) heard(p *local.Promise, id string, state local.State, cause error) {
	f := &q.following
	if _, life := p.Origin(); f.engine != nil && (p.Claimed() || f.holds(id, life)) && f.later(ending{p: p, id: id, state: state, cause: cause}) {
		f.read()
		return
	}
	q.finish(p, id, state, cause)
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
