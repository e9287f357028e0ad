package bridge

import (
	"context"
	"time"

	"github.com/seed-9dec4fca/weir/policy"
)

// Submitted is what became of one of many jobs: a ticket or an error, as Submit returns them. Exactly one of the
// two is set.
type Submitted struct {
	Ticket *Ticket
	Err    error
}

// SubmitMany is Submit for each of the values, one after the other, with the outcomes in their order: p decides for each
// of them by itself, so that some may be accepted and others not. It is no transaction.
//
// The limit of a Wait is that of the whole call: what is left of it, and of ctx, is how long the next value may wait.
// Once it is used up each value that is left is accepted if there is room at that instant, and refused otherwise. A
// Func decides for each value, and a Wait that it plans is for that value alone: ctx bounds the call. With DropOldest the
// later of more values than there is room for may evict the earlier ones; their tickets say so.
func (k *Kind[T]) SubmitMany(ctx context.Context, values []T, p policy.Policy) []Submitted {
	out := make([]Submitted, len(values))
	next := k.q.sharing(p)
	for i, value := range values {
		out[i].Ticket, out[i].Err = k.Submit(ctx, value, next())
	}
	return out
}

// SubmitJobs is SubmitMany for jobs with IDs and settings of their own. Of two with the same ID the later one is a
// duplicate: its ticket follows the first.
func (k *Kind[T]) SubmitJobs(ctx context.Context, jobs []Job[T], p policy.Policy) []Submitted {
	out := make([]Submitted, len(jobs))
	next := k.q.sharing(p)
	for i := range jobs {
		out[i].Ticket, out[i].Err = k.SubmitJob(ctx, jobs[i], next())
	}
	return out
}

// sharing gives the policy for the next of several calls that share the limit of p, if it has one.
func (q *Queue) sharing(p policy.Policy) (next func() policy.Policy) {
	if p.IsZero() && q != nil { // else each call is refused
		p = q.opts.Policy
	}
	limit := p.Max()
	if p.Kind() != policy.KindWait || limit <= 0 { // 0: ctx has the limit; negative: refused, call by call
		return func() policy.Policy { return p }
	}
	began := time.Now()
	return func() policy.Policy {
		return policy.Wait(max(limit-time.Since(began), 1)) // 0 would be no limit at all
	}
}
