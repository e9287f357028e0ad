// Stories from the field about jobs whose worker, lease or record was lost.
package weir_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/internal/redistest"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// Active entries without their claim's fields were never recovered.
func TestCase23_ClaimWithoutItsFieldsIsNeverRecovered(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string][]string{
		"all":               {"status", "claim_token", "claimed_at_ms", "deliveries", "fence", "attempts", "append"},
		"the token":         {"claim_token"},
		"the status":        {"status"},
		"token and status":  {"claim_token", "status"},
		"the time of claim": {"claimed_at_ms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDrill(t)
			first := d.start(t, "before the effect")
			first.expect(t, "holds")
			if n := d.rdb.HDel(patient(t), d.key(), fields...).Val(); n == 0 {
				t.Fatalf("no field of %q was there", fields)
			}
			first.kill()
			second := d.start(t, "")
			second.expect(t, "event completed "+d.ticket.ID())
			d.gone(t)
		})
	}
}

// The sweeper and the workers stumbled for ever over what an operator had deleted.
func TestCase24_DeletedRecordMakesAnEndlessLoop(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb, prefix := server.Client(t), "{del}:"
	proxy := redistest.NewProxy(t, server.Addr())
	var logged, sent atomic.Int64
	q := open(t, proxy.Client(t), "del", nil, &bridge.Options{Logger: slog.New(lines{n: &logged})})
	kind := plain(q, "n")
	release := make(chan struct{})
	_ = kind.Handle(func(_ context.Context, d *bridge.Delivery[string]) error {
		if strings.HasPrefix(d.ID, "active") {
			<-release
		}
		return nil
	})
	tickets := map[string]*bridge.Ticket{}
	submit := func(id string, delay time.Duration) {
		ticket, err := kind.SubmitJob(patient(t), bridge.Job[string]{ID: id, Delay: delay}, policy.Reject())
		if err != nil {
			t.Fatal(err)
		}
		if err := ticket.WaitEnqueued(patient(t)); err != nil {
			t.Fatal(err)
		}
		tickets[id] = ticket
	}
	submit("active without hash", 0)
	submit("active without entry", 0)
	run(t, q, &bridge.RunOptions{Workers: 2, Lease: 2 * time.Second, SweepEvery: 100 * time.Millisecond})
	await(t, "the first runs", tickets["active without hash"].Started())
	await(t, "the second runs", tickets["active without entry"].Started())
	submit("pending without hash", 0)
	submit("pending without entry", 0)
	submit("scheduled without hash", time.Second)
	submit("innocent", 0)
	processing := rdb.Keys(patient(t), prefix+"processing:*").Val()
	if len(processing) != 1 {
		t.Fatalf("processing lists %q", processing)
	}
	for _, gone := range []int64{
		rdb.Del(patient(t), prefix+"job:active without hash").Val(),
		rdb.LRem(patient(t), processing[0], 1, "active without entry").Val(),
		rdb.Del(patient(t), prefix+"job:pending without hash").Val(),
		rdb.LRem(patient(t), prefix+"pending", 1, "pending without entry").Val(),
		rdb.Del(patient(t), prefix+"job:scheduled without hash").Val(),
	} {
		if gone != 1 {
			t.Fatal("something was not there to be deleted")
		}
	}
	close(release)
	if err := tickets["active without hash"].Wait(patient(t)); !errors.Is(err, local.ErrCancelled) || !errors.Is(err, bridge.ErrGone) {
		t.Errorf("whose hash is gone: %v", err)
	}
	for _, id := range []string{"active without entry", "innocent"} {
		if err := tickets[id].Wait(patient(t)); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	eventually(t, "what has no hash is dropped", func() bool {
		s, err := q.Stats(patient(t))
		return err == nil && s.Durable.Pending+s.Durable.Scheduled+s.Durable.Processing == 0 && s.Durable.Counters["dropped"] == 2
	})

	// Quiet from now on: a park a second, sweeps, renewals.
	proxy.OnRequest(func(redistest.Exchange) redistest.Action { sent.Add(1); return redistest.Pass })
	begin := time.Now()
	<-time.After(2 * time.Second)
	if rate := float64(sent.Load()) / time.Since(begin).Seconds(); rate > 20 {
		t.Errorf("%.1f commands a second with nothing to do", rate)
	}
	if n := logged.Load(); n > 5 {
		t.Errorf("%d log lines about two entries", n)
	}
	if c := q.Counters(); c.Gone != 1 || c.Completed != 2 {
		t.Errorf("%+v", c)
	}
}

// A worker died with a job whose hash, or whose entry, an operator had deleted.
func TestCase24_DeadWorkerWithADeletedRecord(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(t *testing.T, d *drill) int64{
		"hash": func(t *testing.T, d *drill) int64 { return d.rdb.Del(patient(t), d.key()).Val() },
		"entry": func(t *testing.T, d *drill) (n int64) {
			for _, key := range d.rdb.Keys(patient(t), "{"+d.queue+"}:processing:*").Val() {
				n += d.rdb.LRem(patient(t), key, 1, d.ticket.ID()).Val()
			}
			return n
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDrill(t)
			first := d.start(t, "before the effect")
			first.expect(t, "holds")
			if remove(t, d) != 1 {
				t.Fatal("nothing was deleted")
			}
			registered := d.rdb.ZRange(patient(t), "{"+d.queue+"}:consumers", 0, -1).Val()
			if len(registered) != 1 {
				t.Fatalf("registered: %q", registered)
			}
			first.kill()
			second := d.start(t, "")
			eventually(t, "the dead consumer is forgotten", func() bool {
				return errors.Is(d.rdb.ZScore(patient(t), "{"+d.queue+"}:consumers", registered[0]).Err(), redis.Nil)
			})
			if got := places(t, d.rdb, d.queue, d.ticket.ID()); len(got) != 0 {
				t.Errorf("the deleted job is in %v", got)
			}
			push(t, d.rdb, "{"+d.queue+"}:", "next", "payload", `"x"`, "kind", "drill")
			second.expect(t, "event completed next deliveries=1")
		})
	}
}

