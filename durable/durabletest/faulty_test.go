package durabletest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
)

func TestFaulty(t *testing.T) {
	t.Parallel()

	type bundle struct {
		*testing.T
		memory *durable.Memory
		faulty *durabletest.Faulty
		p      durable.Producer
	}
	// run gives the first append a fault.
	run := func(name string, fault durabletest.Fault, check func(b *bundle)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := &bundle{T: t, memory: durable.NewMemory(nil)}
				b.faulty = durabletest.NewFaulty(b.memory, durabletest.Script(map[durabletest.Op][]durabletest.Fault{
					durabletest.OpAppend: {fault},
				}))
				var err error
				if b.p, err = b.faulty.OpenProducer(t.Context()); err != nil {
					t.Fatal(err)
				}
				check(b)
				if err := b.faulty.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
	send := func(ctx context.Context, b *bundle, n uint64) error {
		_, err := b.p.Append(ctx, n, []*durable.Job{{ID: fmt.Sprint("job", n)}})
		return err
	}
	stored := func(b *bundle, want int64) {
		b.Helper()
		s, err := b.memory.Stats(b.Context())
		if err != nil || s.Pending != want {
			b.Fatalf("%d stored (%v), want %d", s.Pending, err, want)
		}
	}

	run("refuse: not executed", durabletest.Fault{Action: durabletest.Refuse}, func(b *bundle) {
		if err := send(b.Context(), b, 1); !errors.Is(err, durable.ErrNotExecuted) {
			b.Errorf("got %v", err)
		}
		stored(b, 0)
		if err := send(b.Context(), b, 1); err != nil {
			b.Errorf("the second call: %v", err)
		}
		stored(b, 1)
	})
	special := errors.New("special")
	run("the error may be chosen", durabletest.Fault{Action: durabletest.Refuse, Err: special}, func(b *bundle) {
		if err := send(b.Context(), b, 1); !errors.Is(err, special) {
			b.Errorf("got %v", err)
		}
	})
	run("lose: executed, in doubt", durabletest.Fault{Action: durabletest.Lose}, func(b *bundle) {
		if err := send(b.Context(), b, 1); !errors.Is(err, durable.ErrInDoubt) {
			b.Errorf("got %v", err)
		}
		stored(b, 1)
	})
	run("repeat: executed twice, answered", durabletest.Fault{Action: durabletest.Repeat}, func(b *bundle) {
		if err := send(b.Context(), b, 1); err != nil {
			b.Errorf("got %v", err)
		}
		stored(b, 1)
	})
	run("postpone: in doubt, executed later", durabletest.Fault{Action: durabletest.Postpone, Delay: time.Hour}, func(b *bundle) {
		if err := send(b.Context(), b, 1); !errors.Is(err, durable.ErrInDoubt) {
			b.Errorf("got %v", err)
		}
		stored(b, 0)
		start := time.Now()
		b.faulty.Settled()
		if d := time.Since(start); d != time.Hour {
			b.Errorf("executed after %v", d)
		}
		stored(b, 1)
	})
	run("postpone: a late copy of an outdated number does nothing", durabletest.Fault{Action: durabletest.Postpone, Delay: time.Hour}, func(b *bundle) {
		_ = send(b.Context(), b, 1)
		for n := range uint64(2) {
			if err := send(b.Context(), b, n+1); err != nil {
				b.Errorf("got %v", err)
			}
		}
		b.faulty.Settled()
		stored(b, 2)
	})
	run("close forgets what is postponed", durabletest.Fault{Action: durabletest.Postpone, Delay: time.Hour}, func(b *bundle) {
		_ = send(b.Context(), b, 1)
		start := time.Now()
		if err := b.faulty.Close(); err != nil || time.Since(start) != 0 {
			b.Errorf("close: %v after %v", err, time.Since(start))
		}
		stored(b, 0)
	})
	run("pass with a delay: waits, then executed", durabletest.Fault{Delay: time.Minute}, func(b *bundle) {
		start := time.Now()
		if err := send(b.Context(), b, 1); err != nil || time.Since(start) != time.Minute {
			b.Errorf("got %v after %v", err, time.Since(start))
		}
		stored(b, 1)
	})
	run("pass with a delay: ends with its context, not executed", durabletest.Fault{Delay: time.Minute}, func(b *bundle) {
		ctx, cancel := context.WithTimeout(b.Context(), time.Second)
		defer cancel()
		if err := send(ctx, b, 1); !errors.Is(err, durable.ErrNotExecuted) || !errors.Is(err, context.DeadlineExceeded) {
			b.Errorf("got %v", err)
		}
		stored(b, 0)
	})
	run("hang: until released", durabletest.Fault{Action: durabletest.Hang}, func(b *bundle) {
		done := make(chan error)
		go func() { done <- send(b.Context(), b, 1) }()
		synctest.Wait()
		stored(b, 0)
		b.faulty.Release()
		if err := <-done; err != nil {
			b.Errorf("got %v", err)
		}
		stored(b, 1)
	})
	run("hang: until the context ends, in doubt", durabletest.Fault{Action: durabletest.Hang}, func(b *bundle) {
		ctx, cancel := context.WithTimeout(b.Context(), time.Second)
		defer cancel()
		if err := send(ctx, b, 1); !errors.Is(err, durable.ErrInDoubt) || !errors.Is(err, context.DeadlineExceeded) {
			b.Errorf("got %v", err)
		}
		stored(b, 0)
	})
}

func TestSeededFaultsDependOnTheSeedAlone(t *testing.T) {
	t.Parallel()
	faults := func(seed uint64) []durabletest.Action {
		decide := durabletest.Seeded(seed, 0.3,
			durabletest.Fault{Action: durabletest.Lose}, durabletest.Fault{Action: durabletest.Refuse})
		var all []durabletest.Action
		for seq := range 1000 {
			all = append(all, decide(durabletest.Call{Op: durabletest.OpSettle, Seq: seq + 1}).Action)
		}
		return all
	}
	one, two := faults(1), faults(2)
	if !slices.Equal(one, faults(1)) || slices.Equal(one, two) {
		t.Error("faults do not follow the seed")
	}
	passed := 0
	for _, a := range one {
		if a == durabletest.Pass {
			passed++
		}
	}
	if passed < 600 || passed > 800 {
		t.Errorf("%d of 1000 pass with a share of 0.3", passed)
	}
}

// Every job sent through an engine that fails in all ways at once is stored once, run
// once, and completed, when each number is asked until it is answered.
func TestAskingAgainSurvivesEveryFault(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { survive(t, seed) })
		})
	}
}

