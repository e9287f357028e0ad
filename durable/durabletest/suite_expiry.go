package durabletest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

const (
	instant = 20 * time.Millisecond  // nobody is in time
	moment  = 500 * time.Millisecond // whoever hurries is
)

// passing is a job that is worth waiting for so long.
func passing(id string, expiry time.Duration) *durable.Job {
	j := job(id)
	j.Expiry = expiry
	return j
}

// lapse waits until what had so much time has none left.
func (q *queue) lapse(expiry time.Duration) {
	q.Helper()
	q.pause(expiry + 20*time.Millisecond)
}

// lapsed checks what the worker's claims have ended, in any order.
func (w *worker) lapsed(when string, want ...string) {
	w.q.Helper()
	got := slices.Sorted(slices.Values(w.expired))
	if slices.Sort(want); !slices.Equal(got, want) {
		w.q.Errorf("%s: expired are %q, want %q", when, got, want)
	}
}

// counter reads one of Stats.
func (q *queue) counter(name string) int64 {
	q.Helper()
	s, err := q.engine.Stats(q.ctx)
	if err != nil {
		q.Fatalf("stats: %v", err)
	}
	return s.Counters[name]
}

func expiryPromises() []promise {
	return []promise{
		{"a job that waited too long is not claimed, and the claim says so", Limits{}, func(q *queue) {
			q.store(passing("a", instant), job("b"), passing("c", long))
			q.lapse(instant)
			w := q.worker()
			q.ordered("in time", w.take(2), named("b", "c"))
			w.none("the rest")
			w.lapsed("after it", "a")
			if n := q.counter("expired"); n != 1 {
				q.Errorf("%d are counted, want 1", n)
			}
			q.places("after it", durable.Stats{Processing: 2})
			q.store(job("a")) // its ID is free
			w.done(w.one("a"))
		}},
		{"a claim sent twice says twice what it has expired", Limits{}, func(q *queue) {
			q.store(passing("a", instant), passing("b", instant), job("c"))
			q.lapse(instant)
			w := q.worker()
			for {
				r := w.request(1)
				first := w.ask(r)
				for range 2 {
					again := w.ask(r)
					if again.Status != first.Status || !slices.Equal(again.Expired, first.Expired) || !slices.Equal(ids(again.Jobs), ids(first.Jobs)) {
						q.Errorf("again: %q with %q, expired %q; first %q with %q, expired %q",
							again.Status, ids(again.Jobs), again.Expired, first.Status, ids(first.Jobs), first.Expired)
					}
				}
				if first.Status == durable.ClaimEmpty {
					break
				}
			}
			w.lapsed("after it", "a", "b")
		}},
		{"a job that is claimed in time is run, however long it takes", Limits{}, func(q *queue) {
			q.store(passing("a", moment))
			w := q.worker()
			c := w.one("a")
			q.lapse(moment)
			w.none("while it runs")
			q.sweep()
			q.places("while it runs", durable.Stats{Processing: 1})
			w.done(c)
			w.lapsed("after it")
		}},
		{"what comes back too late expires", Limits{}, func(q *queue) {
			q.store(passing("retried", moment), passing("snoozed", moment), passing("released", moment), passing("returned", moment))
			one, two := q.worker(), q.worker()
			held := one.take(3)
			two.take(1)
			one.settled("OOO", outcome(held[0], durable.Retry), outcome(held[1], durable.Snooze), outcome(held[2], durable.Release))
			q.lapse(moment)
			two.lose()
			heir := q.worker()
			q.until("all have ended", func() bool {
				heir.none("too late")
				s := q.stats()
				return s.Pending+s.Scheduled+s.Processing == 0
			})
			if n := q.counter("expired"); n != 4 {
				q.Errorf("%d are counted, want 4", n)
			}
		}},
		{"a job whose time is over before its delay never runs", Limits{}, func(q *queue) {
			j := passing("a", instant)
			j.Delay = 5 * instant
			q.store(j)
			w := q.worker()
			q.until("it has ended", func() bool {
				w.none("ever")
				return q.stats().Scheduled == 0
			})
			w.lapsed("after it", "a")
		}},
		{"many jobs that waited too long hold up nobody, and each is named", Limits{}, func(q *queue) {
			var all []*durable.Job
			var names []string
			for i := range 400 {
				names = append(names, fmt.Sprintf("late-%03d", i))
				all = append(all, passing(names[i], instant))
			}
			q.store(all...)
			q.store(job("live"))
			q.lapse(instant)
			w := q.worker()
			w.done(w.one("live"))
			w.lapsed("after it", names...)
			q.places("after it", durable.Stats{})
		}},
		{"a job that has expired takes no room", Limits{MaxBacklog: 2}, func(q *queue) {
			q.store(passing("a", instant), passing("b", instant))
			p := q.producer()
			q.lapse(instant)
			q.worker().none("too late")
			p.store(jobs(2)...)
		}},
		{"an expiry out of bounds is refused by name", Limits{}, func(q *queue) {
			p := q.producer()
			for _, expiry := range []time.Duration{-time.Second, time.Microsecond} {
				_, err := p.Append(q.ctx, 1, []*durable.Job{job("a"), passing("b", expiry)})
				if !errors.Is(err, durable.ErrNotExecuted) || !strings.Contains(err.Error(), "Job.Expiry") {
					q.Errorf("expiry %v: %v", expiry, err)
				}
			}
			q.places("after it", durable.Stats{})
		}},
	}
}

