package durabletest

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

// counted is a job that counts under a key.
func counted(id, key string) *durable.Job {
	j := job(id)
	j.LimitKey = key
	return j
}

// limit sets the limits of the queue.
func (q *queue) limit(l durable.Limits) {
	q.Helper()
	if err := q.operator().SetLimits(q.ctx, l, "ann"); err != nil {
		q.Fatalf("set limits: %v", err)
	}
}

// limited claims until the limits of the queue forbid it, and gives what it has got.
func (w *worker) limited() ([]*durable.Claim, durable.Claimed) {
	w.q.Helper()
	var all []*durable.Claim
	for {
		a := w.claim(100)
		all = append(all, a.Jobs...)
		switch a.Status {
		case durable.ClaimLimited:
			if a.NextDue < 0 {
				w.q.Errorf("limited, and the next claim is worth it after %v", a.NextDue)
			}
			return all, a
		case durable.ClaimJobs, durable.ClaimMore:
		default:
			w.q.Fatalf("claim: %q with %d jobs in hand, want limited", a.Status, len(all))
		}
	}
}

// comes takes the one job that must come next, soon: one of these.
func (w *worker) comes(when string, ids ...string) *durable.Claim {
	w.q.Helper()
	start := time.Now()
	c := w.take(1)[0]
	if !slices.Contains(ids, c.ID) {
		w.q.Errorf("%s: claimed %q, want one of %q", when, c.ID, ids)
	}
	if d := time.Since(start); d > 10*time.Second {
		w.q.Errorf("%s: %s comes after %v, want about a second", when, c.ID, d)
	}
	return c
}

func limitPromises() []promise {
	return slices.Concat(queueLimitPromises(), keyLimitPromises(), keyRatePromises(), limitSettingPromises())
}

func queueLimitPromises() []promise {
	return []promise{
		{"no more is claimed at once than the queue may have, by all together", Limits{}, func(q *queue) {
			q.limit(durable.Limits{Concurrency: 3})
			q.store(jobs(6)...)
			one, two := q.worker(), q.workerOn(q.another())
			held := one.take(2)
			more, _ := two.limited()
			if len(more) != 1 {
				q.Errorf("%d are claimed besides 2, want 1", len(more))
			}
			if none, _ := one.limited(); len(none) > 0 {
				q.Errorf("%d are claimed beyond the limit", len(none))
			}
			q.places("at the limit", durable.Stats{Pending: 3, Processing: 3, Limits: durable.Limits{Concurrency: 3}, LimitedBy: q.stats().LimitedBy})
			one.settled("OO", outcome(held[0], durable.Done), outcome(held[1], durable.Dead))
			more = append(more, two.take(2)...)
			if none, _ := one.limited(); len(none) > 0 {
				q.Errorf("%d are claimed beyond the limit, again", len(none))
			}
			two.done(more...)
			one.done(one.take(1)...)
			one.none("when nothing waits") // and that is no limit
		}},
		{"claims that were there before a limit are counted, and what has ended is not", Limits{}, func(q *queue) {
			q.store(jobs(6)...)
			one, two := q.worker(), q.worker()
			held := one.take(2)
			two.take(2)
			q.limit(durable.Limits{Concurrency: 2})
			one.limited()
			one.done(held...)
			if none, _ := one.limited(); len(none) > 0 {
				q.Errorf("%d are claimed beside 2", len(none))
			}
			two.lose()
			heir := q.worker()
			heir.take(1)
		}},
		{"no more is claimed over time than the rate allows", Limits{}, func(q *queue) {
			const n, interval = 6, 50 * time.Millisecond
			q.limit(durable.Limits{Rate: durable.Rate{Count: 20, Per: time.Second, Burst: 1}})
			q.store(jobs(n)...)
			w := q.worker()
			start := time.Now()
			for range n {
				for {
					a := w.claim(n)
					if len(a.Jobs) > 1 {
						q.Errorf("%d at once", len(a.Jobs))
					}
					if len(a.Jobs) > 0 {
						break
					}
					if a.Status != durable.ClaimLimited || a.NextDue > interval+brief {
						q.Errorf("claim: %q, next after %v", a.Status, a.NextDue)
					}
					q.pause(max(a.NextDue, brief))
				}
			}
			if d := time.Since(start); d < (n-1)*interval-n*brief {
				q.Errorf("%d are claimed in %v", n, d)
			}
		}},
		{"a burst may come at once, and a claim that is asked for twice counts once", Limits{}, func(q *queue) {
			q.limit(durable.Limits{Rate: durable.Rate{Count: 1, Per: time.Hour, Burst: 4}})
			q.store(jobs(6)...)
			w := q.worker()
			r := w.request(1)
			first := w.only(w.ask(r))
			for range 3 {
				if again := w.only(w.ask(r)); again.ID != first.ID || again.Token != first.Token {
					q.Errorf("again: %+v", again)
				}
			}
			more, a := w.limited()
			if len(more) != 3 || a.NextDue < 50*time.Minute || a.NextDue > 61*time.Minute {
				q.Errorf("%d more, the next after %v", len(more), a.NextDue)
			}
			r = w.request(1)
			for range 2 {
				if a := w.ask(r); a.Status != durable.ClaimLimited || a.NextDue < 0 { // which may be sooner: an answer was lost
					q.Errorf("asked again: %q, the next after %v", a.Status, a.NextDue)
				}
			}
			w.done(more...) // which is not what the rate counts
			if more, _ := w.limited(); len(more) > 0 {
				q.Errorf("%d beyond the rate", len(more))
			}
		}},
		{"what is handed over at once keeps the limits", Limits{}, func(q *queue) {
			p := q.producer()
			direct, ok := p.Producer.(durable.DirectProducer)
			if !ok {
				return
			}
			hand := func(when string, most int, jobs ...*durable.Job) {
				q.Helper()
				w := q.worker()
				p.n++
				a, claims, err := direct.AppendFor(q.ctx, p.n, jobs, w.Consumer, durable.ClaimRequest{N: 1, Slots: 10, MaxBytes: plenty})
				if err != nil || a.Taken != len(jobs) || len(a.Refused) > 0 {
					q.Fatalf("%s: append for a consumer: %+v, %v", when, a, err)
				}
				if len(claims) > most {
					q.Errorf("%s: %d are handed over, %d at most may be", when, len(claims), most)
				}
				for more := true; more; {
					if more, err = w.Leave(q.ctx); err != nil {
						q.Fatalf("leave: %v", err)
					}
				}
				q.purgeAll(durable.PurgeRequest{Confirm: q.name()})
			}
			q.limit(durable.Limits{Concurrency: 2})
			hand("concurrency", 2, jobs(4)...)
			q.limit(durable.Limits{Rate: durable.Rate{Count: 1, Per: time.Hour, Burst: 2}})
			hand("rate", 2, jobs(4)...)
			q.limit(durable.Limits{KeyConcurrency: 1})
			hand("concurrency of a key", 3, counted("a-1", "a"), counted("a-2", "a"), counted("b-1", "b"), job("c"))
			q.limit(durable.Limits{KeyRate: durable.Rate{Count: 1, Per: time.Hour, Burst: 1}})
			hand("rate of a key", 3, counted("d-1", "d"), counted("d-2", "d"), counted("e-1", "e"), job("f"))
		}},
	}
}

