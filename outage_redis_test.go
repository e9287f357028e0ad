// Stories from the field about a Redis that is away while producers go on.
package weir_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// slack is what a loaded machine may add to a wait of 100 ms.
const slack = 700 * time.Millisecond

// delay makes the proxy keep every reply back for d, until the returned function is called.
func delay(t *testing.T, p *redistest.Proxy, d time.Duration) (end func()) {
	t.Helper()
	over, cancel := context.WithCancel(context.Background())
	remove := p.OnReply(func(redistest.Exchange) redistest.Action {
		select {
		case <-time.After(d):
		case <-over.Done():
		}
		return redistest.Pass
	})
	end = func() { cancel(); remove() }
	t.Cleanup(end)
	return end
}

// Enqueueing waited for ever when Redis was away, and fail-fast did not help if it was down at start.
func TestCase08_SubmitWaitsForEverWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	faults := map[string]func(*testing.T, *redistest.Proxy) (end func()){
		"down": func(_ *testing.T, p *redistest.Proxy) func() {
			p.Refuse(true)
			p.Sever(redistest.RST)
			return func() { p.Refuse(false) }
		},
		"black hole": func(_ *testing.T, p *redistest.Proxy) func() { return p.Blackhole() },
		"5 s late":   func(t *testing.T, p *redistest.Proxy) func() { return delay(t, p, 5*time.Second) },
	}
	for name, fault := range faults {
		for _, when := range []string{"at start", "later"} {
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				const capacity = 3
				proxy := redistest.NewProxy(t, redistest.Addr(t))
				end := func() {}
				if when == "at start" {
					end = fault(t, proxy)
				}
				begin := time.Now()
				q := enlist(t, proxy.Client(t), nil, redistest.Name(t), nil, &bridge.Options{Capacity: capacity})
				kind := plain(q, "n")
				if took := time.Since(begin); took > slack {
					t.Errorf("constructors took %v", took)
				}
				if when == "later" {
					ticket, err := kind.TrySubmit("before")
					if err != nil {
						t.Fatal(err)
					}
					if err := ticket.WaitEnqueued(patient(t)); err != nil {
						t.Fatal(err)
					}
					if err := q.Flush(patient(t)); err != nil { // its slot is free too
						t.Fatal(err)
					}
					end = fault(t, proxy)
				}
				var tickets []*bridge.Ticket
				for range capacity {
					ticket, err := kind.TrySubmit("during")
					if err != nil {
						t.Fatal(err)
					}
					tickets = append(tickets, ticket)
				}
				begin = time.Now()
				_, err := kind.Submit(t.Context(), "too many", policy.Wait(100*time.Millisecond))
				took := time.Since(begin)
				rejection, ok := errors.AsType[*policy.Rejection](err)
				if !ok || !errors.Is(err, policy.ErrFull) || took > 100*time.Millisecond+slack {
					t.Errorf("after %v: %v", took, err)
				} else if rejection.Depth != capacity || rejection.RetryAfter <= 0 {
					t.Errorf("rejection %+v", rejection)
				}
				for _, wait := range []func(context.Context) error{tickets[0].WaitEnqueued, tickets[0].Wait, q.Flush, q.Check} {
					ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
					begin = time.Now()
					err := wait(ctx)
					cancel()
					if took := time.Since(begin); err == nil || took > 100*time.Millisecond+slack {
						t.Errorf("a wait of 100 ms ended after %v: %v", took, err)
					}
				}
				end()
				for _, ticket := range tickets {
					if err := ticket.WaitEnqueued(patient(t)); err != nil {
						t.Errorf("accepted while Redis was away: %v", err)
					}
				}
			})
		}
	}
}

// durableServer keeps every write on disk, so that a kill loses nothing.
func durableServer(t *testing.T) *redistest.Server {
	t.Helper()
	return redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
}

