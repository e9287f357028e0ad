package durabletest

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

func verdictPromises() []promise {
	return []promise{
		{"a completed job is gone", Limits{}, func(q *queue) {
			q.store(job("a"))
			w := q.worker()
			c := w.one("a")
			w.settled("O", outcome(c, durable.Done))
			for _, v := range verdicts {
				w.settled("G", outcome(c, v))
			}
			q.places("after it", durable.Stats{})
		}},
		{"a retry comes back after its delay with one attempt more", Limits{}, func(q *queue) {
			const delay = 500 * time.Millisecond
			q.store(job("a"))
			w := q.worker()
			c := w.one("a")
			for failed := 1; failed <= 2; failed++ {
				o := outcome(c, durable.Retry)
				o.Delay = delay
				start := time.Now()
				w.settled("O", o)
				q.places("while it waits", durable.Stats{Scheduled: 1})
				c = w.one("a")
				if d := time.Since(start); d < delay-time.Millisecond {
					q.Errorf("came back after %v, want not before %v", d, delay)
				}
				if c.Attempts != failed || c.Deliveries != failed+1 || c.Crashes != 0 {
					q.Errorf("failed %d times: %+v", failed, c)
				}
			}
		}},
		{"a retry that uses the attempts up is dead", Limits{}, func(q *queue) {
			q.store(job("a"))
			w := q.worker()
			for _, code := range []string{"O", "O", "X"} {
				o := outcome(w.one("a"), durable.Retry)
				o.MaxAttempts = 3
				w.settled(code, o)
			}
			q.places("after the third", durable.Stats{Dead: 1})
			w.none("when it is dead")
		}},
		{"a snooze comes back after its delay without an attempt", Limits{}, func(q *queue) {
			const delay = 500 * time.Millisecond
			q.store(job("a"))
			w := q.worker()
			o := outcome(w.one("a"), durable.Snooze)
			o.Delay, o.MaxAttempts = delay, 1
			start := time.Now()
			w.settled("O", o)
			c := w.one("a")
			if d := time.Since(start); d < delay-time.Millisecond || c.Attempts != 0 || c.Deliveries != 2 {
				q.Errorf("after %v: %+v", d, c)
			}
		}},
		{"a dead job stays dead", Limits{}, func(q *queue) {
			q.store(job("a"))
			w := q.worker()
			c := w.one("a")
			w.settled("O", outcome(c, durable.Dead))
			for _, v := range verdicts {
				w.settled("S", outcome(c, v))
			}
			q.places("after it", durable.Stats{Dead: 1})
			w.none("when it is dead")
		}},
		{"a released job is the next, and nothing is charged", Limits{}, func(q *queue) {
			q.store(jobs(3)...)
			w := q.worker()
			w.settled("O", outcome(w.one("job-0000"), durable.Release))
			c := w.one("job-0000")
			if c.Attempts != 0 || c.Crashes != 0 || c.Deliveries != 2 {
				q.Errorf("claimed again: %+v", c)
			}
		}},
		{"jobs that are released together come next, in their order", Limits{}, func(q *queue) {
			q.store(jobs(6)...)
			w := q.worker()
			var outcomes []durable.Outcome
			for _, c := range w.take(3) {
				outcomes = append(outcomes, outcome(c, durable.Release))
			}
			w.settled("OOOS", append(outcomes, outcomes[1])...)
			q.ordered("released", w.take(6), jobs(6))
		}},
		{"dead letters beyond the bound are discarded with all that is theirs", Limits{MaxDead: 2}, func(q *queue) {
			all := jobs(5)
			p, w := q.producer(), q.worker()
			p.store(all...)
			trimmed := 0
			for range all {
				trimmed += w.settle(outcome(w.take(1)[0], durable.Dead)).Trimmed
				q.pause(2 * time.Millisecond) // they die at different milliseconds
			}
			if trimmed != 3 {
				q.Errorf("%d trimmed, want 3", trimmed)
			}
			q.places("after five deaths", durable.Stats{Dead: 2})
			a := p.send(all...)
			if a.Taken != 5 || len(a.Refused) != 2 || a.Refused[0].Pos != 3 || a.Refused[1].Pos != 4 {
				q.Errorf("append of the same IDs: %+v, want the last two refused", a)
			}
		}},
		{"codes are in the order of the outcomes", Limits{}, func(q *queue) {
			q.store(jobs(6)...)
			w := q.worker()
			c := w.take(6)
			stale := outcome(c[3], durable.Done)
			stale.Token += "0"
			used := outcome(c[2], durable.Retry)
			used.MaxAttempts = 1
			gone := outcome(c[0], durable.Done)
			gone.ID = "nobody"
			w.settled("OGXSOOO", outcome(c[0], durable.Done), gone, used, stale,
				outcome(c[1], durable.Dead), outcome(c[4], durable.Release), outcome(c[5], durable.Snooze))
			q.places("after all", durable.Stats{Pending: 1, Scheduled: 1, Processing: 1, Dead: 2})
		}},
		{"many outcomes are settled at once", Limits{}, func(q *queue) {
			q.store(jobs(200)...)
			w := q.worker()
			claims := w.take(200)
			var outcomes []durable.Outcome
			for _, c := range claims {
				outcomes = append(outcomes, outcome(c, durable.Done))
			}
			for i, c := range w.settle(outcomes...).Codes {
				if c != durable.CodeOK {
					q.Errorf("outcome %d: %q", i, c)
				}
			}
			q.places("after all", durable.Stats{})
		}},
	}
}