func keyLimitPromises() []promise {
	return []promise{
		{"no more is claimed at once of a key than it may have, and others are not held up", Limits{}, func(q *queue) {
			q.limit(durable.Limits{KeyConcurrency: 2})
			q.store(counted("a-1", "a"), counted("a-2", "a"), counted("a-3", "a"), counted("a-4", "a"), counted("b-1", "b"), job("c-1"), job("c-2"), job("c-3"))
			w := q.worker()
			held := w.take(6)
			got := slices.Sorted(slices.Values(ids(held)))
			if want := []string{"a-1", "a-2", "b-1", "c-1", "c-2", "c-3"}; !slices.Equal(got, want) {
				q.Errorf("claimed %q, want %q", got, want)
			}
			w.none("the rest")
			for _, id := range []string{"a-3", "a-4"} {
				if r := q.in(id, durable.StateScheduled); r.LimitKey != "a" || r.Attempts != 0 || r.Deliveries != 0 {
					q.Errorf("it waits for its key: %+v", r)
				}
			}
			at := slices.IndexFunc(held, func(c *durable.Claim) bool { return c.ID == "a-2" })
			w.done(held[at])
			next := w.comes("when one has ended", "a-3", "a-4")
			w.none("the last")
			w.done(next)
			w.comes("when one more has ended", "a-3", "a-4")
			w.none("after it")
		}},
		{"whatever ends a claim lets the next of its key go", Limits{}, func(q *queue) {
			q.limit(durable.Limits{KeyConcurrency: 1})
			w := q.worker()
			for _, v := range []durable.Verdict{durable.Done, durable.Dead, durable.Retry, durable.Snooze} {
				first, second := string(v)+"-1", string(v)+"-2"
				q.store(counted(first, string(v)), counted(second, string(v)))
				o := outcome(w.one(first), v)
				o.Delay = time.Hour
				w.none("while it runs")
				w.settled("O", o)
				w.done(w.comes("after "+string(v), second))
			}
			q.store(counted("L-1", "L"), counted("L-2", "L"))
			c := w.one("L-1")
			w.none("while it runs")
			w.settled("O", outcome(c, durable.Release))
			for range 2 {
				w.done(w.comes("released", "L-1", "L-2"))
			}
			w.none("after all")
		}},
		{"a lost or leaving consumer does not hold a key for ever", Limits{}, func(q *queue) {
			q.limit(durable.Limits{KeyConcurrency: 1})
			q.store(counted("a", "k"), counted("b", "k"), counted("c", "k"))
			lost, heir := q.worker(), q.worker()
			lost.one("a")
			heir.none("while it runs")
			lost.lose()
			heir.comes("lost", "a", "b", "c")
			for more := true; more; {
				var err error
				if more, err = heir.Leave(q.ctx); err != nil {
					q.Fatalf("leave: %v", err)
				}
			}
			last := q.worker()
			seen := make(map[string]bool)
			for range 3 {
				c := last.comes("left", "a", "b", "c")
				seen[c.ID] = true
				last.done(c)
			}
			if len(seen) != 3 {
				q.Errorf("claimed %q", slices.Sorted(maps.Keys(seen)))
			}
		}},
		{"claims of a key that were there before a limit are counted", Limits{}, func(q *queue) {
			q.store(counted("a", "k"), counted("b", "k"), counted("c", "k"))
			w := q.worker()
			held := w.take(2)
			q.limit(durable.Limits{KeyConcurrency: 1})
			w.none("beside two")
			w.done(held[0])
			w.none("beside one")
			q.pause(durable.Park)
			w.none("beside one, later")
			w.done(held[1])
			w.comes("beside none", "c")
		}},
		{"no two workers have a key together, whatever happens", Limits{}, func(q *queue) {
			const n, workers, keys = 120, 4, 5
			q.limit(durable.Limits{KeyConcurrency: 1, Concurrency: workers})
			all := jobs(n)
			for i, j := range all {
				j.LimitKey = fmt.Sprint("key-", i%keys)
			}
			q.store(all...)
			key := func(id string) int {
				i := slices.IndexFunc(all, func(j *durable.Job) bool { return j.ID == id })
				return i % keys
			}
			var (
				mu    sync.Mutex
				held  [keys]int
				ended = make(map[string]bool)
				wg    sync.WaitGroup
			)
			for i := range workers {
				w := q.worker()
				wg.Go(func() {
					for n := uint64(1); q.ctx.Err() == nil; n++ {
						a, err := w.Claim(q.ctx, durable.ClaimRequest{N: n, Slots: 2, MaxBytes: plenty, Held: 0})
						if err != nil {
							q.Errorf("claim: %v", err)
							return
						}
						var outcomes []durable.Outcome
						mu.Lock()
						for j, c := range a.Jobs {
							k := key(c.ID)
							if held[k]++; held[k] > 1 {
								q.Errorf("%d hold key %d", held[k], k)
							}
							v := durable.Done
							if c.Deliveries == 1 && (i+j)%2 == 0 {
								v = []durable.Verdict{durable.Retry, durable.Snooze, durable.Release}[int(n)%3]
							}
							outcomes = append(outcomes, outcome(c, v))
						}
						mu.Unlock()
						_ = pause(q.ctx, brief)
						mu.Lock()
						for _, o := range outcomes { // before it is so: else another has it, and this is not noted
							held[key(o.ID)]--
							if o.Verdict == durable.Done {
								ended[o.ID] = true
							}
						}
						all := len(ended) == len(all)
						mu.Unlock()
						if _, err := w.Settle(q.ctx, n, outcomes); err != nil {
							q.Errorf("settle: %v", err)
							return
						}
						if all {
							return
						}
						if len(a.Jobs) == 0 {
							_ = pause(q.ctx, between)
						}
					}
				})
			}
			wg.Wait()
			if len(ended) != n {
				q.Errorf("%d have ended in time, want %d", len(ended), n)
			}
		}},
	}
}

