package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// Each producer comes with a burst of blocks at every tick, whether or not the last
// burst was done: more than any machine can checksum.
const (
	burst = 512
	tick  = 10 * time.Millisecond
	// maxPause is the longest that a refused producer stays away: the first refusal of all can
	// only guess, since nothing has been drained yet.
	maxPause = 20 * time.Millisecond
)

var policies = map[string]policy.Policy{
	"wait":        policy.Wait(100 * time.Millisecond),
	"reject":      policy.Reject(),
	"drop":        policy.DropIncoming(),
	"drop-oldest": policy.DropOldest(),
}

// site is a place in a program that submits jobs: a producer with a policy of its own,
// and what it was told.
type site struct {
	name    string
	policy  string
	tickets []*bridge.Ticket // of what was accepted and had not ended when last looked at
	ends    map[local.State]int64

	submitted, accepted, dropped atomic.Int64 // read while the producer runs
	rejected                     [policy.NumReasons]atomic.Int64
}

// sites are the producers: three with three needs, or all with one policy.
//
// None of the three drops the oldest: that displaces whatever stands first in the front,
// also what another call site has handed in, so it belongs in a queue where all agree to it.
func (o options) sites() []*site {
	sites := []*site{
		{name: "audit", policy: "wait"},     // must be done: slows down to what is possible
		{name: "request", policy: "reject"}, // somebody waits for the answer, and may come again
		{name: "sampling", policy: "drop"},  // one more or less does not matter
	}
	for _, s := range sites {
		if o.policy != "" {
			s.policy = o.policy
		}
		s.ends = map[local.State]int64{}
	}
	return sites
}

// offer submits blocks, round and round, until ctx ends.
func (s *site) offer(ctx context.Context, q *bridge.Queue, kind *bridge.Kind[block], blocks []block, w *watch) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	next := 0
	for {
		for range burst {
			if ctx.Err() != nil {
				return
			}
			pause := s.submit(ctx, q, kind, blocks[next%len(blocks)], w)
			next++
			if pause > 0 {
				// Told to come back later. Whoever comes at once only adds to the load.
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
				break
			}
		}
		s.look()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// look counts the tickets that have ended, and lets go of them.
func (s *site) look() {
	s.tickets = slices.DeleteFunc(s.tickets, func(t *bridge.Ticket) bool {
		state := t.State()
		if state.Ended() {
			s.ends[state]++
		}
		return state.Ended()
	})
}

// submit makes one call and counts what it was told. It returns for how long the
// caller was asked to stay away.
func (s *site) submit(ctx context.Context, q *bridge.Queue, kind *bridge.Kind[block], b block, w *watch) time.Duration {
	id := q.NewID()
	begun := w.begin(id)
	s.submitted.Add(1)
	ticket, err := kind.SubmitJob(ctx, bridge.Job[block]{ID: id, Value: b}, policies[s.policy])
	rejection, refused := errors.AsType[*policy.Rejection](err)
	switch {
	case refused:
		w.forget(id)
		s.rejected[rejection.Reason].Add(1)
		return min(rejection.RetryAfter, maxPause)
	case ticket.State() == local.Dropped:
		w.forget(id)
		s.dropped.Add(1)
	default:
		w.accepted(begun)
		s.accepted.Add(1)
		s.tickets = append(s.tickets, ticket)
	}
	return 0
}

// settle waits for the end of everything that was accepted.
func (s *site) settle(ctx context.Context) error {
	for _, t := range s.tickets {
		select {
		case <-t.Done():
		case <-ctx.Done():
			return fmt.Errorf("%s: job %s is still %s: %w", s.name, t.ID(), t.State(), context.Cause(ctx))
		}
	}
	s.look()
	return nil
}
