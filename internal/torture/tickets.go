package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/local"
)

// tickets are those that an actor watches. Each has a goroutine, which ends with it, at the end of the queue at the latest.
type tickets struct{ sync.WaitGroup }

// rest waits until all have ended, or ctx has.
func (t *tickets) rest(ctx context.Context) {
	all := make(chan struct{})
	go func() {
		t.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-ctx.Done():
	}
}

// watch notes how a ticket ends. again is called if that is uncertain; nil: nobody.
func (a *actor) watch(ticket *bridge.Ticket, again func()) {
	a.watching.Go(func() {
		<-ticket.Done()
		state := ticket.State()
		e := entry{E: noteTicket, ID: ticket.ID(), S: state.String(), O: ticket.Duplicate()}
		if err := ticket.Err(); err != nil && state != local.Cancelled && state != local.Expired {
			e.S += ": " + err.Error()
		}
		e.N, _ = strconv.ParseInt(string(ticket.Result()), 10, 64)
		a.book.note(e)
		if again != nil && (state == local.Uncertain || state == local.Abandoned) {
			again()
		}
	})
}

// followSome follows jobs of others by their IDs, until ctx ends.
func (a *actor) followSome(ctx context.Context) {
	a.manyTimes(ctx, a.role.Follows, func(_ int, id string) {
		calling, end := context.WithTimeout(ctx, cancelLimit)
		defer end()
		if ticket, err := a.queues[0].Follow(calling, id); err == nil {
			a.book.note(entry{E: noteFollowed, ID: id})
			a.watch(ticket, nil)
		}
	})
}

// state is what a ticket has ended as.
func (e *entry) state() string {
	state, _, _ := strings.Cut(e.S, ":")
	return state
}

// allTold sees that every ticket of a process that was not killed has ended.
func (l *lab) allTold(h *history) {
	for id, j := range h.jobs {
		for actor, n := range j.acceptedBy {
			for _, e := range j.ends {
				if e.A == actor {
					n--
				}
			}
			l.require(n == 0 || len(h.fate(actor).killed) > 0, "%s was accepted by %s, and %d of its tickets have not ended", id, actor, n)
		}
	}
}

// checkTickets holds what watched tickets were told against what has become of their jobs. Those of killed processes
// tell nothing; those of a process that was shut down before its tickets had ended hung.
func (l *lab) checkTickets(h *history, p *picture) {
	told := map[string]int{}
	for id, j := range h.jobs {
		for _, e := range j.ends {
			hash, state := p.hashes[id], e.state()
			told[state]++
			if e.O != "" && e.O != id {
				hash = p.hashes[e.O]
			}
			is := hash["status"]
			switch state {
			case "completed":
				done := is == "completed" || is == "" && (len(j.completed) > 0 || j.mayBeOver(h))
				l.require(done, "%s: its ticket says completed, and it is %q", id, is)
				result, _ := strconv.ParseInt(hash["result"], 10, 64)
				l.require(is == "" || e.N == result, "%s: its ticket has the result %d, and %q is kept (of %s)", id, e.N, hash["result"], e.O)
			case "dead":
				l.require(is == "dead", "%s: its ticket says dead, and it is %q", id, is)
			case "cancelled":
				l.require(is == "cancelled" || is == "" && len(j.cancels) > 0 && len(j.completed) == 0, "%s: its ticket says cancelled, and it is %q", id, is)
			case "expired":
				l.require(is == "expired" || is == "" && len(j.completed) == 0, "%s: its ticket says expired, and it is %q", id, is)
			case "detached": // a duplicate is given up after a time, if the store cannot be asked about the first one
				l.require(is == "" && strings.Contains(e.S, bridge.ErrNoRecord.Error()) || e.O != "" && strings.Contains(e.S, durable.ErrInDoubt.Error()),
					"%s: its ticket was never told that it is %q: %s", id, is, e.S)
			case "refused":
				l.require(e.O != "" && is == "dead", "%s: its ticket says refused, and %q is %q: %s", id, e.O, is, e.S)
			case "uncertain", "abandoned": // whoever submits it again has another ticket
			default:
				l.require(is == "", "%s: its ticket says %s, and it is %q", id, e.S, is)
			}
		}
	}
	for state, n := range told {
		l.figure("told_"+state, n)
	}
	slices.Sort(l.figures[len(l.figures)-len(told):])
}
