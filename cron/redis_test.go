package cron_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/cron"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

// open is one instance's queue on a real server.
func open(t testing.TB, c redis.UniversalClient, name string) (*bridge.Queue, *bridge.Kind[int]) {
	t.Helper()
	store, err := durable.NewRedis(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	q, err := bridge.Open(store.List(name, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	return q, bridge.NewKind[int](q, "count", nil)
}

// worker runs the jobs of a queue on a real server, and sends the ID of each.
func worker(t *testing.T, c redis.UniversalClient, name string) (ran <-chan string) {
	t.Helper()
	q, kind := open(t, c, name)
	ids := make(chan string, 10_000)
	if err := kind.Handle(func(_ context.Context, d *bridge.Delivery[int]) error { ids <- d.ID; return nil }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- q.Run(ctx, nil) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if _, err := q.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	return ids
}

// wait bounds what a test waits for.
const wait = 30 * time.Second

// Elsewhere every instance fired every scheduled entry (asynq#395).
func TestCase42_EveryInstanceFiresEveryScheduledEntry(t *testing.T) {
	t.Parallel()
	const instances, schedules, rounds = 10, 50, 2 // 1,000 submissions, at least, of 100 ticks
	name := redistest.Name(t)
	ran := worker(t, redistest.Client(t), name)

	events := make(chan cron.Event, 100_000)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, instances)
	for range instances {
		c := redistest.Client(t)
		q, kind := open(t, c, name)
		s := cron.New(redisNotes(t, c, name), &cron.Options{OnEvent: func(e cron.Event) { events <- e }})
		for n := range schedules {
			if err := cron.Add(s, kind, fmt.Sprint("s", n), "* * * * * *", n, nil); err != nil {
				t.Fatal(err)
			}
		}
		go func() {
			err := s.Run(ctx)
			if _, down := q.Shutdown(context.Background()); err == nil {
				err = down
			}
			done <- err
		}()
	}

	// Until all instances have had their say about enough ticks.
	said, fired := map[string]int{}, map[string]int{}
	complete := 0
	deadline := time.After(wait)
	hear := func(e cron.Event) {
		id := cron.ID(e.Schedule, e.Tick)
		switch e.Type {
		case cron.EventFired:
			fired[id]++
		case cron.EventDuplicate:
		default:
			t.Errorf("%s of %s: %v", e.Type, id, e.Err)
		}
		if said[id]++; said[id] == instances {
			complete++
		}
	}
	for complete < schedules*rounds {
		select {
		case e := <-events:
			hear(e)
		case <-deadline:
			t.Fatalf("%d ticks were submitted by all %d instances, not %d", complete, instances, schedules*rounds)
		}
	}
	cancel()
	for range instances {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	close(events)
	for e := range events {
		hear(e)
	}

	submissions := 0
	for id, n := range said {
		if submissions += n; n == instances && fired[id] != 1 {
			t.Errorf("%s was fired %d times", id, fired[id])
		}
		if fired[id] > 1 {
			t.Errorf("%s was fired %d times", id, fired[id])
		}
	}
	if submissions < 1000 {
		t.Errorf("only %d submissions", submissions)
	}
	times := map[string]int{}
	for len(times) < len(fired) {
		select {
		case id := <-ran:
			times[id]++
		case <-time.After(wait):
			t.Fatalf("%d jobs of %d have run", len(times), len(fired))
		}
	}
	for len(ran) > 0 {
		times[<-ran]++
	}
	for id, n := range times {
		if n != 1 {
			t.Errorf("%s ran %d times", id, n)
		}
	}
}

// TestProcess is one process of the tests below: a scheduler and nothing else.
func TestProcess(t *testing.T) {
	t.Parallel()
	name := os.Getenv("CRON_TEST_QUEUE")
	if name == "" {
		return
	}
	c := redis.NewClient(&redis.Options{Addr: os.Getenv("CRON_TEST_ADDR")})
	_, kind := open(t, c, name)
	s := cron.New(redisNotes(t, c, name), nil)
	opts := &cron.ScheduleOptions{Missed: cron.RunAll, Late: 500 * time.Millisecond}
	if err := cron.Add(s, kind, "second", "* * * * * *", 1, opts); err != nil {
		t.Fatal(err)
	}
	fmt.Println(s.Run(t.Context()))
}

// process starts one, which the test kills in the end.
func process(t *testing.T, name string) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestProcess$", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), "CRON_TEST_QUEUE="+name, "CRON_TEST_ADDR="+redistest.Addr(t))
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill = func() {
		if !killed {
			killed = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if t.Failed() {
				t.Log(out.String())
			}
		}
	}
	t.Cleanup(kill)
	return kill
}

// Processes are killed one after the other until none is left, and start again: no tick is lost and none runs twice.
func TestProcessesAreKilled(t *testing.T) {
	t.Parallel()
	name := redistest.Name(t)
	ran := worker(t, redistest.Client(t), name)
	times := map[string]int{}
	until := func(n int) {
		t.Helper()
		deadline := time.After(wait)
		for len(times) < n {
			select {
			case id := <-ran:
				times[id]++
			case <-deadline:
				t.Fatalf("%d ticks have run, not %d", len(times), n)
			}
		}
	}
	one, two := process(t, name), process(t, name)
	until(2)
	one()
	until(4)
	two() // all are down
	down := time.After(2 * time.Second)
	for waiting := true; waiting; {
		select {
		case id := <-ran:
			times[id]++
		case <-down:
			waiting = false
		}
	}
	one, two = process(t, name), process(t, name)
	until(len(times) + 4)
	one()
	two()

	ids := slices.Sorted(maps.Keys(times))
	for i, id := range ids {
		if times[id] != 1 {
			t.Errorf("%s ran %d times", id, times[id])
		}
		_, tick, _ := cron.Tick(id)
		if i > 0 {
			if _, before, _ := cron.Tick(ids[i-1]); tick.Sub(before) != time.Second && i < len(ids)-1 {
				t.Errorf("between %v and %v ticks are missing", before, tick)
			}
		}
	}
}
