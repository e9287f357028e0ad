package bridge

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

// session is one consumer identity: from its opening until it is left or lost. What it
// claimed stays its own; outcomes are told under it even when another has followed.
type session struct {
	r        *run
	consumer durable.Consumer
	// ctx is the work context: handlers' contexts descend from it. It ends with ErrLeaseLost, or
	// with ErrStopping after the grace time.
	ctx context.Context
	end context.CancelCauseFunc

	asking context.Context // ends when no claim's answer is waited for any more; set by consume
	// turn is held while a claim is under way, by consume or by the shipper; it guards claims.
	turn    turn
	claims  uint64 // number of the next claim
	settles uint64 // number of the next settle; the settler's
	skipped bool   // one of these was given up: that the store has not seen it is no news; the settler's

	kept    sync.WaitGroup // the keeper
	keeping context.Context
	endKeep context.CancelFunc
	fence   *time.Timer // ends ctx when the lease does
	dropped chan struct{}
	drained atomic.Bool   // the last claim left nothing
	emptied chan struct{} // a token when it has
	untold  chan struct{} // a token when there is something for the teller; nil: there is none

	mu    sync.Mutex // guards what follows; following locks its own before this one
	until time.Time  // the lease, less a margin, by the local monotonic clock
	held  map[*execution]struct{}
}

func newSession(r *run, consumer durable.Consumer, sent time.Time) *session {
	s := &session{
		r: r, consumer: consumer, claims: 1, settles: 1, turn: make(turn, 1), emptied: make(chan struct{}, 1),
		dropped: make(chan struct{}, 1), held: map[*execution]struct{}{},
	}
	s.ctx, s.end = context.WithCancelCause(r.values)
	s.keeping, s.endKeep = context.WithCancel(context.Background())
	s.fence = time.AfterFunc(r.opts.Lease, s.checkLease)
	s.extend(sent)
	s.kept.Go(s.keep)
	has := &r.q.info.Capabilities
	if teller, ok := consumer.(durable.Teller); ok && (has.Cancel || has.Results) {
		s.untold = make(chan struct{}, 1)
		s.kept.Go(func() { s.tell(teller) })
	}
	r.q.following.consumes(s)
	return s
}

// close ends the keeper, the teller and the work context.
func (s *session) close() {
	s.r.q.following.leaves(s)
	s.endKeep()
	s.fence.Stop()
	s.kept.Wait()
	s.end(ErrStopping)
}

// extend notes a renewal that was sent at a time and confirmed. The margin is for clocks that
// run at different speeds, and for what lies between the end of a context and of a handler.
func (s *session) extend(sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = sent.Add(s.r.opts.Lease - s.r.opts.Lease/10)
	s.fence.Reset(time.Until(s.until))
}

// checkLease is the fence timer: no renewal was confirmed in time.
func (s *session) checkLease() {
	if !s.alive() {
		s.lose(errors.New("could not be renewed in time"))
	}
}

// alive tells whether the lease is certainly still ours.
func (s *session) alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.until) && s.ctx.Err() == nil
}

// lose gives the identity up: the claims may be somebody else's from now on.
func (s *session) lose(why error) {
	s.mu.Lock()
	lost := s.ctx.Err() == nil
	held := len(s.held)
	if lost {
		s.end(because(ErrLeaseLost, why))
		s.endKeep()
	}
	s.mu.Unlock()
	if !lost {
		return
	}
	if held > 0 { // else there is nothing to tell, but that it may go on like that: see run
		s.r.q.log.Error("weir: lease lost, its claims are given up", "consumer", s.consumer.ID(), "claims", held, "why", why)
	}
	s.r.q.emit(Event{Type: EventLeaseLost, Err: why})
}

// keep renews the lease by a clock of its own, whatever else is slow.
func (s *session) keep() {
	every := s.r.opts.Lease / 3
	p := newPacer(s.r.q.log, "renew", every/20, every/4)
	wait := every
	for sleep(s.keeping, wait) {
		wait = every
		if err := s.renew(); err != nil {
			wait = p.fail(err)
			continue
		}
		p.ok()
	}
}

// renew makes one renewal. It is safe for concurrent use.
func (s *session) renew() error {
	sent := time.Now()
	_, err := call(s.keeping, s.r.q, s.r.opts.Lease/3, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.consumer.Renew(ctx, s.r.opts.Lease)
	})
	switch {
	case err == nil:
		s.extend(sent)
	case errors.Is(err, durable.ErrFenced):
		s.lose(err)
	}
	return err
}

// hold notes claims that were answered; false if the answer came after the lease.
func (s *session) hold(claims []*durable.Claim) ([]*execution, bool) {
	q := s.r.q
	var superseded []ending
	defer func() {
		for _, e := range superseded {
			q.superseded(e.p, e.id)
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !time.Now().Before(s.until) || s.ctx.Err() != nil {
		return nil, false
	}
	held := make([]*execution, len(claims))
	var life uint64
	for i, c := range claims {
		if i == 0 || c.Life != claims[i-1].Life {
			life = q.following.life(c.Life)
		}
		ticket, older := q.claimed(c.ID, life)
		if older != nil {
			superseded = append(superseded, ending{p: older, id: c.ID})
		}
		held[i] = &execution{r: s.r, s: s, claim: c, how: q.handling(c.Kind), ticket: ticket, work: work{Context: s.ctx}}
		s.held[held[i]] = struct{}{}
	}
	return held, true
}

// drop notes claims whose settling was answered.
func (s *session) drop(settled []*execution) {
	s.mu.Lock()
	for _, e := range settled {
		delete(s.held, e)
	}
	s.mu.Unlock()
	select {
	case s.dropped <- struct{}{}:
	default:
	}
}

func (s *session) heldCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}

// holds tells whether it has the job with that ID and of that life; 0: of any. ended: one whose run has ended.
func (s *session) holds(id string, life uint64, ended bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.held {
		if e.claim.ID == id && (!ended || e.fate.Load() != undecided) && (life == 0 || life == s.r.q.following.life(e.claim.Life)) {
			return true
		}
	}
	return false
}

func (s *session) heldRefs() []durable.Ref {
	s.mu.Lock()
	defer s.mu.Unlock()
	refs := make([]durable.Ref, 0, len(s.held))
	for e := range s.held {
		refs = append(refs, e.ref())
	}
	return refs
}

// leave returns to the queue what the identity still holds, charging nobody. Unfinished, the
// lease does it later.
func (s *session) leave(limit time.Duration) {
	if errors.Is(context.Cause(s.ctx), ErrLeaseLost) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for more := true; more; {
		var err error
		if more, err = call(ctx, s.r.q, callTimeout, s.consumer.Leave); err != nil {
			s.r.q.log.Warn("weir: could not leave in order, the lease will end by itself", "consumer", s.consumer.ID(), "error", err)
			return
		}
	}
}
