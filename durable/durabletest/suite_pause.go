package durabletest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

func (q *queue) name() string {
	q.Helper()
	info, err := q.engine.Info()
	if err != nil {
		q.Fatalf("info: %v", err)
	}
	return info.Name
}

// purgeAll purges to the end, and tells how many of each state.
func (q *queue) purgeAll(r durable.PurgeRequest) map[durable.State]int {
	q.Helper()
	all := map[durable.State]int{}
	for {
		p, err := q.operator().Purge(q.ctx, r)
		if err != nil {
			q.Fatalf("purge: %v", err)
		}
		for s, n := range p.Deleted {
			all[s] += n
		}
		if p.Cursor == "" {
			return all
		}
		r.Cursor = p.Cursor
	}
}

// cancelled is a context that has ended.
func cancelled(q *queue) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(q.ctx)
	cancel()
	return ctx, cancel
}

func pausePromises() []promise {
	return []promise{
		{"paused intake takes nothing and says so, and consumption goes on", Limits{}, func(q *queue) {
			p, w := q.producer(), q.worker()
			p.store(job("a"))
			q.paused(durable.Intake)
			for range 2 {
				if a := p.send(job("b"), job("c")); a.Taken != 0 || !a.Paused || a.Backlog != 1 {
					q.Errorf("append: %+v", a)
				}
			}
			if a := p.send(job("a")); a.Taken != 1 || len(a.Refused) != 1 || !a.Paused {
				q.Errorf("append of a duplicate: %+v", a)
			}
			q.nothing("b")
			w.settled("O", outcome(w.one("a"), durable.Release))
			w.done(w.one("a"))
			q.resumed(durable.Intake)
			if a := p.send(job("b"), job("c")); a.Taken != 2 || a.Paused {
				q.Errorf("append when it is resumed: %+v", a)
			}
		}},
		{"an append answered before a pause keeps its answer", Limits{}, func(q *queue) {
			p := q.producer()
			p.store(job("a"))
			q.paused(durable.Intake)
			if a := p.sendAs(1, job("a")); a.Taken != 1 || len(a.Refused) != 0 {
				q.Errorf("again: %+v", a)
			}
			if a, err := p.Close(q.ctx, 2); err != nil || a.Taken != 1 {
				q.Errorf("close: %+v, %v", a, err)
			}
		}},
		{"paused consumption claims nothing, and intake and settling go on", Limits{}, func(q *queue) {
			p, w := q.producer(), q.worker()
			p.store(job("a"), job("b"))
			c := w.one("a")
			q.paused(durable.Consumption)
			p.store(job("c"))
			for range 2 {
				if answer := w.claim(10); answer.Status != durable.ClaimPaused {
					q.Errorf("claim: %q with %d jobs", answer.Status, len(answer.Jobs))
				}
			}
			w.done(c)
			q.places("while it is paused", durable.Stats{Pending: 2, Consumption: q.stats().Consumption})
			q.resumed(durable.Consumption)
			w.done(w.one("b"), w.one("c"))
		}},
		{"a wait that a pause overtakes loses nothing", Limits{}, func(q *queue) {
			w := q.worker()
			waited := make(chan error)
			go func() { waited <- w.Await(q.ctx) }()
			q.pause(50 * time.Millisecond)
			q.paused(durable.Consumption)
			q.store(job("a"), job("b"))
			if err := <-waited; err != nil {
				q.Errorf("await: %v", err)
			}
			if answer := w.claim(10); answer.Status != durable.ClaimPaused {
				q.Errorf("claim: %q with %d jobs", answer.Status, len(answer.Jobs))
			}
			other := q.worker()
			if answer := other.claim(10); answer.Status != durable.ClaimPaused {
				q.Errorf("claim of another: %q with %d jobs", answer.Status, len(answer.Jobs))
			}
			q.places("while it is paused", durable.Stats{Pending: 2, Consumption: q.stats().Consumption})
			if all := q.pages(durable.JobsRequest{State: durable.StatePending}); recordIDs(all) != "a b" {
				q.Errorf("pending: %q", recordIDs(all))
			}
			q.resumed(durable.Consumption)
			q.ordered("resumed", other.take(2), []*durable.Job{job("a"), job("b")})
		}},
		{"a pause lasts, and tells who and when", Limits{}, func(q *queue) {
			for _, side := range []durable.Side{durable.Intake, durable.Consumption, durable.Intake | durable.Consumption} {
				q.paused(side)
				if err := q.another().(durable.Operator).Pause(q.ctx, side, "bob"); err != nil { // stays as it is
					q.Errorf("pause: %v", err)
				}
				q.worker()
				s := q.stats()
				for i, p := range []durable.Pause{s.Intake, s.Consumption} {
					active := side&(1<<i) != 0
					if p.Active != active || active != (p.By == "ann") {
						q.Errorf("paused %s: %+v", side, s)
					}
					if active {
						q.near("paused", p.Since, 0)
					}
				}
				q.resumed(side)
				q.resumed(side)
				if s := q.stats(); s.Intake != (durable.Pause{}) || s.Consumption != (durable.Pause{}) {
					q.Errorf("resumed: %+v", s)
				}
			}
		}},
		{"a pause asked for badly is refused by name", Limits{}, func(q *queue) {
			q.misused(q.operator().Pause(q.ctx, 0, "ann"), "no side 0")
			q.misused(q.operator().Pause(q.ctx, 4, "ann"), "no side 4")
			q.misused(q.operator().Resume(q.ctx, 0), "no side 0")
			q.misused(q.operator().Pause(q.ctx, durable.Intake, ""), "who")
			if s := q.stats(); s.Intake.Active || s.Consumption.Active {
				q.Errorf("paused: %+v", s)
			}
		}},
		{"the dead are redriven while intake and consumption are paused", Limits{}, func(q *queue) {
			w := q.worker()
			q.kill(w, "because", job("a"))
			q.paused(durable.Intake | durable.Consumption)
			q.handled(q.redrive(durable.Selection{All: true}), "a", "")
			q.resumed(durable.Intake | durable.Consumption)
			w.done(w.one("a"))
		}},
	}
}

