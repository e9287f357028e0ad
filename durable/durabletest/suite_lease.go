package durabletest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

func leasePromises() []promise {
	return []promise{
		{"a claim with an expired lease takes nothing until it is renewed", Limits{}, func(q *queue) {
			q.store(job("a"))
			w := q.worker()
			w.expire()
			r := w.request(1)
			w.refused(r, durable.ErrLeaseExpired)
			q.places("after it", durable.Stats{Pending: 1})
			if err := w.Renew(q.ctx, long); err != nil {
				q.Fatalf("renew: %v", err)
			}
			q.ordered("the same number", w.ask(r).Jobs, []*durable.Job{job("a")})
		}},
		{"settling needs no lease", Limits{}, func(q *queue) {
			q.store(job("a"))
			w := q.worker()
			c := w.one("a")
			w.expire()
			w.done(c)
			q.places("after it", durable.Stats{})
			if s := q.sweepAll(1); s.Returned != 0 || s.Dead != 0 {
				q.Errorf("sweep: %+v", s)
			}
			w.settled("G", outcome(c, durable.Done))
		}},
		{"a sweep leaves the living alone", Limits{}, func(q *queue) {
			q.store(jobs(2)...)
			idle, w := q.worker(), q.worker()
			claims := w.take(2)
			if s := q.sweep(); s != (durable.Swept{}) {
				q.Errorf("sweep: %+v", s)
			}
			if n := q.stats().Consumers; n != 2 {
				q.Errorf("%d consumers, want 2", n)
			}
			w.done(claims...)
			idle.none("when all is done")
		}},
		{"a lease that is renewed in time does not end", Limits{}, func(q *queue) {
			q.store(job("a"))
			w := q.worker()
			c := w.one("a")
			for range 5 {
				if err := w.Renew(q.ctx, 2*time.Second); err != nil {
					q.Fatalf("renew: %v", err)
				}
				q.pause(500 * time.Millisecond)
				if s := q.sweep(); s != (durable.Swept{}) {
					q.Errorf("sweep: %+v", s)
				}
			}
			w.done(c)
		}},
		{"a lost consumer's claims are returned once", Limits{}, func(q *queue) {
			q.store(job("a"))
			lost, w := q.worker(), q.worker()
			c := lost.one("a")
			if s := lost.lose(); s.Fenced != 1 || s.Returned != 1 || s.Dead != 0 {
				q.Errorf("sweep: %+v", s)
			}
			if s := q.sweep(); s != (durable.Swept{}) {
				q.Errorf("another sweep: %+v", s)
			}
			if n := q.stats().Consumers; n != 1 {
				q.Errorf("%d consumers, want 1", n)
			}
			again := w.one("a")
			if again.Deliveries != 2 || again.Crashes != 1 || again.Attempts != 0 || again.Token == c.Token || again.Fence <= c.Fence {
				q.Errorf("claimed again: %+v, was %+v", again, c)
			}
			w.done(again)
		}},
		{"a lost consumer is fenced for good", Limits{}, func(q *queue) {
			w := q.worker()
			w.lose()
			q.store(job("a"))
			if err := w.Renew(q.ctx, long); !errors.Is(err, durable.ErrFenced) {
				q.Errorf("renew: %v, want ErrFenced", err)
			}
			w.refused(w.request(1), durable.ErrFenced)
			q.places("after it", durable.Stats{Pending: 1})
		}},
		{"a settle after the sweep changes nothing", Limits{}, func(q *queue) {
			q.store(job("a"))
			lost, w := q.worker(), q.worker()
			c := lost.one("a")
			lost.lose()
			for _, v := range verdicts {
				lost.settled("S", outcome(c, v))
			}
			own := w.one("a")
			for _, v := range verdicts {
				lost.settled("S", outcome(c, v))
			}
			q.places("after all", durable.Stats{Processing: 1})
			w.done(own)
			lost.settled("G", outcome(c, durable.Done))
		}},
		{"a settle before the sweep is remembered after it", Limits{}, func(q *queue) {
			q.store(job("a"))
			w := q.worker()
			o := outcome(w.one("a"), durable.Done)
			w.settleAs(1, o)
			w.lose()
			if got := codesOf(w.settleAs(1, o)); got != "O" {
				q.Errorf("codes %q, want the first answer", got)
			}
		}},
		{"many claims of a lost consumer are all returned, in bounded steps", Limits{}, func(q *queue) {
			all := jobs(600)
			q.store(all...)
			lost, w := q.worker(), q.worker()
			lost.take(len(all))
			if s := lost.lose(); s.Fenced != 1 || s.Returned != len(all) {
				q.Errorf("sweep: %+v", s)
			}
			// Each has a crash now, so they are claimed one at a time, each after a delay.
			s := q.stats()
			if s.Pending+s.Scheduled != int64(len(all)) || s.Processing != 0 || s.Consumers != 1 {
				q.Errorf("after it: %+v", s)
			}
			w.done(w.take(1)...)
		}},
		{"a consumer that leaves returns everything uncharged", Limits{}, func(q *queue) {
			all := jobs(650)
			q.store(all...)
			w := q.worker()
			held := w.take(600)
			for more := true; more; {
				var err error
				if more, err = w.Leave(q.ctx); err != nil {
					q.Fatalf("leave: %v", err)
				}
			}
			if more, err := w.Leave(q.ctx); more || err != nil {
				q.Errorf("leave again: %v, %v", more, err)
			}
			if s := q.stats(); s.Consumers != 0 || s.Pending != 650 {
				q.Errorf("after it: %+v", s)
			}
			w.refused(w.request(1), durable.ErrFenced)
			if err := w.Renew(q.ctx, long); !errors.Is(err, durable.ErrFenced) {
				q.Errorf("renew: %v, want ErrFenced", err)
			}
			w.settled("S", outcome(held[0], durable.Done))
			got := q.worker().take(650)
			for _, c := range got {
				if c.Crashes != 0 || c.Attempts != 0 {
					q.Errorf("charged: %+v", c)
				}
			}
			slices.SortFunc(got, func(a, b *durable.Claim) int { return strings.Compare(a.ID, b.ID) })
			q.ordered("all", got, all)
		}},
		{"what a leaving consumer returns is at the head, in its order", Limits{}, func(q *queue) {
			all := jobs(9)
			q.store(all...)
			w := q.worker()
			w.take(5)
			if more, err := w.Leave(q.ctx); more || err != nil {
				q.Fatalf("leave: %v, %v", more, err)
			}
			q.ordered("all", q.worker().take(9), all)
		}},
		{"a consumer that began to leave is not charged by a sweep", Limits{}, func(q *queue) {
			all := jobs(600)
			q.store(all...)
			w := q.worker()
			w.take(len(all))
			if more, err := w.Leave(q.ctx); err != nil || !more {
				q.Fatalf("leave of 600 claims: more %v, %v; want bounded steps", more, err)
			}
			if err := w.Renew(q.ctx, long); !errors.Is(err, durable.ErrFenced) {
				q.Errorf("renew: %v, want ErrFenced", err)
			}
			w.refused(w.request(1), durable.ErrFenced)
			q.until("all returned", func() bool {
				q.sweep()
				return q.stats().Consumers == 0
			})
			q.places("after it", durable.Stats{Pending: 600})
		}},
	}
}