// away is a queue whose Redis was killed after the first job, with its front filled
// since; the bridge has the first of what is in it.
func away(t *testing.T, capacity int) (*redistest.Server, *bridge.Queue, *bridge.Kind[string], []*bridge.Ticket) {
	t.Helper()
	server := durableServer(t)
	var logged atomic.Int64
	q := open(t, server.Client(t), "away", nil, &bridge.Options{Capacity: capacity, Logger: slog.New(lines{n: &logged})})
	kind := plain(q, "n")
	first, err := kind.TrySubmit("before")
	if err != nil {
		t.Fatal(err)
	}
	if err := first.WaitEnqueued(patient(t)); err != nil {
		t.Fatal(err)
	}
	if err := q.Flush(patient(t)); err != nil { // its slot is free too
		t.Fatal(err)
	}
	server.Kill()
	before := logged.Load()
	tickets := []*bridge.Ticket{first}
	for i := range capacity {
		ticket, err := kind.TrySubmit(fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		tickets = append(tickets, ticket)
		if i == 0 {
			// From then on it leaves the others where they can be evicted.
			eventually(t, "the bridge has tried the first", func() bool { return logged.Load() > before })
		}
	}
	return server, q, kind, tickets
}

// pending lists the pending IDs, the oldest first.
func pending(t *testing.T, rdb *redis.Client, prefix string) []string {
	t.Helper()
	ids, err := rdb.LRange(patient(t), prefix+"pending", 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(ids)
	return ids
}

func idsOf(tickets []*bridge.Ticket) (ids []string) {
	for _, ticket := range tickets {
		ids = append(ids, ticket.ID())
	}
	return ids
}

// What was buffered in an outage was sent by the next push only, or lost at exit, or dropped silently.
func TestCase13_BufferOfAnOutageIsLost(t *testing.T) {
	t.Parallel()
	t.Run("Redis back and no new push: drained, in order", func(t *testing.T) {
		t.Parallel()
		server, _, _, tickets := away(t, 60)
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		for _, ticket := range tickets {
			if err := ticket.WaitEnqueued(patient(t)); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(idsOf(tickets), pending(t, server.Client(t), "{away}:")); diff != "" {
			t.Errorf("order of the backlog (-want +got):\n%s", diff)
		}
	})
	t.Run("shutdown in the outage: exactly the unpersisted come back", func(t *testing.T) {
		t.Parallel()
		server, q, _, tickets := away(t, 60)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		report, err := q.Shutdown(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var back []string
		for i, r := range report.Returned {
			back = append(back, r.ID)
			if string(r.Payload) != fmt.Sprint(i) || r.Kind != "n" || !errors.Is(r.Err, policy.ErrClosed) {
				t.Errorf("returned %+v", r)
			}
		}
		if diff := cmp.Diff(idsOf(tickets[1:]), back); diff != "" || len(report.Uncertain) != 0 || report.Enqueued != 0 {
			t.Errorf("report %d enqueued, %d uncertain, returned (-want +got):\n%s", report.Enqueued, len(report.Uncertain), diff)
		}
		for _, ticket := range tickets[1:] {
			if !errors.Is(ticket.Err(), local.ErrAbandoned) {
				t.Errorf("ticket of a returned job: %v", ticket.Err())
			}
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(idsOf(tickets[:1]), pending(t, server.Client(t), "{away}:")); diff != "" {
			t.Errorf("the backlog (-want +got):\n%s", diff)
		}
	})
	t.Run("overflow: the caller knows which policy hit which job", func(t *testing.T) {
		t.Parallel()
		server, q, kind, tickets := away(t, 10)
		if _, err := kind.Submit(t.Context(), "x", policy.Reject()); !errors.Is(err, policy.ErrFull) {
			t.Errorf("reject: %v", err)
		}
		_, err := kind.Submit(t.Context(), "x", policy.Wait(50*time.Millisecond))
		if r, ok := errors.AsType[*policy.Rejection](err); !ok || r.Reason != policy.ReasonTimeout && r.Reason != policy.ReasonPredicted {
			t.Errorf("wait: %v", err)
		}
		dropped, err := kind.Submit(t.Context(), "x", policy.DropIncoming())
		if err != nil || !errors.Is(dropped.Err(), local.ErrDropped) {
			t.Errorf("drop incoming: %v, %v", dropped, err)
		}
		var newest []*bridge.Ticket
		for range 3 {
			ticket, err := kind.Submit(t.Context(), "new", policy.DropOldest())
			if err != nil {
				t.Fatalf("drop oldest: %v", err)
			}
			newest = append(newest, ticket)
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		if err := q.Flush(patient(t)); err != nil {
			t.Fatal(err)
		}
		var evicted, kept []string
		for _, ticket := range tickets {
			if errors.Is(ticket.Err(), local.ErrEvicted) {
				evicted = append(evicted, ticket.ID())
			} else {
				kept = append(kept, ticket.ID())
			}
		}
		if len(evicted) != 3 {
			t.Errorf("%d evicted", len(evicted))
		}
		if diff := cmp.Diff(append(kept, idsOf(newest)...), pending(t, server.Client(t), "{away}:")); diff != "" {
			t.Errorf("the backlog (-want +got):\n%s", diff)
		}
	})
}

// On shutdown with the server down, drained jobs failed once and were deleted from the queue.
func TestCase14_StoppingEndsAJob(t *testing.T) {
	t.Parallel()
	const jobs, workers = 20, 4
	server := durableServer(t)
	q := open(t, server.Client(t), "stop", nil, nil)
	kind := plain(q, "n")
	_ = kind.Handle(func(ctx context.Context, _ *bridge.Delivery[string]) error {
		<-ctx.Done() // it is told to stop, and fails for it
		return context.Cause(ctx)
	})
	for i := range jobs {
		ticket, err := kind.SubmitJob(patient(t), bridge.Job[string]{ID: fmt.Sprint(i), MaxAttempts: 1}, policy.Reject())
		if err != nil {
			t.Fatal(err)
		}
		if err := ticket.WaitEnqueued(patient(t)); err != nil {
			t.Fatal(err)
		}
	}
	run(t, q, &bridge.RunOptions{Workers: workers, Lease: time.Second})
	eventually(t, "all workers are busy", func() bool { return q.Counters().Started == workers })
	server.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := q.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if c := q.Counters(); c.Dead+c.Retried+c.Completed != 0 {
		t.Errorf("stopping ended a job: %+v", c)
	}

	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	next, runs := open(t, server.Client(t), "stop", nil, nil), newLedger()
	_ = plain(next, "n").Handle(func(_ context.Context, d *bridge.Delivery[string]) error {
		if d.Attempt != 1 {
			t.Errorf("job %s: attempt %d, stopping was charged", d.ID, d.Attempt)
		}
		runs.note(d.ID, d.Deliveries)
		return nil
	})
	run(t, next, &bridge.RunOptions{Lease: time.Second})
	eventually(t, "every job completes", func() bool { return next.Counters().Completed == jobs })
	again := 0
	for i := range jobs {
		if d := runs.of(fmt.Sprint(i)); len(d) != 1 {
			t.Errorf("job %d ran %d times", i, len(d))
		} else {
			again += d[0] - 1
		}
	}
	if again != workers {
		t.Errorf("%d deliveries were in vain, want those of %d workers", again, workers)
	}
}

// Shutdown drained everything or nothing, whatever its context said.
func TestCase15_ShutdownDoesNotHeedItsContext(t *testing.T) {
	t.Parallel()
	stalled := func(t *testing.T) (*bridge.Queue, func()) {
		t.Helper()
		proxy := redistest.NewProxy(t, redistest.Addr(t))
		release := hold(t, proxy, "append")
		q, watch := openWatching(t, proxy.Client(t), redistest.Name(t), nil, nil)
		sent := watch()
		kind := plain(q, "n")
		for i := range 100 {
			if _, err := kind.TrySubmit("x"); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				sent()
			}
		}
		return q, release
	}
	t.Run("time enough: drained, and says how much", func(t *testing.T) {
		t.Parallel()
		q, release := stalled(t)
		time.AfterFunc(200*time.Millisecond, release)
		report := shut(t, q)
		if report.Enqueued != 100 || len(report.Returned)+len(report.Uncertain) != 0 {
			t.Errorf("report: %d enqueued, %d returned, %d uncertain", report.Enqueued, len(report.Returned), len(report.Uncertain))
		}
	})
	t.Run("too little: returns in time, and says what is left", func(t *testing.T) {
		t.Parallel()
		q, _ := stalled(t)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		begin := time.Now()
		report, err := q.Shutdown(ctx)
		if took := time.Since(begin); err != nil || took > 300*time.Millisecond+slack {
			t.Errorf("after %v: %v", took, err)
		}
		// The request under way is still held, and the server has been told never to execute it.
		if report.Enqueued != 0 || len(report.Returned) != 100 || len(report.Uncertain) != 0 {
			t.Errorf("report: %d enqueued, %d returned, %d uncertain", report.Enqueued, len(report.Returned), len(report.Uncertain))
		}
	})
	t.Run("in an outage, with a request in doubt and a handler under way", func(t *testing.T) {
		t.Parallel()
		proxy := redistest.NewProxy(t, redistest.Addr(t))
		q := open(t, proxy.Client(t), redistest.Name(t), nil, nil)
		kind := plain(q, "n")
		_ = kind.Handle(func(ctx context.Context, _ *bridge.Delivery[string]) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		run(t, q, nil)
		running, err := kind.TrySubmit("x")
		if err != nil {
			t.Fatal(err)
		}
		await(t, "the job runs", running.Started())
		// Its worker may be quicker than the answer to its append.
		eventually(t, "its append is answered", func() bool { return q.Counters().Enqueued == 1 })
		lost := proxy.Lose(1, redistest.With("append"), redistest.Silence)
		doubtful, err := kind.TrySubmit("y")
		if err != nil {
			t.Fatal(err)
		}
		await(t, "the reply is lost", lost)
		proxy.Blackhole()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		begin := time.Now()
		report, err := q.Shutdown(ctx)
		if took := time.Since(begin); err != nil || took > 500*time.Millisecond+slack {
			t.Errorf("after %v: %v", took, err)
		}
		if len(report.Uncertain) != 1 || report.Uncertain[0].ID != doubtful.ID() || len(report.Returned) != 0 {
			t.Errorf("report %+v", report)
		}
	})
	t.Run("a handler that takes its time", func(t *testing.T) {
		t.Parallel()
		q := open(t, redistest.Client(t), redistest.Name(t), nil, nil)
		kind := plain(q, "n")
		finish := make(chan struct{})
		_ = kind.Handle(func(ctx context.Context, _ *bridge.Delivery[string]) error {
			select {
			case <-finish:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		run(t, q, nil)
		ticket, err := kind.TrySubmit("x")
		if err != nil {
			t.Fatal(err)
		}
		await(t, "the job runs", ticket.Started())
		time.AfterFunc(200*time.Millisecond, func() { close(finish) })
		shut(t, q)
		if c := q.Counters(); c.Completed != 1 || c.Released != 0 {
			t.Errorf("it was not waited for: %+v", c)
		}
	})
}

// The reply of an enqueue was lost, the client library sent it again, and the job ran twice at once.
func TestCase16_EnqueueIsSentAgainAndRunsTwice(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]redistest.Action{"FIN": redistest.FIN, "RST": redistest.RST, "silence": redistest.Silence} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb, name := redistest.Client(t), redistest.Name(t)
			proxy := redistest.NewProxy(t, redistest.Addr(t))
			lost := proxy.Lose(1, redistest.With("append"), how)
			again := make(chan struct{}, 10)
			completed := make(chan struct{})
			proxy.OnRequest(func(e redistest.Exchange) redistest.Action {
				if redistest.With("append")(e) && slices.ContainsFunc(e.Args, func(a string) bool { return strings.Contains(a, "pay") }) {
					select {
					case <-lost: // this is the second time: it comes after the job's completion
						again <- struct{}{}
						<-completed
					default:
					}
				}
				return redistest.Pass
			})
			q := enlist(t, proxy.Client(t), &durable.RedisOptions{Timeout: time.Second}, name, nil, nil)
			ticket, err := plain(q, "n").TrySubmit("pay")
			if err != nil {
				t.Fatal(err)
			}
			await(t, "the reply of the append is lost", lost)
			if got := places(t, rdb, name, ticket.ID()); !cmp.Equal(got, []string{"pending"}) {
				t.Errorf("after the lost reply the job is in %v", got)
			}
			await(t, "the append is sent again", again)
			if ticket.State() != local.Accepted {
				t.Errorf("reported %v before there was an answer", ticket.State())
			}
			consumer, runs := open(t, rdb, name, nil, nil), newLedger()
			runs.consume(t, plain(consumer, "n"))
			run(t, consumer, nil)
			eventually(t, "the job completes", func() bool { return consumer.Counters().Completed == 1 })
			close(completed)
			if err := ticket.WaitEnqueued(patient(t)); err != nil {
				t.Errorf("stored, and reported as %v", err)
			}
			if err := q.Flush(patient(t)); err != nil {
				t.Fatal(err)
			}
			s, err := consumer.Stats(patient(t))
			if err != nil || s.Durable.Counters["appended"] != 1 || s.Durable.Pending != 0 {
				t.Errorf("stored %d times, %d pending: %v", s.Durable.Counters["appended"], s.Durable.Pending, err)
			}
			runs.once(t, ticket.ID())
		})
	}
}
