package weir_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
	"github.com/seed-9dec4fca/weir/policy"
)

// verbs counts the scripts that are sent, by what they do.
type verbs struct {
	mu sync.Mutex
	n  map[string]int
}

func (v *verbs) DialHook(next redis.DialHook) redis.DialHook { return next }
func (v *verbs) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (v *verbs) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		for _, verb := range []string{"append", "claim", "settle"} {
			if slices.Contains(cmd.Args(), any(verb)) {
				v.mu.Lock()
				v.n[verb]++
				v.mu.Unlock()
			}
		}
		return next(ctx, cmd)
	}
}

func (v *verbs) count(verb string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.n[verb]
}

// A job for which a worker of the same process is free is claimed by its append.
func TestLoneJobNeedsNoClaimOfItsOwn(t *testing.T) {
	t.Parallel()
	sent := &verbs{n: map[string]int{}}
	s, err := durable.NewRedis(redistest.Client(t), &durable.RedisOptions{Hook: sent})
	if err != nil {
		t.Fatal(err)
	}
	q, err := bridge.Open(s.List(redistest.Name(t), nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = q.Shutdown(patient(t)) })
	kind := plain(q, "n")
	_ = kind.Handle(func(context.Context, *bridge.Delivery[string]) error { return nil })
	run(t, q, &bridge.RunOptions{Workers: 2})
	eventually(t, "the first claim was answered", func() bool { return !q.Counters().LastClaim.IsZero() })

	began, before := time.Now(), sent.count("claim")
	const jobs = 100
	for i := range jobs {
		ticket, err := kind.Submit(patient(t), fmt.Sprint(i), policy.Wait(0))
		if err != nil {
			t.Fatal(err)
		}
		if err := ticket.Wait(patient(t)); err != nil {
			t.Fatal(err)
		}
	}
	// Each second an Await ends, and leads to a claim; a job that comes meanwhile leads to another.
	most := jobs/4 + 4*int(time.Since(began)/time.Second)
	if n := sent.count("claim") - before; n > most {
		t.Errorf("%d claims for %d jobs", n, jobs)
	}
	if n := sent.count("append"); n != jobs {
		t.Errorf("%d appends for %d jobs", n, jobs)
	}
}

// Jobs are handed over while Run ends, again and again: each is completed once or waits, and none is held.
func TestHandingOverWhileRunEnds(t *testing.T) {
	t.Parallel()
	rdb, name := redistest.Client(t), redistest.Name(t)
	q := open(t, rdb, name, nil, nil)
	kind := plain(q, "n")
	runs := newLedger()
	_ = kind.Handle(func(_ context.Context, d *bridge.Delivery[string]) error {
		runs.note(d.ID, d.Deliveries)
		return nil
	})
	producing, stop := context.WithCancel(patient(t))
	var mu sync.Mutex
	var tickets []*bridge.Ticket
	var producers sync.WaitGroup
	for range 4 {
		producers.Go(func() {
			for producing.Err() == nil {
				ticket, err := kind.Submit(producing, "x", policy.Wait(0))
				if err != nil {
					continue
				}
				mu.Lock()
				tickets = append(tickets, ticket)
				mu.Unlock()
				<-time.After(time.Duration(rand.IntN(3)) * time.Millisecond)
			}
		})
	}
	for range 20 {
		ctx, cancel := context.WithTimeout(patient(t), time.Duration(1+rand.IntN(40))*time.Millisecond)
		if err := q.Run(ctx, &bridge.RunOptions{Workers: 3}); err != nil {
			t.Error(err)
		}
		cancel()
		if s, err := q.Stats(patient(t)); err != nil || s.Durable.Processing != 0 {
			t.Errorf("after Run: %v, %+v", err, s.Durable)
		}
	}
	stop()
	producers.Wait()
	run(t, q, nil)
	for _, ticket := range tickets {
		if err := ticket.Wait(patient(t)); err != nil {
			t.Errorf("%s: %v", ticket.ID(), err)
		}
		if of := runs.of(ticket.ID()); len(of) != 1 {
			t.Errorf("%s ran with deliveries %v", ticket.ID(), of)
		}
	}
	if len(tickets) == 0 {
		t.Error("nothing was submitted")
	}
}
