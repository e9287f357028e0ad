package weir_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/internal/redistest"
	"github.com/seed-9dec4fca/weir/policy"
)

// A primary is killed while jobs run and more are submitted. What had been enqueued and replicated completes, as does
// what was accepted meanwhile; producers had paused until the replica had caught up, since replication is asynchronous and
// nothing is waited for here.
func TestFailoverBySentinelsLosesNothingThatWasReplicated(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	replica := redistest.Start(t, "--replicaof", "127.0.0.1", fmt.Sprint(primary.Port()))
	eventually(t, "the replica is in step", func() bool {
		return replica.Client(t).InfoMap(patient(t), "replication").Item("Replication", "master_link_status") == "up"
	})
	var sentinels []*redistest.Sentinel
	for range 3 {
		sentinels = append(sentinels, redistest.StartSentinel(t, primary, 2, 500*time.Millisecond))
	}
	eventually(t, "the sentinels know each other and the replica", func() bool {
		return !slices.ContainsFunc(sentinels, func(s *redistest.Sentinel) bool { return !ready(t, s) })
	})

	var total atomic.Int64
	runs := newLedger()
	q := open(t, redistest.FailoverClient(t, sentinels...), "q", nil, nil)
	kind := plain(q, "n")
	_ = kind.Handle(func(_ context.Context, d *bridge.Delivery[string]) error {
		runs.note(d.ID, d.Deliveries)
		total.Add(1)
		<-time.After(10 * time.Millisecond)
		return nil
	})
	run(t, q, &bridge.RunOptions{Workers: 4})

	var tickets []*bridge.Ticket
	submit := func(n int) {
		for range n {
			ticket, err := kind.Submit(patient(t), "x", policy.Wait(0))
			if err != nil {
				t.Fatal(err)
			}
			tickets = append(tickets, ticket)
		}
	}
	submit(400)
	if err := q.Flush(patient(t)); err != nil {
		t.Fatal(err)
	}
	// What workers do meanwhile moves the primary on; what was enqueued is behind that.
	enqueued := offset(t, primary.Client(t), "master_repl_offset")
	eventually(t, "the replica has what is enqueued", func() bool {
		return offset(t, replica.Client(t), "slave_repl_offset") >= enqueued
	})
	if left := len(tickets) - int(total.Load()); left < 100 {
		t.Fatalf("only %d jobs are left to lose", left)
	}
	primary.Kill()
	before := total.Load()
	submit(100) // accepted, while there is nobody to send them to
	for i, ticket := range tickets {
		if err := ticket.Wait(patient(t)); err != nil {
			t.Fatalf("job %d: %v", i, err)
		}
	}
	if got, err := sentinels[0].Primary(patient(t)); err != nil || got != replica.Addr() {
		t.Errorf("the primary is %v, %v; want the replica", got, err)
	}
	if total.Load() == before {
		t.Error("nothing ran on the new primary")
	}
	for _, ticket := range tickets {
		if of := runs.of(ticket.ID()); len(of) == 0 || len(of) > 1 && slices.Contains(of[1:], 1) {
			t.Errorf("job %s: the deliveries that ran are %v", ticket.ID(), of)
		}
	}
}

// ready tells whether a sentinel would know what to do.
func ready(t *testing.T, s *redistest.Sentinel) bool {
	t.Helper()
	c := redis.NewSentinelClient(&redis.Options{Addr: s.Addr()})
	defer func() { _ = c.Close() }()
	group, err := c.Master(patient(t), redistest.SentinelGroup).Result()
	return err == nil && group["num-other-sentinels"] == "2" && group["num-slaves"] == "1"
}

// offset is how far a server is in the stream of replication.
func offset(t *testing.T, rdb *redis.Client, field string) (n int) {
	t.Helper()
	if _, err := fmt.Sscan(rdb.InfoMap(patient(t), "replication").Item("Replication", field), &n); err != nil {
		t.Fatal(err)
	}
	return n
}
