package scene

import (
	"fmt"
	"strings"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/policy"
)

// Account is what became of jobs, added up over any number of queues and processes. When
// all is quiet
//
//	Submitted = Accepted + Rejected + Dropped
//	Accepted  = Enqueued + Duplicate + Evicted + Refused + Abandoned + Uncertain + Cancelled + Expired + InMemory
//	Enqueued  = Completed + Dead
type Account struct {
	Submitted, Accepted, Dropped, Evicted                int64
	Rejected                                             [policy.NumReasons]int64
	Duplicate, Refused, Abandoned, Uncertain, InMemory   int64
	Cancelled, Expired                                   int64 // in the front
	Enqueued, Completed, Retried, Dead, Stale, Delivered int64
}

// Add adds what one queue of one process has counted.
func (a *Account) Add(s bridge.Stats) {
	c := s.Counters
	a.Merge(Account{
		Submitted: s.Front.Submitted, Accepted: s.Front.Accepted, Dropped: s.Front.Dropped, Evicted: s.Front.Evicted,
		Rejected: s.Front.Rejected, Refused: int64(c.Refused), Abandoned: int64(c.Abandoned), Uncertain: int64(c.Uncertain),
		Duplicate: int64(c.Duplicate), Cancelled: int64(c.FrontCancelled), Expired: int64(c.FrontExpired),
		InMemory: int64(s.Front.Length), Enqueued: int64(c.Enqueued), Completed: int64(c.Completed),
		Retried: int64(c.Retried), Dead: int64(c.Dead), Stale: int64(c.Stale), Delivered: int64(c.Started),
	})
}

// Merge adds another account, of another process for example.
func (a *Account) Merge(b Account) {
	for i := range a.Rejected {
		a.Rejected[i] += b.Rejected[i]
	}
	for into, n := range map[*int64]int64{
		&a.Submitted: b.Submitted, &a.Accepted: b.Accepted, &a.Dropped: b.Dropped, &a.Evicted: b.Evicted,
		&a.Refused: b.Refused, &a.Abandoned: b.Abandoned, &a.Uncertain: b.Uncertain, &a.Cancelled: b.Cancelled,
		&a.Duplicate: b.Duplicate, &a.Expired: b.Expired,
		&a.InMemory: b.InMemory, &a.Enqueued: b.Enqueued, &a.Completed: b.Completed, &a.Retried: b.Retried,
		&a.Dead: b.Dead, &a.Stale: b.Stale, &a.Delivered: b.Delivered,
	} {
		*into += n
	}
}

// RejectedTotal is the sum over all reasons.
func (a *Account) RejectedTotal() (total int64) {
	for _, n := range a.Rejected {
		total += n
	}
	return total
}

// Table is the account for a person, and for internal/check/sums, which adds it up again.
func (a *Account) Table() string {
	var b strings.Builder
	row := func(name string, n int64) { fmt.Fprintf(&b, "  %-22s %10d\n", name, n) }
	b.WriteString("\njobs\n")
	row("submitted", a.Submitted)
	row("accepted", a.Accepted)
	row("rejected", a.RejectedTotal())
	for reason := range policy.NumReasons {
		if n := a.Rejected[reason]; n > 0 {
			row("rejected, "+reason.String(), n)
		}
	}
	row("dropped", a.Dropped)
	row("evicted", a.Evicted)
	row("duplicate", a.Duplicate)
	row("refused", a.Refused)
	row("abandoned", a.Abandoned)
	row("uncertain", a.Uncertain)
	row("cancelled", a.Cancelled)
	row("expired", a.Expired)
	row("in memory", a.InMemory)
	row("enqueued", a.Enqueued)
	row("completed", a.Completed)
	row("retried", a.Retried)
	row("dead", a.Dead)
	return b.String()
}

// Balanced reports whether nobody's job has been lost between the rows.
func (a *Account) Balanced() bool {
	return a.Submitted == a.Accepted+a.RejectedTotal()+a.Dropped &&
		a.Accepted == a.Enqueued+a.Duplicate+a.Evicted+a.Refused+a.Abandoned+a.Uncertain+a.Cancelled+a.Expired+a.InMemory &&
		a.Enqueued == a.Completed+a.Dead
}
