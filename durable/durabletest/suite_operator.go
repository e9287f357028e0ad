package durabletest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

// operator is the engine's side for operators.
func (q *queue) operator() durable.Operator {
	q.Helper()
	op, ok := q.engine.(durable.Operator)
	if !ok {
		q.Fatalf("%T is no durable.Operator", q.engine)
	}
	return op
}

func (q *queue) lookup(id string) durable.Record {
	q.Helper()
	r, err := q.operator().Lookup(q.ctx, durable.LookupRequest{ID: id, Payload: true})
	if err != nil {
		q.Fatalf("lookup %q: %v", id, err)
	}
	return r
}

// nothing checks that there is no such job.
func (q *queue) nothing(id string) {
	q.Helper()
	if r, err := q.operator().Lookup(q.ctx, durable.LookupRequest{ID: id}); !errors.Is(err, durable.ErrNoJob) {
		q.Errorf("lookup %q: %+v, %v; want ErrNoJob", id, r, err)
	}
}

// in checks what state a job is in.
func (q *queue) in(id string, want durable.State) durable.Record {
	q.Helper()
	r := q.lookup(id)
	if r.ID != id || r.State != want {
		q.Errorf("%s is %q, want %q", r.ID, r.State, want)
	}
	return r
}

// near checks that a time of the store is about d from now.
func (q *queue) near(what string, at time.Time, d time.Duration) {
	q.Helper()
	if off := time.Until(at) - d; off < -5*time.Second || off > 5*time.Second {
		q.Errorf("%s is %v from now, want about %v", what, time.Until(at), d)
	}
}

// pages reads all pages of a state.
func (q *queue) pages(r durable.JobsRequest) []durable.Record {
	q.Helper()
	var all []durable.Record
	for {
		page, err := q.operator().Jobs(q.ctx, r)
		if err != nil {
			q.Fatalf("jobs: %v", err)
		}
		if bound := min(r.Limit, durable.MaxPage); bound > 0 && len(page.Jobs) > bound {
			q.Errorf("a page of %d has %d jobs", bound, len(page.Jobs))
		}
		all = append(all, page.Jobs...)
		if page.Cursor == "" {
			return all
		}
		r.Cursor = page.Cursor
	}
}

func recordIDs(records []durable.Record) string {
	var b strings.Builder
	for i, r := range records {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(r.ID)
	}
	return b.String()
}

func (q *queue) redrive(s durable.Selection) durable.Handled {
	q.Helper()
	h, err := q.operator().Redrive(q.ctx, s)
	if err != nil {
		q.Fatalf("redrive: %v", err)
	}
	return h
}

func (q *queue) discard(s durable.Selection) durable.Handled {
	q.Helper()
	h, err := q.operator().Discard(q.ctx, s)
	if err != nil {
		q.Fatalf("discard: %v", err)
	}
	return h
}

// handled checks what was acted on, and what was not dead.
func (q *queue) handled(h durable.Handled, ids, missed string) {
	q.Helper()
	if got := fmt.Sprint(strings.Join(h.IDs, " "), "|", strings.Join(h.Missed, " ")); got != ids+"|"+missed {
		q.Errorf("handled %q, want %q", got, ids+"|"+missed)
	}
}

// kill makes jobs dead, for a reason; they are stored if they are not there.
func (q *queue) kill(w *worker, reason string, jobs ...*durable.Job) {
	q.Helper()
	q.store(jobs...)
	for _, c := range w.take(len(jobs)) {
		o := outcome(c, durable.Dead)
		o.Reason = reason
		w.settled("O", o)
	}
}

func (q *queue) paused(sides durable.Side) {
	q.Helper()
	if err := q.operator().Pause(q.ctx, sides, "ann"); err != nil {
		q.Fatalf("pause: %v", err)
	}
}

func (q *queue) resumed(sides durable.Side) {
	q.Helper()
	if err := q.operator().Resume(q.ctx, sides); err != nil {
		q.Fatalf("resume: %v", err)
	}
}

