package cron_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/cron"
	"github.com/seed-9dec4fca/weir/durable"
)

// bubble is a subtest in a bubble, where time begins at 2000-01-01 00:00 UTC.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, f)
	})
}

// seen collects events, with the time at which they came.
type seen struct {
	mu     sync.Mutex // guards all
	events []cron.Event
	at     []time.Time
}

func (s *seen) add(e cron.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events, s.at = append(s.events, e), append(s.at, time.Now().Round(0))
}

func (s *seen) all() []cron.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

func (s *seen) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events, s.at = nil, nil
}

// ticks are those of events of one type, by when they came.
func (s *seen) ticks(kind cron.EventType) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	for _, e := range s.events {
		if e.Type == kind {
			found = append(found, e.Tick.UTC().Format("15:04"))
		}
	}
	return found
}

// world is a queue in memory with its notes; instances of a program come and go.
type world struct {
	store durable.Engine
	notes cron.Notes
	// fired is what all instances saw together.
	fired *seen
	mu    sync.Mutex // guards ran
	ran   map[string]int
}

func newWorld() *world {
	return &world{store: durable.NewMemory(nil), notes: cron.NewMemoryNotes(), fired: &seen{}, ran: map[string]int{}}
}

// instance is one process of a program.
type instance struct {
	s    *cron.Scheduler
	q    *bridge.Queue
	kind *bridge.Kind[int]
	stop func()
	done chan error
}

// start starts an instance; plan adds its schedules.
func (w *world) start(t *testing.T, plan func(i *instance)) *instance {
	t.Helper()
	return w.startWith(t, w.notes, plan)
}

func (w *world) startWith(t *testing.T, notes cron.Notes, plan func(i *instance)) *instance {
	t.Helper()
	q, err := bridge.Open(w.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	i := &instance{
		s: cron.New(notes, &cron.Options{OnEvent: w.fired.add}), q: q,
		kind: bridge.NewKind[int](q, "count", nil), done: make(chan error, 1),
	}
	plan(i)
	i.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-i.done; err != nil {
			t.Errorf("Run: %v", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := q.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
	})
	t.Cleanup(i.stop)
	go func() { i.done <- i.s.Run(ctx) }()
	return i
}

// see lets an instance run for a moment, so that its schedules are noted.
func (w *world) see(t *testing.T, plan func(i *instance)) {
	t.Helper()
	i := w.start(t, plan)
	time.Sleep(10 * time.Millisecond)
	i.stop()
}

// work runs the jobs of the queue.
func (w *world) work(t *testing.T) {
	t.Helper()
	q, err := bridge.Open(w.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	kind := bridge.NewKind[int](q, "count", nil)
	if err := kind.Handle(func(_ context.Context, d *bridge.Delivery[int]) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ran[d.ID]++
		return nil
	}); err != nil {
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
}

// jobs are the IDs of what was run; each must have been run once.
func (w *world) jobs(t *testing.T) []string {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, n := range w.ran {
		if n != 1 {
			t.Errorf("%s ran %d times", id, n)
		}
	}
	return slices.Sorted(maps.Keys(w.ran))
}

// add adds a schedule to an instance.
func add(t testing.TB, i *instance, name, expr string, opts *cron.ScheduleOptions) {
	t.Helper()
	if err := cron.Add(i.s, i.kind, name, expr, 1, opts); err != nil {
		t.Fatal(err)
	}
}
