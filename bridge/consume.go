package bridge

import (
	"context"
	"errors"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/local"
)

// consume claims jobs for the crew until Run is to stop or the session is lost.
//
// Nothing is asked for that cannot be run at once or soon. When there is nothing, one Await is
// parked in the store; whatever ends it, or the due time of a scheduled job, leads to a claim.
func (s *session) consume() {
	defer s.r.crew.clear(errStopped)
	ctx, cancel := context.WithCancel(s.ctx) // ends with the session, or when claiming is to stop
	defer cancel()
	defer context.AfterFunc(s.r.stopped, cancel)()
	// A claim that is under way at a stop is waited for a little: jobs that nobody here knows of
	// would be held until the grace is over.
	asking, endAsking := s.r.outlasting(s.ctx)
	defer endAsking()
	s.asking = asking
	defer s.lend()()

	parked := parking{s: s, store: s.r.q.storePacer("wait for jobs")}
	paused := newPacer(s.r.q.log, "claim", 50*time.Millisecond, 500*time.Millisecond)
	for {
		s.room(ctx)
		s.checkLease()                                    // the opening may have taken longer
		if ctx.Err() != nil || s.r.stopped.Err() != nil { // perhaps both at once; and ctx ends a moment after stopped
			return
		}
		claimed, drained, err := s.step(ctx, asking)
		if err != nil {
			return
		}
		switch {
		case claimed.Status == durable.ClaimPaused:
			sleep(ctx, paused.pause())
		case claimed.Status == durable.ClaimLimited:
			paused.ok()
			s.awaitTurn(ctx, claimed.NextDue)
		case drained:
			paused.ok()
			parked.wait(ctx, claimed.NextDue)
		default:
			paused.ok()
		}
	}
}

// step makes one claim, with the turn, and has the crew run what it gave. drained: it left nothing.
func (s *session) step(ctx, asking context.Context) (claimed durable.Claimed, drained bool, err error) {
	s.turn.take()
	defer s.turn.end()
	slots := s.slots()
	if slots <= 0 { // an append has had the turn, and taken the room
		return claimed, false, nil
	}
	s.r.q.dues.forget()
	if claimed, err = s.claim(ctx, asking, slots); err != nil {
		return claimed, false, err
	}
	s.r.q.tally.lastClaim.Store(time.Now().UnixNano())
	s.report(claimed)
	switch claims, held := s.hold(claimed.Jobs); {
	case held && ctx.Err() != nil:
		s.r.putBack(claims, errStopped)
	case held:
		s.r.crew.run(claims)
	}
	s.r.q.noteClaims(claimed.Status == durable.ClaimPaused)
	drained = claimed.Status == durable.ClaimEmpty || claimed.Drained
	s.drained.Store(drained)
	if drained {
		select {
		case s.emptied <- struct{}{}:
		default:
		}
	}
	return claimed, drained, nil
}

// room waits until claims can be run, or ctx ends.
// A worker is idle when its handler has returned, though the store may not have been told yet: an identity holds at most two
// claims for each worker and for each place ahead of one, one that runs or waits and one that is being settled. So the store has something to do
// while handlers run, and one that refuses to settle piles nothing up here.
func (s *session) room(ctx context.Context) {
	for s.slots() <= 0 {
		select {
		case <-s.r.crew.changed:
		case <-s.dropped:
		case <-ctx.Done():
			return
		}
	}
}

// slots is for how many more claims there is room, up to a batch.
func (s *session) slots() int {
	return min(s.r.crew.room(), 2*(s.r.opts.Workers+aheadMost)-s.heldCount(), maxClaims)
}

// claim asks until it is answered: the same request under the same number. It does not ask
// again once ctx has ended; asking is what the answer is waited for with.
func (s *session) claim(ctx, asking context.Context, slots int) (durable.Claimed, error) {
	p := s.r.q.storePacer("claim")
	request := durable.ClaimRequest{N: s.claims, Slots: slots, MaxBytes: maxBatchBytes, Held: s.heldCount()}
	for {
		claimed, err := call(asking, s.r.q, callTimeout, func(ctx context.Context) (durable.Claimed, error) {
			return s.consumer.Claim(ctx, request)
		})
		switch {
		case err == nil && claimed.Status == durable.ClaimReconcile:
			s.r.q.log.Warn("weir: the store holds claims for this consumer that it does not know, they are returned", "consumer", s.consumer.ID())
			request.N++
			request.Named = s.heldRefs()
			request.Held = len(request.Named)
			s.claims = request.N
			if !sleep(ctx, p.pause()) { // it may say so again
				return claimed, errStopped
			}
			continue
		case err == nil:
			p.ok()
			s.claims = request.N + 1
			return claimed, nil
		case errors.Is(err, durable.ErrFenced), errors.Is(err, durable.ErrNoSender), errors.Is(err, durable.ErrOutdated):
			s.lose(err)
			return claimed, err
		case errors.Is(err, durable.ErrLeaseExpired) && s.renew() == nil:
			if !sleep(ctx, p.pause()) {
				return claimed, err
			}
			continue
		}
		if !sleep(ctx, p.fail(err)) {
			return claimed, err
		}
	}
}

// report tells what else a claim found.
func (s *session) report(c durable.Claimed) {
	if c.Gap {
		s.r.q.lostWrites("claim")
	}
	for _, id := range c.Expired {
		s.r.q.ended(EventExpired, local.Expired, id, "", 0)
	}
	if c.Dropped > 0 || c.Corrupt > 0 {
		s.r.q.log.Warn("weir: entries without a job were removed from the queue", "dropped", c.Dropped, "quarantined", c.Corrupt)
	}
}

// awaitTurn waits until the limits of the queue may allow another claim: after due, or when this process has ended one.
func (s *session) awaitTurn(ctx context.Context, due time.Duration) {
	if due < 0 || due > durable.Park {
		due = durable.Park
	}
	timer := time.NewTimer(max(due, time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.dropped:
	case <-ctx.Done():
	}
}

// parking is the one Await of a session.
type parking struct {
	s     *session
	woken chan error // of the Await that is under way; nil: none is
	store *pacer
}

// wait returns when there may be something to claim: the Await has returned, or
// the next scheduled job is due. An Await that outlasts the due time goes on; the next
// wait finds it again. A store that refuses to block is asked with back-off instead.
func (p *parking) wait(ctx context.Context, due time.Duration) {
	if p.woken == nil {
		p.woken = make(chan error, 1)
		woken := p.woken
		p.s.r.q.calls.begin(func() {
			awaiting, cancel := context.WithTimeout(ctx, durable.Park+callTimeout)
			defer cancel()
			woken <- p.s.consumer.Await(awaiting)
		})
	}
	if due < 0 || due > durable.Park {
		due = 2 * durable.Park // the Await is back by then, unless its connection is dead
	}
	dues := &p.s.r.q.dues
	until := dues.before(time.Now().Add(due))
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for {
		select {
		case err := <-p.woken:
			p.woken = nil
			if err != nil && ctx.Err() == nil {
				sleep(ctx, p.store.fail(err))
				return
			}
			p.store.ok()
			return
		case <-dues.sooner:
			until = dues.before(until)
			timer.Reset(time.Until(until))
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
