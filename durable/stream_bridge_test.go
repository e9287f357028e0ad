package durable_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/policy"
)

// A user changes one constructor. Two groups behind two bridges each run what the first submits, and what a
// foreign client adds; each job's first run fails.
func TestStreamBehindTheBridge(t *testing.T) {
	t.Parallel()
	b := setupStream(t, nil)
	const jobs = 100
	type welcome struct{ To string }
	var (
		mu   sync.Mutex
		done = map[string]map[string]int{"mail": {}, "audit": {}}
	)
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	var queues []*bridge.Queue
	var first *bridge.Kind[welcome]
	for group, seen := range done {
		q, err := bridge.Open(b.handle(&durable.StreamOptions{Group: group}), &bridge.Options{
			Retry: policy.Retry{MaxAttempts: 3, Initial: time.Millisecond, Max: time.Millisecond},
		})
		if err != nil {
			t.Fatal(err)
		}
		kind := bridge.NewKind[welcome](q, "welcome", nil)
		err = kind.Handle(func(_ context.Context, d *bridge.Delivery[welcome]) error {
			if d.Deliveries == 1 {
				return errors.New("at first")
			}
			mu.Lock()
			defer mu.Unlock()
			seen[d.Value.To]++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		queues, first = append(queues, q), kind
	}
	// Both groups are there before the first job: a group gets what is there when it is made.
	for _, group := range []string{"mail", "audit"} {
		if err := b.rdb.XGroupCreateMkStream(b.ctx, b.key("stream"), group, "0").Err(); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, len(queues))
	for _, q := range queues {
		go func() { ended <- q.Run(ctx, &bridge.RunOptions{Workers: 8}) }()
	}
	b.add("kind", "welcome", "payload", `{"To":"foreign"}`)
	for i := range jobs {
		ticket, err := first.Submit(ctx, welcome{To: fmt.Sprint(i)}, policy.Wait(patience))
		if err != nil {
			t.Fatal(err)
		}
		if err := ticket.WaitEnqueued(ctx); err != nil {
			t.Fatal(err)
		}
	}
	all := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(done["mail"]) == jobs+1 && len(done["audit"]) == jobs+1
	}
	if !eventually(ctx, func() bool { return all() && b.length() == 0 }) {
		t.Errorf("mail has %d, audit %d of %d; %d entries are left", len(done["mail"]), len(done["audit"]), jobs+1, b.length())
	}
	for _, q := range queues {
		if _, err := q.Shutdown(b.ctx); err != nil {
			t.Error(err)
		}
	}
	for range queues {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	for group, seen := range done {
		for to, n := range seen {
			if n != 1 {
				t.Errorf("%s: %s ran %d times", group, to, n)
			}
		}
		if owners := b.owners(group); len(owners) > 1 {
			t.Errorf("%s: consumers left: %v", group, owners)
		}
	}
	b.clean()
}
