package durable_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

// effects is one name of markers on a server, and a client that looks at them.
type effects struct {
	*testing.T
	ctx  context.Context
	name string
	rdb  *redis.Client
	opts *durable.IdempotentOptions
	once *durable.Idempotent
	had  atomic.Int64 // effects
}

func setupEffects(t *testing.T, opts *durable.IdempotentOptions) *effects {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	e := &effects{T: t, ctx: ctx, name: redistest.Name(t), rdb: redistest.Client(t), opts: opts}
	e.once = e.another(redistest.Addr(t))
	return e
}

// another makes one more handle, of another process as it were.
func (e *effects) another(addr string) *durable.Idempotent {
	e.Helper()
	s := store(e, &redis.Options{Addr: addr}, &durable.RedisOptions{Timeout: 2 * time.Second})
	e.Cleanup(func() { _ = s.Close() })
	return s.Idempotent(e.name, e.opts)
}

func (e *effects) key(k string) string { return "{" + e.name + "}:once:" + k }

// have has an effect.
func (e *effects) have(context.Context) error { e.had.Add(1); return nil }

// do expects an answer of Do with an fn that has its effect.
func (e *effects) do(once *durable.Idempotent, effect durable.Effect, ran bool, want error) {
	e.Helper()
	got, err := once.Do(e.ctx, effect, e.have)
	if got != ran || !errors.Is(err, want) {
		e.Fatalf("%+v: %v, %v; want %v, %v", effect, got, err, ran, want)
	}
}

// until waits until ok.
func (e *effects) until(what string, ok func() bool) {
	e.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-e.ctx.Done():
			e.Fatalf("not in time: %s", what)
		}
	}
}

// begin starts a run that is in its effect when begin returns, and ends with what is sent to finish.
func (e *effects) begin(once *durable.Idempotent, effect durable.Effect) (finish chan<- error, ended <-chan error) {
	e.Helper()
	in, out, over := make(chan struct{}), make(chan error), make(chan error, 1)
	go func() {
		ran, err := once.Do(e.ctx, effect, func(context.Context) error {
			close(in)
			return <-out
		})
		if !ran {
			err = fmt.Errorf("did not run: %w", err)
		}
		over <- err
	}()
	select {
	case <-in:
	case err := <-over:
		e.Fatal(err)
	}
	return out, over
}

