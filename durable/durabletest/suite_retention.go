package durabletest

import (
	"errors"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

func retentionPromises() []promise {
	kept := func(id string, d time.Duration) *durable.Job {
		j := job(id)
		j.Retention = d
		return j
	}
	return []promise{
		{"a completed job with a retention is found, without its payload, until it is over", Limits{}, func(q *queue) {
			const retention = 800 * time.Millisecond
			j := kept("a", retention)
			j.Headers = []byte(`{"h":"1"}`)
			q.store(j)
			w := q.worker()
			c := w.one("a")
			w.done(c)
			r := q.in("a", durable.StateCompleted)
			q.near("completed", r.Since, 0)
			q.near("forgotten", r.Due, retention)
			if r.Consumer != w.ID() || r.Size != int64(len(j.Payload)) || len(r.Payload) != 0 || string(r.Headers) != `{"h":"1"}` ||
				r.Deliveries != 1 || r.Kind != "kind" {
				q.Errorf("completed: %+v", r)
			}
			q.places("while it is kept", durable.Stats{Completed: 1})
			if all := q.pages(durable.JobsRequest{State: durable.StateCompleted}); recordIDs(all) != "a" {
				q.Errorf("completed: %q", recordIDs(all))
			}
			w.none("while it is kept")
			w.settled("O", outcome(c, durable.Done)) // it is recorded already
			for _, v := range verdicts[1:] {
				w.settled("S", outcome(c, v))
			}
			q.until("it is forgotten", func() bool {
				_, err := q.operator().Lookup(q.ctx, durable.LookupRequest{ID: "a"})
				return errors.Is(err, durable.ErrNoJob)
			})
			q.places("when it is over", durable.Stats{})
			q.sweep()
			q.store(kept("a", 0))
			w.done(w.one("a"))
			q.nothing("a")
		}},
		{"an ID is taken while its record is kept", Limits{}, func(q *queue) {
			const retention = 500 * time.Millisecond
			q.store(kept("a", retention))
			w := q.worker()
			w.done(w.one("a"))
			p := q.producer()
			if a := p.send(job("a")); a.Taken != 1 || len(a.Refused) != 1 || a.Refused[0].Code != durable.RefusedDuplicate {
				q.Errorf("append while it is kept: %+v", a)
			}
			q.pause(retention + 100*time.Millisecond)
			p.store(kept("a", time.Minute))
			q.sweep() // the record of the past is trimmed, the job of now is not
			q.in("a", durable.StatePending)
			w.done(w.one("a"))
			q.in("a", durable.StateCompleted)
		}},
		{"only completed jobs are kept", Limits{}, func(q *queue) {
			q.store(kept("a", 50*time.Millisecond))
			w := q.worker()
			w.settled("O", outcome(w.one("a"), durable.Release))
			q.pause(100 * time.Millisecond)
			w.settled("O", outcome(w.one("a"), durable.Dead))
			q.pause(100 * time.Millisecond)
			q.in("a", durable.StateDead)
		}},
		{"records of completed jobs are bounded", Limits{MaxCompleted: 3}, func(q *queue) {
			w := q.worker()
			for i, j := range jobs(5) {
				j.Retention = time.Minute + time.Duration(i)*time.Second
				q.store(j)
				w.done(w.take(1)...)
			}
			q.places("after five", durable.Stats{Completed: 3})
			if all := q.pages(durable.JobsRequest{State: durable.StateCompleted}); recordIDs(all) != "job-0002 job-0003 job-0004" {
				q.Errorf("kept: %q", recordIDs(all))
			}
			q.nothing("job-0001")
		}},
		{"a settle with a retention sent twice is applied once", Limits{}, func(q *queue) {
			q.store(kept("a", time.Minute))
			w := q.worker()
			o := outcome(w.one("a"), durable.Done)
			for range 3 {
				if got := codesOf(w.settleAs(1, o)); got != "O" {
					q.Errorf("codes %q", got)
				}
			}
			if r := q.in("a", durable.StateCompleted); r.Size == 0 {
				q.Errorf("completed: %+v", r)
			}
			q.places("after it", durable.Stats{Completed: 1})
		}},
	}
}
