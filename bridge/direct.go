package bridge

import (
	"context"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

// Direct jobs: where a process produces and consumes, an append can claim in the same exchange, for workers that are
// free, if nothing waits that would be claimed before. Such a job is durable before it starts as any other
// is, and starts one round trip after it was sent.

// turn is held by whoever claims for a session.
type turn chan struct{}

func (t turn) take() { t <- struct{}{} }
func (t turn) end()  { <-t }

// takeSoon is take, unless soon is over before.
func (t turn) takeSoon(soon <-chan time.Time) bool {
	select {
	case t <- struct{}{}:
		return true
	case <-soon:
		return false
	}
}

// fewTaken is how few jobs are worth a request of their own while there are more.
const fewTaken = 64

// shortBacklog is what quick workers claim in a tenth of a second or less.
const shortBacklog = 16 * maxClaims

// taker is the session that can take so many jobs from an append now, with its turn held; nil: there is none, or it
// has seen that others wait. Under load it is waited for, as long as its workers are quick and for some milliseconds at
// most, so that there is room for want jobs, and so is a claim that will leave nothing: else append and claim would
// keep missing each other, and every job be written, read and written again.
func (q *Queue) taker(want int) (s *session, slots int) {
	s = q.session.Load()
	if s == nil || !s.drained.Load() && (!s.r.crew.quick() || q.backlog.Load() > shortBacklog) {
		return nil, 0
	}
	timer := time.NewTimer(ahead)
	defer timer.Stop()
	for !s.drained.Load() {
		select {
		case <-s.emptied:
		case <-timer.C:
			return nil, 0
		}
	}
	if !s.turn.takeSoon(timer.C) {
		return nil, 0
	}
	defer s.r.crew.signal()
	for s.lent() {
		if slots = s.slots(); slots >= want || slots > 0 && !s.r.crew.quick() || !s.r.crew.wait(timer.C) {
			break
		}
	}
	if slots = s.slots(); slots <= 0 || !s.lent() {
		s.turn.end()
		return nil, 0
	}
	return s, slots
}

// lent tells whether an append may take for s, if it has the turn and there is room.
func (s *session) lent() bool {
	return s.drained.Load() && s.ctx.Err() == nil && s.r.q.session.Load() == s
}

// lend lets appends take this session's turn, until it is called again.
func (s *session) lend() (end func()) {
	q := s.r.q
	q.session.Store(s)
	return func() {
		q.session.Store(nil)
		s.turn.take() // what is under way is waited for
		defer s.turn.end()
	}
}

// take makes the exchange for the shipper. The session's turn is held until begin was called, which starts what was handed
// over. In doubt, the session's next claim is under the number that this one has, and finds that.
func (s *session) take(from *shipper, producer durable.DirectProducer, n uint64, jobs []*durable.Job, slots int) (answer durable.Appended, begin func(), err error) {
	type handedOver struct {
		answer durable.Appended
		claims []*durable.Claim
	}
	ctx, cancel := context.WithCancel(from.ctx)
	defer cancel()
	defer context.AfterFunc(s.asking, cancel)()
	request := durable.ClaimRequest{N: s.claims, Slots: slots, MaxBytes: maxBatchBytes, Held: s.heldCount()}
	got, err := call(ctx, s.r.q, from.limit(), func(ctx context.Context) (handedOver, error) {
		answer, claims, err := producer.AppendFor(ctx, n, jobs, s.consumer, request)
		return handedOver{answer, claims}, err
	})
	// What was stored and not handed over waits, and so may others: until a claim has left nothing, none is tried.
	if err != nil || undelayed(jobs[:got.answer.Taken])-len(got.answer.Refused) > len(got.claims) {
		s.drained.Store(false)
	}
	if err != nil || len(got.claims) == 0 {
		return got.answer, s.turn.end, err
	}
	s.claims++
	claims, held := s.hold(got.claims)
	return got.answer, func() {
		defer s.turn.end()
		switch {
		case !held: // the lease is over: they come back
		case s.r.stopped.Err() != nil:
			s.r.putBack(claims, errStopped)
		default:
			s.r.crew.run(claims)
		}
	}, nil
}

func undelayed(jobs []*durable.Job) (n int) {
	for _, j := range jobs {
		if j.Delay == 0 {
			n++
		}
	}
	return n
}
