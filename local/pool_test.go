package local_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// newPool makes a pool that is shut down at the end of the test.
func newPool(t testing.TB, o *local.PoolOptions) *local.Pool {
	t.Helper()
	p, err := local.NewPool(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, err := p.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return p
}

// gate is a task that tells that it has begun, and ends when it is let go.
type gate struct {
	begun, let chan struct{}
	result     error
}

func newGate() *gate { return &gate{begun: make(chan struct{}), let: make(chan struct{})} }

func (g *gate) task(context.Context) error {
	close(g.begun)
	<-g.let
	return g.result
}

// mustSubmit submits a task that must be accepted.
func mustSubmit(t testing.TB, p *local.Pool, fn func(context.Context) error) *local.Ticket {
	t.Helper()
	ticket, err := p.TrySubmit(fn)
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

// occupy keeps a worker of p busy until the gate is let.
func occupy(t testing.TB, p *local.Pool) *gate {
	t.Helper()
	g := newGate()
	mustSubmit(t, p, g.task)
	within(t, g.begun, "the task begins")
	return g
}

// poolBalanced checks the conservation of counters, at any instant.
func poolBalanced(t testing.TB, p *local.Pool) local.PoolStats {
	t.Helper()
	s := p.Stats()
	f := s.Front
	if f.Submitted != f.Accepted+f.RejectedTotal()+f.Dropped+int64(f.Waiting) {
		t.Errorf("submitted is not accepted + rejected + dropped + waiting: %+v", s)
	}
	if f.Accepted != f.Released+f.Evicted+int64(f.Length) {
		t.Errorf("accepted is not released + evicted + held: %+v", s)
	}
	if f.Released != s.Completed+s.Dead+s.Cancelled+s.Abandoned {
		t.Errorf("released is not completed + dead + cancelled + abandoned: %+v", s)
	}
	if s.Running != f.Length-f.Queued || f.Length > f.Capacity || f.ByteCapacity > 0 && f.Bytes > f.ByteCapacity {
		t.Errorf("a bound is exceeded: %+v", s)
	}
	return s
}

func TestPoolOptions(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]*local.PoolOptions{
		"PoolOptions.Workers":       {Workers: -1},
		"PoolOptions.Capacity":      {Capacity: -1},
		"PoolOptions.Bytes":         {Bytes: -1},
		"PoolOptions.Policy":        {Policy: policy.Wait(-1)},
		"PoolOptions.MaxRetryAfter": {MaxRetryAfter: -1},
		"PoolOptions.Marks":         {Marks: policy.Marks{Low: -1}},
	} {
		t.Run("a bad "+name+" is refused by name", func(t *testing.T) {
			t.Parallel()
			if p, err := local.NewPool(o); p != nil || err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("got %v, %v", p, err)
			}
		})
	}
	t.Run("nil means the defaults, and nothing is started", func(t *testing.T) {
		t.Parallel()
		s := newPool(t, nil).Stats()
		if s.Workers != runtime.GOMAXPROCS(0) || s.Front.Capacity != local.DefaultCapacity || s.Front.ByteCapacity != 0 || s.Started != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestPoolRunsTasks(t *testing.T) {
	t.Parallel()

	t.Run("in the order in which they were accepted", func(t *testing.T) {
		t.Parallel()
		p := newPool(t, &local.PoolOptions{Workers: 1})
		g := occupy(t, p)
		var order []int
		for i := range 100 {
			mustSubmit(t, p, func(context.Context) error { order = append(order, i); return nil })
		}
		close(g.let)
		last := mustSubmit(t, p, func(context.Context) error { return nil })
		within(t, last.Done(), "the last task ends")
		if len(order) != 100 || !slices.IsSorted(order) {
			t.Errorf("%v", order)
		}
		if s := poolBalanced(t, p); s.Completed < 101 || s.Started != 1 {
			t.Errorf("%+v", s)
		}
	})

	t.Run("on as many workers as there may be and are needed", func(t *testing.T) {
		t.Parallel()
		p := newPool(t, &local.PoolOptions{Workers: 5})
		var gates []*gate
		for n := range 5 {
			if s := p.Stats(); s.Started != n {
				t.Errorf("%d tasks, %d workers", n, s.Started)
			}
			gates = append(gates, occupy(t, p))
		}
		sixth := newGate()
		mustSubmit(t, p, sixth.task)
		if s := poolBalanced(t, p); s.Running != 5 || s.Started != 5 || s.Front.Queued != 1 {
			t.Errorf("%+v", s)
		}
		close(gates[3].let)
		within(t, sixth.begun, "the sixth takes the free worker")
		gates[3] = sixth
		for _, g := range gates {
			close(g.let)
		}
	})

	t.Run("the ticket passes accepted and processing to its end", func(t *testing.T) {
		t.Parallel()
		p := newPool(t, &local.PoolOptions{Workers: 1})
		before, g := occupy(t, p), newGate()
		ticket := mustSubmit(t, p, g.task)
		if ticket.State() != local.Accepted || isClosed(ticket.Started()) {
			t.Errorf("state %v before it begins", ticket.State())
		}
		close(before.let)
		within(t, ticket.Started(), "it is started")
		within(t, g.begun, "it begins")
		if ticket.State() != local.Processing || isClosed(ticket.Done()) {
			t.Errorf("state %v while it runs", ticket.State())
		}
		if err := ticket.WaitEnqueued(t.Context()); !errors.Is(err, local.ErrInMemory) || !isClosed(ticket.Enqueued()) {
			t.Errorf("it claims to be durable: %v", err)
		}
		close(g.let)
		if err := ticket.Wait(t.Context()); err != nil || ticket.State() != local.Completed {
			t.Errorf("ended %v, %v", ticket.State(), err)
		}
		if err := ticket.WaitEnqueued(t.Context()); !errors.Is(err, local.ErrInMemory) {
			t.Errorf("it claims to have been durable: %v", err)
		}
		if ticket.ID() != "task-2" {
			t.Errorf("ID %q", ticket.ID())
		}
	})

	t.Run("with a context that no request ends", func(t *testing.T) {
		t.Parallel()
		p := newPool(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		ticket, err := p.Submit(ctx, func(ctx context.Context) error {
			cancel()
			result <- ctx.Err()
			return nil
		}, policy.Wait(patience))
		if err != nil {
			t.Fatal(err)
		}
		if err := ticket.Wait(context.Background()); err != nil || <-result != nil {
			t.Errorf("the task ended with its request: %v", err)
		}
	})
}

func TestPoolBadEnds(t *testing.T) {
	t.Parallel()
	errBad := errors.New("bad")
	for name, c := range map[string]struct {
		task     func(context.Context) error
		cause    error
		text     string
		panicked bool
	}{
		"an error":              {task: func(context.Context) error { return errBad }, cause: errBad, text: "bad"},
		"a panic":               {task: func(context.Context) error { panic("boo") }, text: "panicked: boo", panicked: true},
		"a panic with an error": {task: func(context.Context) error { panic(errBad) }, cause: errBad, text: "pool_test.go", panicked: true},
		"a panic with nil":      {task: func(context.Context) error { panic(nil) }, text: "nil", panicked: true}, //nolint:govet // it is what is tested
		"runtime.Goexit": {
			task: func(context.Context) error { runtime.Goexit(); return nil }, text: "Goexit", panicked: true,
		},
	} {
		t.Run(name+" is a bad end, is counted, and costs no worker", func(t *testing.T) {
			t.Parallel()
			p := newPool(t, &local.PoolOptions{Workers: 1})
			const times = 20
			for i := range times {
				ticket := mustSubmit(t, p, c.task)
				err := ticket.Wait(t.Context())
				_, panicked := errors.AsType[*local.PanicError](err)
				if !errors.Is(err, local.ErrDead) || c.cause != nil && !errors.Is(err, c.cause) || !strings.Contains(err.Error(), c.text) || panicked != c.panicked {
					t.Fatalf("run %d: %v", i, err)
				}
			}
			if err := mustSubmit(t, p, noTask).Wait(t.Context()); err != nil {
				t.Errorf("the worker is gone: %v", err)
			}
			want := int64(0)
			if c.panicked {
				want = times
			}
			if s := poolBalanced(t, p); s.Dead != times || s.Panicked != want || s.Completed != 1 || s.Started != 1 {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestPoolBounds(t *testing.T) {
	t.Parallel()

	t.Run("capacity counts waiting and running tasks", func(t *testing.T) {
		t.Parallel()
		p := newPool(t, &local.PoolOptions{Workers: 1, Capacity: 2})
		g := occupy(t, p)
		mustSubmit(t, p, noTask)
		_, err := p.TrySubmit(noTask)
		rej, ok := errors.AsType[*policy.Rejection](err)
		if !ok || rej.Reason != policy.ReasonFull || rej.Depth != 2 || p.Pressure() != 1 {
			t.Errorf("%v, pressure %v", err, p.Pressure())
		}
		close(g.let)
	})

	t.Run("bytes are held until the task has ended", func(t *testing.T) {
		t.Parallel()
		p := newPool(t, &local.PoolOptions{Workers: 4, Bytes: 100})
		g := newGate()
		ticket, err := p.SubmitSized(t.Context(), g.task, 60, policy.Reject())
		if err != nil {
			t.Fatal(err)
		}
		within(t, g.begun, "it begins")
		if _, err := p.SubmitSized(t.Context(), noTask, 41, policy.Reject()); !errors.Is(err, policy.ErrFull) {
			t.Errorf("41 on top of 60 of 100: %v", err)
		}
		if _, err := p.SubmitSized(t.Context(), noTask, 101, policy.Wait(patience)); !errors.Is(err, policy.ErrTooLarge) {
			t.Errorf("101 of 100: %v", err)
		}
		if _, err := p.SubmitSized(t.Context(), noTask, -1, policy.Reject()); !errors.Is(err, policy.ErrInvalid) {
			t.Errorf("-1: %v", err)
		}
		close(g.let)
		within(t, ticket.Done(), "it ends")
		ticket, err = p.SubmitSized(t.Context(), noTask, 100, policy.Wait(patience))
		if err != nil {
			t.Fatal(err)
		}
		within(t, ticket.Done(), "the large one ends")
		if s := poolBalanced(t, p); s.Front.Bytes != 0 {
			t.Errorf("%+v", s)
		}
	})

	t.Run("each policy does what it says", func(t *testing.T) {
		t.Parallel()
		p := newPool(t, &local.PoolOptions{Workers: 1, Capacity: 3})
		g := occupy(t, p)
		oldest, second := mustSubmit(t, p, noTask), mustSubmit(t, p, noTask)
		dropped, err := p.Submit(t.Context(), noTask, policy.DropIncoming())
		if err != nil || !errors.Is(dropped.Err(), local.ErrDropped) || dropped.ID() != "dropped-1" {
			t.Errorf("drop incoming: %v, %v", dropped.Err(), err)
		}
		newest, err := p.Submit(t.Context(), noTask, policy.DropOldest())
		if err != nil || !errors.Is(oldest.Err(), local.ErrEvicted) {
			t.Errorf("drop oldest: %v, %v", err, oldest.Err())
		}
		if _, err := p.Submit(t.Context(), noTask, policy.Wait(time.Millisecond)); !errors.Is(err, policy.ErrFull) {
			t.Errorf("wait: %v", err)
		}
		if _, err := p.Submit(t.Context(), noTask, policy.Wait(0)); !errors.Is(err, policy.ErrInvalid) {
			t.Errorf("wait without a deadline: %v", err)
		}
		close(g.let)
		for _, ticket := range []*local.Ticket{second, newest} {
			if err := ticket.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if s := poolBalanced(t, p); s.Front.Evicted != 1 || s.Front.Dropped != 1 || s.Completed < 3 {
			t.Errorf("%+v", s)
		}
	})

	t.Run("a nil task is refused, and counted", func(t *testing.T) {
		t.Parallel()
		p := newPool(t, nil)
		if _, err := p.TrySubmit(nil); !errors.Is(err, policy.ErrInvalid) {
			t.Error(err)
		}
		if s := poolBalanced(t, p); s.Front.Rejected[policy.ReasonInvalid] != 1 || s.Started != 0 {
			t.Errorf("%+v", s)
		}
	})

	t.Run("full and not full are told in turns", func(t *testing.T) {
		t.Parallel()
		var told []bool
		p := newPool(t, &local.PoolOptions{
			Workers: 1, Capacity: 4, Marks: policy.Marks{High: 0.75, Low: 0.25}, Full: func(full bool) { told = append(told, full) },
		})
		gates := []*gate{newGate(), newGate(), newGate()}
		for _, g := range gates {
			mustSubmit(t, p, g.task)
		}
		if !slices.Equal(told, []bool{true}) {
			t.Errorf("at 3 of 4: %v", told)
		}
		for _, g := range gates {
			within(t, g.begun, "it begins")
			close(g.let)
		}
		if _, err := p.Shutdown(t.Context()); err != nil || !slices.Equal(told, []bool{true, false}) {
			t.Errorf("at the end: %v, %v", told, err)
		}
	})
}

func TestPoolResize(t *testing.T) {
	t.Parallel()

	t.Run("more workers take up what waits", func(t *testing.T) {
		t.Parallel()
		p := newPool(t, &local.PoolOptions{Workers: 1})
		gates := []*gate{occupy(t, p), newGate(), newGate()}
		for _, g := range gates[1:] {
			mustSubmit(t, p, g.task)
		}
		if err := p.Resize(3); err != nil {
			t.Fatal(err)
		}
		for _, g := range gates {
			within(t, g.begun, "it begins")
		}
		if s := poolBalanced(t, p); s.Workers != 3 || s.Started != 3 || s.Running != 3 {
			t.Errorf("%+v", s)
		}
		for _, g := range gates {
			close(g.let)
		}
	})

	t.Run("of fewer, the idle end at once and the busy after their task", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, &local.PoolOptions{Workers: 4})
			var gates []*gate
			for range 4 {
				gates = append(gates, occupy(t, p))
			}
			close(gates[0].let)
			close(gates[1].let)
			synctest.Wait()
			if err := p.Resize(1); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if s := p.Stats(); s.Started != 2 || s.Running != 2 {
				t.Errorf("two idle, two busy, one is to stay: %+v", s)
			}
			close(gates[2].let)
			synctest.Wait()
			if s := p.Stats(); s.Started != 1 || s.Running != 1 {
				t.Errorf("one busy is to stay: %+v", s)
			}
			next := newGate()
			mustSubmit(t, p, next.task)
			synctest.Wait()
			if isClosed(next.begun) {
				t.Error("two tasks run on one worker")
			}
			close(gates[3].let)
			within(t, next.begun, "the last worker goes on")
			close(next.let)
		})
	})

	t.Run("less than one is refused", func(t *testing.T) {
		t.Parallel()
		if err := newPool(t, nil).Resize(0); err == nil || !strings.Contains(err.Error(), "Resize") {
			t.Error(err)
		}
	})
}

// A worker looks at the clock in some of its turns only: what is said of the rate stays true.
func TestPoolKnowsItsRate(t *testing.T) {
	t.Parallel()
	for _, each := range []time.Duration{100 * time.Microsecond, 2 * time.Millisecond, 20 * time.Millisecond, 250 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, &local.PoolOptions{Workers: 1, Capacity: 50})
			work := func(context.Context) error { time.Sleep(each); return nil }
			for range 60 {
				_ = fill(p, work)
				time.Sleep(each)
			}
			for range 7 { // whichever turn comes next
				rejection, ok := errors.AsType[*policy.Rejection](fill(p, work))
				if want := 50 * each; !ok || ratio(rejection.RetryAfter, max(want, 5*time.Millisecond)) < 0.8 || ratio(rejection.RetryAfter, want) > 1.25 {
					t.Errorf("full of tasks that take %v together: %+v", want, rejection)
				}
				time.Sleep(each)
			}
		})
	}
}

// Nor does it take long to see that tasks have become slow.
func TestPoolLearnsThatTasksBecameSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const capacity, each = 5, time.Second
		p := newPool(t, &local.PoolOptions{Workers: 1, Capacity: capacity})
		for range 1000 {
			_ = fill(p, func(context.Context) error { time.Sleep(50 * time.Microsecond); return nil })
			time.Sleep(50 * time.Microsecond)
		}
		time.Sleep(each)
		slow := func(context.Context) error { time.Sleep(each); return nil }
		_ = fill(p, slow)
		time.Sleep(3*each + each/2)
		for range 3 {
			rejection, ok := errors.AsType[*policy.Rejection](fill(p, slow))
			if !ok || ratio(rejection.RetryAfter, capacity*each) > 1.5 {
				t.Errorf("full of tasks that take %v together: %+v", capacity*each, rejection)
			}
			time.Sleep(each)
		}
	})
}

// fill submits until the pool refuses.
func fill(p *local.Pool, work func(context.Context) error) (err error) {
	for err == nil {
		err = p.Go(context.Background(), work, policy.Reject())
	}
	return err
}