func TestIdempotent(t *testing.T) {
	t.Parallel()

	t.Run("old deliveries are replayed and change nothing", func(t *testing.T) {
		t.Parallel()
		e := setupEffects(t, nil)
		e.do(e.once, durable.Effect{Job: "pay-1", Fence: 5}, true, nil)
		e.do(e.once, durable.Effect{Job: "pay-2", Fence: 6}, true, nil)
		other := e.another(redistest.Addr(t))
		for _, fence := range []int64{5, 7, 4, 8} {
			e.do(other, durable.Effect{Job: "pay-1", Fence: fence}, false, nil)
		}
		if n := e.had.Load(); n != 2 {
			t.Errorf("%d effects of 2 jobs", n)
		}
		got := e.rdb.HGetAll(e.ctx, e.key("pay-1")).Val()
		if got["state"] != "done" || got["job"] != "pay-1" || got["fence"] != "5" {
			t.Errorf("marker is %v", got)
		}
		if left := e.rdb.PTTL(e.ctx, e.key("pay-1")).Val(); left <= 23*time.Hour || left > 24*time.Hour {
			t.Errorf("marker lives for %v", left)
		}
	})

	t.Run("a result is kept and told to those who come later", func(t *testing.T) {
		t.Parallel()
		e := setupEffects(t, nil)
		effect := durable.Effect{Job: "1", Fence: 1}
		for i := range 3 {
			got, ran, err := e.once.DoResult(e.ctx, effect, func(context.Context) ([]byte, error) { return []byte("a\x00b"), nil })
			if string(got) != "a\x00b" || ran != (i == 0) || err != nil {
				t.Errorf("%q, %v, %v", got, ran, err)
			}
			effect.Fence++
		}
		big := bytes.Repeat([]byte("x"), durable.MaxResultBytes+1)
		got, ran, err := e.once.DoResult(e.ctx, durable.Effect{Job: "2", Fence: 1}, func(context.Context) ([]byte, error) { return big, nil })
		if len(got) != len(big) || !ran || !errors.Is(err, durable.ErrResultTooLarge) {
			t.Errorf("%d bytes, %v, %v", len(got), ran, err)
		}
		if got, ran, err := e.once.DoResult(e.ctx, durable.Effect{Job: "2", Fence: 2}, nilResult); len(got) != 0 || ran || err != nil {
			t.Errorf("the one without its result: %q, %v, %v", got, ran, err)
		}
	})

	t.Run("an error and a panic free the key, but not for older claims", func(t *testing.T) {
		t.Parallel()
		e := setupEffects(t, nil)
		boom := errors.New("boom")
		ran, err := e.once.Do(e.ctx, durable.Effect{Job: "a", Fence: 5, Key: "k"}, func(context.Context) error { return boom })
		if !ran || err != boom { //nolint:errorlint // as it is
			t.Errorf("%v, %v", ran, err)
		}
		func() {
			defer func() {
				if recover() != "bang" {
					t.Error("the panic was swallowed")
				}
			}()
			_, _ = e.once.Do(e.ctx, durable.Effect{Job: "b", Fence: 6, Key: "k"}, func(context.Context) error { panic("bang") })
		}()
		e.do(e.once, durable.Effect{Job: "a", Fence: 5, Key: "k"}, false, durable.ErrStaleFence)
		e.do(e.once, durable.Effect{Job: "b", Fence: 6, Key: "k"}, true, nil) // the same claim tries again
	})

	t.Run("what cannot be an effect is refused by name", func(t *testing.T) {
		t.Parallel()
		e := setupEffects(t, nil)
		long := strings.Repeat("x", 1025)
		for want, effect := range map[string]durable.Effect{
			"Effect.Job is empty":                   {Fence: 1, Key: "k"},
			"Effect.Job has 1025 bytes":             {Job: long, Fence: 1},
			"Effect.Key has 1025 bytes":             {Job: "a", Fence: 1, Key: long},
			"Effect.Fence is 0":                     {Job: "a"},
			"Effect.Fence is -1":                    {Job: "a", Fence: -1},
			"Effect.Fence is 9007199254740993, not": {Job: "a", Fence: 1<<53 + 1},
		} {
			if ran, err := e.once.Do(e.ctx, effect, e.have); ran || !errors.Is(err, durable.ErrNotExecuted) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, %v, want %q", ran, err, want)
			}
		}
		s := store(t, &redis.Options{Addr: redistest.Addr(t)}, nil)
		defer func() { _ = s.Close() }()
		for want, once := range map[string]*durable.Idempotent{
			"the name of a queue is empty":                  s.Idempotent("", nil),
			"IdempotentOptions.Window is -1s":               s.Idempotent("n", &durable.IdempotentOptions{Window: -time.Second}),
			"IdempotentOptions.Hold is -1s":                 s.Idempotent("n", &durable.IdempotentOptions{Hold: -time.Second}),
			"IdempotentOptions.Hold is 1µs, less than":      s.Idempotent("n", &durable.IdempotentOptions{Hold: time.Microsecond}),
			"IdempotentOptions.Prefix has 257 bytes, at mo": s.Idempotent("n", &durable.IdempotentOptions{Prefix: strings.Repeat("x", 257)}),
		} {
			if ran, err := once.Do(e.ctx, durable.Effect{Job: "a", Fence: 1}, e.have); ran || err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, %v, want %q", ran, err, want)
			}
		}
		if ran, err := e.once.Do(e.ctx, durable.Effect{Job: "a", Fence: 1}, nil); ran || !errors.Is(err, durable.ErrNotExecuted) {
			t.Errorf("no function: %v, %v", ran, err)
		}
	})
}

