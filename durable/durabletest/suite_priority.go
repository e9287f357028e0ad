package durabletest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

// ranked is a job with a priority.
func ranked(id string, priority int) *durable.Job {
	j := job(id)
	j.Priority = priority
	return j
}

// named are jobs of these IDs, to compare claims with.
func named(ids ...string) []*durable.Job {
	all := make([]*durable.Job, len(ids))
	for i, id := range ids {
		all[i] = job(id)
	}
	return all
}

// priorityPromises are those of engines with priorities; needs names them all.
func priorityPromises() []promise {
	return []promise{
		{"a higher priority is claimed first, and one priority in the order of appending", Limits{}, func(q *queue) {
			var all []*durable.Job
			for i := range 60 {
				all = append(all, ranked(fmt.Sprintf("job-%04d", i), []int{0, 5, -5, durable.MaxPriority, -durable.MaxPriority, 1}[i%6]))
			}
			p := q.producer()
			for batch := range slices.Chunk(all, 7) {
				p.store(batch...)
			}
			slices.SortStableFunc(all, func(a, b *durable.Job) int { return b.Priority - a.Priority })
			w := q.worker()
			q.ordered("in one claim", w.claim(25).Jobs, all[:25])
			q.ordered("and the rest", w.take(35), all[25:])
		}},
		{"a higher priority overtakes what waits already", Limits{}, func(q *queue) {
			q.store(jobs(3)...)
			q.pause(between)
			q.store(ranked("urgent", 1))
			q.store(ranked("lazy", -1))
			w := q.worker()
			q.ordered("all", w.take(5), append(append(named("urgent"), jobs(3)...), job("lazy")))
		}},
		{"a released job comes back to its place among all priorities", Limits{}, func(q *queue) {
			q.store(jobs(2)...)
			one, two := q.worker(), q.worker()
			c := one.one("job-0000")
			q.store(ranked("urgent", 1), job("after"), ranked("lazy", -1))
			one.settled("O", outcome(c, durable.Release))
			q.ordered("released", two.take(5), named("urgent", "job-0000", "job-0001", "after", "lazy"))
		}},
		{"what a leaving consumer returns keeps its place among all priorities", Limits{}, func(q *queue) {
			q.store(ranked("urgent-1", 1), ranked("urgent-2", 1), job("job-1"), job("job-2"))
			w := q.worker()
			w.take(3)
			q.store(ranked("urgent-3", 1), ranked("first", 2))
			for more := true; more; {
				var err error
				if more, err = w.Leave(q.ctx); err != nil {
					q.Fatalf("leave: %v", err)
				}
			}
			q.ordered("returned", q.worker().take(6), named("first", "urgent-1", "urgent-2", "urgent-3", "job-1", "job-2"))
		}},
		{"a retry, a snooze and a delay keep the priority", Limits{}, func(q *queue) {
			late := ranked("late", 4)
			late.Delay = brief
			q.store(ranked("retried", 3), ranked("snoozed", 2))
			w := q.worker()
			held := w.take(2)
			retry, snooze := outcome(held[0], durable.Retry), outcome(held[1], durable.Snooze)
			retry.Delay, snooze.Delay = brief, brief
			w.settled("OO", retry, snooze)
			q.store(append(jobs(2), late)...)
			q.pause(20 * brief)
			q.ordered("when due", w.take(5), append(named("late", "retried", "snoozed"), jobs(2)...))
		}},
		{"what a dead consumer held keeps its priority", Limits{}, func(q *queue) {
			q.store(ranked("urgent", 1))
			dead, heir := q.worker(), q.worker()
			dead.one("urgent")
			q.store(jobs(2)...)
			dead.lose()
			q.until("the job is due", func() bool { // after the delay of what was charged
				heir.claims++
				a := heir.ask(durable.ClaimRequest{N: heir.claims, Slots: 1, MaxBytes: plenty, Held: len(heir.held)})
				if len(a.Jobs) == 1 && a.Jobs[0].ID != "urgent" {
					heir.settled("O", outcome(a.Jobs[0], durable.Release))
				}
				return len(a.Jobs) == 1 && a.Jobs[0].ID == "urgent"
			})
		}},
		{"with ageing, a job is overtaken only by what comes soon after it", Limits{Ageing: 5 * time.Millisecond}, func(q *queue) {
			q.store(job("old"), ranked("soon", 1))
			q.pause(20 * 5 * time.Millisecond)
			q.store(ranked("late", 1))
			q.ordered("all", q.worker().take(3), named("soon", "old", "late"))
		}},
		{"with ageing, higher priorities that keep coming starve nobody", Limits{Ageing: time.Millisecond}, func(q *queue) {
			p, w := q.producer(), q.worker()
			p.store(ranked("low", -1), ranked("high-0", 1))
			n := 0
			q.until("the low priority is claimed, although a higher one always waits", func() bool {
				n++
				p.store(ranked(fmt.Sprintf("high-%d", n), 1))
				c := w.take(1)[0]
				w.done(c)
				return c.ID == "low"
			})
			if n < 2 {
				q.Errorf("the low priority was claimed before the higher one")
			}
		}},
		{"a priority out of bounds is refused by name", Limits{}, func(q *queue) {
			p := q.producer()
			for _, priority := range []int{durable.MaxPriority + 1, -durable.MaxPriority - 1, 1 << 40} {
				_, err := p.Append(q.ctx, 1, []*durable.Job{job("a"), ranked("b", priority)})
				if !errors.Is(err, durable.ErrNotExecuted) || !strings.Contains(err.Error(), "Job.Priority") {
					q.Errorf("priority %d: %v", priority, err)
				}
			}
			q.places("after it", durable.Stats{})
		}},
	}
}

// operatorPriorityPromises are those of operators' calls of such engines.
func operatorPriorityPromises() []promise {
	return []promise{
		{"a record tells the priority, and a page of what waits is in the order of claims", Limits{}, func(q *queue) {
			q.store(ranked("lazy", -7), job("a"), ranked("urgent", 7), job("b"))
			o := q.operator()
			page, err := o.Jobs(q.ctx, durable.JobsRequest{State: durable.StatePending})
			if err != nil {
				q.Fatalf("jobs: %v", err)
			}
			var got []string
			for _, r := range page.Jobs {
				got = append(got, fmt.Sprint(r.ID, " ", r.Priority))
			}
			if want := []string{"urgent 7", "a 0", "b 0", "lazy -7"}; !slices.Equal(got, want) {
				q.Errorf("page %q, want %q", got, want)
			}
			if r, err := o.Lookup(q.ctx, durable.LookupRequest{ID: "lazy"}); err != nil || r.Priority != -7 {
				q.Errorf("lookup: %+v, %v", r, err)
			}
		}},
		{"a redriven job comes behind all others of its priority", Limits{}, func(q *queue) {
			q.store(ranked("dead", 1))
			w := q.worker()
			w.settled("O", outcome(w.one("dead"), durable.Dead))
			q.store(job("a"), ranked("urgent", 1))
			if h, err := q.operator().Redrive(q.ctx, durable.Selection{All: true}); err != nil || len(h.IDs) != 1 {
				q.Fatalf("redrive: %+v, %v", h, err)
			}
			q.ordered("redriven", w.take(3), named("urgent", "dead", "a"))
		}},
	}
}
