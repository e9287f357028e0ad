package durable_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

// crowd is a store whose places for commands are all taken until it is let go.
type crowd struct {
	*durable.Redis
	proxy  *redistest.Proxy
	lists  []*durable.List
	holder *durable.List // whose two calls have the places
	prefix string        // of its keys
	let    chan struct{}
	held   sync.WaitGroup

	pipelines, commands atomic.Int64 // since then
	kept                error        // what the hook says to a pipeline, if not nil
	panics              bool
}

func newCrowd(t *testing.T, addr string, queues int) *crowd {
	t.Helper()
	c := &crowd{proxy: redistest.NewProxy(t, addr), let: make(chan struct{})}
	c.Redis = store(t, &redis.Options{Addr: c.proxy.Addr()}, &durable.RedisOptions{Hook: c})
	t.Cleanup(func() { _ = c.Close() })
	for range queues {
		l := c.List(redistest.Name(t), nil)
		if _, err := l.OpenProducer(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.lists = append(c.lists, l)
	}
	name := redistest.Name(t)
	c.holder, c.prefix = c.List(name, nil), "{"+name+"}:"
	if _, err := c.holder.Stats(t.Context()); err != nil { // the server knows the script then
		t.Fatal(err)
	}
	arrived := make(chan struct{}, 2)
	var holding atomic.Int64
	c.proxy.OnReply(func(e redistest.Exchange) redistest.Action {
		if slices.Contains(e.Args, "stats") && holding.Add(1) <= 2 {
			arrived <- struct{}{}
			<-c.let
		}
		return redistest.Pass
	})
	for range 2 {
		c.held.Go(func() {
			if _, err := c.holder.Stats(t.Context()); err != nil {
				t.Error(err)
			}
		})
		<-arrived
	}
	c.commands.Store(0)
	c.pipelines.Store(0) // those in which connections introduce themselves
	return c
}

func (c *crowd) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *crowd) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.commands.Add(1)
		return next(ctx, cmd)
	}
}

func (c *crowd) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.pipelines.Add(1)
		if c.panics {
			panic("hook")
		}
		if c.kept != nil {
			return c.kept
		}
		return next(ctx, cmds)
	}
}

// stats asks each queue, when so many wait already, and gives the errors.
func (c *crowd) stats(t *testing.T, before int) (wait func() []error) {
	t.Helper()
	var all sync.WaitGroup
	errs := make([]error, len(c.lists))
	for i, l := range c.lists {
		all.Go(func() {
			defer func() {
				if v := recover(); v != nil {
					errs[i] = fmt.Errorf("panic: %v", v)
				}
			}()
			_, errs[i] = l.Stats(t.Context())
		})
	}
	c.await(t, before+len(c.lists))
	return func() []error {
		all.Wait()
		c.held.Wait()
		return errs
	}
}

func (c *crowd) await(t *testing.T, waiting int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if !eventually(ctx, func() bool { return c.Waiting() == waiting }) {
		t.Fatalf("%d wait, not %d", c.Waiting(), waiting)
	}
}

func TestCommandsThatWaitGoTogether(t *testing.T) {
	t.Parallel()
	t.Run("each with its own answer", func(t *testing.T) {
		t.Parallel()
		c := newCrowd(t, redistest.Addr(t), 50)
		wait := c.stats(t, 0)
		close(c.let)
		for _, err := range wait() {
			if err != nil {
				t.Error(err)
			}
		}
		if p, n := c.pipelines.Load(), c.commands.Load(); p+n > 4 || p < 2 {
			t.Errorf("%d pipelines, %d commands alone", p, n)
		}
	})
	t.Run("also where the server does not know the script", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		c := newCrowd(t, s.Addr(), 5)
		wait := c.stats(t, 0)
		if err := s.Client(t).ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		close(c.let)
		for _, err := range wait() {
			if err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("and none is executed whose caller has given up", func(t *testing.T) {
		t.Parallel()
		c := newCrowd(t, redistest.Addr(t), 5)
		ctx, cancel := context.WithCancelCause(t.Context())
		given := make(chan error, 1)
		go func() { given <- c.lists[1].Pause(ctx, durable.Intake, "x") }()
		c.await(t, 1)
		wait := c.stats(t, 1)
		why := errors.New("enough")
		cancel(why)
		if err := <-given; !is(err, durable.ErrNotExecuted) || !is(err, why) {
			t.Error(err)
		}
		c.await(t, 5)
		close(c.let)
		if errs := wait(); !slices.Equal(errs, make([]error, 5)) {
			t.Error(errs)
		}
	})
	t.Run("nor with one that has little time left", func(t *testing.T) {
		t.Parallel()
		c := newCrowd(t, redistest.Addr(t), 5)
		brief, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
		defer cancel()
		given := make(chan error, 1)
		go func() {
			_, err := c.lists[1].Stats(brief)
			given <- err
		}()
		c.await(t, 1)
		wait := c.stats(t, 1)
		c.proxy.OnReply(func(redistest.Exchange) redistest.Action {
			<-brief.Done()
			<-time.After(50 * time.Millisecond)
			return redistest.Pass
		})
		close(c.let)
		if err := <-given; !is(err, durable.ErrInDoubt) && !is(err, durable.ErrNotExecuted) { // that on a slow machine
			t.Error(err)
		}
		if errs := wait(); !slices.Equal(errs, make([]error, 5)) {
			t.Error(errs)
		}
	})
	t.Run("and are all in doubt where their answers are lost", func(t *testing.T) {
		t.Parallel()
		c := newCrowd(t, redistest.Addr(t), 5)
		wait := c.stats(t, 0)
		var replies atomic.Int64
		c.proxy.OnReply(func(e redistest.Exchange) redistest.Action {
			if !slices.Contains(e.Args, c.prefix) && replies.Add(1) > 1 {
				return redistest.RST
			}
			return redistest.Pass
		})
		close(c.let)
		failed := 0
		for _, err := range wait() {
			if err != nil {
				failed++
				if !is(err, durable.ErrInDoubt) {
					t.Error(err)
				}
			}
		}
		if failed == 0 {
			t.Error("none failed: this shows nothing")
		}
	})
	t.Run("and get what a hook of the user says", func(t *testing.T) {
		t.Parallel()
		c := newCrowd(t, redistest.Addr(t), 5)
		c.kept = errors.New("not now")
		wait := c.stats(t, 0)
		close(c.let)
		refused := 0
		for _, err := range wait() {
			if is(err, c.kept) {
				refused++
			} else if err != nil {
				t.Error(err)
			}
		}
		if refused < 2 {
			t.Errorf("%d were refused", refused)
		}
	})
	t.Run("or that it has panicked", func(t *testing.T) {
		t.Parallel()
		c := newCrowd(t, redistest.Addr(t), 5)
		c.panics = true
		wait := c.stats(t, 0)
		close(c.let)
		panicked, doubtful := 0, 0
		for _, err := range wait() {
			switch {
			case err == nil:
			case is(err, durable.ErrInDoubt):
				doubtful++
			default:
				panicked++
			}
		}
		if panicked == 0 || doubtful == 0 {
			t.Errorf("%d panicked, %d are in doubt", panicked, doubtful)
		}
	})
}
