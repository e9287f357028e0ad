package durabletest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/anishathalye/porcupine"

	"github.com/seed-9dec4fca/weir/durable"
)

// A history is what several processes asked of a queue, and what they were told, with the times of both.
// It is right if it can be explained job by job: if for each ID there is an order of all that concerned it,
// true to what came before what, in which every answer is that of the life below. A claim that a lost consumer
// may no longer have is the one thing that nobody reports: it may have come back at any time.

// deed is what was asked about one job. A batch is several, in the same time.
type deed struct {
	id      string
	what    deedKind
	token   string // of a settle
	verdict durable.Verdict
	most    int // attempts
}

type deedKind string

const (
	deedAppend deedKind = "append"
	deedClaim  deedKind = "claim"
	deedSettle deedKind = "settle"
)

// told is the answer: of an append whether it is a duplicate, of a settle its code, of a claim what it gave.
type told struct {
	duplicate                     bool
	code                          durable.Code
	token                         string
	mortal                        bool // the claim's consumer may be lost
	deliveries, attempts, crashes int
}

// life is one job of the store, by what is known of it.
type life struct {
	phase                         phase
	token                         string // of the claim
	mortal                        bool
	deliveries, attempts, crashes int
}

type phase string

const (
	absent  phase = "" // not there: never, or not any more
	waits   phase = "waits"
	claimed phase = "claimed"
	dead    phase = "dead"
)

// returned are the lives that a life may have become by itself.
func (l life) returned(maxCrashes int) []any {
	all := []any{l}
	if l.phase == claimed && l.mortal {
		back := l
		back.phase, back.token, back.mortal = waits, "", false
		all = append(all, back)
		back.crashes++
		if back.crashes >= maxCrashes {
			back.phase = dead
		}
		all = append(all, back)
	}
	return all
}

// after tells whether the answer is right, and what the life is then.
func (l life) after(d deed, a told) (bool, life) {
	switch d.what {
	case deedAppend:
		if a.duplicate {
			return l.phase != absent, l
		}
		return l.phase == absent, life{phase: waits}
	case deedClaim:
		ok := l.phase == waits && a.deliveries == l.deliveries+1 && a.attempts == l.attempts && a.crashes == l.crashes
		l.phase, l.token, l.mortal, l.deliveries = claimed, a.token, a.mortal, a.deliveries
		return ok, l
	}
	holds := l.phase == claimed && l.token == d.token
	l.token, l.mortal = "", false
	switch a.code {
	case durable.CodeGone:
		return l.phase == absent, l
	case durable.CodeDead:
		ok := holds && d.verdict == durable.Retry && l.attempts+1 >= d.most
		l.phase = dead
		return ok, l
	case durable.CodeOK:
	default: // stale: nothing is changed
		return false, l
	}
	switch d.verdict {
	case durable.Done:
		return holds, life{}
	case durable.Dead:
		l.phase = dead
		return holds, l
	case durable.Retry:
		l.attempts++
		holds = holds && l.attempts < d.most
	case durable.Snooze, durable.Release:
	}
	l.phase = waits
	return holds, l
}

// lives is the model of one ID.
func lives(maxCrashes int) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			of := map[string][]porcupine.Operation{}
			for _, o := range history {
				of[o.Input.(deed).id] = append(of[o.Input.(deed).id], o)
			}
			var all [][]porcupine.Operation
			for _, ops := range of {
				all = append(all, ops)
			}
			return all
		},
		Init: func() []any { return []any{life{}} },
		Step: func(state, input, output any) (next []any) {
			d, a := input.(deed), output.(told)
			for _, s := range state.(life).returned(maxCrashes) {
				l := s.(life)
				if d.what == deedSettle && a.code == durable.CodeStale {
					if l.phase != absent && l.token != d.token {
						next = append(next, l)
					}
					continue
				}
				if ok, then := l.after(d, a); ok {
					next = append(next, then)
				}
			}
			return next
		},
	}
	return m.ToModel()
}

// history records what concurrent actors ask and are told.
type history struct {
	tick atomic.Int64

	mu  sync.Mutex
	ops []porcupine.Operation
}

// begin is the time before a request is sent for the first time.
func (h *history) begin() int64 { return h.tick.Add(1) }

// note adds what was asked since begin, and answered now.
func (h *history) note(begin int64, deeds []deed, answers []told) {
	end := h.tick.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range deeds {
		h.ops = append(h.ops, porcupine.Operation{Input: deeds[i], Call: begin, Output: answers[i], Return: end})
	}
}

// tells reports whether there is such an answer.
func (h *history) tells(such func(told) bool) bool {
	return slices.ContainsFunc(h.ops, func(o porcupine.Operation) bool { return such(o.Output.(told)) })
}

// unexplained checks the history of each job, and returns those that no order explains.
func (h *history) unexplained(maxCrashes int) (wrong []string) {
	model := lives(maxCrashes)
	for _, ops := range model.Partition(h.ops) {
		if porcupine.CheckOperations(model, ops) {
			continue
		}
		slices.SortFunc(ops, func(x, y porcupine.Operation) int { return int(x.Call - y.Call) })
		var b strings.Builder
		for _, o := range ops {
			d, a := o.Input.(deed), o.Output.(told)
			fmt.Fprintf(&b, "  %d-%d %s", o.Call, o.Return, d.what)
			switch d.what {
			case deedAppend:
				fmt.Fprintf(&b, ": duplicate %v\n", a.duplicate)
			case deedClaim:
				fmt.Fprintf(&b, ": token %s, delivery %d, %d attempts, %d crashes; may be lost: %v\n", a.token, a.deliveries, a.attempts, a.crashes, a.mortal)
			case deedSettle:
				fmt.Fprintf(&b, " %c under %s: %c\n", d.verdict, d.token, a.code)
			}
		}
		wrong = append(wrong, ops[0].Input.(deed).id+":\n"+b.String())
	}
	return wrong
}
