package durable_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

func TestListLimitsHoldUnderLoad(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, of maker) {
		const clients, each, keys, jobs = 3, 3, 3, 300
		want := durable.Limits{Concurrency: 5, KeyConcurrency: 2}
		b := setupQueue(t, of, nil)
		b.limit(want)
		var ids []string
		for k := range keys {
			ids = append(ids, numbered(string(rune('a'+k)), jobs/keys)...)
		}
		slices.Reverse(ids)
		b.appendJobs(keyed(ids...))

		var mu sync.Mutex // guards what follows: claims as their holders know them, so never more than there are
		held := map[string]int{}
		all, most, done := 0, 0, 0
		note := func(id string, by int) {
			mu.Lock()
			defer mu.Unlock()
			key := strings.TrimRight(id, "0123456789")
			held[key] += by
			all += by
			most = max(most, all)
			if by < 0 {
				done++
			}
			if all > want.Concurrency || held[key] > want.KeyConcurrency {
				t.Errorf("%d claims, %d of key %s", all, held[key], key)
			}
		}
		over := func() bool {
			mu.Lock()
			defer mu.Unlock()
			return done == jobs
		}
		var wg sync.WaitGroup
		for range clients {
			l := b.another(b.addr, info(t, b.list).Name, nil)
			for range each {
				w := b.workerOf(l, long)
				wg.Go(func() {
					for !over() && b.ctx.Err() == nil && !t.Failed() {
						w.claims++
						c, err := w.Claim(b.ctx, durable.ClaimRequest{N: w.claims, Slots: 3, MaxBytes: 1 << 20, Held: w.held})
						if err != nil {
							t.Error(err)
							return
						}
						for _, j := range c.Jobs {
							note(j.ID, 1)
						}
						for i, j := range c.Jobs {
							note(j.ID, -1) // before the store knows
							verdict := durable.Done
							if j.Deliveries == 1 && i == 1 {
								verdict = durable.Release
								note(j.ID, 0)
								mu.Lock()
								done--
								mu.Unlock()
							}
							w.settles++
							if _, err := w.Settle(b.ctx, w.settles, []durable.Outcome{{Ref: durable.Ref{ID: j.ID, Token: j.Token}, Verdict: verdict}}); err != nil {
								t.Error(err)
								return
							}
						}
					}
				})
			}
		}
		wg.Wait()
		if !over() {
			t.Errorf("%d of %d jobs are done; %+v", done, jobs, b.stats())
		}
		if most < want.Concurrency {
			t.Logf("%d claims at once at most", most)
		}
		if left := b.rdb.ZCard(b.ctx, b.key("running:a")).Val(); left > 0 {
			t.Error(left, "left in the index")
		}
	})
}

func TestListRates(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, of maker) {
		for name, limits := range map[string]durable.Limits{
			"of the queue": {Rate: durable.Rate{Count: 50, Per: time.Second, Burst: 3}},
			"of a key":     {KeyRate: durable.Rate{Count: 50, Per: time.Second, Burst: 3}},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				const jobs, burst, every = 40, 3, 20 * time.Millisecond
				b := setupQueue(t, of, nil)
				b.limit(limits)
				b.appendJobs(append(keyed(numbered("k", jobs)...), keyed(numbered("l", jobs)...)...))
				total := 2 * jobs
				start := time.Now()
				var wg sync.WaitGroup
				var mu sync.Mutex
				at := map[string][]int64{} // by what is limited: when they were claimed, by Redis
				n := 0
				over := func() bool {
					mu.Lock()
					defer mu.Unlock()
					return n == total
				}
				for range 2 {
					w := b.workerOf(b.another(b.addr, info(t, b.list).Name, nil), long)
					wg.Go(func() {
						for !over() && b.ctx.Err() == nil {
							w.claims++
							c, err := w.Claim(b.ctx, durable.ClaimRequest{N: w.claims, Slots: 5, MaxBytes: 1 << 20, Held: w.held})
							if err != nil {
								t.Error(err)
								return
							}
							w.held += len(c.Jobs)
							for _, j := range c.Jobs {
								ms, _ := b.rdb.HGet(b.ctx, b.key("job:"+j.ID), "claimed_at_ms").Int64()
								key := "queue"
								if limits.KeyRate.Count > 0 {
									key = j.ID[:1]
								}
								mu.Lock()
								at[key] = append(at[key], ms)
								n++
								mu.Unlock()
							}
						}
					})
				}
				wg.Wait()
				if !over() {
					t.Fatalf("%d of %d are claimed: %+v", n, total, b.stats())
				}
				took := time.Since(start)
				least := time.Duration(total-burst) * every
				for key, when := range at {
					slices.Sort(when)
					if key != "queue" {
						least = time.Duration(jobs-burst) * every
					}
					for i := range when {
						for j := i + burst; j < len(when); j++ { // any stretch holds what its length allows, and the burst
							if gap := time.Duration(when[j]-when[i]+1) * time.Millisecond; gap < time.Duration(j-i-burst+1)*every {
								t.Fatalf("%s: claims %d to %d within %v", key, i, j, gap)
							}
						}
					}
				}
				t.Logf("%v for %v", took, least)
			})
		}
	})
}