func nilResult(context.Context) ([]byte, error) { return nil, nil }

func TestIdempotentAtOnce(t *testing.T) {
	t.Parallel()
	const callers = 1000
	for name, effect := range map[string]func(i int) durable.Effect{
		"1,000 jobs of one key have one effect": func(i int) durable.Effect {
			return durable.Effect{Job: fmt.Sprint("job-", i), Fence: int64(i + 1), Key: "k"}
		},
		"1,000 copies of one delivery have one effect": func(int) durable.Effect { return durable.Effect{Job: "k", Fence: 7} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := setupEffects(t, nil)
			handles := []*durable.Idempotent{e.once, e.another(redistest.Addr(t)), e.another(redistest.Addr(t))}
			var before, refused atomic.Int64
			var wg sync.WaitGroup
			start := make(chan struct{})
			for i := range callers {
				wg.Go(func() {
					<-start
					switch ran, err := handles[i%len(handles)].Do(e.ctx, effect(i), e.have); {
					case !ran && err == nil:
						before.Add(1)
					case !ran && (errors.Is(err, durable.ErrInProgress) || errors.Is(err, durable.ErrStaleFence)):
						refused.Add(1)
					case err != nil:
						t.Errorf("%v, %v", ran, err)
					}
				})
			}
			close(start)
			wg.Wait()
			if had := e.had.Load(); had != 1 || before.Load()+refused.Load() != callers-1 {
				t.Errorf("%d effects, %d told that it was had, %d refused", had, before.Load(), refused.Load())
			}
		})
	}

	t.Run("1,000 claims of one job: one is counted, and none that is older than one that began", func(t *testing.T) {
		t.Parallel()
		e := setupEffects(t, nil)
		var counted atomic.Int64
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				switch ran, err := e.once.Do(e.ctx, durable.Effect{Job: "k", Fence: int64(i + 1)}, e.have); {
				case ran && err == nil:
					counted.Add(1)
				case err != nil && !errors.Is(err, durable.ErrStaleFence):
					t.Errorf("%v, %v", ran, err)
				}
			})
		}
		wg.Wait()
		if n := counted.Load(); n != 1 {
			t.Errorf("%d runs were marked as done", n)
		}
	})
}

