package bridge

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/seed-9dec4fca/weir/durable"
)

// Operator looks into a queue and acts on it as a whole: for command lines, consoles and runbooks. It works
// on a queue that only submits, or does neither. Get one from Queue.Operator; it is safe for concurrent use.
//
// Every method blocks for one exchange with the store, at most until ctx ends or about 10 s, except for
// Each and Purge, which make several. Errors are those of package durable: ErrNoJob, ErrUnconfirmed,
// ErrNoOperator where the engine has no such calls, ErrNotExecuted for what was asked badly or did not
// happen, ErrInDoubt for what may have happened: then simply call again. After Shutdown the error matches
// policy.ErrClosed.
type Operator struct{ q *Queue }

// Operator gives the calls for operators. It does not block.
func (q *Queue) Operator() *Operator { return &Operator{q: q} }

// JobInfo is what the store knows of a job.
type JobInfo struct {
	durable.Record
	// Headers are those of the job; nil if there are none, or if they are not as this package writes them.
	Headers map[string]string
}

// operate makes one call of the engine's own operator.
func operate[R any](ctx context.Context, o *Operator, what string, f func(context.Context, durable.Operator) (R, error)) (R, error) {
	engine, ok := o.q.engine.(durable.Operator)
	if !ok {
		var none R
		return none, fmt.Errorf("bridge: %s: %w: %T", what, durable.ErrNoOperator, o.q.engine)
	}
	result, err := call(ctx, o.q, callTimeout, func(ctx context.Context) (R, error) { return f(ctx, engine) })
	if err != nil {
		err = fmt.Errorf("bridge: %s: %w", what, err)
	}
	return result, err
}

// Lookup tells all that the store knows of one job, but for its payload; durable.ErrNoJob if there is none:
// it never was, or is completed and not kept (Job.Retention), or was deleted.
func (o *Operator) Lookup(ctx context.Context, id string) (JobInfo, error) {
	return o.lookup(ctx, "lookup", durable.LookupRequest{ID: id})
}

// Fetch is Lookup with the payload, as encoded.
func (o *Operator) Fetch(ctx context.Context, id string) (JobInfo, error) {
	return o.lookup(ctx, "lookup", durable.LookupRequest{ID: id, Payload: true})
}

func (o *Operator) lookup(ctx context.Context, what string, r durable.LookupRequest) (JobInfo, error) {
	record, err := operate(ctx, o, what, func(ctx context.Context, e durable.Operator) (durable.Record, error) {
		return e.Lookup(ctx, r)
	})
	info := JobInfo{Record: record}
	if headers, err := decodeHeaders(record.Headers); err == nil {
		info.Headers = headers
	}
	return info, err
}

// Jobs shows one page of the jobs in one state; how many there are of each is in Stats. A page is true at
// its instant: of what moves between two pages some may be seen twice, and some not at all.
func (o *Operator) Jobs(ctx context.Context, r durable.JobsRequest) (durable.JobPage, error) {
	return operate(ctx, o, "jobs", func(ctx context.Context, e durable.Operator) (durable.JobPage, error) {
		return e.Jobs(ctx, r)
	})
}

// Each goes through all pages from r.Cursor on. An error, which comes with no job, is the last.
func (o *Operator) Each(ctx context.Context, r durable.JobsRequest) iter.Seq2[durable.Record, error] {
	return func(yield func(durable.Record, error) bool) {
		for more := true; more; more = r.Cursor != "" {
			page, err := o.Jobs(ctx, r)
			if err != nil {
				yield(durable.Record{}, err)
				return
			}
			for _, job := range page.Jobs {
				if !yield(job, nil) {
					return
				}
			}
			r.Cursor = page.Cursor
		}
	}
}

// Redrive sends dead jobs back to the queue, behind all others, with no attempt and no crash charged to
// them; ID and deliveries stay. What is not dead any more is left alone. It ends where the backlog does
// (Handled.Full), and goes on from Handled.Cursor. Paused intake does not stop it.
func (o *Operator) Redrive(ctx context.Context, s durable.Selection) (durable.Handled, error) {
	return o.handled(ctx, "redrive", s, durable.Operator.Redrive)
}

// Discard deletes dead jobs for good. What is not dead any more is left alone.
func (o *Operator) Discard(ctx context.Context, s durable.Selection) (durable.Handled, error) {
	return o.handled(ctx, "discard", s, durable.Operator.Discard)
}

