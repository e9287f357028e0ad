package durabletest

import (
	"strings"
	"sync"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

func deadPromises() []promise {
	return []promise{
		{"a redriven job starts again under its ID, behind the others", Limits{MaxCrashes: 2}, func(q *queue) {
			w := q.worker()
			q.store(job("a"))
			w.settled("O", outcome(w.one("a"), durable.Retry))
			w.one("a")
			w.lose()
			w = q.worker()
			w.settled("O", outcome(w.one("a"), durable.Dead))
			q.store(job("b"))
			q.handled(q.redrive(durable.Selection{IDs: []string{"a"}}), "a", "")
			if r := q.in("a", durable.StatePending); r.Attempts != 0 || r.Crashes != 0 || r.Deliveries != 3 || r.Reason != "because" {
				q.Errorf("redriven: %+v", r)
			}
			q.places("redriven", durable.Stats{Pending: 2})
			w.done(w.one("b"))
			c := w.one("a")
			if c.Attempts != 0 || c.Crashes != 0 || c.Deliveries != 4 || string(c.Payload) != "payload of a" {
				q.Errorf("claimed: %+v", c)
			}
			w.done(c)
		}},
		{"a discarded job is gone", Limits{}, func(q *queue) {
			w := q.worker()
			q.kill(w, "because", job("a"), job("b"))
			q.handled(q.discard(durable.Selection{IDs: []string{"b"}}), "b", "")
			q.nothing("b")
			q.places("after it", durable.Stats{Dead: 1})
			q.store(job("b"))
			w.done(w.one("b"))
		}},
		{"what is not dead is left alone", Limits{}, func(q *queue) {
			w := q.worker()
			q.kill(w, "because", job("dead"))
			q.store(job("held"))
			c := w.one("held")
			q.store(job("pending"))
			scheduled := job("scheduled")
			scheduled.Delay = time.Hour
			q.store(scheduled)
			want := durable.Stats{Pending: 1, Scheduled: 1, Processing: 1, Dead: 1}
			others := []string{"held", "pending", "scheduled", "none"}
			q.handled(q.redrive(durable.Selection{IDs: others}), "", strings.Join(others, " "))
			q.handled(q.discard(durable.Selection{IDs: others}), "", strings.Join(others, " "))
			q.places("after it", want)
			// Twice is as once, and a redriven one cannot be discarded.
			q.handled(q.redrive(durable.Selection{IDs: []string{"dead", "dead"}}), "dead", "dead")
			q.handled(q.redrive(durable.Selection{IDs: []string{"dead"}}), "", "dead")
			q.handled(q.discard(durable.Selection{IDs: []string{"dead"}}), "", "dead")
			want.Pending, want.Dead = 2, 0
			q.places("after a redrive", want)
			w.done(c)
		}},
		{"a filter acts on what it means, a bounded number at a time", Limits{}, func(q *queue) {
			w := q.worker()
			for i, j := range jobs(20) {
				reason := "odd"
				if i%2 == 0 {
					reason = "even"
				}
				q.kill(w, reason, j)
			}
			s := durable.Selection{Filter: durable.Filter{Reason: "even"}, Limit: 4}
			moved, calls := 0, 0
			for {
				h := q.redrive(s)
				calls++
				moved += len(h.IDs)
				if len(h.IDs) > 4 || h.Full || len(h.Missed) > 0 {
					q.Errorf("a step: %+v", h)
				}
				if !h.More() {
					break
				}
				s.Cursor = h.Cursor
			}
			if moved != 10 || calls < 3 {
				q.Errorf("%d redriven in %d calls", moved, calls)
			}
			q.places("redriven", durable.Stats{Pending: 10, Dead: 10})
			if h := q.discard(durable.Selection{All: true}); len(h.IDs) != 10 || h.More() {
				q.Errorf("discard all: %+v", h)
			}
			q.places("after all", durable.Stats{Pending: 10})
		}},
		{"what dies again is not part of the same walk", Limits{}, func(q *queue) {
			w := q.worker()
			for _, j := range jobs(6) {
				q.kill(w, "because", j)
			}
			q.pause(5 * time.Millisecond)
			s := durable.Selection{All: true, Limit: 2}
			for step := 1; ; step++ {
				h := q.redrive(s)
				q.pause(5 * time.Millisecond)
				for _, c := range w.take(len(h.IDs)) {
					w.settled("O", outcome(c, durable.Dead))
				}
				if !h.More() {
					break
				}
				if s.Cursor = h.Cursor; step > 10 {
					q.Fatalf("no end: %+v", h)
				}
			}
			q.places("after the walk", durable.Stats{Dead: 6})
		}},
		{"a redrive ends where the backlog does", Limits{MaxBacklog: 3}, func(q *queue) {
			w := q.worker()
			q.kill(w, "because", jobs(3)...)
			later := job("later")
			later.Delay = time.Hour
			q.store(later, job("one"))
			h := q.redrive(durable.Selection{IDs: []string{"job-0002", "job-0000", "job-0001"}})
			q.handled(h, "job-0002", "")
			if !h.Full {
				q.Errorf("by IDs: %+v, want full", h)
			}
			if h = q.redrive(durable.Selection{All: true}); len(h.IDs) != 0 || !h.Full || !h.More() {
				q.Errorf("all: %+v, want full", h)
			}
			q.places("full", durable.Stats{Pending: 2, Scheduled: 1, Dead: 2})
			w.done(w.one("one"))
			if h = q.redrive(durable.Selection{All: true, Cursor: h.Cursor}); len(h.IDs) != 1 {
				q.Errorf("with room for one: %+v", h)
			}
			if h = q.discard(durable.Selection{All: true}); len(h.IDs) != 1 || h.Full {
				q.Errorf("discard: %+v", h)
			}
		}},
		{"a redrive is full only where a dead job had no room", Limits{MaxBacklog: 1}, func(q *queue) {
			w := q.worker()
			q.kill(w, "because", job("a"))
			if h := q.redrive(durable.Selection{All: true}); len(h.IDs) != 1 || h.Full || h.More() {
				q.Errorf("the last one took the last place: %+v", h)
			}
			w.settled("O", outcome(w.one("a"), durable.Dead))
			q.store(job("b"))
			h := q.redrive(durable.Selection{IDs: []string{"nope"}})
			q.handled(h, "", "nope")
			if h.Full {
				q.Errorf("for no dead job: %+v", h)
			}
			h = q.redrive(durable.Selection{IDs: []string{"a", "nope"}})
			q.handled(h, "", "nope")
			if !h.Full {
				q.Errorf("for a dead job: %+v", h)
			}
		}},
		{"a selection that does not say what it means is refused by name", Limits{}, func(q *queue) {
			q.kill(q.worker(), "because", job("a"))
			for says, s := range map[string]durable.Selection{
				"Selection is empty": {},
				"All":                {IDs: []string{"a"}, All: true},
				"a Filter":           {All: true, Filter: durable.Filter{Reason: "x"}},
				"Limit":              {All: true, Limit: -1},
				"501 IDs":            {IDs: make([]string, 501)},
				"OlderThan":          {Filter: durable.Filter{OlderThan: -1}},
			} {
				_, err := q.operator().Redrive(q.ctx, s)
				q.misused(err, says)
				_, err = q.operator().Discard(q.ctx, s)
				q.misused(err, says)
			}
			q.places("after it", durable.Stats{Dead: 1})
		}},
		{"of a redrive and a discard of one job one wins", Limits{}, func(q *queue) {
			w := q.worker()
			const n = 40
			var names []string
			for _, j := range jobs(n) {
				q.kill(w, "because", j)
				names = append(names, j.ID)
			}
			var (
				racers sync.WaitGroup
				mu     sync.Mutex
				won    = map[string]int{}
				back   = map[string]bool{}
			)
			for i := range 4 {
				op := q.another().(durable.Operator)
				racers.Go(func() {
					for _, id := range names {
						act := op.Redrive
						if i%2 == 1 {
							act = op.Discard
						}
						h, err := act(q.ctx, durable.Selection{IDs: []string{id}})
						if err != nil {
							q.Errorf("%s: %v", id, err)
						}
						mu.Lock()
						won[id] += len(h.IDs)
						back[id] = back[id] || i%2 == 0 && len(h.IDs) > 0
						mu.Unlock()
					}
				})
			}
			own := q.workerOn(q.another()) // claims meanwhile
			ran := map[string]bool{}
			claim := func() {
				for _, c := range own.claim(5).Jobs {
					ran[c.ID] = true
					own.done(c)
				}
			}
			over := make(chan struct{})
			go func() { racers.Wait(); close(over) }()
			for racing := true; racing; {
				select {
				case <-over:
					racing = false
				default:
				}
				claim()
			}
			q.until("all that was redriven has run", func() bool { claim(); return q.stats().Pending == 0 })
			for _, id := range names {
				if won[id] != 1 || back[id] != ran[id] {
					q.Errorf("%s: %d won, redriven %v, ran %v", id, won[id], back[id], ran[id])
				}
				q.nothing(id)
			}
		}},
	}
}
