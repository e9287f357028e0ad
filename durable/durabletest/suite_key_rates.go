package durabletest

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

// row are n jobs of one key, named by where they are in it.
func row(from, n int) []*durable.Job {
	all := make([]*durable.Job, n)
	for i := range all {
		all[i] = counted(fmt.Sprint("z-", 10_000-from-i), "z") // which is not the order of their names
	}
	return all
}

// late takes the one job that must come next, asking for it every now and then alone.
func (w *worker) late(when string, want *durable.Job, every time.Duration) *durable.Claim {
	w.q.Helper()
	for {
		w.q.pause(every)
		if a := w.claim(1); len(a.Jobs) > 0 {
			c := a.Jobs[0]
			if c.ID != want.ID {
				w.q.Fatalf("%s: claimed %s, want %s", when, c.ID, want.ID)
			}
			return c
		}
	}
}

func keyRatePromises() []promise {
	const interval = 40 * time.Millisecond
	rate := durable.Rate{Count: 25}
	return []promise{
		{"a key has a rate of its own", Limits{}, func(q *queue) {
			q.limit(durable.Limits{KeyRate: durable.Rate{Count: 1, Per: time.Hour, Burst: 2}})
			q.store(counted("a-1", "a"), counted("a-2", "a"), counted("a-3", "a"), counted("b-1", "b"), job("c"))
			w := q.worker()
			got := slices.Sorted(slices.Values(ids(w.take(4))))
			if want := []string{"a-1", "a-2", "b-1", "c"}; !slices.Equal(got, want) {
				q.Errorf("claimed %q, want %q", got, want)
			}
			w.none("the rest")
			q.in("a-3", durable.StateScheduled)
			q.store(counted("b-2", "b"))
			w.one("b-2")
		}},
		{"what waits for the rate of its key comes when that allows it", Limits{}, func(q *queue) {
			const n, interval = 4, 100 * time.Millisecond
			q.limit(durable.Limits{KeyRate: durable.Rate{Count: 10, Per: time.Second, Burst: 1}})
			all := jobs(n)
			for _, j := range all {
				j.LimitKey = "k"
			}
			q.store(all...)
			w := q.worker()
			start := time.Now()
			w.done(w.take(n)...)
			if d := time.Since(start); d < (n-1)*interval-n*brief {
				q.Errorf("%d are claimed in %v", n, d)
			}
		}},
		{"what waits for the rate of its key keeps its order, however late it is claimed", Limits{}, func(q *queue) {
			q.limit(durable.Limits{KeyRate: rate})
			all := row(0, 12)
			q.store(all...)
			w := q.worker()
			for i, j := range all {
				w.done(w.late(fmt.Sprint("no. ", i), j, []time.Duration{interval / 4, interval * 3 / 2, interval * 4}[i%3]))
			}
		}},
		{"who comes while others wait for the rate of their key goes behind them", Limits{}, func(q *queue) {
			q.limit(durable.Limits{KeyRate: rate})
			all := row(0, 6)
			q.store(all...)
			p, w := q.producer(), q.worker()
			w.done(w.late("the first", all[0], 0))
			w.done(w.late("the second, late", all[1], interval*3/2))
			for i := 2; i < len(all); q.pause(interval / 4) {
				if len(all) < 16 {
					more := row(len(all), 1)
					p.store(more...)
					all = append(all, more...)
				}
				if a := w.claim(1); len(a.Jobs) > 0 {
					q.ordered(fmt.Sprint("no. ", i), a.Jobs, all[i:i+1])
					w.done(a.Jobs...)
					i++
				}
			}
		}},
		{"a burst keeps the order of a key", Limits{}, func(q *queue) {
			q.limit(durable.Limits{KeyRate: durable.Rate{Count: 25, Burst: 3}})
			all := row(0, 12)
			q.store(all...)
			w := q.worker()
			for i := range all {
				every := interval / 4
				if i == 5 {
					every = interval * 5
				}
				w.done(w.late(fmt.Sprint("no. ", i), all[i], every))
			}
		}},
		{"a turn that is taken late does not put off the next one", Limits{}, func(q *queue) {
			const interval = time.Second
			q.limit(durable.Limits{KeyRate: durable.Rate{Count: 1}})
			all := row(0, 3)
			q.store(all...)
			w := q.worker()
			start := time.Now()
			w.done(w.late("the first", all[0], 0))
			first := time.Now()
			w.done(w.late("the second", all[1], interval*3/4))
			if time.Since(start) >= 2*interval {
				return // so late that it does put it off
			}
			q.pause(time.Until(first.Add(2*interval + 2*brief)))
			q.ordered("at its time", w.claim(1).Jobs, all[2:])
		}},
		{"a pause of those who claim gives a key no burst, and nothing starves", Limits{}, func(q *queue) {
			q.limit(durable.Limits{KeyRate: rate})
			all := row(0, 12)
			q.store(all...)
			w := q.worker()
			w.done(w.late("the first", all[0], 0))
			var got []*durable.Claim
			for len(got) < len(all)-1 && !q.Failed() {
				q.pause(3 * interval)
				a := w.claim(len(all))
				if len(a.Jobs) > 2 {
					q.Errorf("%q at once, want two at most", ids(a.Jobs))
				}
				got = append(got, a.Jobs...)
				w.done(a.Jobs...)
			}
			q.ordered("after all", got, all[1:])
		}},
		{"a key with both limits keeps its order", Limits{}, func(q *queue) {
			q.limit(durable.Limits{KeyRate: rate, KeyConcurrency: 1})
			all := row(0, 6)
			q.store(all...)
			p, w := q.producer(), q.worker()
			for i := 0; i < len(all); i++ {
				c := w.late(fmt.Sprint("no. ", i), all[i], interval/2)
				if i < 4 {
					more := row(len(all), 1)
					p.store(more...)
					all = append(all, more...)
				}
				q.pause([]time.Duration{brief, 2 * interval}[i%2])
				if a := w.claim(9); len(a.Jobs) > 0 {
					q.Errorf("%q beside %s", ids(a.Jobs), c.ID)
				}
				w.done(c)
			}
		}},
		{"what waited for the rate of its key comes in its order when that is lifted", Limits{}, func(q *queue) {
			q.limit(durable.Limits{KeyRate: durable.Rate{Count: 1, Per: time.Hour}})
			all := row(0, 5)
			q.store(all...)
			w := q.worker()
			w.done(w.late("the first", all[0], 0))
			w.none("the others")
			q.limit(durable.Limits{})
			q.ordered("lifted", w.take(4), all[1:])
		}},
	}
}

// keyRateCancelPromises are those of engines with both.
func keyRateCancelPromises() []promise {
	return []promise{
		{"what is cancelled while it waits for the rate of its key stops nobody behind it", Limits{}, func(q *queue) {
			q.limit(durable.Limits{KeyRate: durable.Rate{Count: 2}})
			all := row(0, 8)
			q.store(all...)
			w := q.worker()
			w.done(w.late("the first", all[0], 0))
			w.none("the others")
			q.cancelled(all[1].ID, all[2].ID, all[4].ID, all[7].ID)
			last := row(len(all), 1)
			q.store(last...)
			for _, j := range []*durable.Job{all[3], all[5], all[6], last[0]} {
				w.done(w.late("of those that are left", j, between))
			}
			w.none("after all")
		}},
	}
}