// A job that takes long lost its lease although its worker lived, because renewals waited for other traffic.
func TestCase25_LongJobLosesItsLease(t *testing.T) {
	t.Parallel()
	const lease = 1500 * time.Millisecond
	rdb, name := redistest.Client(t), redistest.Name(t)
	proxy := redistest.NewProxy(t, redistest.Addr(t))
	q := open(t, proxy.Client(t), name, nil, nil)
	kind := plain(q, "n")
	ended := make(chan error, 1)
	_ = kind.Handle(func(ctx context.Context, d *bridge.Delivery[string]) error {
		if d.Value != "long" {
			return nil
		}
		select {
		case <-time.After(10 * lease):
		case <-ctx.Done():
		}
		ended <- context.Cause(ctx)
		return context.Cause(ctx)
	})
	run(t, q, &bridge.RunOptions{Lease: lease})
	long, err := kind.TrySubmit("long")
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the long job runs", long.Started())

	// Others lie in wait for it, the store is slow with everything else, and there is a lot of it.
	rival, runs := open(t, rdb, name, nil, nil), newLedger()
	runs.consume(t, plain(rival, "other"))
	run(t, rival, &bridge.RunOptions{Lease: lease, SweepEvery: 50 * time.Millisecond})
	hasten := proxy.OnReply(func(e redistest.Exchange) redistest.Action {
		if redistest.With("append")(e) || redistest.With("claim")(e) || redistest.With("settle")(e) {
			<-time.After(lease)
		}
		return redistest.Pass
	})
	ctx, stop := context.WithCancel(patient(t))
	var busy sync.WaitGroup
	for range 2 {
		busy.Go(func() {
			for ctx.Err() == nil {
				_, _ = kind.Submit(ctx, "short", policy.Wait(time.Second))
			}
		})
	}
	err = await(t, "the long job ends", ended)
	hasten()
	stop()
	busy.Wait()
	if err != nil {
		t.Errorf("the context of a handler whose worker lives ended: %v", err)
	}
	if err := long.Wait(patient(t)); err != nil {
		t.Error(err)
	}
	if c := q.Counters(); c.LeaseLost != 0 || c.Stale != 0 || rival.Counters().Swept != 0 {
		t.Errorf("%d leases lost, %d stale, %d swept by the rival", c.LeaseLost, c.Stale, rival.Counters().Swept)
	}
}

