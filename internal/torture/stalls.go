package main

import (
	"context"
	"time"
)

// A machine that has more to do than it can lets a process stand still, and one that stands still for most of a lease loses
// it. That breaks no promise. So every process watches itself, and the checker asks whether a lease that was lost,
// though nobody was frozen or cut off, was lost by somebody who stood still.

const (
	stallTick  = 20 * time.Millisecond
	stallNoted = 100 * time.Millisecond
	// stallExcuses is how much of the time before a loss excuses it: renewals come three times in a lease, of 2 s mostly.
	stallExcuses = 500 * time.Millisecond
	stallBefore  = 2500 * time.Millisecond
)

// watchStalls notes whenever the process stood still, until ctx ends.
func watchStalls(ctx context.Context, book *ledger) {
	tick := time.NewTicker(stallTick)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-tick.C:
			late := time.Since(last) - stallTick
			last = time.Now()
			if late >= stallNoted {
				book.note(entry{E: noteStall, N: late.Milliseconds()})
			}
		case <-ctx.Done():
			return
		}
	}
}

// stalled is for how long an actor stood still in the time that counts before a moment, or the conductor did, who has
// the same machine.
func (h *history) stalled(actor string, at int64) time.Duration {
	var most time.Duration
	for _, who := range []string{actor, conductor} {
		var sum time.Duration
		for _, s := range h.fate(who).stalls {
			late := time.Duration(s.N) * time.Millisecond
			if begin := s.T - int64(late); begin < at && s.T > at-int64(stallBefore) {
				sum += late
			}
		}
		most = max(most, sum)
	}
	return most
}

// inexcusable counts the leases that were lost by actors who did not stand still.
func (h *history) inexcusable() (n int) {
	for actor, f := range h.actors {
		for _, at := range f.lost {
			if h.stalled(actor, at) < stallExcuses {
				n++
			}
		}
	}
	return n
}
