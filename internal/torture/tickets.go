package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/seed-9dec4fca/weir/bridge"
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

// watch notes how a ticket ends. What ends uncertain is offered again under its ID, if the role says so.
func (a *actor) watch(ctx context.Context, kind *bridge.Kind[task], job bridge.Job[task], ticket *bridge.Ticket) {
	a.watching.Go(func() {
		<-ticket.Done()
		state := ticket.State()
		e := entry{E: noteTicket, ID: job.ID, S: state.String(), O: ticket.Duplicate()}
		if err := ticket.Err(); err != nil && state != local.Cancelled && state != local.Expired {
			e.S += ": " + err.Error()
		}
		e.N, _ = strconv.ParseInt(string(ticket.Result()), 10, 64)
		a.book.note(e)
		if a.role.Again && (state == local.Uncertain || state == local.Abandoned) && ctx.Err() == nil {
			a.offer(ctx, kind, job)
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
		l.require(j.accepted == 0 || len(j.ends) > 0 || len(h.fate(actorOf(id)).killed) > 0, "%s was accepted, and its ticket has not ended", id)
	}
}

// checkTickets holds what watched tickets were told against what has become of their jobs. Those of killed processes
// tell nothing; those of a process that was shut down before its tickets had ended hung.
func (l *lab) checkTickets(h *history, p *picture) {
	told, unknown := map[string]int{}, 0
	for id, j := range h.jobs {
		hash := p.hashes[id]
		for _, e := range j.ends {
			state := e.state()
			told[state]++
			if e.O != "" && e.O != id {
				hash = p.hashes[e.O]
			}
			is := hash["status"]
			switch state {
			case "completed":
				done := is == "completed" || is == "" && (len(j.completed) > 0 || j.mayBeOver(h))
				l.require(done, "%s: its ticket says completed, and it is %q", id, is)
			case "dead":
				l.require(is == "dead", "%s: its ticket says dead, and it is %q", id, is)
			case "cancelled":
				l.require(is == "cancelled" || is == "" && len(j.cancels) > 0 && len(j.completed) == 0, "%s: its ticket says cancelled, and it is %q", id, is)
			case "expired":
				l.require(is == "expired" || is == "" && len(j.completed) == 0, "%s: its ticket says expired, and it is %q", id, is)
			case "detached":
				unknown++
				l.require(is == "" && strings.Contains(e.S, bridge.ErrNoRecord.Error()), "%s: its ticket was never told that it is %q: %s", id, is, e.S)
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