func survive(t *testing.T, seed uint64) {
	const each, senders, workers = 40, 3, 3
	memory := durable.NewMemory(&durable.MemoryOptions{MaxBacklog: 25})
	faulty := durabletest.NewFaulty(memory, durabletest.Seeded(seed, 0.4,
		durabletest.Fault{Action: durabletest.Refuse},
		durabletest.Fault{Action: durabletest.Lose},
		durabletest.Fault{Action: durabletest.Repeat},
		durabletest.Fault{Action: durabletest.Postpone, Delay: 3 * time.Second},
		durabletest.Fault{Action: durabletest.Hang},
		durabletest.Fault{Delay: 100 * time.Millisecond},
	))
	// ask repeats a call until it is answered.
	ask := func(call func(ctx context.Context) error) {
		for {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := call(ctx)
			cancel()
			if err == nil {
				return
			}
			if !errors.Is(err, durable.ErrInDoubt) && !errors.Is(err, durable.ErrNotExecuted) {
				t.Errorf("ask: %v", err)
				return
			}
			time.Sleep(time.Second)
		}
	}
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		runs = make(map[string]int)
	)
	for s := range senders {
		all.Go(func() {
			var p durable.Producer
			ask(func(ctx context.Context) (err error) { p, err = faulty.OpenProducer(ctx); return err })
			jobs := make([]*durable.Job, each)
			for i := range jobs {
				jobs[i] = &durable.Job{ID: fmt.Sprint(s, "-", i)}
			}
			for n := uint64(1); len(jobs) > 0; n++ {
				batch := jobs[:min(7, len(jobs))]
				var a durable.Appended
				ask(func(ctx context.Context) (err error) { a, err = p.Append(ctx, n, batch); return err })
				if len(a.Refused) > 0 || a.Gap {
					t.Errorf("append: %+v", a)
				}
				jobs = jobs[a.Taken:]
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	finished := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(runs) == senders*each
	}
	for range workers {
		all.Go(func() {
			var c durable.Consumer
			ask(func(ctx context.Context) (err error) { c, err = faulty.OpenConsumer(ctx, 24*time.Hour); return err })
			for n := uint64(1); !finished(); n++ {
				var a durable.Claimed
				ask(func(ctx context.Context) (err error) {
					a, err = c.Claim(ctx, durable.ClaimRequest{N: n, Slots: 5, MaxBytes: 1 << 20})
					return err
				})
				outcomes := make([]durable.Outcome, len(a.Jobs))
				for i, j := range a.Jobs {
					outcomes[i] = durable.Outcome{Ref: durable.Ref{ID: j.ID, Token: j.Token}, Verdict: durable.Done}
				}
				var s durable.Settled
				ask(func(ctx context.Context) (err error) { s, err = c.Settle(ctx, n, outcomes); return err })
				mu.Lock()
				for i, code := range s.Codes {
					if code == durable.CodeOK {
						runs[a.Jobs[i].ID]++
					} else {
						t.Errorf("%s: code %q", a.Jobs[i].ID, code)
					}
				}
				mu.Unlock()
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	all.Wait()
	faulty.Settled()
	for id, n := range runs {
		if n != 1 {
			t.Errorf("%s was completed %d times", id, n)
		}
	}
	s, err := memory.Stats(t.Context())
	if err != nil || s.Pending+s.Scheduled+s.Processing+s.Dead != 0 {
		t.Errorf("left over: %+v, %v", s, err)
	}
	if err := faulty.Close(); err != nil {
		t.Error(err)
	}
}
