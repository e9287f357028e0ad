package weir_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
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

// submitOne hands a job to a queue that has no worker in this process.
func submitOne(t *testing.T, kind *bridge.Kind[string], job bridge.Job[string]) *bridge.Ticket {
	t.Helper()
	ticket, err := kind.SubmitJob(patient(t), job, policy.Wait(patience))
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

func TestTicketsAcrossProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	submit := func(t *testing.T, rdb *redis.Client, queue string) (d *drill, q *bridge.Queue) {
		t.Helper()
		d = &drill{rdb: server.Client(t), queue: queue, file: filepath.Join(t.TempDir(), "effects")}
		q = open(t, rdb, d.queue, nil, nil)
		d.ticket = submitOne(t, bridge.NewKind[string](q, "drill", nil), bridge.Job[string]{ID: "pay", Value: "pay"})
		return d, q
	}
	started := func(t *testing.T, d *drill) {
		t.Helper()
		select {
		case <-d.ticket.Started():
		case <-patient(t).Done():
			t.Fatal("the ticket does not know that the handler runs")
		}
		if got := d.ticket.State(); got != local.Processing {
			t.Errorf("while the handler runs: %v", got)
		}
	}
	ended := func(t *testing.T, d *drill) {
		t.Helper()
		if err := d.ticket.Wait(patient(t)); err != nil {
			t.Fatal(err)
		}
		if got := string(d.ticket.Result()); got != "paid 1" {
			t.Errorf("result %q", got)
		}
	}
	t.Run("started, completed and the result, from a process of its own", func(t *testing.T) {
		t.Parallel()
		d, _ := submit(t, server.Client(t), "plain")
		worker := d.start(t, "before the effect")
		worker.expect(t, "holds")
		started(t, d)
		worker.goOn()
		ended(t, d)
	})
	t.Run("the producer loses all its connections meanwhile", func(t *testing.T) {
		t.Parallel()
		proxy := redistest.NewProxy(t, server.Addr())
		d, _ := submit(t, proxy.Client(t), "severed")
		worker := d.start(t, "before the effect")
		worker.expect(t, "holds")
		started(t, d)
		proxy.Refuse(true)
		proxy.Sever(redistest.RST)
		worker.goOn()
		worker.expect(t, "event completed")
		proxy.Refuse(false)
		ended(t, d)
	})
	t.Run("a worker is killed, and another one does it", func(t *testing.T) {
		t.Parallel()
		d, _ := submit(t, server.Client(t), "killed")
		first := d.start(t, "before the effect")
		first.expect(t, "holds")
		started(t, d)
		first.kill()
		d.start(t, "")
		if err := d.ticket.Wait(patient(t)); err != nil {
			t.Fatal(err)
		}
		if got := string(d.ticket.Result()); got != "paid 2" {
			t.Errorf("result %q, want that of the second delivery", got)
		}
	})
	t.Run("the producer is started again, and follows what it had submitted", func(t *testing.T) {
		t.Parallel()
		d, q := submit(t, server.Client(t), "again")
		if err := q.Flush(patient(t)); err != nil {
			t.Fatal(err)
		}
		if _, err := q.Shutdown(patient(t)); err != nil {
			t.Fatal(err)
		}
		if err := d.ticket.Wait(patient(t)); !errors.Is(err, local.ErrDetached) {
			t.Errorf("after Shutdown: %v", err)
		}
		var err error
		if d.ticket, err = open(t, server.Client(t), d.queue, nil, nil).Follow(patient(t), "pay"); err != nil {
			t.Fatal(err)
		}
		worker := d.start(t, "before the effect")
		worker.expect(t, "holds")
		started(t, d)
		worker.goOn()
		ended(t, d)
	})
}