var verdicts = [...]durable.Verdict{durable.Done, durable.Retry, durable.Snooze, durable.Dead, durable.Release}

func tokenPromises() []promise {
	return []promise{
		{"a settle sent twice is applied once", Limits{}, func(q *queue) {
			q.store(job("a"), job("b"))
			w := q.worker()
			c := w.take(2)
			outcomes := []durable.Outcome{outcome(c[0], durable.Retry), outcome(c[1], durable.Done)}
			if got := codesOf(w.settleAs(1, outcomes...)); got != "OO" {
				q.Errorf("codes %q", got)
			}
			if got := codesOf(w.settleAs(1, outcomes...)); got != "OO" {
				q.Errorf("again: codes %q, want the first answer", got)
			}
			again := w.one("a")
			if again.Attempts != 1 {
				q.Errorf("%d attempts, want 1", again.Attempts)
			}
			if got := codesOf(w.settleAs(1, outcomes...)); got != "OO" {
				q.Errorf("again, when it is claimed again: codes %q, want the first answer", got)
			}
			q.places("after all", durable.Stats{Processing: 1})
			w.settles = 1
			w.done(again)
		}},
		{"an outdated settle changes nothing", Limits{}, func(q *queue) {
			q.store(job("a"))
			w := q.worker()
			c := w.one("a")
			w.settle()
			w.settle()
			if _, err := w.Settle(q.ctx, 1, []durable.Outcome{outcome(c, durable.Done)}); !errors.Is(err, durable.ErrOutdated) {
				q.Errorf("settle: %v, want ErrOutdated", err)
			}
			q.places("after it", durable.Stats{Processing: 1})
			w.done(c)
		}},
		{"a token of the past changes nothing", Limits{}, func(q *queue) {
			q.store(job("a"), job("b"))
			old, now := q.worker(), q.worker()
			c := old.one("a")
			old.settled("O", outcome(c, durable.Release))
			for _, v := range verdicts { // nobody holds it
				old.settled("S", outcome(c, v))
			}
			q.places("while it is pending", durable.Stats{Pending: 2})
			own := now.one("a")
			for _, v := range verdicts { // another one holds it
				old.settled("S", outcome(c, v))
			}
			q.places("while another holds it", durable.Stats{Pending: 1, Processing: 1})
			now.settled("O", outcome(own, durable.Release))
			own = old.one("a")
			for _, v := range verdicts { // the same one holds it, under a new claim
				old.settled("S", outcome(c, v))
			}
			old.done(own)
			q.store(job("a"))
			for _, v := range verdicts { // it is another job
				old.settled("S", outcome(own, v))
			}
			q.places("in its second life", durable.Stats{Pending: 2})
		}},
		{"a token that never was changes nothing", Limits{}, func(q *queue) {
			q.store(job("a"), job("b"))
			w := q.worker()
			c := w.one("a")
			for _, token := range []string{"", "0", w.ID(), w.ID() + ":", w.ID() + ":2", c.Token + "\x00"} {
				for _, id := range []string{"a", "b"} {
					w.settled("S", durable.Outcome{Ref: durable.Ref{ID: id, Token: token}, Verdict: durable.Done})
				}
			}
			q.places("after all", durable.Stats{Pending: 1, Processing: 1})
			w.done(c)
		}},
		{"attempts and crashes are kept apart over a life", Limits{}, func(q *queue) {
			q.store(job("a"))
			one, two := q.worker(), q.worker()
			one.settled("O", outcome(one.one("a"), durable.Retry))
			one.one("a")
			one.lose()
			c := two.one("a")
			if c.Attempts != 1 || c.Crashes != 1 || c.Deliveries != 3 {
				q.Errorf("claimed again: %+v", c)
			}
			two.settled("O", outcome(c, durable.Retry))
			if c = two.one("a"); c.Attempts != 2 || c.Crashes != 1 || c.Deliveries != 4 {
				q.Errorf("claimed again: %+v", c)
			}
			two.settled("O", outcome(c, durable.Release))
			if c = two.one("a"); c.Attempts != 2 || c.Crashes != 1 || c.Deliveries != 5 {
				q.Errorf("claimed again: %+v", c)
			}
		}},
		{"a delay is whole milliseconds, and none is due at once", Limits{}, func(q *queue) {
			q.store(job("a"))
			w := q.worker()
			for _, v := range []durable.Verdict{durable.Retry, durable.Snooze} {
				w.settled("O", outcome(w.one("a"), v))
				w.settled("O", outcome(w.only(w.claim(1)), durable.Release))
			}
			if c := w.one("a"); fmt.Sprint(c.Attempts, c.Deliveries) != "1 5" {
				q.Errorf("in the end: %+v", c)
			}
		}},
	}
}
