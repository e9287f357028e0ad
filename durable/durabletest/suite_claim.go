package durabletest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

func claimPromises() []promise {
	return []promise{
		{"a claim sent twice gives the same claims", Limits{}, func(q *queue) {
			q.store(jobs(5)...)
			w := q.worker()
			r := w.request(3)
			first, again := w.ask(r), w.ask(r)
			q.ordered("first", first.Jobs, jobs(3))
			q.ordered("again", again.Jobs, jobs(3))
			for i, c := range again.Jobs[:min(len(again.Jobs), len(first.Jobs))] {
				if c.Token != first.Jobs[i].Token || c.Deliveries != 1 || c.Fence != first.Jobs[i].Fence {
					q.Errorf("again %+v, first %+v", c, first.Jobs[i])
				}
			}
			q.places("sent twice", durable.Stats{Pending: 2, Processing: 3})
			r = w.request(1)
			w.ask(r)
			q.ordered("a later one again", w.ask(r).Jobs, jobs(4)[3:])
			w.done(again.Jobs...)
		}},
		{"a claim says which append of its ID it is of", Limits{}, func(q *queue) {
			p, w := q.producer(), q.worker()
			is := func(when string, n uint64, claims ...*durable.Claim) {
				q.Helper()
				life := fmt.Sprintf("%s:%d", p.ID(), n)
				for _, c := range claims {
					if c.Life != life && !strings.HasPrefix(c.Life, life+":") {
						q.Errorf("%s: the life of %s is %q, want that of %s", when, c.ID, c.Life, life)
					}
				}
			}
			p.store(job("a"), job("b"))
			p.store(job("c"))
			r := w.request(3)
			all := w.ask(r).Jobs
			q.ordered("first", all, []*durable.Job{job("a"), job("b"), job("c")})
			is("appended together", 1, all[:2]...)
			is("appended later", 2, all[2])
			again := w.ask(r).Jobs
			q.ordered("again", again, []*durable.Job{job("a"), job("b"), job("c")})
			is("a repeated claim", 1, again[:2]...)
			is("a repeated claim", 2, again[2])
			w.settled("OOO", outcome(all[0], durable.Retry), outcome(all[1], durable.Done), outcome(all[2], durable.Done))
			c := w.one("a")
			is("after a retry", 1, c)
			w.done(c)
			p.store(job("b"))
			is("a second life", 3, w.one("b"))
			direct, ok := p.Producer.(durable.DirectProducer)
			if !ok {
				return
			}
			p.n++
			r = w.request(2)
			_, claims, err := direct.AppendFor(q.ctx, p.n, []*durable.Job{job("c"), job("d")}, w.Consumer, r)
			if err != nil {
				q.Fatalf("append for a consumer: %v", err)
			}
			is("handed over", p.n, claims...)
			if len(claims) > 0 {
				is("handed over, and claimed again", p.n, w.ask(r).Jobs...)
			}
		}},
		{"a repeated claim leaves out what has been settled", Limits{}, func(q *queue) {
			q.store(jobs(3)...)
			w := q.worker()
			r := w.request(3)
			first := w.ask(r).Jobs
			q.ordered("first", first, jobs(3))
			if len(first) != 3 {
				return
			}
			w.settled("O", outcome(first[0], durable.Done))
			q.ordered("one settled", w.ask(r).Jobs, jobs(3)[1:])
			w.settled("OO", outcome(first[1], durable.Release), outcome(first[2], durable.Done))
			if a := w.ask(r); len(a.Jobs) > 0 {
				q.Errorf("all settled: %q", ids(a.Jobs))
			}
			w.one("job-0001")
		}},
		{"an outdated claim takes nothing", Limits{}, func(q *queue) {
			q.store(jobs(4)...)
			w := q.worker()
			old := w.request(1)
			w.ask(old)
			w.claim(1)
			w.refused(old, durable.ErrOutdated)
			q.places("after it", durable.Stats{Pending: 2, Processing: 2})
		}},
		{"an empty claim is remembered too", Limits{}, func(q *queue) {
			w := q.worker()
			r := w.request(1)
			w.ask(r)
			q.store(job("a"))
			if a := w.ask(r); len(a.Jobs) > 0 {
				q.Errorf("a repeated claim took %q", ids(a.Jobs))
			}
			q.places("after it", durable.Stats{Pending: 1})
			w.one("a")
		}},
		{"a claim takes no more than its slots", Limits{}, func(q *queue) {
			q.store(jobs(5)...)
			if a := q.worker().claim(2); len(a.Jobs) != 2 {
				q.Errorf("claimed %q with 2 slots", ids(a.Jobs))
			}
			q.places("after it", durable.Stats{Pending: 3, Processing: 2})
		}},
		{"a claim takes no more than its bytes, but one", Limits{}, func(q *queue) {
			all := jobs(4)
			for i, size := range []int{100, 60, 40, 10} {
				all[i].Payload = make([]byte, size)
			}
			q.store(all...)
			w := q.worker()
			for _, want := range [][]*durable.Job{all[:1], all[1:3], all[3:]} {
				r := w.request(10)
				r.MaxBytes = 100
				if want[0] == all[0] {
					r.MaxBytes = 10
				}
				q.ordered("by bytes", w.ask(r).Jobs, want)
			}
		}},
		{"an empty queue answers so", Limits{}, func(q *queue) {
			if a := q.worker().claim(1); a.Status != durable.ClaimEmpty || a.NextDue >= 0 || a.Gap || a.Dropped != 0 || a.Corrupt != 0 {
				q.Errorf("claim: %+v", a)
			}
		}},
		{"no job is in two hands", Limits{}, func(q *queue) {
			all := jobs(200)
			p := q.producer()
			for batch := range slices.Chunk(all, 50) {
				p.store(batch...)
			}
			var (
				wg     sync.WaitGroup
				mu     sync.Mutex
				owners = make(map[string]string)
				tokens = make(map[durable.Ref]bool)
			)
			for range 4 {
				w := q.worker()
				wg.Go(func() {
					held := 0
					for n := uint64(1); ; n++ {
						a, err := w.Claim(q.ctx, durable.ClaimRequest{N: n, Slots: 7, MaxBytes: plenty, Held: held})
						if err != nil {
							q.Errorf("claim: %v", err)
							return
						}
						if a.Status == durable.ClaimEmpty {
							return
						}
						held += len(a.Jobs)
						mu.Lock()
						for _, c := range a.Jobs {
							if other := owners[c.ID]; other != "" {
								q.Errorf("%s is held by %s and %s", c.ID, other, w.ID())
							}
							owners[c.ID] = w.ID()
							tokens[ref(c)] = true
						}
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			if len(owners) != len(all) || len(tokens) != len(all) {
				q.Errorf("%d jobs claimed under %d tokens, want %d", len(owners), len(tokens), len(all))
			}
		}},
		{"every claim has a new token, one more delivery and a greater fence", Limits{}, func(q *queue) {
			q.store(job("a"))
			one, two := q.worker(), q.worker()
			var fence int64
			tokens := make(map[string]bool)
			for i := range 6 {
				w := []*worker{one, two}[i%2]
				if i == 3 { // a second life of the ID
					w.done(w.one("a"))
					q.store(job("a"))
				}
				c := w.one("a")
				want := i + 1
				if i >= 3 {
					want = i - 2
				}
				if tokens[c.Token] || c.Deliveries != want || c.Fence <= fence || c.Attempts != 0 {
					q.Errorf("claim %d: %+v after fence %d, want %d deliveries", i, c, fence, want)
				}
				tokens[c.Token] = true
				fence = c.Fence
				w.settled("O", outcome(c, durable.Release))
			}
		}},
		{"calls of one consumer may overlap", Limits{}, func(q *queue) {
			w := q.worker()
			ctx, cancel := context.WithCancel(q.ctx)
			var wg sync.WaitGroup
			wg.Go(func() {
				for ctx.Err() == nil {
					_ = w.Await(ctx)
				}
			})
			wg.Go(func() {
				for range 50 {
					if err := w.Renew(q.ctx, long); err != nil {
						q.Errorf("renew: %v", err)
					}
				}
			})
			wg.Go(func() {
				for range 20 {
					_, _ = q.engine.Stats(q.ctx)
					_, _ = q.engine.Sweep(q.ctx)
				}
			})
			claims := make(chan *durable.Claim, 100)
			wg.Go(func() {
				n := uint64(0)
				for c := range claims {
					n++
					s, err := w.Settle(q.ctx, n, []durable.Outcome{outcome(c, durable.Done)})
					if err != nil || codesOf(s) != "O" {
						q.Errorf("settle: %+v, %v", s, err)
					}
				}
			})
			all := jobs(100)
			q.store(all...)
			for n, got := uint64(1), 0; got < len(all); n++ {
				a, err := w.Claim(q.ctx, durable.ClaimRequest{N: n, Slots: 5, MaxBytes: plenty, Held: got})
				if err != nil {
					q.Errorf("claim: %v", err)
					break
				}
				got += len(a.Jobs)
				for _, c := range a.Jobs {
					claims <- c
				}
			}
			close(claims)
			cancel()
			wg.Wait()
			q.places("after all", durable.Stats{})
		}},
	}
}

func reconcilePromises() []promise {
	return []promise{
		{"claims whose answer was lost are returned uncharged", Limits{}, func(q *queue) {
			q.store(jobs(3)...)
			w := q.worker()
			known := w.only(w.claim(1))
			lost := w.only(w.claim(1))
			delete(w.held, ref(lost))
			r := w.request(1)
			if a := w.ask(r); a.Status != durable.ClaimReconcile {
				q.Fatalf("claim: %q, want reconcile", a.Status)
			}
			if a := w.ask(r); a.Status != durable.ClaimReconcile {
				q.Fatalf("the same again: %q, want reconcile", a.Status)
			}
			r = w.request(1)
			r.Named = []durable.Ref{ref(known)}
			again := w.only(w.ask(r))
			q.ordered("at the head of the queue", []*durable.Claim{again}, jobs(3)[1:2])
			if c := again; c.Crashes != 0 || c.Attempts != 0 || c.Deliveries != 2 || c.Token == lost.Token {
				q.Errorf("claimed again: %+v", c)
			}
			w.settled("S", outcome(lost, durable.Done))
			w.done(known, again)
		}},
		{"a consumer that knows of nothing keeps nothing", Limits{}, func(q *queue) {
			q.store(jobs(3)...)
			w := q.worker()
			w.claim(2)
			clear(w.held)
			if a := w.claim(1); a.Status != durable.ClaimReconcile {
				q.Fatalf("claim: %q, want reconcile", a.Status)
			}
			r := w.request(3)
			r.Named = []durable.Ref{}
			q.ordered("all of them", w.ask(r).Jobs, jobs(3))
		}},
		{"a job is not named by a token of its past", Limits{}, func(q *queue) {
			q.store(job("a"))
			w := q.worker()
			old := w.one("a")
			w.settled("O", outcome(old, durable.Release))
			w.one("a")
			r := w.request(1)
			r.Held, r.Named = 0, []durable.Ref{ref(old)}
			if c := w.only(w.ask(r)); c.Deliveries != 3 {
				q.Errorf("claimed again: %+v, want the third delivery", c)
			}
		}},
		{"a claim that is named is kept, though an older one of its ID is named too", Limits{}, func(q *queue) {
			q.store(job("a"))
			w := q.worker()
			old := w.one("a")
			w.settled("O", outcome(old, durable.Release))
			now := w.one("a")
			for _, named := range [][]durable.Ref{{ref(old), ref(now)}, {ref(now), ref(old)}} {
				r := w.request(1)
				r.Named = named
				if a := w.ask(r); a.Status != durable.ClaimEmpty {
					q.Errorf("claim: %+v", a)
				}
			}
			w.done(now)
		}},
		{"a consumer that counts too many is not asked to reconcile", Limits{}, func(q *queue) {
			q.store(jobs(2)...)
			w := q.worker()
			w.claim(1)
			r := w.request(1)
			r.Held = 7 // settles in flight
			if a := w.ask(r); a.Status != durable.ClaimJobs {
				q.Errorf("claim: %q", a.Status)
			}
		}},
	}
}

func awaitPromises() []promise {
	// parked starts an Await and returns its end.
	parked := func(ctx context.Context, w *worker) <-chan time.Duration {
		end := make(chan time.Duration, 1)
		start := time.Now()
		go func() {
			_ = w.Await(ctx)
			end <- time.Since(start)
		}()
		return end
	}
	const slack = 5 * time.Second // of a busy machine
	return []promise{
		{"await ends by itself", Limits{}, func(q *queue) {
			if d := <-parked(q.ctx, q.worker()); d > durable.Park+slack {
				q.Errorf("after %v, want about %v", d, durable.Park)
			}
		}},
		{"await ends with its context", Limits{}, func(q *queue) {
			ctx, cancel := context.WithCancel(q.ctx)
			end := parked(ctx, q.worker())
			q.pause(between)
			cancel()
			if d := <-end; d > durable.Park+slack {
				q.Errorf("after %v", d)
			}
		}},
		{"await ends when a job is appended", Limits{}, func(q *queue) {
			w := q.worker()
			for range 20 { // one Await that ran its full time by chance is not enough to pass
				end := parked(q.ctx, w)
				q.pause(between)
				q.store(job("a"))
				d := <-end
				w.done(w.one("a"))
				if d < durable.Park/2 {
					return
				}
			}
			q.Errorf("20 times await did not end early")
		}},
		{"await ends when a job is released", Limits{}, func(q *queue) {
			one, two := q.worker(), q.worker()
			for range 20 {
				q.store(job("a"))
				c := one.one("a")
				end := parked(q.ctx, two)
				q.pause(between)
				one.settled("O", outcome(c, durable.Release))
				d := <-end
				two.done(two.one("a"))
				if d < durable.Park/2 {
					return
				}
			}
			q.Errorf("20 times await did not end early")
		}},
		{"await does not wait when there is something to claim", Limits{}, func(q *queue) {
			q.store(job("a"))
			w := q.worker()
			for range 20 {
				if d := <-parked(q.ctx, w); d < durable.Park/2 {
					return
				}
			}
			q.Errorf("20 times await did not end early")
		}},
		{"what await saw is anybody's", Limits{}, func(q *queue) {
			q.store(jobs(2)...)
			one, two := q.worker(), q.worker()
			<-parked(q.ctx, one)
			q.places("after await", durable.Stats{Pending: 2})
			q.ordered("by the other", two.take(2), jobs(2))
		}},
	}
}
