// Stories from the field about what is full, what is counted, and what is left behind.
package weir_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// census counts the jobs of a queue, in one instant of the server: those that are completed, and those in any of the
// places where they can be. A job that is in two is an error.
func census(ctx context.Context, rdb *redis.Client, prefix string) (int64, error) {
	const count = `local p, n, seen = ARGV[1], 0, {}
		local twice
		local function add(ids)
			for _, id in ipairs(ids) do
				twice = twice or seen[id] and id
				seen[id], n = true, n + 1
			end -- of the IDs
		end -- of add
		for _, list in ipairs({'pending', 'arriving'}) do add(redis.call('LRANGE', p .. list, 0, -1)) end
		for _, set in ipairs({'scheduled', 'dead', 'corrupt'}) do add(redis.call('ZRANGE', p .. set, 0, -1)) end
		for _, c in ipairs(redis.call('ZRANGE', p .. 'consumers', 0, -1)) do add(redis.call('LRANGE', p .. 'processing:' .. c, 0, -1)) end
		if twice then return redis.error_reply(twice .. ' is in two places') end
		return n + (redis.call('HGET', p .. 'counters', 'completed') or 0)`
	return rdb.Do(ctx, "EVAL", count, 0, prefix).Int64()
}

// Story 18. The write that was to park a failed job was refused for lack of memory, after the job had been removed.
func TestCase18_FullRedisLosesTheJobThatFailed(t *testing.T) {
	t.Parallel()
	const each = 40
	server := redistest.Start(t)
	rdb := server.Client(t)
	q := open(t, rdb, "full", nil, &bridge.Options{Retry: policy.Retry{MaxAttempts: 2, Initial: 10 * time.Millisecond, Max: 10 * time.Millisecond}})
	kind, ran := plain(q, "n"), newLedger()
	failed := errors.New("failed")
	_ = kind.Handle(func(_ context.Context, d *bridge.Delivery[string]) error {
		ran.note(d.ID, d.Deliveries)
		switch {
		case d.Value == "fails once" && d.Attempt == 1, d.Value == "fails always":
			return failed
		case d.Value == "snoozes" && d.Deliveries == 1:
			return bridge.Snooze(10 * time.Millisecond)
		case d.Value == "fails for good":
			return bridge.Permanent(failed)
		}
		return nil
	})
	deliveries := map[string]int{"fails once": 2, "fails always": 2, "snoozes": 2, "fails for good": 1, "completes": 1}
	tickets := map[string][]*bridge.Ticket{}
	for value := range deliveries {
		for range each {
			ticket, err := kind.TrySubmit(value)
			if err != nil {
				t.Fatal(err)
			}
			tickets[value] = append(tickets[value], ticket)
		}
	}
	if err := q.Flush(patient(t)); err != nil {
		t.Fatal(err)
	}
	for i := range each { // nobody here knows these: they are put back, again and again
		push(t, rdb, "{full}:", fmt.Sprint("stranger-", i), "payload", "x", "kind", "strange")
	}

	// No room for anything, ever, whatever is drained.
	if err := rdb.ConfigSet(patient(t), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.LPush(patient(t), "{full}:other", "x").Err(); !redis.IsOOMError(err) {
		t.Fatalf("the server is not full: %v", err)
	}
	late, err := kind.TrySubmit("completes")
	if err != nil {
		t.Fatal(err)
	}
	run(t, q, &bridge.RunOptions{Workers: 8, UnknownDelay: 50 * time.Millisecond})
	const all = 6 * each
	eventually(t, "everything has ended by itself", func() bool {
		if n, err := census(patient(t), rdb, "{full}:"); err != nil || n != all {
			t.Fatalf("%d of %d jobs are there: %v", n, all, err)
		}
		c := q.Counters()
		return c.Completed == 3*each && c.Dead == 2*each
	})
	for value, all := range tickets {
		for _, ticket := range all {
			err := ticket.Wait(patient(t))
			if dead := strings.HasPrefix(value, "fails") && value != "fails once"; dead != errors.Is(err, local.ErrDead) || !dead && err != nil {
				t.Errorf("%s: %v", value, err)
			}
			if runs := ran.of(ticket.ID()); len(runs) != deliveries[value] || runs[len(runs)-1] != len(runs) {
				t.Errorf("%s: the deliveries %v ran", value, runs)
			}
		}
	}
	for i := range each {
		if rdb.Exists(patient(t), fmt.Sprint("{full}:job:stranger-", i)).Val() != 1 {
			t.Errorf("stranger-%d is gone", i)
		}
	}
	if c := q.Counters(); c.Stale+c.Gone+c.LeaseLost+c.Unsettled != 0 {
		t.Errorf("counters %+v", c)
	}
	if late.State() != local.Accepted {
		t.Errorf("stored in a full server: %v", late.State())
	}
	if err := rdb.ConfigSet(patient(t), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	if err := late.Wait(patient(t)); err != nil {
		t.Errorf("once there is room: %v", err)
	}
}

// Story 31. A counter of what runs or waits drifted away from the truth, until nothing was allowed any more.
func TestCase31_LimitDriftsUntilNothingRuns(t *testing.T) {
	t.Parallel()

	t.Run("the backlog's bound counts what is there, whatever was counted", func(t *testing.T) {
		t.Parallel()
		const bound = 50
		rdb, name := redistest.Client(t), redistest.Name(t)
		prefix := "{" + name + "}:"
		store, err := durable.NewRedis(rdb, nil)
		if err != nil {
			t.Fatal(err)
		}
		list := store.List(name, &durable.ListOptions{MaxBacklog: bound})
		t.Cleanup(func() { _ = list.Close() })
		ctx, made := patient(t), 0
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		// top fills the backlog up to its bound and sees that it took exactly what was missing.
		top := func(when string) {
			t.Helper()
			there := rdb.LLen(ctx, prefix+"pending").Val() + rdb.LLen(ctx, prefix+"arriving").Val() + rdb.ZCard(ctx, prefix+"scheduled").Val()
			p, err := list.OpenProducer(ctx)
			must(err)
			jobs := make([]*durable.Job, 2*bound)
			for i := range jobs {
				made++
				jobs[i] = &durable.Job{ID: fmt.Sprint("job-", made), Delay: time.Duration(i%5) * time.Hour}
			}
			a, err := p.Append(ctx, 1, jobs)
			must(err)
			if a.Taken != bound-int(there) {
				t.Errorf("%s: %d taken, %d were there, the bound is %d", when, a.Taken, there, bound)
			}
		}
		top("at first")
		for _, drift := range []string{"-1000000000", "1000000000", "9223372036854775807", "words", "", "0"} {
			for field := range rdb.HGetAll(ctx, prefix+"counters").Val() {
				must(rdb.HSet(ctx, prefix+"counters", field, drift).Err())
			}
			top("counters drifted to " + drift)

			// A worker dies with claims; others' entries and records go by hand.
			c, err := list.OpenConsumer(ctx, time.Hour)
			must(err)
			claimed, err := c.Claim(ctx, durable.ClaimRequest{N: 1, Slots: 4, MaxBytes: 1 << 20})
			must(err)
			if len(claimed.Jobs) != 4 {
				t.Fatalf("drifted to %q: claimed %+v", drift, claimed)
			}
			top("claims held")
			must(rdb.ZAdd(ctx, prefix+"consumers", redis.Z{Score: 1, Member: c.ID()}).Err())
			swept, err := list.Sweep(ctx)
			must(err)
			if swept.Returned != 4 {
				t.Fatalf("swept %+v", swept)
			}
			// The claims that came back are exempt from the bound: make room, and more.
			must(rdb.ZRemRangeByRank(ctx, prefix+"scheduled", 0, 11).Err())
			top("entries gone by hand")
			must(rdb.Del(ctx, prefix+"job:"+rdb.LIndex(ctx, prefix+"pending", -1).Val()).Err())
			must(rdb.RPop(ctx, prefix+"pending").Err())
			top("a job gone by hand")
		}
	})

	t.Run("as many run as there are workers, whatever became of those before", func(t *testing.T) {
		t.Parallel()
		const workers = 3
		rdb, name := redistest.Client(t), redistest.Name(t)
		prefix := "{" + name + "}:"
		q := open(t, rdb, name, nil, &bridge.Options{Retry: policy.Retry{Initial: 10 * time.Millisecond, Max: 10 * time.Millisecond}})
		kind := plain(q, "n")
		var running, most atomic.Int64
		arrived, release := make(chan struct{}, workers), make(chan struct{})
		_ = kind.Handle(func(_ context.Context, d *bridge.Delivery[string]) error {
			n := running.Add(1)
			defer running.Add(-1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			switch {
			case d.Value == "meets": // ends when as many as there are workers run at once
				arrived <- struct{}{}
				<-release
			case d.Deliveries > 1:
			case d.Value == "panics":
				panic("on purpose")
			case d.Value == "exits":
				runtime.Goexit()
			case d.Value == "fails":
				return errors.New("on purpose")
			case d.Value == "loses its record":
				return rdb.Del(context.Background(), prefix+"job:"+d.ID).Err()
			}
			return nil
		})
		run(t, q, &bridge.RunOptions{Workers: workers, Lease: 300 * time.Millisecond, SweepEvery: 50 * time.Millisecond})
		for round := range 4 {
			for i := range 60 {
				value := []string{"panics", "exits", "fails", "loses its record", "completes"}[i%5]
				if _, err := kind.Submit(patient(t), value, policy.Wait(0)); err != nil {
					t.Fatal(err)
				}
			}
			// The consumer is struck off, or its record goes, and the producer's: they have to begin anew.
			if round%2 == 0 {
				rdb.Del(patient(t), prefix+"consumers")
			} else {
				rdb.Del(patient(t), rdb.Keys(patient(t), prefix+"sender:*").Val()...)
			}
			rdb.Del(patient(t), prefix+"counters")
			eventually(t, fmt.Sprint("round ", round, " is over"), func() bool {
				s, err := q.Stats(patient(t))
				return err == nil && s.Front.Length == 0 && s.Durable.Pending+s.Durable.Processing+s.Durable.Scheduled == 0
			})
		}
		for range workers + 2 {
			if _, err := kind.TrySubmit("meets"); err != nil {
				t.Fatal(err)
			}
		}
		for i := range workers {
			await(t, fmt.Sprint("worker ", i, " runs a job beside the others"), arrived)
		}
		if n := most.Load(); n != workers {
			t.Errorf("%d ran at once on %d workers", n, workers)
		}
		close(release)
		eventually(t, "the rest runs too", func() bool {
			s, err := q.Stats(patient(t))
			return err == nil && s.Durable.Pending+s.Durable.Processing == 0
		})
	})
}

// Story 33. Finished jobs were kept, and trimmed entries left their hashes behind, until Redis was full. (A million jobs
// are in the experiments; E24, E26.)
func TestCase33_FinishedJobsFillRedis(t *testing.T) {
	t.Parallel()
	const dead, warm, jobs = 100, 2_000, 20_000
	server := redistest.Start(t)
	rdb := server.Client(t)
	q := open(t, rdb, "many", &durable.ListOptions{MaxDead: dead}, &bridge.Options{Capacity: 4096})
	kind := plain(q, "n")
	_ = kind.Handle(func(_ context.Context, d *bridge.Delivery[string]) error {
		switch d.Value {
		case "dies":
			return bridge.Permanent(errors.New("on purpose"))
		case "snoozes":
			if d.Deliveries == 1 {
				return bridge.Snooze(time.Millisecond)
			}
		}
		return nil
	})
	run(t, q, &bridge.RunOptions{Workers: 64})
	submitted := 0
	keys := func(upTo int) int64 {
		t.Helper()
		for ; submitted < upTo; submitted++ {
			value := "completes"
			switch submitted % 10 {
			case 3:
				value = "dies"
			case 6:
				value = "snoozes"
			}
			if _, err := kind.Submit(patient(t), value, policy.Wait(0)); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, fmt.Sprint("all of ", upTo, " have ended"), func() bool {
			c := q.Counters()
			return c.Completed+c.Dead == uint64(upTo)
		})
		if n := rdb.ZCard(patient(t), "{many}:dead").Val(); n != dead {
			t.Errorf("after %d jobs %d dead letters are kept, the bound is %d", upTo, n, dead)
		}
		if hashes := rdb.Keys(patient(t), "{many}:job:*").Val(); len(hashes) != dead {
			t.Errorf("after %d jobs there are %d hashes, of %d dead letters", upTo, len(hashes), dead)
		}
		return rdb.DBSize(patient(t)).Val()
	}
	first := keys(warm)
	if last := keys(jobs); last != first {
		t.Errorf("%d keys after %d jobs, %d after %d: %q", first, warm, last, jobs, rdb.Keys(patient(t), "*").Val())
	}
	for {
		done, err := q.Operator().Discard(patient(t), durable.Selection{All: true, Limit: durable.MaxPage})
		if err != nil {
			t.Fatal(err)
		}
		if !done.More() {
			break
		}
	}
	shut(t, q)
	if left := leftovers(t, rdb, "{many}:"); len(left) > 0 {
		t.Errorf("left behind for ever: %q", left)
	}
}