func expiryOperatorPromises() []promise {
	return []promise{
		{"a record says until when a job may begin", Limits{}, func(q *queue) {
			q.store(passing("a", time.Hour), job("b"))
			q.near("expires", q.in("a", durable.StatePending).Expires, time.Hour)
			if r := q.in("b", durable.StatePending); !r.Expires.IsZero() {
				q.Errorf("one without an expiry expires at %v", r.Expires)
			}
		}},
		{"an expired job with a retention leaves a record, until it is over", Limits{}, func(q *queue) {
			j := passing("a", instant)
			j.Retention = moment
			q.store(j)
			q.lapse(instant)
			w := q.worker()
			w.none("too late")
			r := q.in("a", durable.StateExpired)
			q.near("expired", r.Since, 0)
			q.near("forgotten", r.Due, moment)
			if len(r.Payload) != 0 || r.Size != int64(len(j.Payload)) || r.Deliveries != 0 {
				q.Errorf("expired: %+v", r)
			}
			q.places("while it is kept", durable.Stats{Completed: 1})
			if all := q.pages(durable.JobsRequest{State: durable.StateCompleted}); recordIDs(all) != "a" || all[0].State != durable.StateExpired {
				q.Errorf("kept are %+v", all)
			}
			if a := q.producer().send(job("a")); len(a.Refused) != 1 || a.Refused[0].Code != durable.RefusedDuplicate {
				q.Errorf("append while it is kept: %+v", a)
			}
			q.until("it is forgotten", func() bool {
				_, err := q.operator().Lookup(q.ctx, durable.LookupRequest{ID: "a"})
				return errors.Is(err, durable.ErrNoJob)
			})
		}},
		{"a dead job that is redriven too late expires", Limits{}, func(q *queue) {
			w := q.worker()
			q.kill(w, "because", passing("a", moment))
			q.lapse(moment)
			q.in("a", durable.StateDead) // that it waits for an operator is no waiting for a run
			q.handled(q.redrive(durable.Selection{IDs: []string{"a"}}), "a", "")
			w.none("too late")
			w.lapsed("after it", "a")
			q.nothing("a")
		}},
		{"paused consumption expires nothing", Limits{}, func(q *queue) {
			q.store(passing("a", instant))
			q.lapse(instant)
			q.paused(durable.Consumption)
			w := q.worker()
			if a := w.claim(1); a.Status != durable.ClaimPaused || len(a.Expired) > 0 {
				q.Errorf("while paused: %q, expired %q", a.Status, a.Expired)
			}
			q.resumed(durable.Consumption)
			w.none("resumed")
			w.lapsed("resumed", "a")
		}},
	}
}
