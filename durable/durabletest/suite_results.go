package durabletest

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

// result is a completion with a result, kept so long.
func result(c *durable.Claim, data string, retention time.Duration) durable.Outcome {
	o := outcome(c, durable.Done)
	o.Result, o.Retention = []byte(data), retention
	return o
}

// tell reports on claims.
func (w *worker) tell(tellings ...durable.Telling) {
	w.q.Helper()
	if err := w.teller().Tell(w.q.ctx, tellings); err != nil {
		w.q.Fatalf("tell: %v", err)
	}
}

func progress(c *durable.Claim, data string) durable.Telling {
	return durable.Telling{Ref: ref(c), Progress: []byte(data)}
}

// keptResult checks the result in the record of a completed job.
func (q *queue) keptResult(id, want string, retention time.Duration) {
	q.Helper()
	r := q.in(id, durable.StateCompleted)
	if string(r.Result) != want {
		q.Errorf("the result of %s has %d bytes, %.60q; want %d bytes, %.60q", id, len(r.Result), r.Result, len(want), want)
	}
	q.near("forgotten", r.Due, retention)
}

func resultPromises() []promise {
	return []promise{
		{"a result is kept with the record of its job", Limits{}, func(q *queue) {
			kept := func(id string) *durable.Job {
				j := job(id)
				j.Retention = time.Hour
				return j
			}
			q.store(kept("a"), kept("b"), kept("c"), kept("d"))
			w := q.worker()
			held := w.take(4)
			large := string(bytes.Repeat([]byte("\x00\xffresult\r\n"), 10_000))
			w.settled("OOOO", result(held[0], "result", 0), result(held[1], large, 0), outcome(held[2], durable.Done), result(held[3], "", 0))
			q.keptResult("a", "result", time.Hour)
			q.keptResult("b", large, time.Hour)
			q.keptResult("c", "", time.Hour)
			q.keptResult("d", "", time.Hour)
			if all := q.pages(durable.JobsRequest{State: durable.StateCompleted}); len(all) != 4 {
				q.Errorf("completed: %q", recordIDs(all))
			}
		}},
		{"a result has a retention of its own", Limits{}, func(q *queue) {
			long, short := job("a"), job("b")
			long.Retention, short.Retention = time.Hour, time.Minute
			q.store(long, short, job("c"), job("d"))
			w := q.worker()
			held := w.take(4)
			w.settled("OOOO", result(held[0], "ra", time.Minute), result(held[1], "rb", time.Hour), result(held[2], "rc", time.Minute), result(held[3], "rd", 0))
			q.keptResult("a", "ra", time.Minute)
			q.keptResult("b", "rb", time.Hour)
			q.keptResult("c", "rc", time.Minute)
			q.nothing("d")
			q.places("after it", durable.Stats{Completed: 3})
		}},
		{"a result is forgotten with its record", Limits{}, func(q *queue) {
			q.store(job("a"))
			w := q.worker()
			w.settled("O", result(w.one("a"), "result", moment))
			q.keptResult("a", "result", moment)
			q.until("it is forgotten", func() bool {
				_, err := q.operator().Lookup(q.ctx, durable.LookupRequest{ID: "a"})
				return errors.Is(err, durable.ErrNoJob)
			})
			q.store(job("a"))
			w.settled("O", result(w.one("a"), "", moment))
			q.keptResult("a", "", moment)
		}},
		{"a settle with a result sent twice is applied once", Limits{}, func(q *queue) {
			q.store(job("a"))
			w := q.worker()
			o := result(w.one("a"), "result", time.Hour)
			for range 2 {
				if got := codesOf(w.settleAs(1, o)); got != "O" {
					q.Errorf("codes %q", got)
				}
			}
			w.settles = 1
			o.Result = []byte("another")
			w.settled("O", o) // under another number: it is recorded already
			q.keptResult("a", "result", time.Hour)
		}},
		{"only what completes has a result", Limits{}, func(q *queue) {
			q.store(job("a"), job("b"))
			w := q.worker()
			held := w.take(2)
			for i, v := range []durable.Verdict{durable.Retry, durable.Dead} {
				o := result(held[i], "early", time.Hour)
				o.Verdict, o.Reason = v, "because"
				w.settled("O", o)
			}
			if r := q.in("b", durable.StateDead); len(r.Result) != 0 {
				q.Errorf("dead: %+v", r)
			}
			w.settled("O", result(w.one("a"), "late", time.Hour))
			q.keptResult("a", "late", time.Hour)
		}},
		{"a stale token leaves no result", Limits{}, func(q *queue) {
			j := job("a")
			j.Retention = time.Hour
			q.store(j)
			one, two := q.worker(), q.worker()
			past := one.one("a")
			one.settled("O", outcome(past, durable.Release))
			c := two.one("a")
			one.settled("S", result(past, "stale", time.Hour))
			two.settled("O", result(c, "result", 0))
			one.settled("S", result(past, "stale", time.Hour))
			q.keptResult("a", "result", time.Hour)
		}},
		{"a retention of a result out of bounds is refused by name", Limits{}, func(q *queue) {
			q.store(job("a"))
			w := q.worker()
			c := w.one("a")
			for _, retention := range []time.Duration{-time.Second, time.Microsecond} {
				_, err := w.Settle(q.ctx, 1, []durable.Outcome{result(c, "result", retention)})
				q.misused(err, "Outcome.Retention")
			}
			w.done(c)
		}},
		{"progress is what was told last, while the job runs, waits again, and is kept", Limits{}, func(q *queue) {
			j := job("a")
			j.Retention = time.Hour
			q.store(j, job("b"))
			w := q.worker()
			held := w.take(2)
			shows := func(when, want string) {
				q.Helper()
				if r := q.lookup("a"); string(r.Progress) != want {
					q.Errorf("%s: progress is %q, want %q", when, r.Progress, want)
				}
			}
			shows("at first", "")
			w.tell(durable.Telling{Ref: ref(held[0]), Started: true})
			shows("started", "")
			for range 2 {
				w.tell(progress(held[0], "10%"), progress(held[1], "\x00\xff"))
			}
			shows("told", "10%")
			w.tell(progress(held[0], "20%"), progress(held[0], "30%"), durable.Telling{Ref: ref(held[0]), Started: true})
			shows("told again", "30%")
			w.settled("O", outcome(held[0], durable.Retry))
			shows("while it waits", "30%")
			c := w.one("a")
			w.tell(progress(c, ""))
			shows("that there is none", "")
			w.tell(progress(c, "100%"))
			w.settled("O", result(c, "result", 0))
			shows("completed", "100%")
			q.keptResult("a", "result", time.Hour)
			if r := q.lookup("b"); string(r.Progress) != "\x00\xff" {
				q.Errorf("progress of b is %q", r.Progress)
			}
		}},
		{"progress under a token of the past is passed over", Limits{}, func(q *queue) {
			q.store(job("a"), job("b"))
			one, two := q.worker(), q.worker()
			past := one.one("a")
			one.settled("O", outcome(past, durable.Release))
			c, other := two.one("a"), two.one("b")
			two.tell(progress(c, "mine"))
			one.tell(progress(past, "stale"), durable.Telling{Ref: durable.Ref{ID: "none", Token: "x"}, Started: true, Progress: []byte("x")})
			two.tell(progress(past, "stale"), progress(other, "other"))
			if r := q.lookup("a"); string(r.Progress) != "mine" {
				q.Errorf("progress of a is %q", r.Progress)
			}
			if r := q.lookup("b"); string(r.Progress) != "other" {
				q.Errorf("progress of b is %q", r.Progress)
			}
			q.nothing("none")
			two.done(c)
			two.tell(progress(c, "too late"))
			q.nothing("a")
		}},
		{"progress that is too long is refused by name", Limits{}, func(q *queue) {
			q.store(job("a"))
			w := q.worker()
			c := w.one("a")
			longest := strings.Repeat("p", durable.MaxNoticed)
			w.tell(progress(c, longest))
			q.misused(w.teller().Tell(q.ctx, []durable.Telling{progress(c, "short"), progress(c, longest+"p")}), "Telling.Progress")
			if r := q.lookup("a"); string(r.Progress) != longest {
				q.Errorf("progress has %d bytes", len(r.Progress))
			}
		}},
		{"telling ends with its context", Limits{}, func(q *queue) {
			q.store(job("a"))
			w := q.worker()
			c := w.one("a")
			ctx, cancel := cancelled(q)
			defer cancel()
			if err := w.teller().Tell(ctx, []durable.Telling{progress(c, "x")}); !errors.Is(err, durable.ErrNotExecuted) {
				q.Errorf("tell: %v", err)
			}
			if r := q.lookup("a"); len(r.Progress) != 0 {
				q.Errorf("progress is %q", r.Progress)
			}
		}},
	}
}