// misused checks that a call is refused by name, and nothing happened.
func (q *queue) misused(err error, says string) {
	q.Helper()
	if !errors.Is(err, durable.ErrNotExecuted) || !strings.Contains(err.Error(), says) {
		q.Errorf("got %v, want not executed that says %q", err, says)
	}
}

func lookupPromises() []promise {
	return []promise{
		{"a job is found in every state", Limits{MaxCrashes: 2}, func(q *queue) {
			w := q.worker()
			q.nothing("a")
			q.store(&durable.Job{
				ID: "a", Kind: "kind", Payload: []byte("\x00payload"), Headers: []byte(`{"h":"1"}`),
				MaxAttempts: 7, Timeout: time.Second, Retention: time.Minute, Delay: 20 * time.Millisecond,
			})
			r := q.in("a", durable.StateScheduled)
			q.near("due", r.Due, 0)
			if r.Kind != "kind" || string(r.Payload) != "\x00payload" || r.Size != 8 || string(r.Headers) != `{"h":"1"}` ||
				r.MaxAttempts != 7 || r.Timeout != time.Second || r.Retention != time.Minute {
				q.Errorf("scheduled: %+v", r)
			}
			c := w.one("a")
			r = q.in("a", durable.StateProcessing)
			q.near("claimed", r.Since, 0)
			if r.Consumer != w.ID() || r.Deliveries != 1 || r.Attempts != 0 || !r.Due.IsZero() {
				q.Errorf("claimed: %+v", r)
			}
			w.settled("O", outcome(c, durable.Retry))
			r = q.in("a", durable.StateScheduled)
			if r.Attempts != 1 || r.Reason != "because" || r.Consumer != "" || !r.Since.IsZero() {
				q.Errorf("while it waits for its retry: %+v", r)
			}
			w.settled("O", outcome(w.one("a"), durable.Release))
			if r = q.in("a", durable.StatePending); r.Deliveries != 2 || !r.Since.IsZero() || !r.Due.IsZero() {
				q.Errorf("released: %+v", r)
			}
			w.settled("O", outcome(w.one("a"), durable.Dead))
			r = q.in("a", durable.StateDead)
			q.near("dead", r.Since, 0)
			if r.Reason != "because" || r.Size != 8 || string(r.Payload) != "\x00payload" {
				q.Errorf("dead: %+v", r)
			}
			q.nothing("b")
		}},
		{"a payload is given when it is asked for", Limits{}, func(q *queue) {
			q.store(job("a"))
			r, err := q.operator().Lookup(q.ctx, durable.LookupRequest{ID: "a"})
			if err != nil || len(r.Payload) != 0 || r.Size != int64(len("payload of a")) {
				q.Errorf("lookup: %+v, %v", r, err)
			}
		}},
		{"a job that lost its worker tells its crashes", Limits{MaxCrashes: 1}, func(q *queue) {
			q.store(job("a"))
			w := q.worker()
			w.one("a")
			w.lose()
			if r := q.in("a", durable.StateDead); r.Crashes != 1 || r.Attempts != 0 || r.Reason == "" {
				q.Errorf("dead: %+v", r)
			}
		}},
		{"every call of an operator ends with its context", Limits{}, func(q *queue) {
			ctx, cancel := cancelled(q)
			defer cancel()
			op := q.operator()
			_, err1 := op.Lookup(ctx, durable.LookupRequest{ID: "a"})
			_, err2 := op.Jobs(ctx, durable.JobsRequest{State: durable.StateDead})
			_, err3 := op.Redrive(ctx, durable.Selection{All: true})
			_, err4 := op.Discard(ctx, durable.Selection{All: true})
			err5 := op.Pause(ctx, durable.Intake, "ann")
			err6 := op.Resume(ctx, durable.Intake)
			_, err7 := op.Purge(ctx, durable.PurgeRequest{Confirm: q.name()})
			for i, err := range []error{err1, err2, err3, err4, err5, err6, err7} {
				if !errors.Is(err, durable.ErrNotExecuted) {
					q.Errorf("call %d: %v", i+1, err)
				}
			}
		}},
	}
}