// The handler of a worker that was cut off learnt of it after another had its job.
func TestCase25_HandlerLearnsOfItsLostLeaseTooLate(t *testing.T) {
	t.Parallel()
	const lease = 4 * time.Second
	rdb, name := redistest.Client(t), redistest.Name(t)
	proxy := redistest.NewProxy(t, redistest.Addr(t))
	q := enlist(t, proxy.Client(t), nil, name, nil, nil)
	kind := plain(q, "n")
	type end struct {
		at    time.Time
		cause error
	}
	ended := make(chan end, 1)
	_ = kind.Handle(func(ctx context.Context, d *bridge.Delivery[string]) error {
		if d.Deliveries > 1 {
			return nil
		}
		<-ctx.Done()
		ended <- end{time.Now(), context.Cause(ctx)}
		return nil // a late completion
	})
	run(t, q, &bridge.RunOptions{Lease: lease})
	ticket, err := kind.TrySubmit("x")
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the job runs", ticket.Started())
	heal := proxy.Blackhole()
	got := await(t, "the context ends", ended)
	var deadline time.Time // by the server's clock, which is this machine's
	for _, z := range rdb.ZRangeWithScores(patient(t), "{"+name+"}:consumers", 0, -1).Val() {
		deadline = time.UnixMilli(int64(z.Score))
	}
	if !errors.Is(got.cause, bridge.ErrLeaseLost) {
		t.Errorf("cause %v", got.cause)
	}
	if early := deadline.Sub(got.at); early <= 0 || early > lease/2 {
		t.Errorf("the context ended %v before the lease did, which is %v long", early, lease)
	}
	heal()
	if err := ticket.Wait(patient(t)); err != nil {
		t.Errorf("after the partition: %v", err)
	}
}

// Lists of consumers that nobody registers any more were never looked at again.
func TestCase27_ListOfAnUnregisteredWorkerIsNeverLookedAt(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(t *testing.T, rdb *redis.Client, prefix string) int64{
		"its entry deleted": func(t *testing.T, rdb *redis.Client, prefix string) int64 {
			return rdb.ZRemRangeByRank(patient(t), prefix+"consumers", 0, -1).Val()
		},
		"the registry deleted": func(t *testing.T, rdb *redis.Client, prefix string) int64 {
			return rdb.Del(patient(t), prefix+"consumers").Val()
		},
		"the registry deleted, its record spoilt": func(t *testing.T, rdb *redis.Client, prefix string) int64 {
			for _, key := range rdb.Keys(patient(t), prefix+"sender:*").Val() {
				rdb.HSet(patient(t), key, "lease", "1000") // not the default of half a minute
				rdb.HDel(patient(t), key, "kind")
			}
			return rdb.Del(patient(t), prefix+"consumers").Val()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t) // the search goes through all keys: few here
			d := newDrillOn(t, server.Client(t), "lost")
			first := d.start(t, "before the effect")
			first.expect(t, "holds")
			first.kill()
			if forget(t, d.rdb, "{lost}:") != 1 {
				t.Fatal("the worker was not registered")
			}
			second := d.start(t, "")
			second.expect(t, "event completed "+d.ticket.ID()+" deliveries=2")
			d.gone(t)
		})
	}
}

// What a dead worker held was picked up at the next start of a process only.
func TestCase28_OrphansWaitForTheNextStart(t *testing.T) {
	t.Parallel()
	d := newDrill(t)
	first := d.start(t, "before the effect")
	first.expect(t, "holds")
	second := d.start(t, "")
	eventually(t, "the second worker is there", func() bool {
		return d.rdb.ZCard(patient(t), "{"+d.queue+"}:consumers").Val() == 2
	})
	first.kill()
	begin := time.Now()
	second.expect(t, "event completed "+d.ticket.ID()+" deliveries=2")
	// Lease, a sweep, the delay of what lost its worker, and what a loaded machine needs.
	const sweep, delayed, loaded = drillLease / 2 * 5 / 4, 2 * time.Second, 2 * time.Second
	if took := time.Since(begin); took > drillLease+sweep+delayed+loaded {
		t.Errorf("recovered after %v", took)
	}
	if got := fmt.Sprint(d.rdb.HGet(patient(t), "{"+d.queue+"}:counters", "crashed").Val()); got != "1" {
		t.Errorf("%s crashes charged", got)
	}
}