func (o *Operator) handled(ctx context.Context, what string, s durable.Selection,
	act func(durable.Operator, context.Context, durable.Selection) (durable.Handled, error),
) (durable.Handled, error) {
	h, err := operate(ctx, o, what, func(ctx context.Context, e durable.Operator) (durable.Handled, error) {
		return act(e, ctx, s)
	})
	if len(h.IDs) > 0 {
		o.q.log.Info("weir: "+what+" of dead jobs", "jobs", len(h.IDs), "missed", len(h.Missed), "full", h.Full)
	}
	return h, err
}

// Pause stops the intake, the consumption, or both, for all processes and until Resume; by says who does it.
// It outlives them, and Stats shows it.
//
// Consumption: nothing is claimed any more from when Pause returns; what was claimed goes on. Intake: nothing
// becomes durable any more. Submit is refused with a rejection that matches policy.ErrUnusable and
// durable.ErrPaused, whatever its policy, from when a process learns of it: with its next append. What it
// has accepted till then waits in its front, as when the store is away.
func (o *Operator) Pause(ctx context.Context, sides durable.Side, by string) error {
	_, err := operate(ctx, o, "pause", func(ctx context.Context, e durable.Operator) (struct{}, error) {
		return struct{}{}, e.Pause(ctx, sides, by)
	})
	if err == nil {
		o.q.log.Warn("weir: an operator has paused "+sides.String(), "by", by)
		if sides&durable.Intake != 0 {
			o.q.noteIntake(durable.Pause{Active: true})
		}
	}
	return err
}

// Resume lets them go on; every process notices within about a second.
func (o *Operator) Resume(ctx context.Context, sides durable.Side) error {
	_, err := operate(ctx, o, "resume", func(ctx context.Context, e durable.Operator) (struct{}, error) {
		return struct{}{}, e.Resume(ctx, sides)
	})
	if err == nil {
		o.q.log.Warn("weir: an operator has resumed " + sides.String())
		if sides&durable.Intake != 0 {
			o.q.noteIntake(durable.Pause{})
		}
	}
	return err
}

// SetLimits bounds what all processes together claim of the queue, and of each Job.LimitKey, instead of the limits before;
// the zero Limits lift them. by says who does it, and must not be empty; Stats shows it. They hold from the next claim on, and outlive
// the processes. An engine without limits (durable.Capabilities) refuses it with durable.ErrUnsupported.
func (o *Operator) SetLimits(ctx context.Context, l durable.Limits, by string) error {
	_, err := operate(ctx, o, "set limits", func(ctx context.Context, e durable.Operator) (struct{}, error) {
		return struct{}{}, e.SetLimits(ctx, l, by)
	})
	if err == nil {
		o.q.log.Warn("weir: an operator has set limits", "limits", l, "by", by)
	}
	return err
}

// Purge deletes the jobs that are in r.States now (all but those that are claimed, if it names none), step by step,
// and returns how many of each it has deleted: also with an error, and then with a Cursor to go on from, if
// there is more. What comes meanwhile may stay. r.Confirm must be the queue's name: durable.ErrUnconfirmed.
//
// Tickets of purged jobs end cancelled, with ErrGone, as far as they are followed; whoever runs a purged job hears
// ErrGone when it ends.
func (o *Operator) Purge(ctx context.Context, r durable.PurgeRequest) (durable.Purged, error) {
	all := durable.Purged{Deleted: map[durable.State]int{}, Cursor: r.Cursor}
	var err error
	for more := true; more; more = all.Cursor != "" {
		var step durable.Purged
		r.Cursor = all.Cursor
		step, err = operate(ctx, o, "purge", func(ctx context.Context, e durable.Operator) (durable.Purged, error) {
			return e.Purge(ctx, r)
		})
		if err != nil {
			break
		}
		for state, n := range step.Deleted {
			all.Deleted[state] += n
		}
		all.Cursor = step.Cursor
	}
	if all.Total() > 0 {
		counts := make([]string, 0, len(all.Deleted))
		for state, n := range all.Deleted {
			counts = append(counts, fmt.Sprintf("%d %s", n, state))
		}
		slices.Sort(counts)
		text := strings.Join(counts, ", ")
		o.q.log.Error("weir: jobs were purged", "deleted", text, "error", err)
		o.q.emit(Event{Type: EventPurged, Err: errors.New("bridge: purged: " + text)})
	}
	return all, err
}
