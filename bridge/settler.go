package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/local"
)

// settler tells the store how runs ended: in batches, one at a time, each under the identity
// that claimed the jobs, and asked again until it is answered.
type settler struct {
	r     *run
	ctx   context.Context
	stop  context.CancelFunc
	ended chan struct{}
	some  chan struct{} // a token when the queue may not be empty

	mu    sync.Mutex   // guards queue
	queue []*execution // the batch under way is still in it
}

func newSettler(r *run) *settler {
	t := &settler{r: r, ended: make(chan struct{}), some: make(chan struct{}, 1)}
	t.ctx, t.stop = context.WithCancel(context.Background())
	go t.run()
	return t
}

func (t *settler) add(outcomes ...*execution) {
	t.mu.Lock()
	t.queue = append(t.queue, outcomes...)
	t.mu.Unlock()
	t.signal()
}

func (t *settler) signal() {
	select {
	case t.some <- struct{}{}:
	default:
	}
}

// drain waits until everything is told, for limit at most, and ends the settler. What is
// left then is unsettled: its jobs come back by the end of the lease.
func (t *settler) drain(limit time.Duration) {
	deadline := time.AfterFunc(limit, t.stop)
	defer deadline.Stop()
	t.add(nil) // the last: ends run
	<-t.ended
	t.stop()
}

func (t *settler) run() {
	defer close(t.ended)
	for {
		select {
		case <-t.some:
		case <-t.ctx.Done():
		}
		for {
			batch, last := t.batch()
			if len(batch) == 0 {
				if last {
					return
				}
				break
			}
			t.settle(batch)
			t.mu.Lock()
			n := copy(t.queue, t.queue[len(batch):])
			clear(t.queue[n:])
			t.queue = t.queue[:n]
			t.mu.Unlock()
		}
	}
}

// batch returns the first outcomes that share a session, and whether the end was reached.
func (t *settler) batch() (batch []*execution, last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	bytes := 0
	for _, o := range t.queue {
		if o == nil {
			return batch, true
		}
		bytes += len(o.outcome.Result)
		if len(batch) == maxClaims || len(batch) > 0 && (o.s != batch[0].s || bytes > maxBatchBytes) {
			break
		}
		batch = append(batch, o)
	}
	return batch, false
}

// settle asks until it is answered: the same outcomes under the same number.
func (t *settler) settle(batch []*execution) {
	s := batch[0].s
	outcomes := make([]durable.Outcome, len(batch))
	for i, o := range batch {
		outcomes[i] = o.outcome
	}
	n, since := s.settles, time.Now()
	s.settles++
	p := t.r.q.storePacer("settle")
	for {
		settled, err := call(t.ctx, t.r.q, callTimeout, func(ctx context.Context) (durable.Settled, error) {
			return s.consumer.Settle(ctx, n, outcomes)
		})
		switch {
		case err == nil:
			p.ok()
			t.answered(batch, settled) // what is not held any more has been told
			s.drop(batch)
			return
		case errors.Is(err, durable.ErrNoSender), errors.Is(err, durable.ErrOutdated):
			s.lose(err)
		case time.Since(since) >= t.r.q.opts.PersistWithin:
			s.skipped = true
			s.lose(err) // a number is given up with its identity only, or the next one looks like a gap
		case sleep(t.ctx, p.fail(err)):
			continue
		}
		t.unsettled(batch, err)
		s.drop(batch)
		return
	}
}

// answered tells the owners.
func (t *settler) answered(batch []*execution, settled durable.Settled) {
	q := t.r.q
	if settled.Gap && !batch[0].s.skipped {
		q.lostWrites("settle")
	}
	q.trimmed(settled.Trimmed)
	for i, o := range batch {
		event := Event{
			Type: o.event, ID: o.claim.ID, Kind: o.claim.Kind, Deliveries: o.claim.Deliveries,
			Delay: o.outcome.Delay, Err: o.err,
		}
		switch settled.Codes[i] {
		case durable.CodeDead:
			event.Type, event.Delay = EventDead, 0
		case durable.CodeCancelled:
			event.Type, event.Delay = EventCancelled, 0
		case durable.CodeGone:
			event.Type, event.Err = EventGone, ErrGone
		case durable.CodeStale:
			event.Type = EventStale
		}
		if event.Delay > 0 && settled.Codes[i] == durable.CodeOK {
			q.dues.note(event.Delay)
		}
		q.count(event.Type)
		o.find()
		if o.ticket != nil {
			o.moveTicket(event)
		}
		q.tell(event)
	}
}

// moveTicket brings the ticket where the store says that the job is.
func (e *execution) moveTicket(event Event) {
	q, id := e.r.q, e.claim.ID
	switch event.Type {
	case EventCompleted:
		q.complete(e.ticket, id, e.outcome.Result)
	case EventCancelled:
		q.finish(e.ticket, id, local.Cancelled, e.err)
	case EventDead:
		q.finish(e.ticket, id, local.Dead, e.err)
	case EventGone:
		q.finish(e.ticket, id, local.Cancelled, ErrGone)
	case EventStale: // the job is somebody else's now
		e.disown(true)
	default:
		e.ticket.MarkRequeued()
		e.disown(false)
	}
}

// disown lets go of the ticket of a job that has not ended here. Where others have it for sure, or may have had it before the store
// had answered, what was heard of that was taken to be older than the claim: the store is asked.
func (e *execution) disown(lost bool) {
	q := e.r.q
	unsure, superseded := q.watched.Unclaim(e.ticket)
	switch {
	case superseded:
		q.superseded(e.ticket, e.claim.ID)
		return
	case !lost && !unsure:
		return
	}
	_, life := e.ticket.Origin()
	e.ticket.SetOrigin(0, life) // whoever looks from now on asks
	if e.ticket.LookedAt() {
		q.following.ask(e.claim.ID)
	}
}

// find looks again for a ticket: somebody may have come to share the end of the job since it was claimed.
func (e *execution) find() {
	if q := e.r.q; (e.ticket == nil || e.ticket.Ticket().State().Ended()) && q.shared.Load() {
		ticket, superseded := q.claimed(e.claim.ID, q.following.life(e.claim.Life))
		q.superseded(superseded, e.claim.ID)
		e.ticket = ticket
	}
}

// unsettled gives up on telling the store: the jobs will run again, if they were not told
// after all.
func (t *settler) unsettled(batch []*execution, err error) {
	t.r.q.log.Error("weir: outcomes could not be told to the store, their jobs may run again", "outcomes", len(batch), "error", err)
	for _, o := range batch {
		t.r.q.count(EventUnsettled)
		o.find()
		if o.ticket != nil {
			o.ticket.MarkRequeued()
			o.disown(true)
		}
		t.r.q.tell(Event{
			Type: EventUnsettled, ID: o.claim.ID, Kind: o.claim.Kind, Deliveries: o.claim.Deliveries,
			Err: fmt.Errorf("%w: %w", ErrUnsettled, err),
		})
	}
}