func TestIdempotentTakesOver(t *testing.T) {
	t.Parallel()

	t.Run("a frozen older run is taken over, and cannot mark or overwrite", func(t *testing.T) {
		t.Parallel()
		e := setupEffects(t, nil)
		finish, ended := e.begin(e.once, durable.Effect{Job: "a", Fence: 5})
		newer, newest := e.another(redistest.Addr(t)), e.another(redistest.Addr(t))
		e.do(newer, durable.Effect{Job: "a", Fence: 5}, false, durable.ErrInProgress)
		e.do(newer, durable.Effect{Job: "a", Fence: 4}, false, durable.ErrStaleFence)

		second, secondEnded := e.begin(newer, durable.Effect{Job: "a", Fence: 6})
		finish <- nil // the first goes on while the second is at it
		if err := <-ended; !errors.Is(err, durable.ErrStaleFence) {
			t.Errorf("the frozen one: %v", err)
		}
		e.do(newest, durable.Effect{Job: "a", Fence: 6}, false, durable.ErrInProgress) // so the first has marked nothing
		second <- nil
		if err := <-secondEnded; err != nil {
			t.Errorf("the second: %v", err)
		}
		e.do(newest, durable.Effect{Job: "a", Fence: 7}, false, nil)
		if got := e.rdb.HGet(e.ctx, e.key("a"), "fence").Val(); got != "6" {
			t.Errorf("the marker is of claim %s", got)
		}
	})

	t.Run("a frozen older run that fails does not free the key", func(t *testing.T) {
		t.Parallel()
		e := setupEffects(t, nil)
		finish, ended := e.begin(e.once, durable.Effect{Job: "a", Fence: 5})
		e.do(e.another(redistest.Addr(t)), durable.Effect{Job: "a", Fence: 6}, true, nil)
		finish <- errors.New("late")
		if err := <-ended; err == nil || err.Error() != "late" {
			t.Errorf("the frozen one: %v", err)
		}
		e.do(e.once, durable.Effect{Job: "a", Fence: 7}, false, nil)
		if n := e.had.Load(); n != 1 {
			t.Errorf("%d effects", n)
		}
	})

	t.Run("another job takes over when the hold is over, and not before", func(t *testing.T) {
		t.Parallel()
		e := setupEffects(t, &durable.IdempotentOptions{Hold: 300 * time.Millisecond})
		var cause error
		ran, err := e.once.Do(e.ctx, durable.Effect{Job: "a", Fence: 5, Key: "k"}, func(ctx context.Context) error {
			e.do(e.another(redistest.Addr(t)), durable.Effect{Job: "b", Fence: 6, Key: "k"}, false, durable.ErrInProgress)
			<-ctx.Done() // frozen meanwhile, as it were
			cause = context.Cause(ctx)
			other := e.another(redistest.Addr(t))
			e.until("the other takes over", func() bool {
				ran, err := other.Do(e.ctx, durable.Effect{Job: "b", Fence: 6, Key: "k"}, e.have)
				if err != nil && !errors.Is(err, durable.ErrInProgress) {
					t.Fatal(err)
				}
				return ran
			})
			return nil
		})
		if !ran || !errors.Is(err, durable.ErrStaleFence) || !errors.Is(cause, durable.ErrHoldOver) {
			t.Errorf("%v, %v; the context ended with %v", ran, err, cause)
		}
	})

	t.Run("the window is over, and the effect is had again", func(t *testing.T) {
		t.Parallel()
		e := setupEffects(t, &durable.IdempotentOptions{Window: 200 * time.Millisecond})
		e.do(e.once, durable.Effect{Job: "a", Fence: 5}, true, nil)
		e.until("the marker goes", func() bool { return e.rdb.Exists(e.ctx, e.key("a")).Val() == 0 })
		e.do(e.once, durable.Effect{Job: "a", Fence: 4}, true, nil)
	})

	t.Run("every marker has an end, in each state", func(t *testing.T) {
		t.Parallel()
		e := setupEffects(t, &durable.IdempotentOptions{Window: time.Hour, Hold: time.Minute})
		ends := func(state string, longest time.Duration) {
			t.Helper()
			left := e.rdb.PTTL(e.ctx, e.key("a")).Val()
			if got := e.rdb.HGet(e.ctx, e.key("a"), "state").Val(); got != state || left <= 0 || left > longest {
				t.Errorf("%s ends in %v, want %s within %v", got, left, state, longest)
			}
		}
		_, _ = e.once.Do(e.ctx, durable.Effect{Job: "a", Fence: 1}, func(context.Context) error {
			ends("running", time.Hour+time.Minute)
			return errors.New("no")
		})
		ends("failed", time.Hour)
		e.do(e.once, durable.Effect{Job: "a", Fence: 2}, true, nil)
		ends("done", time.Hour)
	})
}

