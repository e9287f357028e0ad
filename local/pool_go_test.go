package local_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

func mustGo(t testing.TB, p *local.Pool, fn func(context.Context) error) {
	t.Helper()
	if err := p.Go(context.Background(), fn, policy.Reject()); err != nil {
		t.Fatal(err)
	}
}

func TestPoolGo(t *testing.T) {
	t.Parallel()

	t.Run("runs tasks in order with those that have tickets", func(t *testing.T) {
		t.Parallel()
		p := newPool(t, &local.PoolOptions{Workers: 1})
		g := occupy(t, p)
		var order []int
		note := func(i int) func(context.Context) error {
			return func(context.Context) error {
				order = append(order, i)
				return nil
			}
		}
		for i := range 100 { // more than the first ring holds
			if i%3 == 0 {
				mustSubmit(t, p, note(i))
			} else {
				mustGo(t, p, note(i))
			}
		}
		last := mustSubmit(t, p, noTask)
		close(g.let)
		within(t, last.Done(), "the last one's end")
		if len(order) != 100 || !slices.IsSorted(order) {
			t.Errorf("ran in the order %v", order)
		}
	})

	t.Run("counts the ends that nobody is told", func(t *testing.T) {
		t.Parallel()
		p := newPool(t, &local.PoolOptions{Workers: 1})
		for _, fn := range []func(context.Context) error{
			noTask,
			func(context.Context) error { return errors.New("boom") },
			func(context.Context) error { panic("boom") },
		} {
			mustGo(t, p, fn)
		}
		within(t, mustSubmit(t, p, noTask).Done(), "the last one's end")
		if s := p.Stats(); s.Completed < 1 || s.Dead != 2 || s.Panicked != 1 {
			t.Errorf("%+v", s)
		}
	})

	t.Run("an error means that it never runs", func(t *testing.T) {
		t.Parallel()
		p := newPool(t, &local.PoolOptions{Workers: 1, Capacity: 1})
		g := occupy(t, p)
		never := func(context.Context) error {
			t.Error("it ran")
			return nil
		}
		for _, c := range []struct {
			fn   func(context.Context) error
			pl   policy.Policy
			want error
		}{
			{never, policy.Reject(), policy.ErrFull},
			{never, policy.Policy{}, policy.ErrFull},
			{never, policy.DropIncoming(), local.ErrDropped},
			{nil, policy.Reject(), policy.ErrInvalid},
			{never, policy.Wait(0), policy.ErrInvalid},
		} {
			if err := p.Go(context.Background(), c.fn, c.pl); !errors.Is(err, c.want) {
				t.Errorf("%v: got %v, want %v", c.pl, err, c.want)
			}
		}
		close(g.let)
		if _, err := p.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := p.Go(context.Background(), never, policy.Reject()); !errors.Is(err, policy.ErrClosed) {
			t.Errorf("after the shutdown: %v", err)
		}
	})

	t.Run("what Shutdown hands back has a ticket, and can be done", func(t *testing.T) {
		t.Parallel()
		p := newPool(t, &local.PoolOptions{Workers: 1})
		mustSubmit(t, p, untilStopped)
		done := 0
		mustGo(t, p, func(context.Context) error { done++; return nil })
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		report, err := p.Shutdown(ctx)
		for errors.Is(err, local.ErrStuck) {
			report, err = p.Shutdown(t.Context())
		}
		if err != nil || len(report.Returned) == 0 {
			t.Fatalf("%v, %v", report, err)
		}
		r := report.Returned[len(report.Returned)-1]
		if r.Ticket.State() != local.Abandoned || r.Ticket.ID() != "task-2" || r.Do(t.Context()) != nil || done != 1 {
			t.Errorf("%v is %v, done %d times", r.Ticket.ID(), r.Ticket.State(), done)
		}
	})
}

func TestPoolDealsFromTheSameMemory(t *testing.T) { //nolint:paralleltest // allocations are counted per process
	const tasks = 32_000
	p := newPool(t, &local.PoolOptions{Workers: 1, Capacity: tasks + 1})
	n := testing.AllocsPerRun(2, func() {
		g := occupy(t, p)
		for range tasks {
			mustGo(t, p, noTask)
		}
		close(g.let)
		for p.Pressure() > 0 {
			runtime.Gosched()
		}
	})
	if n > 100 {
		t.Errorf("%v allocations for %d tasks", n, tasks)
	}
}

func TestPoolAllocatesOnlyTickets(t *testing.T) { //nolint:paralleltest // allocations are counted per process
	p := newPool(t, &local.PoolOptions{Workers: 1, Capacity: 2000})
	g := occupy(t, p)
	defer close(g.let)
	ctx := context.Background()
	for _, c := range []struct {
		what  string
		most  float64
		calls func()
	}{
		{"a task of Go", 0, func() { mustGo(t, p, noTask) }},
		{"a task of Submit", 1, func() { mustSubmit(t, p, noTask) }},
	} {
		if n := testing.AllocsPerRun(500, c.calls); n > c.most {
			t.Errorf("%s: %v allocations", c.what, n)
		}
	}
	for p.Pressure() < 1 {
		mustGo(t, p, noTask)
	}
	for what, call := range map[string]func() error{
		"Submit": func() error { _, err := p.TrySubmit(noTask); return err },
		"Go":     func() error { return p.Go(ctx, noTask, policy.Reject()) },
	} {
		if n := testing.AllocsPerRun(100, func() {
			if call() == nil {
				t.Error("accepted by a full pool")
			}
		}); n > 1 {
			t.Errorf("a refused %s allocates %v times, not only its error", what, n)
		}
	}
}

// Callers that will not wait look at a flag first, to be refused before they make anything.
// The flag must never say full when nothing is, nor after Close.
func TestNobodyIsRefusedByAFlagThatIsOutOfDate(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{1, 4} {
		p := newPool(t, &local.PoolOptions{Workers: 2, Capacity: slots})
		var callers sync.WaitGroup
		for range slots { // each has one task at a time: none may ever be refused
			callers.Go(func() {
				for range 2000 {
					ticket, err := p.TrySubmit(noTask)
					if err == nil {
						err = ticket.Wait(context.Background())
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		callers.Wait()
	}

	p := newPool(t, &local.PoolOptions{Workers: 1, Capacity: 4})
	g := occupy(t, p)
	for p.Pressure() < 1 {
		mustGo(t, p, noTask)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if _, err := p.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	for closed, deadline := false, time.Now().Add(patience); !closed; {
		if time.Now().After(deadline) {
			t.Fatal("not closed")
		}
		_, err := p.TrySubmit(noTask)
		if closed = errors.Is(err, policy.ErrClosed); !closed && !errors.Is(err, policy.ErrFull) {
			t.Fatal(err)
		}
	}
	if _, err := p.TrySubmit(noTask); !errors.Is(err, policy.ErrClosed) {
		t.Errorf("closed once, then %v", err)
	}
	close(g.let)
	within(t, stopped, "the shutdown")
}
