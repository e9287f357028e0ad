// Stories from the field about the server: of several machines, or without the commands that are needed.
package weir_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// startCluster starts a Redis Cluster of three masters, each with a third of the slots.
func startCluster(t *testing.T) (masters []*redis.Client, addrs []string) {
	t.Helper()
	ctx := patient(t)
	do := func(rdb *redis.Client, words ...any) {
		t.Helper()
		if err := rdb.Do(ctx, words...).Err(); err != nil {
			t.Fatal(words, err)
		}
	}
	for i := range 3 {
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		bus := free.Addr().(*net.TCPAddr).Port
		_ = free.Close()
		s := redistest.Start(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", strconv.Itoa(bus))
		rdb := s.Client(t)
		do(rdb, "CLUSTER", "ADDSLOTSRANGE", i*16384/3, (i+1)*16384/3-1)
		do(rdb, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		masters, addrs = append(masters, rdb), append(addrs, s.Addr())
		for k := range i {
			do(masters[k], "CLUSTER", "MEET", "127.0.0.1", s.Port(), bus)
		}
	}
	eventually(t, "the cluster comes up", func() bool {
		for _, m := range masters {
			info := m.ClusterInfo(ctx).Val()
			if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:3") {
				return false
			}
		}
		return true
	})
	return masters, addrs
}

// Story 34. What touches several keys at once failed on a cluster, with CROSSSLOT, where the keys are on several machines.
func TestCase34_MovesBetweenKeysFailOnACluster(t *testing.T) {
	t.Parallel()
	masters, addrs := startCluster(t)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() { _ = rdb.Close() })
	store, err := durable.NewRedis(rdb, nil)
	if err != nil {
		t.Fatal(err)
	}
	served := map[int64]bool{}
	t.Run("queues", func(t *testing.T) {
		for i := 0; len(served) < len(masters); i++ { // one queue on each machine
			name := fmt.Sprint("queue-", i)
			slot, err := masters[0].ClusterKeySlot(patient(t), "{"+name+"}:").Result()
			if err != nil {
				t.Fatal(err)
			}
			if machine := slot * 3 / 16384; !served[machine] {
				served[machine] = true
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					wholeLife(t, store, name)
				})
			}
		}
	})
	for i, m := range masters {
		stats := m.InfoMap(patient(t), "errorstats", "commandstats")
		if n, there := stats.Item("Errorstats", "errorstat_CROSSSLOT"), stats.Item("Commandstats", "cmdstat_evalsha"); n != "" || there == "" {
			t.Errorf("machine %d: CROSSSLOT %s; scripts %s", i, n, there)
		}
	}
}