func crashPromises() []promise {
	return []promise{
		{"a job that keeps losing its worker is dead", Limits{MaxCrashes: 2}, func(q *queue) {
			q.store(job("a"))
			w := q.worker()
			w.one("a")
			if s := w.lose(); s.Dead != 0 || s.Returned != 1 {
				q.Errorf("first sweep: %+v", s)
			}
			w = q.worker()
			if c := w.one("a"); c.Crashes != 1 {
				q.Errorf("second claim: %+v", c)
			}
			if s := w.lose(); s.Dead != 1 || s.Returned != 0 {
				q.Errorf("second sweep: %+v", s)
			}
			q.places("in the end", durable.Stats{Dead: 1})
		}},
		{"those that are dead by crashes are bounded too", Limits{MaxCrashes: 1, MaxDead: 2}, func(q *queue) {
			q.store(jobs(5)...)
			w := q.worker()
			w.take(5)
			if s := w.lose(); s.Dead != 5 || s.Trimmed != 3 {
				q.Errorf("sweep: %+v", s)
			}
			q.places("after it", durable.Stats{Dead: 2})
		}},
		{"a lost suspect is charged, and its neighbours are not", Limits{}, func(q *queue) {
			q.store(job("suspect"))
			w := q.worker()
			w.one("suspect")
			w.lose()
			w = q.worker()
			w.one("suspect")
			q.store(jobs(3)...)
			w.take(3)
			if s := w.lose(); s.Returned != 4 || s.Dead != 0 {
				q.Errorf("sweep: %+v", s)
			}
			w = q.worker()
			for _, c := range w.take(4) {
				if want := map[bool]int{true: 2}[c.ID == "suspect"]; c.Crashes != want {
					q.Errorf("%s: %d crashes, want %d", c.ID, c.Crashes, want)
				}
			}
		}},
		{"a consumer holds one suspect at most", Limits{}, func(q *queue) {
			q.store(jobs(2)...)
			w := q.worker()
			w.take(2)
			w.lose()
			one, two := q.worker(), q.worker()
			first := one.take(1)[0]
			for range 2 { // the other one is due once and deferred, and due again
				a := one.none("with one suspect in hand")
				if a.NextDue < 0 {
					q.Fatalf("claim: %+v, want a job scheduled", a)
				}
				q.pause(a.NextDue + between)
			}
			other := two.take(1)[0]
			if first.Crashes != 1 || other.Crashes != 1 || first.ID == other.ID {
				q.Errorf("held: %+v and %+v", first, other)
			}
			one.settled("O", outcome(first, durable.Release))
			one.done(one.one(first.ID))
			two.settled("O", outcome(other, durable.Snooze))
			one.done(one.one(other.ID))
		}},
		{"of the innocents beside a killer none dies", Limits{MaxCrashes: 3}, func(q *queue) {
			const slots = 4
			q.store(slices.Insert(jobs(12), 2, job("killer"))...)
			dead := false
			for !dead {
				w := q.worker()
				for alive := true; alive; {
					a := w.claim(slots)
					alive = !slices.Contains(ids(a.Jobs), "killer")
					switch {
					case !alive:
						dead = w.lose().Dead > 0
					case a.Status == durable.ClaimEmpty:
						if err := w.Await(q.ctx); err != nil && q.ctx.Err() != nil {
							q.Fatalf("the killer is not dead: %v", err)
						}
					default:
						w.done(a.Jobs...)
					}
				}
			}
			w := q.worker()
			q.until("the innocents have completed", func() bool {
				w.done(w.claim(slots).Jobs...)
				s := q.stats()
				return s.Pending+s.Scheduled+s.Processing == 0
			})
			q.places("in the end", durable.Stats{Dead: 1})
			if a := q.producer().send(job("killer")); len(a.Refused) != 1 {
				q.Errorf("another job than the killer is dead: %s", fmt.Sprint(a))
			}
		}},
	}
}