func purgePromises() []promise {
	// full makes a queue with jobs in every state that there is without a spoilt store.
	full := func(q *queue) (*worker, *durable.Claim) {
		q.Helper()
		w := q.worker()
		q.kill(w, "because", jobs(3)...)
		kept := job("kept")
		kept.Retention = time.Hour
		q.store(kept)
		w.done(w.one("kept"))
		q.store(job("held"))
		c := w.one("held")
		later := job("later")
		later.Delay = time.Hour
		q.store(later, job("one"), job("two"))
		q.places("before", durable.Stats{Pending: 2, Scheduled: 1, Processing: 1, Dead: 3, Completed: 1})
		return w, c
	}
	purge := func(q *queue, states ...durable.State) map[durable.State]int {
		q.Helper()
		return q.purgeAll(durable.PurgeRequest{Confirm: q.name(), States: states})
	}
	return []promise{
		{"a purge deletes all but claims, and counts", Limits{}, func(q *queue) {
			w, c := full(q)
			got := fmt.Sprint(purge(q))
			want := fmt.Sprint(map[durable.State]int{
				durable.StatePending: 2, durable.StateScheduled: 1, durable.StateDead: 3, durable.StateCompleted: 1,
			})
			if got != want {
				q.Errorf("purged %s, want %s", got, want)
			}
			q.places("after it", durable.Stats{Processing: 1})
			for _, id := range []string{"one", "two", "later", "job-0000", "kept"} {
				q.nothing(id)
			}
			w.none("after it")
			w.done(c)
			q.store(job("one"), job("later"))
		}},
		{"a purge deletes the states it names and no others", Limits{}, func(q *queue) {
			w, c := full(q)
			purge(q, durable.StateDead, durable.StateScheduled)
			q.places("dead and scheduled", durable.Stats{Pending: 2, Processing: 1, Completed: 1})
			purge(q, durable.StateProcessing)
			q.places("claims", durable.Stats{Pending: 2, Completed: 1})
			w.settled("G", outcome(c, durable.Done))
			w.done(w.one("one"), w.one("two"))
			purge(q, durable.StateCompleted, durable.StatePending)
			q.places("all", durable.Stats{})
		}},
		{"a purge that is not confirmed by name deletes nothing", Limits{}, func(q *queue) {
			full(q)
			for _, confirm := range []string{"", "yes", q.name() + "x"} {
				_, err := q.operator().Purge(q.ctx, durable.PurgeRequest{Confirm: confirm})
				if !errors.Is(err, durable.ErrUnconfirmed) || !errors.Is(err, durable.ErrNotExecuted) {
					q.Errorf("confirmed by %q: %v", confirm, err)
				}
			}
			_, err := q.operator().Purge(q.ctx, durable.PurgeRequest{Confirm: q.name(), States: []durable.State{"all"}})
			q.misused(err, `state "all"`)
			_, err = q.operator().Purge(q.ctx, durable.PurgeRequest{Confirm: q.name(), Cursor: "x"})
			q.misused(err, "no cursor")
			q.places("after it", durable.Stats{Pending: 2, Scheduled: 1, Processing: 1, Dead: 3, Completed: 1})
		}},
		{"a purge goes by steps, and ends with what was there when it began", Limits{}, func(q *queue) {
			q.store(jobs(1200)...)
			r := durable.PurgeRequest{Confirm: q.name()}
			steps, deleted := 0, 0
			for {
				p, err := q.operator().Purge(q.ctx, r)
				if err != nil {
					q.Fatalf("purge: %v", err)
				}
				steps++
				deleted += p.Total()
				if p.Total() > 500 {
					q.Errorf("%d deleted in a step", p.Total())
				}
				if r.Cursor = p.Cursor; r.Cursor == "" {
					break
				}
				var more []*durable.Job
				for i := range 500 {
					more = append(more, job(fmt.Sprint("more-", steps, "-", i)))
				}
				q.store(more...)
			}
			if steps != 3 || deleted != 1200 {
				q.Errorf("%d deleted in %d steps", deleted, steps)
			}
			q.places("after it", durable.Stats{Pending: 1000})
		}},
		{"a purge under load deletes no claim, and loses count of nothing", Limits{}, func(q *queue) {
			const n = 600
			p, w := q.producerOn(q.another()), q.workerOn(q.another())
			var load sync.WaitGroup
			load.Go(func() {
				all := jobs(n)
				for len(all) > 0 {
					batch := min(20, len(all))
					p.n++
					a, err := p.Append(q.ctx, p.n, all[:batch])
					if err != nil || a.Taken != batch || len(a.Refused) > 0 {
						q.Errorf("append: %+v, %v", a, err)
						return
					}
					all = all[batch:]
				}
			})
			ran := 0
			stop := make(chan struct{})
			worked := make(chan struct{})
			go func() {
				defer close(worked)
				for {
					w.claims++
					answer, err := w.Claim(q.ctx, durable.ClaimRequest{N: w.claims, Slots: 10, MaxBytes: plenty})
					if err != nil {
						q.Errorf("claim: %v", err)
						return
					}
					var outcomes []durable.Outcome
					for _, c := range answer.Jobs {
						outcomes = append(outcomes, outcome(c, durable.Done))
					}
					if len(outcomes) > 0 {
						w.settles++
						s, err := w.Settle(q.ctx, w.settles, outcomes)
						for _, code := range s.Codes {
							if code == durable.CodeOK {
								ran++
							}
						}
						if err != nil || codesOf(s) != "OOOOOOOOOO"[:len(outcomes)] {
							q.Errorf("settle: %q, %v", codesOf(s), err)
							return
						}
						continue
					}
					select {
					case <-stop:
						return
					default:
						q.pause(between)
					}
				}
			}()
			purged := 0
			appended := make(chan struct{})
			go func() { load.Wait(); close(appended) }()
			for loading := true; loading; {
				select {
				case <-appended:
					loading = false
				default:
				}
				for _, deleted := range purge(q) {
					purged += deleted
				}
			}
			close(stop)
			<-worked
			q.places("after it", durable.Stats{})
			if ran+purged != n {
				q.Errorf("%d ran and %d were purged, of %d", ran, purged, n)
			}
		}},
	}
}