func limitSettingPromises() []promise {
	return []promise{
		{"limits are told, outlive a handle, and are everybody's", Limits{}, func(q *queue) {
			l := durable.Limits{
				Concurrency: 2, Rate: durable.Rate{Count: 100, Per: time.Minute, Burst: 50},
				KeyConcurrency: 3, KeyRate: durable.Rate{Count: 7, Per: 1500 * time.Millisecond, Burst: 2},
			}
			if s := q.stats(); s.Limits != (durable.Limits{}) || s.LimitedBy.Active {
				q.Errorf("at first: %+v by %v", s.Limits, s.LimitedBy)
			}
			first := q.handle()
			if err := first.(durable.Operator).SetLimits(q.ctx, l, "ann"); err != nil {
				q.Fatalf("set limits: %v", err)
			}
			if err := first.Close(); err != nil {
				q.Errorf("close: %v", err)
			}
			other := q.another()
			s, err := other.Stats(q.ctx)
			if err != nil || s.Limits != l || !s.LimitedBy.Active || !strings.HasPrefix(s.LimitedBy.String(), "limits set by ann since ") {
				q.Errorf("after reopening: %+v by %v, %v", s.Limits, s.LimitedBy, err)
			}
			q.near("set", s.LimitedBy.Since, 0)
			q.store(jobs(5)...)
			w := q.workerOn(other)
			if all, _ := w.limited(); len(all) != 2 {
				q.Errorf("%d are claimed, want 2", len(all))
			}
			q.limit(durable.Limits{})
			if s := q.stats(); s.Limits != (durable.Limits{}) || s.LimitedBy.Active || s.LimitedBy.String() != "no limits" {
				q.Errorf("without limits: %+v by %v", s.Limits, s.LimitedBy)
			}
			w.take(3)
		}},
		{"what waits for its key comes when the limit is lifted", Limits{}, func(q *queue) {
			q.limit(durable.Limits{KeyConcurrency: 1})
			q.store(counted("a", "k"), counted("b", "k"), counted("c", "k"))
			w := q.worker()
			w.one("a")
			w.none("the others")
			q.limit(durable.Limits{KeyConcurrency: 3})
			w.comes("lifted", "b", "c")
			w.comes("lifted", "b", "c")
		}},
		{"without limits a key is nothing", Limits{}, func(q *queue) {
			q.store(counted("a", "k"), counted("b", "k"), job("c"))
			w := q.worker()
			q.ordered("all", w.take(3), named("a", "b", "c"))
			if r := q.in("a", durable.StateProcessing); r.LimitKey != "k" {
				q.Errorf("the key is %q", r.LimitKey)
			}
		}},
		{"limits out of bounds are refused by name", Limits{}, func(q *queue) {
			o := q.operator()
			for says, l := range map[string]durable.Limits{
				"Concurrency":    {Concurrency: -1},
				"KeyConcurrency": {KeyConcurrency: 1 << 40},
				"Rate":           {Rate: durable.Rate{Count: -1}},
				"KeyRate":        {KeyRate: durable.Rate{Burst: 2}},
				"KeyRate has a":  {KeyRate: durable.Rate{Count: 1, Per: math.MaxInt64}},
				"Rate has a":     {Rate: durable.Rate{Count: 1, Per: 24 * time.Hour, Burst: 999_000}},
				"KeyRate.Per":    {KeyRate: durable.Rate{Count: 1, Per: time.Microsecond}},
			} {
				q.misused(o.SetLimits(q.ctx, l, "ann"), says)
			}
			q.misused(o.SetLimits(q.ctx, durable.Limits{Concurrency: 1}, ""), "who")
			if s := q.stats(); s.Limits != (durable.Limits{}) {
				q.Errorf("after it: %+v", s.Limits)
			}
			_, err := q.producer().Append(q.ctx, 1, []*durable.Job{job("a"), counted("b", strings.Repeat("k", durable.MaxIDBytes+1))})
			q.misused(err, "Job.LimitKey")
			q.places("after it", durable.Stats{})
			ctx, cancel := cancelled(q)
			defer cancel()
			if err := o.SetLimits(ctx, durable.Limits{Concurrency: 1}, "ann"); !errors.Is(err, durable.ErrNotExecuted) {
				q.Errorf("set limits: %v", err)
			}
		}},
	}
}

