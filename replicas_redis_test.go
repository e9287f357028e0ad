package weir_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
	"github.com/seed-9dec4fca/weir/policy"
)

// pair starts a primary with a replica, in step with it.
func pair(t *testing.T) (primary, replica *redistest.Server) {
	t.Helper()
	primary = redistest.Start(t)
	replica = redistest.Start(t, "--replicaof", "127.0.0.1", fmt.Sprint(primary.Port()))
	eventually(t, "the replica is in step", func() bool {
		return replica.Client(t).InfoMap(patient(t), "replication").Item("Replication", "master_link_status") == "up"
	})
	return primary, replica
}

func TestReplicasOnRequest(t *testing.T) {
	t.Parallel()

	// replicating opens a queue that asks for a replica.
	replicating := func(t *testing.T, server *redistest.Server, opts *durable.RedisOptions) *bridge.Queue {
		t.Helper()
		store, err := durable.NewRedis(server.Client(t), opts)
		if err != nil {
			t.Fatal(err)
		}
		q, err := bridge.Open(store.List("q", nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = q.Shutdown(patient(t)) })
		return q
	}
	enqueued := func(t *testing.T, kind *bridge.Kind[string]) *bridge.Ticket {
		t.Helper()
		ticket, err := kind.Submit(patient(t), "x", policy.Wait(0))
		if err != nil {
			t.Fatal(err)
		}
		if err := ticket.WaitEnqueued(patient(t)); err != nil {
			t.Fatal(err)
		}
		return ticket
	}

	t.Run("what a replica has survives the loss of the primary", func(t *testing.T) {
		t.Parallel()
		primary, replica := pair(t)
		q := replicating(t, primary, &durable.RedisOptions{Replicas: 1, ReplicaWait: 20 * time.Second})
		for range 50 {
			if ticket := enqueued(t, plain(q, "n")); ticket.Replicas() != 1 {
				t.Fatalf("%d replicas", ticket.Replicas())
			}
		}
		primary.Kill()
		if n := replica.Client(t).LLen(patient(t), "{q}:pending").Val(); n != 50 {
			t.Errorf("the replica has %d of 50 jobs", n)
		}
		if c := q.Counters(); c.Enqueued != 50 || c.Unreplicated != 0 {
			t.Errorf("%+v", c)
		}
	})

	t.Run("a replica that does not answer is reported, and no failure", func(t *testing.T) {
		t.Parallel()
		primary, replica := pair(t)
		q := replicating(t, primary, &durable.RedisOptions{Replicas: 1, ReplicaWait: 50 * time.Millisecond})
		kind := plain(q, "n")
		if err := replica.Freeze(); err != nil {
			t.Fatal(err)
		}
		ticket := enqueued(t, kind)
		if ticket.Replicas() != 0 || ticket.Err() != nil || ticket.State().Ended() {
			t.Errorf("%d replicas, %v, %v", ticket.Replicas(), ticket.State(), ticket.Err())
		}
		if c := q.Counters(); c.Enqueued != 1 || c.Unreplicated != 1 {
			t.Errorf("%+v", c)
		}
		if n := primary.Client(t).LLen(patient(t), "{q}:pending").Val(); n != 1 {
			t.Errorf("%d jobs on the primary", n)
		}
	})

	t.Run("a worker that is quicker than the replica makes no job count as replicated", func(t *testing.T) {
		t.Parallel()
		primary, replica := pair(t)
		q := replicating(t, primary, &durable.RedisOptions{Replicas: 1, ReplicaWait: 300 * time.Millisecond})
		kind := plain(q, "n")
		_ = kind.Handle(func(ctx context.Context, _ *bridge.Delivery[string]) error { <-ctx.Done(); return ctx.Err() })
		run(t, q, &bridge.RunOptions{Workers: 1, Grace: time.Millisecond})
		if err := replica.Freeze(); err != nil {
			t.Fatal(err)
		}
		ticket, err := kind.Submit(patient(t), "x", policy.Wait(0))
		if err != nil {
			t.Fatal(err)
		}
		<-ticket.Started()
		if err := ticket.WaitEnqueued(patient(t)); err != nil || ticket.Replicas() != 0 {
			t.Errorf("%v, %d replicas", err, ticket.Replicas())
		}
		if c := q.Counters(); c.Unreplicated != 1 {
			t.Errorf("it counts as enqueued before it is known whether the replica has it: %+v", c)
		}
	})

	t.Run("an append whose answer was lost is asked for its replicas again", func(t *testing.T) {
		t.Parallel()
		primary, replica := pair(t)
		store, err := durable.NewRedis(primary.Client(t), &durable.RedisOptions{Replicas: 1, ReplicaWait: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		list := store.List("q", nil)
		t.Cleanup(func() { _ = list.Close() })
		p, err := list.OpenProducer(patient(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := replica.Freeze(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			a, err := p.Append(patient(t), 1, []*durable.Job{{ID: "a"}})
			if err != nil || a.Taken != 1 || a.Replicas != 0 {
				t.Fatalf("%+v, %v", a, err)
			}
			// A connection that has written nothing would be told that all replicas are in step.
			if err := list.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := replica.Thaw(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the replica has it", func() bool {
			a, err := p.Append(patient(t), 1, []*durable.Job{{ID: "a"}})
			return err == nil && a.Taken == 1 && a.Replicas == 1
		})
	})

	t.Run("fewer replicas than asked for are warned about by name", func(t *testing.T) {
		t.Parallel()
		q := replicating(t, redistest.Start(t), &durable.RedisOptions{Replicas: 2, ReplicaWait: time.Millisecond})
		if err := q.Check(patient(t)); err != nil {
			t.Fatal(err)
		}
		s, err := q.Stats(patient(t))
		if err != nil || len(s.Warnings) != 1 {
			t.Errorf("%v, %q", err, s.Warnings)
		}
	})
}