// The server freezes, and is started again, while another process has the job.
func TestTicketsAcrossProcessesWhenRedisFails(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*testing.T, *redistest.Server){
		"frozen": func(t *testing.T, s *redistest.Server) {
			if err := s.Freeze(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Thaw() })
			frozen, cancel := context.WithTimeout(context.Background(), 2*durable.Park)
			defer cancel()
			<-frozen.Done()
			if err := s.Thaw(); err != nil {
				t.Fatal(err)
			}
		},
		"started again": func(t *testing.T, s *redistest.Server) {
			if err := s.Restart(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
			producer := open(t, server.Client(t), "q", nil, nil)
			consumer := open(t, server.Client(t), "q", nil, nil)
			holds, goOn := make(chan struct{}), make(chan struct{})
			if err := plain(consumer, "slow").Handle(func(_ context.Context, d *bridge.Delivery[string]) error {
				if d.Deliveries == 1 {
					close(holds)
					<-goOn
				}
				return d.SetResult([]byte("done"), 0)
			}); err != nil {
				t.Fatal(err)
			}
			run(t, consumer, nil)
			ticket := submitOne(t, plain(producer, "slow"), bridge.Job[string]{ID: "a"})
			done := ticket.Done()
			<-holds
			fault(t, server)
			close(goOn)
			select {
			case <-done:
			case <-patient(t).Done():
				t.Fatalf("the ticket is %v", ticket.State())
			}
			if err := ticket.Err(); err != nil || string(ticket.Result()) != "done" {
				t.Errorf("%v, %q", err, ticket.Result())
			}
		})
	}
}

// reading is how many connections wait for news.
func reading(t *testing.T, rdb *redis.Client) (n int) {
	t.Helper()
	for line := range strings.Lines(rdb.ClientList(patient(t)).Val()) {
		if strings.Contains(line, " flags=b ") && strings.Contains(line, " cmd=xread ") {
			n++
		}
	}
	return n
}

func TestFollowingCostsTheServerNoCommandPerTicket(t *testing.T) {
	t.Parallel()
	const jobs = 10_000
	server := redistest.Start(t)
	rdb := server.Client(t)
	producer, consumer := open(t, server.Client(t), "q", nil, nil), open(t, server.Client(t), "q", nil, nil)
	kind := plain(producer, "quick")
	if err := plain(consumer, "quick").Handle(func(context.Context, *bridge.Delivery[string]) error { return nil }); err != nil {
		t.Fatal(err)
	}
	run(t, consumer, nil)
	watched := submitOne(t, kind, bridge.Job[string]{ID: "later", Delay: time.Hour})
	watched.Done()
	eventually(t, "a connection reads news while a ticket is open", func() bool { return reading(t, rdb) == 1 })
	if _, err := producer.Cancel(patient(t), "later"); err != nil {
		t.Fatal(err)
	}
	before := calls(t, rdb, "evalsha", "xread")
	tickets := make([]*bridge.Ticket, jobs)
	for i := range tickets {
		ticket, err := kind.Submit(patient(t), "x", policy.Wait(patience))
		if err != nil {
			t.Fatal(err)
		}
		ticket.Done()
		tickets[i] = ticket
	}
	if reading(t, rdb) > 1 {
		t.Error("more than one connection reads news")
	}
	for i, ticket := range tickets {
		if err := ticket.Wait(patient(t)); err != nil {
			t.Fatalf("job %d: %v", i, err)
		}
	}
	all, reads := calls(t, rdb, "evalsha", "xread")-before, calls(t, rdb, "xread")
	t.Logf("%d requests for %d jobs, %d of them reads", all, jobs, reads)
	if all > jobs/4 || reads > jobs/10 {
		t.Errorf("%d requests for %d jobs, %d of them reads", all, jobs, reads)
	}
	eventually(t, "nobody reads news when no ticket is open", func() bool { return reading(t, rdb) == 0 })
}

