// Stories from the field about identity, on a real Redis.
package weir_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// keyed submits a job that has a key.
func keyed(t *testing.T, kind *bridge.Kind[string], id string) *bridge.Ticket {
	t.Helper()
	ticket, err := kind.SubmitJob(patient(t), bridge.Job[string]{ID: id, Value: id, Unique: durable.Unique{Key: "the key"}}, policy.Wait(0))
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

// Deleting or burying a unique job left its lock, and the next one was refused until that ran out.
func TestCase35_DeletedOrBuriedUniqueJobLeavesItsLock(t *testing.T) {
	t.Parallel()

	t.Run("of a thousand at once from three processes one is stored and run, and all tickets tell of it", func(t *testing.T) {
		t.Parallel()
		const processes, each = 3, 334
		rdb, name := redistest.Client(t), redistest.Name(t)
		release := make(chan struct{})
		var mu sync.Mutex
		runs := 0
		tickets := make([]*bridge.Ticket, processes*each)
		var all sync.WaitGroup
		for p := range processes {
			q := open(t, rdb, name, nil, nil)
			kind := plain(q, "k")
			handle(t, kind, func(context.Context, *bridge.Delivery[string]) error {
				mu.Lock()
				runs++
				mu.Unlock()
				<-release
				return nil
			})
			run(t, q, nil)
			for i := range each {
				all.Go(func() { tickets[p*each+i] = keyed(t, kind, fmt.Sprint(p, "-", i)) })
			}
		}
		all.Wait()
		stored := 0
		for _, ticket := range tickets {
			if err := ticket.WaitEnqueued(patient(t)); err != nil {
				t.Fatal(err)
			}
			if ticket.Duplicate() == "" {
				stored++
			}
		}
		close(release)
		for _, ticket := range tickets {
			if err := ticket.Wait(patient(t)); err != nil {
				t.Fatal(err)
			}
		}
		if stored != 1 || runs != 1 {
			t.Errorf("%d were stored, %d have run", stored, runs)
		}
	})

	// In each the first one comes to its end in another way.
	boom := errors.New("boom")
	type scene struct {
		q    *bridge.Queue
		kind *bridge.Kind[string]
		rdb  *redis.Client
		name string
	}
	for name, end := range map[string]func(t *testing.T, s scene, first *bridge.Ticket){
		"completed": func(t *testing.T, s scene, first *bridge.Ticket) {
			t.Helper()
			handle(t, s.kind, func(context.Context, *bridge.Delivery[string]) error { return nil })
			run(t, s.q, nil)
			if err := first.Wait(patient(t)); err != nil {
				t.Error(err)
			}
		},
		"buried": func(t *testing.T, s scene, first *bridge.Ticket) {
			t.Helper()
			buried := false
			handle(t, s.kind, func(context.Context, *bridge.Delivery[string]) error {
				if buried {
					return nil
				}
				buried = true
				return bridge.Permanent(boom)
			})
			run(t, s.q, &bridge.RunOptions{Workers: 1})
			if err := first.Wait(patient(t)); !errors.Is(err, local.ErrDead) {
				t.Error(err)
			}
		},
		"cancelled": func(t *testing.T, s scene, first *bridge.Ticket) {
			t.Helper()
			if _, err := s.q.Cancel(patient(t), first.ID()); err != nil {
				t.Error(err)
			}
		},
		"deleted by an operator": func(t *testing.T, s scene, _ *bridge.Ticket) {
			t.Helper()
			purged, err := s.q.Operator().Purge(patient(t), durable.PurgeRequest{Confirm: s.name})
			if err != nil || purged.Total() != 1 {
				t.Errorf("%+v, %v", purged, err)
			}
		},
		"deleted by hand, without its script": func(t *testing.T, s scene, first *bridge.Ticket) {
			t.Helper()
			keys, err := s.rdb.Keys(patient(t), "*:job:"+first.ID()).Result()
			if err != nil || len(keys) != 1 {
				t.Fatal(keys, err)
			}
			if err := s.rdb.Del(patient(t), keys...).Err(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run("the key is free at once when the first one is "+name, func(t *testing.T) {
			t.Parallel()
			rdb, name := redistest.Client(t), redistest.Name(t)
			q := open(t, rdb, name, nil, nil)
			kind := plain(q, "k")
			first := keyed(t, kind, name+"-first")
			if err := first.WaitEnqueued(patient(t)); err != nil {
				t.Fatal(err)
			}
			second := keyed(t, kind, name+"-second")
			if err := second.WaitEnqueued(patient(t)); err != nil || second.Duplicate() != first.ID() {
				t.Fatalf("while it waits: %v, a duplicate of %q", err, second.Duplicate())
			}
			end(t, scene{q, kind, rdb, name}, first)
			third := keyed(t, kind, name+"-third")
			if err := third.WaitEnqueued(patient(t)); err != nil || third.Duplicate() != "" {
				t.Errorf("afterwards: %v, a duplicate of %q", err, third.Duplicate())
			}
		})
	}
}

// A cancelled job was reported as failed, and run again.
func TestCase36_CancelledIsReportedAsFailureAndRetried(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		verdict func(context.Context) error
		end     local.State
	}{
		{"a handler that ends with its context's error", func(ctx context.Context) error { return ctx.Err() }, local.Cancelled},
		{"a handler that fails", func(context.Context) error { return errors.New("connection is closed") }, local.Cancelled},
		{"a handler that wants to go on later", func(context.Context) error { return bridge.Snooze(time.Second) }, local.Cancelled},
		{"a handler that is done all the same", func(context.Context) error { return nil }, local.Completed},
		{"a handler that says that it can never be done", func(context.Context) error { return bridge.Permanent(errors.New("no")) }, local.Dead},
	} {
		t.Run(c.name+", in another process, told within a second", func(t *testing.T) {
			t.Parallel()
			rdb, name := redistest.Client(t), redistest.Name(t)
			producer, worker, operator := open(t, rdb, name, nil, nil), open(t, rdb, name, nil, nil), open(t, rdb, name, nil, nil)
			heard := make(chan error, 10)
			handle(t, plain(worker, "k"), func(ctx context.Context, _ *bridge.Delivery[string]) error {
				<-ctx.Done()
				heard <- context.Cause(ctx)
				return c.verdict(ctx)
			})
			run(t, worker, nil)
			ticket, err := plain(producer, "k").TrySubmit("")
			if err != nil {
				t.Fatal(err)
			}
			within(t, ticket.Started())
			began := time.Now()
			got, err := operator.Cancel(patient(t), ticket.ID())
			if err != nil || !got.Running || got.Consumer == "" {
				t.Fatalf("%+v, %v", got, err)
			}
			if cause := await(t, "the handler is told", heard); !errors.Is(cause, bridge.ErrCancelled) {
				t.Errorf("cause: %v", cause)
			}
			t.Logf("told after %v", time.Since(began))
			within(t, ticket.Done())
			if ticket.State() != c.end {
				t.Errorf("its submitter was told %v", ticket.Err())
			}
			eventually(t, "the worker knows too", func() bool {
				n := worker.Counters()
				return n.Completed+n.Cancelled+n.Dead == 1
			})
			n := worker.Counters()
			if n.Started != 1 || n.Retried+n.Snoozed+n.Released != 0 || (n.Cancelled == 1) != (c.end == local.Cancelled) || (n.Dead == 1) != (c.end == local.Dead) {
				t.Errorf("%+v", n)
			}
			s, err := operator.Stats(patient(t))
			if err != nil || s.Durable.Pending+s.Durable.Scheduled+s.Durable.Processing != 0 || (s.Durable.Dead == 1) != (c.end == local.Dead) {
				t.Errorf("%+v, %v", s.Durable, err)
			}
			if _, err := operator.Cancel(patient(t), ticket.ID()); !errors.Is(err, durable.ErrNoJob) && !errors.Is(err, bridge.ErrEnded) {
				t.Errorf("again: %v", err)
			}
		})
	}
	t.Run("what waits ends at once, and is never run", func(t *testing.T) {
		t.Parallel()
		rdb, name := redistest.Client(t), redistest.Name(t)
		producer, worker, operator := open(t, rdb, name, nil, nil), open(t, rdb, name, nil, nil), open(t, rdb, name, nil, nil)
		kind := plain(producer, "k")
		later, err := kind.SubmitJob(patient(t), bridge.Job[string]{ID: "later", Delay: time.Second}, policy.Reject())
		if err != nil {
			t.Fatal(err)
		}
		now, err := kind.TrySubmit("now")
		if err != nil {
			t.Fatal(err)
		}
		for _, ticket := range []*bridge.Ticket{later, now} {
			if err := ticket.WaitEnqueued(patient(t)); err != nil {
				t.Fatal(err)
			}
			if got, err := operator.Cancel(patient(t), ticket.ID()); err != nil || got.Running {
				t.Errorf("%+v, %v", got, err)
			}
		}
		ran := make(chan string, 10)
		handle(t, plain(worker, "k"), func(_ context.Context, d *bridge.Delivery[string]) error { ran <- d.Value; return nil })
		run(t, worker, nil)
		last, err := kind.SubmitJob(patient(t), bridge.Job[string]{ID: "last", Value: "last", Delay: 2 * time.Second}, policy.Reject())
		if err != nil {
			t.Fatal(err)
		}
		if err := last.Wait(patient(t)); err != nil || len(ran) != 1 {
			t.Errorf("%v, %d have run", err, len(ran))
		}
		for _, ticket := range []*bridge.Ticket{later, now} {
			if err := ticket.Wait(patient(t)); !errors.Is(err, bridge.ErrCancelled) {
				t.Errorf("its submitter was told %v", err)
			}
		}
	})
}

func handle(t *testing.T, kind *bridge.Kind[string], h func(context.Context, *bridge.Delivery[string]) error) {
	t.Helper()
	if err := kind.Handle(h); err != nil {
		t.Fatal(err)
	}
}

func within(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal("it has not come")
	}
}