// limitCancelPromises are those of engines with both.
func limitCancelPromises() []promise {
	return []promise{
		{"what waits for its key can be cancelled, and what is cancelled holds no key", Limits{}, func(q *queue) {
			q.limit(durable.Limits{KeyConcurrency: 1})
			q.store(counted("a", "k"), counted("b", "k"), counted("c", "k"))
			w := q.worker()
			c := w.one("a")
			w.none("the others")
			q.cancelled("b")
			q.marked("a", w)
			w.settled("C", outcome(c, durable.Retry))
			w.done(w.comes("after it", "c"))
			w.none("after all")
			q.places("after all", durable.Stats{Limits: durable.Limits{KeyConcurrency: 1}, LimitedBy: q.stats().LimitedBy})
		}},
	}
}

// limitExpiryPromises are those of engines with both.
func limitExpiryPromises() []promise {
	return []promise{
		{"what waits too long for its key expires, and those behind it come", Limits{}, func(q *queue) {
			q.limit(durable.Limits{KeyConcurrency: 1})
			late := counted("late", "k")
			late.Expiry = moment
			q.store(counted("a", "k"), late, counted("b", "k"))
			w := q.worker()
			c := w.one("a")
			w.none("the others")
			q.lapse(moment)
			w.done(c)
			w.done(w.comes("after it", "b"))
			q.until("it is told that one has expired", func() bool {
				w.none("the late one")
				return len(w.expired) > 0
			})
			w.lapsed("after all", "late")
		}},
	}
}
