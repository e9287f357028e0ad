// What the library takes of a server: connections, commands, keys.
package weir_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
	"github.com/seed-9dec4fca/weir/policy"
)

// connections counts those with a client name, by the server's own account.
func connections(ctx context.Context, rdb *redis.Client, name string) (n int) {
	return strings.Count(rdb.ClientList(ctx).Val(), " name="+name+" ")
}

// watch looks at a number again and again until the returned function is called, which
// returns the largest.
func watch(look func() int) (largest func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	var most atomic.Int64
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			if n := int64(look()); n > most.Load() {
				most.Store(n)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				tick.Stop()
				return
			}
		}
	})
	return func() int { cancel(); watcher.Wait(); return int(most.Load()) }
}

// Blocking pops and a crowd of enqueuers took every connection of the pool, and renewals starved.
func TestCase21_CrowdStarvesRenewals(t *testing.T) {
	t.Parallel()
	const workers, producers, lease, spell = 200, 100, 4 * time.Second, 4 * time.Second
	server := redistest.Start(t)
	rdb := server.Client(t)
	silly := redis.NewClient(&redis.Options{
		Addr: server.Addr(), ClientName: "silly", PoolSize: 1, MaxActiveConns: 1, PoolTimeout: time.Millisecond,
		MaxRetries: 10, MinRetryBackoff: time.Minute, MaxRetryBackoff: time.Minute, ReadTimeout: -1, WriteTimeout: -2,
		DialTimeout: time.Hour, ConnMaxIdleTime: time.Millisecond, ConnMaxLifetime: 500 * time.Millisecond, PoolFIFO: true,
	})
	t.Cleanup(func() { _ = silly.Close() })
	var late atomic.Int64
	returned := sync.Map{} // when a job's handler returned
	q := open(t, silly, "crowd", nil, &bridge.Options{OnEvent: func(e bridge.Event) {
		if e.Type != bridge.EventCompleted {
			return
		}
		if at, ok := returned.LoadAndDelete(e.ID); ok {
			if took := int64(e.Time.Sub(at.(time.Time))); took > late.Load() {
				late.Store(took)
			}
		}
	}})
	kind := plain(q, "n")
	_ = kind.Handle(func(ctx context.Context, d *bridge.Delivery[string]) error {
		defer func() { returned.Store(d.ID, time.Now()) }()
		if d.Value == "long" {
			select {
			case <-time.After(lease * 3 / 2):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
	most := watch(func() int { return connections(context.Background(), rdb, "silly") })
	run(t, q, &bridge.RunOptions{Workers: workers, Lease: lease})
	ctx, cancel := context.WithTimeout(t.Context(), spell)
	defer cancel()
	var crowd sync.WaitGroup
	for n := range producers {
		crowd.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				value := "short"
				if i == 0 && n < workers/4 {
					value = "long"
				}
				_, _ = kind.Submit(ctx, value, policy.Wait(time.Second))
			}
		})
	}
	crowd.Wait()
	eventually(t, "all has completed", func() bool {
		s, _ := q.Stats(cancelled())
		return s.Front.Length == 0 && s.Counters.Completed == s.Counters.Enqueued
	})
	if c := q.Counters(); c.LeaseLost+c.Stale+c.Unsettled+c.Released != 0 || c.Started != c.Completed {
		t.Errorf("late renewals or settles: %+v", c)
	}
	if took := time.Duration(late.Load()); took > lease/2 {
		t.Errorf("a completion was settled %v after the handler's return", took)
	}
	if n := most(); n > 5 || n < 3 {
		t.Errorf("%d connections at once, the budget is 3, one for the queue consumed and one to follow its jobs", n)
	}
	t.Logf("%d jobs, a settle took at most %v", q.Counters().Completed, time.Duration(late.Load()))
}

func TestConnectionsStayWithinTheBudgetForTheLifeOfAProcess(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	theirs := redis.NewClient(&redis.Options{Addr: server.Addr(), ClientName: "life"})
	t.Cleanup(func() { _ = theirs.Close() })
	now := func() int { return connections(patient(t), rdb, "life") }
	most := func(want int) func() {
		largest := watch(func() int { return connections(context.Background(), rdb, "life") })
		return func() {
			t.Helper()
			if n := largest(); n > want {
				t.Errorf("%d connections at once, want %d at most", n, want)
			}
		}
	}
	store, err := durable.NewRedis(theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	var queues []*bridge.Queue
	var kinds []*bridge.Kind[string]
	var lists []*durable.List
	for i := range 3 {
		lists = append(lists, store.List(fmt.Sprint("q", i), nil))
		q, err := bridge.Open(lists[i], nil)
		if err != nil {
			t.Fatal(err)
		}
		queues, kinds = append(queues, q), append(kinds, plain(q, "n"))
		newLedger().consume(t, kinds[i])
	}
	if n := now(); n != 0 {
		t.Errorf("%d connections before anything is asked for", n)
	}
	work := func() {
		ctx := patient(t)
		var wg sync.WaitGroup
		for _, kind := range kinds {
			for range 8 {
				wg.Go(func() {
					for range 40 {
						if _, err := kind.Submit(ctx, "x", policy.Wait(0)); err != nil {
							t.Errorf("submit: %v", err)
							return
						}
					}
				})
			}
		}
		wg.Wait()
	}
	check := most(3)
	work()
	check() // three queues that only produce

	check = most(3 + 2*len(queues)) // each is consumed, and what was noted of its jobs is read now and then
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, q := range queues {
		running.Go(func() {
			if err := q.Run(ctx, &bridge.RunOptions{Lease: time.Second}); err != nil {
				t.Errorf("run: %v", err)
			}
		})
	}
	work()
	for range 3 { // connections that the server closes are replaced, not added
		rdb.ClientKillByFilter(patient(t), "TYPE", "normal", "SKIPME", "yes")
		work()
	}
	eventually(t, "all has run", func() bool {
		return !slices.ContainsFunc(queues, func(q *bridge.Queue) bool {
			s, err := q.Stats(patient(t))
			return err != nil || s.Front.Length != 0 || s.Durable.Pending+s.Durable.Processing+s.Durable.Scheduled != 0
		})
	})
	for i, l := range lists { // who follows all the time has no more than that, whoever breaks it
		f, err := l.OpenFollower(patient(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Follow(patient(t), []string{fmt.Sprint("job", i)}); err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			for ctx.Err() == nil {
				_, _ = f.Await(ctx)
			}
		})
	}
	for range 3 {
		work()
		rdb.ClientKillByFilter(patient(t), "TYPE", "normal", "SKIPME", "yes")
	}
	work()
	check()
	stop()
	running.Wait()
	for _, q := range queues {
		shut(t, q)
	}
	eventually(t, "no connection is left", func() bool { return now() == 0 })
	if err := theirs.Ping(patient(t)).Err(); err != nil {
		t.Errorf("the client that was given: %v", err)
	}
}

// calls reads how often a command was called, by the server's own account.
func calls(t *testing.T, rdb *redis.Client, commands ...string) (n int) {
	t.Helper()
	for line := range strings.Lines(rdb.Info(patient(t), "commandstats").Val()) {
		name, stats, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if count, _, ok := strings.Cut(stats, ","); ok && slices.Contains(commands, name) {
			c, err := strconv.Atoi(count)
			if err != nil {
				t.Fatal(err)
			}
			n += c
		}
	}
	return n
}

func TestRoundTripsAreSharedByManyJobs(t *testing.T) {
	t.Parallel()
	const jobs = 5000
	server := redistest.Start(t)
	rdb := server.Client(t)
	q := open(t, server.Client(t), "batch", nil, nil)
	kind, runs := plain(q, "n"), newLedger()
	runs.consume(t, kind)
	trips := []string{"evalsha", "eval", "blmove"}
	var producers sync.WaitGroup
	for range 32 {
		producers.Go(func() {
			for range jobs / 32 {
				if _, err := kind.Submit(patient(t), "x", policy.Wait(0)); err != nil {
					t.Errorf("submit: %v", err)
					return
				}
			}
		})
	}
	producers.Wait()
	if err := q.Flush(patient(t)); err != nil {
		t.Fatal(err)
	}
	stored := int(q.Counters().Enqueued)
	appends := calls(t, rdb, trips...)
	if limit := stored/16 + 50; appends > limit {
		t.Errorf("%d round trips to enqueue %d jobs, the bound is %d", appends, stored, limit)
	}
	run(t, q, &bridge.RunOptions{Workers: 128})
	eventually(t, "all have run", func() bool { return int(q.Counters().Completed) == stored })
	consumed := calls(t, rdb, trips...) - appends
	if limit := stored/8 + 50; consumed > limit {
		t.Errorf("%d round trips to run %d jobs, the bound is %d", consumed, stored, limit)
	}
	t.Logf("%d jobs: %d round trips to enqueue, %d to claim and settle", stored, appends, consumed)

	// Inside the scripts: a fixed number of commands for each job.
	inside := calls(t, rdb, "hset", "hget", "hmget", "lpush", "rpush", "lrange", "ltrim", "lrem", "del", "exists", "type", "llen", "zadd", "zcard")
	if per := float64(inside) / float64(stored); per > 16 {
		t.Errorf("%.1f commands on the server for each job", per)
	} else {
		t.Logf("%.1f commands on the server for each job", per)
	}
}

func TestIdleProcessAsksLittle(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	q := open(t, server.Client(t), "idle", nil, nil)
	kind, runs := plain(q, "n"), newLedger()
	runs.consume(t, kind)
	run(t, q, nil)
	ticket, err := kind.TrySubmit("x")
	if err != nil {
		t.Fatal(err)
	}
	if err := ticket.Wait(patient(t)); err != nil {
		t.Fatal(err)
	}
	parked(t, rdb, 1)
	trips := []string{"evalsha", "eval", "blmove"}
	before, begin := calls(t, rdb, trips...), time.Now()
	<-time.After(4 * time.Second)
	if rate := float64(calls(t, rdb, trips...)-before) / time.Since(begin).Seconds(); rate > 4 || rate < 1 {
		t.Errorf("%.1f commands a second of an idle process, want a BLMOVE and a claim", rate)
	}
}

func TestNoKeyIsLeftBehind(t *testing.T) {
	t.Parallel()
	rdb, name := redistest.Client(t), redistest.Name(t)
	prefix := "{" + name + "}:"
	q := open(t, rdb, name, nil, nil)
	kind := bridge.NewKind(q, "n", &bridge.KindOptions[string]{
		Codec: raw{}, Retry: policy.Retry{Initial: time.Millisecond, Max: time.Millisecond},
	})
	_ = kind.Handle(func(_ context.Context, d *bridge.Delivery[string]) error {
		switch {
		case d.Value == "retry" && d.Attempt < 3:
			return fmt.Errorf("attempt %d", d.Attempt)
		case d.Value == "snooze" && d.Deliveries == 1:
			return bridge.Snooze(time.Millisecond)
		}
		return nil
	})
	run(t, q, nil)
	const each = 50
	for range each {
		for _, job := range []bridge.Job[string]{
			{Value: "plain"},
			{Value: "retry"},
			{Value: "snooze"},
			{Value: "late", Delay: 10 * time.Millisecond, Headers: map[string]string{"a": "b"}, MaxAttempts: 2, Timeout: time.Minute},
		} {
			job.ID = q.NewID()
			if _, err := kind.SubmitJob(patient(t), job, policy.Wait(0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "all have completed", func() bool { return q.Counters().Completed == 4*each })
	if left := leftovers(t, rdb, prefix); len(left) != 1 || left[0] != prefix+"consumers" {
		t.Errorf("while the process lives: %q, want its registration only", left)
	}
	shut(t, q)
	if left := leftovers(t, rdb, prefix); len(left) != 0 {
		t.Errorf("after its end: %q", left)
	}
	for _, key := range rdb.Keys(patient(t), prefix+"sender:*").Val() {
		if ttl := rdb.PTTL(patient(t), key).Val(); ttl < time.Hour || ttl > 48*time.Hour {
			t.Errorf("%s ends in %v", key, ttl)
		}
	}
}