func TestWhoOnlyFiresAndForgetsIsNotToldOfAnything(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	producer, consumer := open(t, server.Client(t), "q", nil, nil), open(t, server.Client(t), "q", nil, nil)
	kind := plain(producer, "quick")
	if err := plain(consumer, "quick").Handle(func(context.Context, *bridge.Delivery[string]) error { return nil }); err != nil {
		t.Fatal(err)
	}
	run(t, consumer, nil)
	fire := func(jobs int) {
		for range jobs {
			if _, err := kind.Submit(patient(t), "x", policy.Wait(patience)); err != nil {
				t.Fatal(err)
			}
		}
		if err := producer.Flush(patient(t)); err != nil {
			t.Fatal(err)
		}
		runtime.GC()
	}
	adopted := func() bool {
		for _, key := range rdb.Keys(patient(t), "{q}:sender:*").Val() {
			if rdb.HExists(patient(t), key, "follow").Val() {
				return true
			}
		}
		return false
	}
	fire(10)
	if !adopted() {
		t.Fatal("the first jobs are not followed")
	}
	eventually(t, "the producer is let go", func() bool { fire(500); return !adopted() })
	completed := func() bool {
		s, err := producer.Stats(patient(t))
		return err == nil && s.Durable.Pending+s.Durable.Processing == 0
	}
	eventually(t, "all of that is done", completed)
	eventually(t, "nobody reads news", func() bool { return reading(t, rdb) == 0 })
	noted := calls(t, rdb, "xadd")
	if noted == 0 {
		t.Error("nothing was noted while the first were followed")
	}
	fire(3000)
	eventually(t, "all of that is done", completed)
	if n := calls(t, rdb, "xadd") - noted; n != 0 {
		t.Errorf("%d notes for nobody", n)
	}
	if n := reading(t, rdb); n != 0 {
		t.Errorf("%d connections read news", n)
	}
	// Whoever looks then, before the job has ended, is told.
	if err := submitOne(t, kind, bridge.Job[string]{ID: "last", Delay: durable.Park / 2}).Wait(patient(t)); err != nil {
		t.Error(err)
	}
}

func TestTicketsOfASortedSetAcrossProcesses(t *testing.T) {
	t.Parallel()
	rdb, name := redistest.Client(t), redistest.Name(t)
	queue := func() *bridge.Queue {
		store, err := durable.NewRedis(rdb, nil)
		if err != nil {
			t.Fatal(err)
		}
		q, err := bridge.Open(store.SortedSet(name, nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if _, err := q.Shutdown(patient(t)); err != nil {
				t.Error(err)
			}
		})
		return q
	}
	producer, consumer := queue(), queue()
	long := strings.Repeat("x", durable.MaxNoticed+1)
	if err := plain(consumer, "sum").Handle(func(_ context.Context, d *bridge.Delivery[string]) error {
		return d.SetResult(fmt.Appendf(nil, "%s %s", d.ID, long), 0)
	}); err != nil {
		t.Fatal(err)
	}
	run(t, consumer, nil)
	for i := range 20 {
		id := fmt.Sprint("job-", i)
		ticket := submitOne(t, plain(producer, "sum"), bridge.Job[string]{ID: id, Retention: patience})
		if err := ticket.Wait(patient(t)); err != nil || string(ticket.Result()) != id+" "+long {
			t.Errorf("%v, a result of %d bytes", err, len(ticket.Result()))
		}
	}
}

// Whoever followed an ID while jobs were submitted under it, in the same process, left their tickets open after a few.
func TestTicketsOfAnIDThatIsFollowedMeanwhile(t *testing.T) {
	t.Parallel()
	q := open(t, redistest.Client(t), redistest.Name(t), nil, nil)
	kind := plain(q, "drill")
	if err := kind.Handle(func(context.Context, *bridge.Delivery[string]) error { return nil }); err != nil {
		t.Fatal(err)
	}
	run(t, q, nil)
	ctx, cancel := context.WithCancel(patient(t))
	var followers sync.WaitGroup
	for range 2 {
		followers.Go(func() {
			for ctx.Err() == nil {
				_, _ = q.Follow(ctx, "pay")
			}
		})
	}
	defer followers.Wait()
	defer cancel()
	for began := time.Now(); time.Since(began) < 2*time.Second; {
		ticket := submitOne(t, kind, bridge.Job[string]{ID: "pay"})
		if err := ticket.Wait(patient(t)); err != nil {
			t.Fatalf("%v; %v, %+v", err, ticket.State(), q.Counters())
		}
	}
}
