// Stories from the field about admission and delivery, on a real Redis.
package weir_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// hold makes the proxy hold every request with this word until the returned function is called.
func hold(t *testing.T, p *redistest.Proxy, word string) (release func()) {
	t.Helper()
	gate := make(chan struct{})
	release = sync.OnceFunc(func() { close(gate) })
	match := redistest.With(word)
	p.OnRequest(func(e redistest.Exchange) redistest.Action {
		if match(e) {
			<-gate
		}
		return redistest.Pass
	})
	t.Cleanup(release)
	return release
}

// Drop-oldest discarded jobs and told nobody, or discarded what was on its way to the server.
func TestCase05_DropOldestThatTellsNobody(t *testing.T) {
	t.Parallel()
	for _, capacity := range []int{1, 2, 3, 64} {
		t.Run(fmt.Sprint("capacity ", capacity), func(t *testing.T) {
			t.Parallel()
			const producers, each = 16, 20
			var mu sync.Mutex
			events := map[string][]bridge.EventType{}
			proxy, name := redistest.NewProxy(t, redistest.Addr(t)), redistest.Name(t)
			release := hold(t, proxy, "append")
			q, watch := openWatching(t, proxy.Client(t), name, nil, &bridge.Options{Capacity: capacity, OnEvent: func(e bridge.Event) {
				mu.Lock()
				defer mu.Unlock()
				events[e.ID] = append(events[e.ID], e.Type)
			}})
			kind := plain(q, "n")
			sent := watch()
			taken, err := kind.TrySubmit("the bridge has it")
			if err != nil {
				t.Fatal(err)
			}
			sent()

			var tickets []*bridge.Ticket
			var full atomic.Int64
			var wg sync.WaitGroup
			for range producers {
				wg.Go(func() {
					for range each {
						ticket, err := kind.Submit(t.Context(), "x", policy.DropOldest())
						if errors.Is(err, policy.ErrFull) {
							full.Add(1)
							continue
						}
						mu.Lock()
						tickets = append(tickets, ticket)
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			if room := capacity - 1; room == 0 && len(tickets) > 0 || room > 0 && full.Load() > 0 {
				t.Errorf("%d accepted, %d refused at capacity %d", len(tickets), full.Load(), capacity)
			}
			waiter := make(chan error, 1)
			go func() {
				_, err := kind.Submit(patient(t), "waits", policy.Wait(0))
				waiter <- err
			}()
			eventually(t, "a producer waits", func() bool { s, _ := q.Stats(cancelled()); return s.Front.Waiting == 1 })
			release()
			if err := <-waiter; err != nil {
				t.Errorf("who only waited: %v", err)
			}
			if err := q.Flush(patient(t)); err != nil {
				t.Fatal(err)
			}

			if err := taken.WaitEnqueued(patient(t)); err != nil {
				t.Errorf("what the bridge had taken: %v", err)
			}
			evicted, enqueued := 0, 0
			for _, ticket := range tickets {
				times := 0
				mu.Lock()
				for _, e := range events[ticket.ID()] {
					if e == bridge.EventEvicted {
						times++
					}
				}
				mu.Unlock()
				where := places(t, redistest.Client(t), name, ticket.ID())
				switch ticket.State() {
				case local.Evicted:
					evicted++
					<-ticket.Enqueued()
					<-ticket.Started()
					<-ticket.Done()
					if !errors.Is(ticket.Err(), local.ErrEvicted) || times != 1 || len(where) != 0 {
						t.Errorf("evicted: %v, told %d times, is in %v", ticket.Err(), times, where)
					}
				case local.Enqueued:
					enqueued++
					if times != 0 || !slices.Equal(where, []string{"pending"}) {
						t.Errorf("enqueued: told %d times that it was evicted, is in %v", times, where)
					}
				default:
					t.Errorf("state %v", ticket.State())
				}
			}
			if enqueued != capacity-1 || evicted+enqueued+int(full.Load()) != producers*each {
				t.Errorf("%d enqueued, %d evicted, %d refused", enqueued, evicted, full.Load())
			}
		})
	}
}

// cancelled is a context for asking the process alone, not the server.
func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// A bound was checked after insertion, so that many producers passed it together.
func TestCase07_BoundPassedByManyProducersTogether(t *testing.T) {
	t.Parallel()
	const backlog, capacity, producers, each = 40, 7, 50, 20
	rdb, name := redistest.Client(t), redistest.Name(t)
	q := open(t, rdb, name, &durable.ListOptions{MaxBacklog: backlog}, &bridge.Options{Capacity: capacity})
	kind := plain(q, "n")
	watch := open(t, rdb, name, &durable.ListOptions{MaxBacklog: backlog}, nil)
	var most atomic.Int64
	_ = kind.Handle(func(ctx context.Context, _ *bridge.Delivery[string]) error { // as slow as a look at the server
		s, err := watch.Stats(ctx)
		if n := s.Durable.Pending + s.Durable.Scheduled; n > most.Load() {
			most.Store(n)
		}
		return err
	})
	run(t, q, &bridge.RunOptions{Workers: 1})
	policies := []policy.Policy{policy.Wait(20 * time.Second), policy.Reject(), policy.DropOldest(), policy.DropIncoming()}
	var wg sync.WaitGroup
	for n := range producers {
		wg.Go(func() {
			for range each {
				_, err := kind.Submit(patient(t), "x", policies[n%len(policies)])
				if err != nil && !errors.Is(err, policy.ErrFull) {
					t.Errorf("producer %d: %v", n, err)
				}
			}
		})
	}
	wg.Wait()
	eventually(t, "all that was enqueued has run", func() bool {
		s, err := q.Stats(patient(t))
		return err == nil && s.Front.Length == 0 && s.Counters.Completed == s.Counters.Enqueued
	})
	s, _ := q.Stats(cancelled())
	if got := most.Load(); got > backlog || got < backlog/2 {
		t.Errorf("the backlog reached %d, its bound is %d", got, backlog)
	}
	if s.Front.HighWater > capacity {
		t.Errorf("the front held %d, its bound is %d", s.Front.HighWater, capacity)
	}
	if s.Front.Submitted != producers*each || s.Front.Submitted != s.Front.Accepted+s.Front.RejectedTotal()+s.Front.Dropped ||
		s.Front.Accepted != int64(s.Counters.Enqueued)+s.Front.Evicted {
		t.Errorf("not conserved: %+v %+v", s.Front, s.Counters)
	}
}

// A stored backlog larger than what a process may hold blocked its start.
func TestCase10_StoredBacklogLargerThanTheCapacityBlocksTheStart(t *testing.T) {
	t.Parallel()
	const stored, capacity = 1000, 10
	rdb, name := redistest.Client(t), redistest.Name(t)
	producer := open(t, rdb, name, nil, &bridge.Options{Capacity: stored})
	for n := range stored {
		if _, err := plain(producer, "n").TrySubmit(fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := producer.Flush(patient(t)); err != nil {
		t.Fatal(err)
	}

	q := open(t, rdb, name, nil, &bridge.Options{Capacity: capacity})
	kind := plain(q, "n")
	started, release := make(chan string, stored+1), make(chan struct{})
	if err := kind.Handle(func(_ context.Context, d *bridge.Delivery[string]) error {
		started <- d.Value
		<-release
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	run(t, q, &bridge.RunOptions{Workers: 4})
	free := sync.OnceFunc(func() { close(release) })
	t.Cleanup(free)
	seen := map[string]int{await(t, "the first stored job runs", started): 1}

	// It produces beside them, and does not wait until they are gone.
	ticket, err := kind.TrySubmit("late")
	if err != nil {
		t.Fatal(err)
	}
	if err := ticket.WaitEnqueued(patient(t)); err != nil {
		t.Fatal(err)
	}
	if s, err := q.Stats(patient(t)); err != nil || s.Durable.Pending+s.Durable.Processing != stored+1 {
		t.Errorf("stored are %+v, %v", s.Durable, err)
	}
	free()
	for range stored {
		seen[await(t, "the next stored job runs", started)]++
	}
	if err := ticket.Wait(patient(t)); err != nil {
		t.Error(err)
	}
	eventually(t, "nothing is left", func() bool {
		s, err := q.Stats(patient(t))
		return err == nil && s.Counters.Completed == stored+1 && s.Durable.Pending+s.Durable.Processing+s.Durable.Scheduled == 0
	})
	for value, n := range seen {
		if n != 1 {
			t.Errorf("job %s ran %d times", value, n)
		}
	}
	if s, _ := q.Stats(cancelled()); len(seen) != stored+1 || s.Front.HighWater > capacity {
		t.Errorf("%d jobs ran, the front held %d", len(seen), s.Front.HighWater)
	}
}

// Idle workers slept between looks, so that a job waited 190 ms on average for nothing.
func TestCase37_IdleWorkerSleepsThroughAPush(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	q := open(t, rdb, "idle", nil, nil)
	kind := plain(q, "")
	started := make(chan time.Time, 1)
	_ = kind.Handle(func(context.Context, *bridge.Delivery[string]) error { started <- time.Now(); return nil })
	run(t, q, nil)
	var pickups, pings []time.Duration
	for i := range 60 {
		parked(t, rdb, 1)
		begin := time.Now()
		if err := rdb.Ping(patient(t)).Err(); err != nil {
			t.Fatal(err)
		}
		pings = append(pings, time.Since(begin))
		begin = time.Now()
		push(t, rdb, "{idle}:", fmt.Sprint("job-", i), "payload", "x")
		pickups = append(pickups, await(t, "the job is picked up", started).Sub(begin))
	}
	slices.Sort(pickups)
	slices.Sort(pings)
	pickup, ping := pickups[len(pickups)/2], pings[len(pings)/2]
	t.Logf("median from push to handler %v, of a ping %v", pickup, ping)
	// Two commands of the producer, the wake-up, a claim: a handful of round trips and of switches.
	if limit := max(30*ping, 10*time.Millisecond); pickup > limit {
		t.Errorf("median from push to handler is %v, a ping takes %v", pickup, ping)
	}
}

// parked waits until as many clients block on the server.
func parked(t *testing.T, rdb *redis.Client, n int) {
	t.Helper()
	eventually(t, fmt.Sprint(n, " clients are parked"), func() bool {
		return strings.Contains(rdb.Info(patient(t), "clients").Val(), fmt.Sprintf("blocked_clients:%d\r\n", n))
	})
}

// Busy workers hoarded what idle ones could have run.
func TestCase39_BusyWorkerHoardsWhileAnotherIdles(t *testing.T) {
	t.Parallel()
	rdb, name := redistest.Client(t), redistest.Name(t)
	type entry struct{ worker, id string }
	started, release := make(chan entry, 3), map[string]chan struct{}{"a": make(chan struct{}, 3), "b": make(chan struct{}, 3)}
	for _, worker := range []string{"a", "b"} {
		q := open(t, rdb, name, nil, nil)
		_ = plain(q, "long").Handle(func(_ context.Context, d *bridge.Delivery[string]) error {
			started <- entry{worker, d.ID}
			<-release[worker]
			return nil
		})
		run(t, q, &bridge.RunOptions{Workers: 1})
	}
	t.Cleanup(func() { close(release["a"]); close(release["b"]) })
	producer := plain(open(t, rdb, name, nil, nil), "long")
	for _, id := range []string{"1", "2", "3"} {
		if _, err := producer.SubmitJob(patient(t), bridge.Job[string]{ID: id}, policy.Reject()); err != nil {
			t.Fatal(err)
		}
	}
	first, second := await(t, "the first runs", started), await(t, "the second runs", started)
	if first.worker == second.worker {
		t.Fatalf("%v and %v run on one worker", first, second)
	}
	if got := places(t, rdb, name, "3"); !cmp.Equal(got, []string{"pending"}) && !cmp.Equal(got, []string{"arriving"}) {
		t.Errorf("the third job is in %v while both workers are busy", got)
	}
	release["b"] <- struct{}{}
	if third := await(t, "the third runs", started); third != (entry{"b", "3"}) {
		t.Errorf("%v, want the third job on the worker that is free", third)
	}
}

// Payloads went through a decoder on the server, which mangles large integers and empty arrays.
func TestCase40_PayloadsMangledOnTheWay(t *testing.T) {
	t.Parallel()
	rdb, name := redistest.Client(t), redistest.Name(t)
	q := open(t, rdb, name, nil, nil)
	kind := plain(q, "")
	type delivery struct{ id, payload string }
	got := make(chan delivery, 1)
	_ = kind.Handle(func(_ context.Context, d *bridge.Delivery[string]) error { got <- delivery{d.ID, d.Value}; return nil })
	run(t, q, nil)
	full := make([]byte, 1<<20)
	rng := rand.New(rand.NewPCG(40, 0))
	for i := range full {
		full[i] = byte(rng.Uint32())
	}
	for i, payload := range []string{
		"", "[]", "{}", "{\"a\":[]}", "9007199254740993", `{"id":12345678901234567890,"f":1e400}`, "\x00", "a\x00b\r\n",
		"\xff\xfe\xc3\x28", "null", "nil", "$-1\r\n", "{x}", "\u2028 ☃", strings.Repeat("\n", 70_000), string(full),
	} {
		for _, way := range []string{"library", "plain"} {
			id := fmt.Sprintf("job {%d} %s ☃", i, way)
			if way == "plain" {
				push(t, rdb, "{"+name+"}:", id, "payload", payload)
			} else if _, err := kind.SubmitJob(patient(t), bridge.Job[string]{ID: id, Value: payload}, policy.Reject()); err != nil {
				t.Fatal(err)
			}
			d := await(t, fmt.Sprintf("payload %.40q arrives", payload), got)
			if d.id != id || !bytes.Equal([]byte(d.payload), []byte(payload)) {
				t.Errorf("%s: payload %.40q came as %.40q (%d bytes, were %d)", d.id, payload, d.payload, len(d.payload), len(payload))
			}
		}
	}
}

// A worker that had itself delayed a job slept past the moment when it was due.
func TestCase37_IdleWorkerSleepsThroughADelayOfItsOwn(t *testing.T) {
	t.Parallel()
	const delay, jobs = 20 * time.Millisecond, 11
	rdb, name := redistest.Client(t), redistest.Name(t)
	q := open(t, rdb, name, nil, nil)
	started := make(chan time.Time, 1)
	kind := bridge.NewKind(q, "", &bridge.KindOptions[string]{Codec: raw{}, Retry: policy.Retry{Initial: delay, Max: delay}})
	_ = kind.Handle(func(_ context.Context, d *bridge.Delivery[string]) error {
		started <- time.Now()
		switch {
		case d.Value == "fails" && d.Attempt == 1:
			return errors.New("once")
		case d.Value == "snoozes" && d.Deliveries == 1:
			return bridge.Snooze(delay)
		}
		return nil
	})
	run(t, q, nil)
	for _, why := range []string{"fails", "snoozes", "is submitted with a delay"} {
		var late []time.Duration
		for range jobs {
			job := bridge.Job[string]{ID: q.NewID(), Value: why}
			if why == "is submitted with a delay" {
				job.Delay = delay
			}
			begin := time.Now()
			ticket, err := kind.SubmitJob(patient(t), job, policy.Reject())
			if err != nil {
				t.Fatal(err)
			}
			if job.Delay == 0 {
				begin = await(t, "the job runs", started)
			}
			late = append(late, await(t, "the job runs when it is due", started).Sub(begin)-delay)
			if err := ticket.Wait(patient(t)); err != nil {
				t.Fatal(err)
			}
		}
		slices.Sort(late)
		t.Logf("%s: median %v after it was due", why, late[jobs/2])
		if late[jobs/2] > 250*time.Millisecond || late[0] < -delay {
			t.Errorf("what %s starts %v after it was due", why, late[jobs/2])
		}
	}
}
