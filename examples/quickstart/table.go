package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/examples/internal/scene"
	"github.com/seed-9dec4fca/weir/local"
)

// callSites is what each producer was told, from its own count.
func callSites(sites []*site) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-10s %-12s %10s %10s %10s %10s %10s\n",
		"call site", "policy", "submitted", "accepted", "rejected", "dropped", "evicted")
	for _, s := range sites {
		fmt.Fprintf(&b, "%-10s %-12s %10d %10d %10d %10d %10d\n", s.name, s.policy,
			s.submitted.Load(), s.accepted.Load(), s.rejections(), s.dropped.Load(), s.ends[local.Evicted])
	}
	return b.String()
}

// jobs is the account of the queue; its sums are checked by whoever reads it.
func jobs(s bridge.Stats, sites []*site) string {
	account := scene.Account{Cancelled: ended(sites, local.Cancelled)}
	account.Add(s)
	return account.Table()
}

// disagreements compares what the callers were told, on their calls and on their
// tickets, with what the queue has counted.
func disagreements(s bridge.Stats, sites []*site) error {
	var submitted, accepted, rejected, dropped int64
	for _, site := range sites {
		submitted += site.submitted.Load()
		accepted += site.accepted.Load()
		rejected += site.rejections()
		dropped += site.dropped.Load()
	}
	var errs []error
	agree := func(what string, callers, queue int64) {
		if callers != queue {
			errs = append(errs, fmt.Errorf("%s: the callers counted %d, the queue %d", what, callers, queue))
		}
	}
	agree("submitted", submitted, s.Front.Submitted)
	agree("accepted", accepted, s.Front.Accepted)
	agree("rejected", rejected, s.Front.RejectedTotal())
	agree("dropped", dropped, s.Front.Dropped)
	agree("evicted", ended(sites, local.Evicted), s.Front.Evicted)
	agree("refused", ended(sites, local.Refused), int64(s.Counters.Refused))
	agree("abandoned", ended(sites, local.Abandoned), int64(s.Counters.Abandoned))
	agree("uncertain", ended(sites, local.Uncertain), int64(s.Counters.Uncertain))
	agree("completed", ended(sites, local.Completed), int64(s.Counters.Completed))
	agree("dead", ended(sites, local.Dead), int64(s.Counters.Dead))
	return errors.Join(errs...)
}

func ended(sites []*site, state local.State) int64 {
	var n int64
	for _, s := range sites {
		n += s.ends[state]
	}
	return n
}

func (s *site) rejections() int64 {
	var n int64
	for i := range s.rejected {
		n += s.rejected[i].Load()
	}
	return n
}
