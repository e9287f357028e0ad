package weir_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
	"github.com/seed-9dec4fca/weir/policy"
)

// onceQueue is one process's queue whose handlers are idempotent.
func onceQueue(t *testing.T, name string, opts *durable.IdempotentOptions, key func(d *bridge.Delivery[[]byte]) string) (*bridge.Queue, *bridge.Kind[string]) {
	t.Helper()
	store, err := durable.NewRedis(redistest.Client(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	q := open(t, redistest.Client(t), name, nil, &bridge.Options{
		Middleware: []bridge.Middleware{bridge.Idempotent(store.Idempotent(name, opts), key)},
	})
	return q, plain(q, "charge")
}

func TestIdempotentHandlers(t *testing.T) {
	t.Parallel()

	t.Run("deliveries that are replayed are completed, and the handler is not called", func(t *testing.T) {
		t.Parallel()
		rdb, name := redistest.Client(t), redistest.Name(t)
		q, kind := onceQueue(t, name, nil, nil)
		var had atomic.Int64
		if err := kind.Handle(func(context.Context, *bridge.Delivery[string]) error { had.Add(1); return nil }); err != nil {
			t.Fatal(err)
		}
		run(t, q, nil)
		ctx := patient(t)
		for round := range int64(3) {
			for i := range 10 {
				job := fmt.Sprint("pay-", i) // a foreign producer that sends its old jobs again
				rdb.HSet(ctx, "{"+name+"}:job:"+job, "payload", "x", "kind", "charge", "status", "pending", "attempts", 0)
				rdb.LPush(ctx, "{"+name+"}:pending", job)
			}
			eventually(t, "all are completed", func() bool {
				s, err := q.Stats(ctx)
				return err == nil && s.Durable.Counters["completed"] == 10*(round+1)
			})
		}
		if n := had.Load(); n != 10 {
			t.Errorf("%d effects of 10 jobs", n)
		}
	})

	t.Run("many jobs of one key, in two processes, have one effect and all complete", func(t *testing.T) {
		t.Parallel()
		name := redistest.Name(t)
		var had atomic.Int64
		var kinds []*bridge.Kind[string]
		for range 2 {
			q, kind := onceQueue(t, name, nil, func(d *bridge.Delivery[[]byte]) string { return "order:" + string(d.Value) })
			if err := kind.Handle(func(context.Context, *bridge.Delivery[string]) error { had.Add(1); return nil }); err != nil {
				t.Fatal(err)
			}
			run(t, q, nil)
			kinds = append(kinds, kind)
		}
		var tickets []*bridge.Ticket
		for i := range 100 {
			ticket, err := kinds[i%2].Submit(patient(t), fmt.Sprint(i%4/2), policy.Wait(patience))
			if err != nil {
				t.Fatal(err)
			}
			tickets = append(tickets, ticket)
		}
		eventually(t, "all are completed", func() bool { return completedAll(t, name) == int64(len(tickets)) })
		if n := had.Load(); n != 2 {
			t.Errorf("%d effects of 2 keys", n)
		}
	})

	t.Run("a worker that lost its claim in the middle marks nothing", func(t *testing.T) {
		t.Parallel()
		rdb, name := redistest.Client(t), redistest.Name(t)
		ctx := patient(t)
		frozen, kind := onceQueue(t, name, nil, nil)
		in, out, ended := make(chan int64, 1), make(chan struct{}), make(chan struct{})
		if err := kind.Handle(func(_ context.Context, d *bridge.Delivery[string]) error {
			defer close(ended)
			in <- d.Fence
			<-out
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		run(t, frozen, &bridge.RunOptions{Workers: 1}) // so that it cannot take the job again itself
		if _, err := kind.SubmitJob(ctx, bridge.Job[string]{ID: "pay-1"}, policy.Wait(patience)); err != nil {
			t.Fatal(err)
		}
		older := <-in

		other, again := onceQueue(t, name, nil, nil)
		taken := make(chan int64, 1)
		if err := again.Handle(func(_ context.Context, d *bridge.Delivery[string]) error {
			taken <- d.Fence
			close(out) // the frozen one goes on while this one is at it
			<-ended
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		consumers := rdb.ZRange(ctx, "{"+name+"}:consumers", 0, -1).Val()
		run(t, other, &bridge.RunOptions{Lease: time.Second, SweepEvery: 20 * time.Millisecond})
		for _, c := range consumers { // it has lost its lease, and hears of it with its next renewal
			rdb.ZAddXX(ctx, "{"+name+"}:consumers", redis.Z{Score: 0, Member: c})
		}
		var newer int64
		select {
		case newer = <-taken:
		case <-ctx.Done():
			close(out)
			t.Fatal("nobody else got the job")
		}
		eventually(t, "it is marked", func() bool { return rdb.HGet(ctx, "{"+name+"}:once:pay-1", "state").Val() == "done" })
		if got := rdb.HGet(ctx, "{"+name+"}:once:pay-1", "fence").Val(); newer <= older || got != fmt.Sprint(newer) {
			t.Errorf("marked by claim %s; the older is %d, the newer %d", got, older, newer)
		}
		eventually(t, "the job is completed", func() bool { return completedAll(t, name) == 1 })
	})
}

// completedAll is how many jobs of the queue have been completed.
func completedAll(t *testing.T, name string) int64 {
	t.Helper()
	n, err := redistest.Client(t).HGet(patient(t), "{"+name+"}:counters", "completed").Int64()
	if err != nil {
		return 0
	}
	return n
}