func TestIdempotentWhenThingsDie(t *testing.T) {
	t.Parallel()

	t.Run("Redis is away: an error, and nothing was run", func(t *testing.T) {
		t.Parallel()
		e := setupEffects(t, nil)
		proxy := redistest.NewProxy(t, redistest.Addr(t))
		once := e.another(proxy.Addr())
		e.do(e.another("127.0.0.1:1"), durable.Effect{Job: "a", Fence: 1}, false, durable.ErrNotExecuted)
		proxy.Refuse(true)
		e.do(once, durable.Effect{Job: "a", Fence: 1}, false, durable.ErrInDoubt) // a connection that was closed
		proxy.Refuse(false)
		ended, cancel := context.WithCancel(e.ctx)
		cancel()
		if ran, err := once.Do(ended, durable.Effect{Job: "a", Fence: 1}, e.have); ran || !errors.Is(err, durable.ErrNotExecuted) || !errors.Is(err, context.Canceled) {
			t.Errorf("an ended context: %v, %v", ran, err)
		}
		proxy.Lose(1, redistest.With("begin"), redistest.RST)
		e.do(once, durable.Effect{Job: "a", Fence: 2}, false, durable.ErrInDoubt) // it had begun, and nobody runs
		e.do(once, durable.Effect{Job: "a", Fence: 3}, true, nil)
		if n := e.had.Load(); n != 1 {
			t.Errorf("%d effects", n)
		}
	})

	t.Run("dead between begin and effect: the next claim has it", func(t *testing.T) {
		t.Parallel()
		e := setupEffects(t, nil)
		// What a process leaves that is killed here: a marker that nobody ends.
		finish, ended := e.begin(e.once, durable.Effect{Job: "a", Fence: 5})
		e.do(e.another(redistest.Addr(t)), durable.Effect{Job: "a", Fence: 6}, true, nil)
		finish <- nil
		<-ended
		if n := e.had.Load(); n != 1 {
			t.Errorf("%d effects", n)
		}
	})

	// Nobody can tell this from the death before the effect, so nobody promises more.
	t.Run("dead between effect and mark: the next claim has it again", func(t *testing.T) {
		t.Parallel()
		e := setupEffects(t, nil)
		proxy := redistest.NewProxy(t, redistest.Addr(t))
		proxy.OnRequest(func(x redistest.Exchange) redistest.Action {
			if redistest.With("end")(x) {
				return redistest.RST
			}
			return redistest.Pass
		})
		once := e.another(proxy.Addr())
		e.do(once, durable.Effect{Job: "a", Fence: 5}, true, durable.ErrUnmarked)
		e.do(e.once, durable.Effect{Job: "a", Fence: 6}, true, nil)
		if n := e.had.Load(); n != 2 {
			t.Errorf("%d effects", n)
		}
	})

	t.Run("an answer to the mark is lost: it is asked again", func(t *testing.T) {
		t.Parallel()
		e := setupEffects(t, nil)
		proxy := redistest.NewProxy(t, redistest.Addr(t))
		lost := proxy.Lose(1, redistest.With("end"), redistest.RST)
		e.do(e.another(proxy.Addr()), durable.Effect{Job: "a", Fence: 5}, true, nil)
		<-lost
		e.do(e.once, durable.Effect{Job: "a", Fence: 6}, false, nil)
	})

	t.Run("the context ends after the effect: it is marked all the same", func(t *testing.T) {
		t.Parallel()
		e := setupEffects(t, nil)
		ctx, cancel := context.WithCancel(e.ctx)
		ran, err := e.once.Do(ctx, durable.Effect{Job: "a", Fence: 5}, func(context.Context) error { cancel(); return nil })
		if !ran || err != nil {
			t.Errorf("%v, %v", ran, err)
		}
		e.do(e.once, durable.Effect{Job: "a", Fence: 6}, false, nil)
	})

	t.Run("the server lost the marker during the run: it is made anew", func(t *testing.T) {
		t.Parallel()
		e := setupEffects(t, nil)
		finish, ended := e.begin(e.once, durable.Effect{Job: "a", Fence: 5})
		e.rdb.Del(e.ctx, e.key("a"))
		finish <- nil
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if left := e.rdb.PTTL(e.ctx, e.key("a")).Val(); left <= 0 {
			t.Errorf("it lives for %v", left)
		}
		e.do(e.once, durable.Effect{Job: "a", Fence: 6}, false, nil)
	})
}
