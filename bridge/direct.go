package bridge

import (
	"context"

	"github.com/seed-9dec4fca/weir/durable"
)

// Direct jobs: where a process produces and consumes, an append can claim in the same exchange, for workers that are
// free, if nothing waits that would be claimed before. Such a job is durable before it starts as any other
// is, and starts one round trip after it was sent.

// taker is the session that can take so many jobs from an append now, with its turn held; nil: there is none, or it is
// claiming, or has seen that others wait.
func (q *Queue) taker() (s *session, slots int) {
	s = q.session.Load()
	if s == nil || !s.drained.Load() || !s.turn.TryLock() {
		return nil, 0
	}
	if slots = s.slots(); q.session.Load() != s || s.ctx.Err() != nil || slots <= 0 {
		s.turn.Unlock()
		return nil, 0
	}
	return s, slots
}

// lend lets appends take this session's turn, until it is called again.
func (s *session) lend() (end func()) {
	q := s.r.q
	q.session.Store(s)
	return func() {
		q.session.Store(nil)
		s.turn.Lock() // what is under way is waited for
		defer s.turn.Unlock()
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
		return got.answer, s.turn.Unlock, err
	}
	s.claims++
	claims, held := s.hold(got.claims)
	return got.answer, func() {
		defer s.turn.Unlock()
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