// wholeLife takes jobs of a queue through every state, and its operator through every call.
func wholeLife(t *testing.T, store *durable.Redis, name string) {
	t.Helper()
	q, err := bridge.Open(store.List(name, nil), &bridge.Options{Retry: policy.Retry{Initial: 10 * time.Millisecond, Max: 10 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, q) })
	if err := q.Check(patient(t)); err != nil {
		t.Fatal(err)
	}
	kind := plain(q, "n")
	redriven := make(chan string, 100)
	_ = kind.Handle(func(_ context.Context, d *bridge.Delivery[string]) error {
		switch {
		case d.Value == "fails once" && d.Attempt == 1:
			return errors.New("once")
		case d.Value == "snoozes" && d.Deliveries == 1:
			return bridge.Snooze(10 * time.Millisecond)
		case d.Value == "dies" && d.Deliveries == 1:
			return bridge.Permanent(errors.New("on purpose"))
		case d.Value == "dies":
			redriven <- d.ID
		}
		return nil
	})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}

	// A worker dies with what it holds, before anybody else is there.
	var tickets []*bridge.Ticket
	for _, value := range []string{"orphan", "fails once", "snoozes", "completes", "dies", "dies"} {
		ticket, err := kind.SubmitJob(patient(t), bridge.Job[string]{ID: q.NewID(), Value: value, Retention: time.Minute}, policy.Reject())
		must(err)
		must(ticket.WaitEnqueued(patient(t)))
		tickets = append(tickets, ticket)
	}
	lost := store.List(name, nil)
	t.Cleanup(func() { _ = lost.Close() })
	c, err := lost.OpenConsumer(patient(t), 100*time.Millisecond)
	must(err)
	claimed, err := c.Claim(patient(t), durable.ClaimRequest{N: 1, Slots: 1, MaxBytes: 1 << 20})
	must(err)
	if len(claimed.Jobs) != 1 || claimed.Jobs[0].ID != tickets[0].ID() {
		t.Fatalf("%s: %+v", name, claimed)
	}
	run(t, q, &bridge.RunOptions{Workers: 4, Lease: time.Second, SweepEvery: 50 * time.Millisecond})
	later, err := kind.SubmitJob(patient(t), bridge.Job[string]{ID: q.NewID(), Value: "completes", Delay: 20 * time.Millisecond}, policy.Reject())
	must(err)
	for i, ticket := range append(tickets, later) {
		if err := ticket.Wait(patient(t)); (i == 4 || i == 5) != errors.Is(err, local.ErrDead) || err != nil && i != 4 && i != 5 {
			t.Errorf("%s: job %d: %v", name, i, err)
		}
	}

	op := q.Operator()
	found, err := op.Lookup(patient(t), tickets[1].ID())
	must(err)
	if found.State != durable.StateCompleted {
		t.Errorf("%s: a completed job is %v", name, found.State)
	}
	page, err := op.Jobs(patient(t), durable.JobsRequest{State: durable.StateDead})
	must(err)
	if len(page.Jobs) != 2 {
		t.Errorf("%s: the dead are %+v", name, page.Jobs)
	}
	done, err := op.Redrive(patient(t), durable.Selection{IDs: []string{tickets[4].ID()}})
	must(err)
	if len(done.IDs) != 1 || await(t, "the dead job runs again", redriven) != tickets[4].ID() {
		t.Errorf("%s: redrive: %+v", name, done)
	}
	done, err = op.Discard(patient(t), durable.Selection{All: true})
	must(err)
	if len(done.IDs) != 1 {
		t.Errorf("%s: discard: %+v", name, done)
	}
	must(op.Pause(patient(t), durable.Intake|durable.Consumption, "test"))
	must(op.Resume(patient(t), durable.Intake|durable.Consumption))
	eventually(t, "only records are left", func() bool {
		s, err := q.Stats(patient(t))
		return err == nil && s.Durable.Completed == 5 && s.Durable.Pending+s.Durable.Processing+s.Durable.Scheduled+s.Durable.Dead == 0
	})
	gone, err := op.Purge(patient(t), durable.PurgeRequest{Confirm: name, States: []durable.State{durable.StateCompleted}})
	must(err)
	if gone.Total() != 5 {
		t.Errorf("%s: purge: %+v", name, gone)
	}
}

// Story 41. A server older than the commands used, or one that hides some, failed on the rare path only.
func TestCase41_MissingCommandIsFoundOnTheRarePathOnly(t *testing.T) {
	t.Parallel()
	for _, missing := range [][]string{
		{"EVALSHA"},
		{"EVAL"},
		{"LTRIM", "HSTRLEN", "ZRANGEBYSCORE", "SCAN"}, // of claims, of records kept, of what falls due, of a search for orphans
		{"PEXPIRE", "LREM", "ZCOUNT", "HSETNX"},
	} {
		t.Run(strings.Join(missing, " "), func(t *testing.T) {
			t.Parallel()
			var args []string
			for _, command := range missing {
				args = append(args, "--rename-command", command, "")
			}
			server := redistest.Start(t, args...)
			rdb := server.Client(t)
			q, kind := whole(t, rdb, nil)
			for _, command := range missing { // all of them, not the first alone
				unusable(t, "check", q.Check(patient(t)), command)
				unusable(t, "run", q.Run(patient(t), nil), command)
				_, err := kind.TrySubmit("x")
				unusable(t, "submit", err, command)
			}
			if keys := rdb.Keys(patient(t), "{u}:*").Val(); len(keys) > 0 {
				t.Errorf("left behind by who may not use it: %q", keys)
			}
		})
	}
}
