// Answers that never arrive, of every kind of request, at random.
package weir_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
	"github.com/seed-9dec4fca/weir/policy"
)

// losing makes the proxy lose a share of all replies, from a seed, until the returned function
// is called; it returns what was lost, by the verb of the request.
func losing(p *redistest.Proxy, seed uint64, share float64, how redistest.Action) (end func() map[string]int) {
	var mu sync.Mutex
	rng, lost := rand.New(rand.NewPCG(seed, 4)), map[string]int{}
	remove := p.OnReply(func(e redistest.Exchange) redistest.Action {
		mu.Lock()
		defer mu.Unlock()
		if rng.Float64() >= share {
			return redistest.Pass
		}
		lost[verb(e.Args)]++
		return how
	})
	return func() map[string]int {
		remove()
		mu.Lock()
		defer mu.Unlock()
		return lost
	}
}

// verb is the command, or the name that a script of ours has after its keys.
func verb(args []string) string {
	if len(args) == 0 {
		return ""
	}
	if name := strings.ToLower(args[0]); name != "evalsha" && name != "eval" {
		return name
	}
	for _, name := range []string{"open", "append", "close", "claim", "settle", "renew", "sweep", "leave", "stats", "probe"} {
		if slices.Contains(args[:min(len(args), 14)], name) {
			return name
		}
	}
	return "script"
}

func TestLostRepliesLoseNothingAndRepeatNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		how   redistest.Action
		share float64
	}{
		"FIN":     {redistest.FIN, 0.05},
		"RST":     {redistest.RST, 0.05},
		"silence": {redistest.Silence, 0.05},
		"a fifth": {redistest.RST, 0.2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const lease, spell = 4 * time.Second, 3 * time.Second
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rdb, queue := redistest.Client(t), redistest.Name(t)
			prefix := "{" + queue + "}:"
			runs, quick := newLedger(), &durable.RedisOptions{Timeout: 400 * time.Millisecond}
			var queues []*bridge.Queue
			var kinds []*bridge.Kind[string]
			var ends []func() map[string]int
			for i := range 2 { // two processes, each produces and consumes
				proxy := redistest.NewProxy(t, redistest.Addr(t))
				q := enlist(t, proxy.Client(t), quick, queue, nil, nil)
				kind := plain(q, "n")
				runs.consume(t, kind)
				run(t, q, &bridge.RunOptions{Workers: 8, Lease: lease, SweepEvery: 200 * time.Millisecond})
				queues, kinds = append(queues, q), append(kinds, kind)
				ends = append(ends, losing(proxy, seed+uint64(i), c.share, c.how))
			}
			var mu sync.Mutex
			var tickets []*bridge.Ticket
			var over atomic.Bool
			time.AfterFunc(spell, func() { over.Store(true) })
			var producers sync.WaitGroup
			for n := range 4 {
				producers.Go(func() {
					ctx := patient(t)
					for i := n; !over.Load(); i++ {
						ticket, err := kinds[n%2].Submit(ctx, "x", policy.Wait(0))
						if err != nil {
							t.Errorf("submit: %v", err)
							return
						}
						mu.Lock()
						tickets = append(tickets, ticket)
						mu.Unlock()
						if i%4 == 0 { // at the pace of the answers, so that requests are small and many
							_ = ticket.WaitEnqueued(ctx)
						}
					}
				})
			}
			producers.Wait()
			lost := map[string]int{}
			for _, end := range ends {
				for verb, n := range end() {
					lost[verb] += n
				}
			}
			ctx := patient(t)
			for _, ticket := range tickets {
				if err := ticket.WaitEnqueued(ctx); err != nil {
					t.Fatalf("accepted: %v", err)
				}
			}
			var stored bridge.Stats
			for ctx.Err() == nil && stored.Durable.Counters["completed"] != int64(len(tickets)) {
				stored, _ = queues[0].Stats(ctx)
			}
			if ctx.Err() != nil {
				t.Fatalf("of %d jobs: %+v\n%+v\n%+v", len(tickets), stored.Durable, queues[0].Counters(), queues[1].Counters())
			}
			var a, b bridge.Counters
			eventually(t, "the workers know of every completion", func() bool {
				a, b = queues[0].Counters(), queues[1].Counters()
				return a.LeaseLost+b.LeaseLost > 0 || a.Completed+b.Completed+a.Gone+b.Gone+a.Stale+b.Stale == uint64(len(tickets))
			})
			t.Logf("%d jobs, lost replies: %v", len(tickets), lost)
			if n := rdb.HGet(patient(t), prefix+"counters", "appended").Val(); n != fmt.Sprint(len(tickets)) {
				t.Errorf("%s stored, %d reported", n, len(tickets))
			}
			again := 0
			for _, ticket := range tickets {
				d := runs.of(ticket.ID())
				if len(d) == 0 {
					t.Fatalf("job %s was completed and never ran", ticket.ID())
				}
				for k, deliveries := range d {
					if deliveries <= k {
						t.Errorf("job %s: run %d was delivery %d", ticket.ID(), k+1, deliveries)
					}
				}
				again += len(d) - 1
			}
			if again > 0 && a.LeaseLost+b.LeaseLost == 0 {
				t.Errorf("%d runs were repeated although no lease ended", again)
			}
			if n := runs.total(); n != len(tickets)+again {
				t.Errorf("%d runs", n)
			}
			if a.Gaps+b.Gaps+a.Unsettled+b.Unsettled+a.Dead+b.Dead+a.Retried+b.Retried != 0 {
				t.Errorf("%+v\n%+v", a, b)
			}
			if c.share < 0.1 && a.LeaseLost+b.LeaseLost != 0 {
				t.Errorf("%d leases of %v lost with %.0f %% of the replies", a.LeaseLost+b.LeaseLost, lease, 100*c.share)
			}
			if a.LeaseLost+b.LeaseLost == 0 && a.Gone+b.Gone+a.Stale+b.Stale != 0 {
				t.Errorf("completions were told wrongly: %+v\n%+v", a, b)
			}
			// Identities whose birth was answered to nobody go by their lease.
			eventually(t, "the living are registered, and only they", func() bool {
				a, b = queues[0].Counters(), queues[1].Counters()
				return !a.LastClaim.IsZero() && !b.LastClaim.IsZero() && rdb.ZCard(patient(t), prefix+"consumers").Val() == 2
			})
			for _, q := range queues {
				shut(t, q)
			}
			a, b = queues[0].Counters(), queues[1].Counters()
			if left := leftovers(t, rdb, prefix); len(left) != 0 && a.LeaseLost+b.LeaseLost == 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// One reply after the other, of each kind of request, is lost once.
func TestEachLostReplyIsHarmless(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"probe", "open", "append", "claim", "settle", "renew", "sweep", "leave", "blmove"} {
		for name, how := range map[string]redistest.Action{"FIN": redistest.FIN, "silence": redistest.Silence} {
			t.Run(fmt.Sprint(word, " ", name), func(t *testing.T) {
				t.Parallel()
				rdb, queue := redistest.Client(t), redistest.Name(t)
				proxy := redistest.NewProxy(t, redistest.Addr(t))
				match := func(e redistest.Exchange) bool { return verb(e.Args) == word }
				lost := []<-chan struct{}{proxy.Lose(1, match, how)}
				if word != "probe" && word != "leave" { // which may be asked only once
					lost = append(lost, proxy.Lose(2, match, how))
				}
				happened := func() bool {
					for _, one := range lost {
						select {
						case <-one:
						default:
							return false
						}
					}
					return true
				}
				q := enlist(t, proxy.Client(t), &durable.RedisOptions{Timeout: 300 * time.Millisecond}, queue, nil, nil)
				kind, runs := plain(q, "n"), newLedger()
				runs.consume(t, kind)
				run(t, q, &bridge.RunOptions{Lease: 2 * time.Second, SweepEvery: 100 * time.Millisecond})
				var ids []string
				for ctx := patient(t); len(ids) < 10 || word != "leave" && !happened() && ctx.Err() == nil; {
					ticket, err := kind.Submit(patient(t), "x", policy.Wait(0))
					if err != nil {
						t.Fatal(err)
					}
					if err := ticket.Wait(patient(t)); err != nil {
						t.Error(err)
					}
					ids = append(ids, ticket.ID())
				}
				runs.once(t, ids...)
				eventually(t, "only the living are registered", func() bool {
					return rdb.ZCard(patient(t), "{"+queue+"}:consumers").Val() == 1
				})
				shut(t, q)
				if !happened() {
					t.Error("nothing was lost")
				}
				if left := leftovers(t, rdb, "{"+queue+"}:"); len(left) != 0 {
					t.Errorf("left behind: %q", left)
				}
			})
		}
	}
}
