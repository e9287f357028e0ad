package durable_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

func TestMemoryOptions(t *testing.T) {
	t.Parallel()

	t.Run("zero means the defaults", func(t *testing.T) {
		t.Parallel()
		for _, m := range []*durable.Memory{durable.NewMemory(nil), durable.NewMemory(&durable.MemoryOptions{})} {
			info, err := m.Info()
			if err != nil || info.Name != "memory" || info.MaxBacklog != 100_000 {
				t.Errorf("info: %+v, %v", info, err)
			}
			if err := m.Check(t.Context()); err != nil {
				t.Errorf("check: %v", err)
			}
		}
	})

	for field, opts := range map[string]durable.MemoryOptions{
		"MaxBacklog": {MaxBacklog: -1},
		"MaxCrashes": {MaxCrashes: -1},
		"MaxDead":    {MaxDead: -1},
	} {
		t.Run("a negative "+field+" is refused by name", func(t *testing.T) {
			t.Parallel()
			m := durable.NewMemory(&opts)
			if _, err := m.Info(); err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("info: %v", err)
			}
			check, ok := errors.AsType[*durable.CheckError](m.Check(t.Context()))
			if !ok || !strings.Contains(check.Error(), field) {
				t.Errorf("check: %v", check)
			}
			if _, err := m.OpenProducer(t.Context()); !errors.Is(err, durable.ErrNotExecuted) || !strings.Contains(err.Error(), field) {
				t.Errorf("open: %v", err)
			}
		})
	}
}

// memoryBundle is a queue with one of each.
type memoryBundle struct {
	memory *durable.Memory
	p      durable.Producer
	c      durable.Consumer
	sent   uint64
	asked  uint64
}

func setupMemory(t *testing.T) *memoryBundle {
	t.Helper()
	b := &memoryBundle{memory: durable.NewMemory(nil)}
	var err error
	if b.p, err = b.memory.OpenProducer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b.c, err = b.memory.OpenConsumer(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *memoryBundle) append(t *testing.T, jobs ...*durable.Job) {
	t.Helper()
	b.sent++
	if a, err := b.p.Append(t.Context(), b.sent, jobs); err != nil || a.Taken != len(jobs) {
		t.Fatalf("append: %+v, %v", a, err)
	}
}

func (b *memoryBundle) claim(t *testing.T, slots int) []*durable.Claim {
	t.Helper()
	b.asked++
	a, err := b.c.Claim(t.Context(), durable.ClaimRequest{N: b.asked, Slots: slots, MaxBytes: 1 << 20, Held: 1000})
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return a.Jobs
}

// await waits once, and says for how long.
func (b *memoryBundle) await(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	err := b.c.Await(ctx)
	return time.Since(start), err
}

func TestMemoryAwait(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		run  func(t *testing.T, b *memoryBundle)
	}{
		{"ends after Park when nothing comes", func(t *testing.T, b *memoryBundle) {
			if d, err := b.await(t.Context()); d != durable.Park || err != nil {
				t.Errorf("after %v: %v", d, err)
			}
		}},
		{"ends at once with its context", func(t *testing.T, b *memoryBundle) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if d, err := b.await(ctx); d != time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("after %v: %v", d, err)
			}
		}},
		{"ends when a job is due that was scheduled before", func(t *testing.T, b *memoryBundle) {
			b.append(t, &durable.Job{ID: "a", Delay: 300 * time.Millisecond})
			if d, err := b.await(t.Context()); d != 300*time.Millisecond || err != nil {
				t.Errorf("after %v: %v", d, err)
			}
		}},
		{"ends when a job is due that was scheduled meanwhile", func(t *testing.T, b *memoryBundle) {
			b.append(t, &durable.Job{ID: "a", Delay: time.Hour})
			done := make(chan time.Duration)
			go func() {
				d, _ := b.await(t.Context())
				done <- d
			}()
			time.Sleep(100 * time.Millisecond)
			b.append(t, &durable.Job{ID: "b", Delay: 300 * time.Millisecond})
			if d := <-done; d != 400*time.Millisecond {
				t.Errorf("after %v", d)
			}
		}},
		{"ends for all who wait", func(t *testing.T, b *memoryBundle) {
			done := make(chan time.Duration)
			for range 5 {
				go func() {
					d, _ := b.await(t.Context())
					done <- d
				}()
			}
			time.Sleep(time.Millisecond)
			b.append(t, &durable.Job{ID: "a"})
			for range 5 {
				if d := <-done; d != time.Millisecond {
					t.Errorf("after %v", d)
				}
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test.run(t, setupMemory(t)) })
		})
	}
}

func TestMemoryForgetsASenderThatAsksNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupMemory(t)
		time.Sleep(23 * time.Hour)
		b.append(t, &durable.Job{ID: "a"}) // still known, and from now on again
		if _, err := b.c.Settle(t.Context(), 1, nil); err != nil {
			t.Errorf("settle: %v", err)
		}
		time.Sleep(23 * time.Hour)
		b.append(t, &durable.Job{ID: "b"})
		if _, err := b.c.Settle(t.Context(), 2, nil); err != nil {
			t.Errorf("settle: %v", err)
		}
		time.Sleep(25 * time.Hour)
		for range 2 { // the second time its record is gone, not only over
			if _, err := b.p.Append(t.Context(), 1, []*durable.Job{{ID: "a"}}); !errors.Is(err, durable.ErrNoSender) {
				t.Errorf("append: %v", err)
			}
			if _, err := b.p.Close(t.Context(), 2); !errors.Is(err, durable.ErrNoSender) {
				t.Errorf("close: %v", err)
			}
			if _, err := b.c.Settle(t.Context(), 1, nil); !errors.Is(err, durable.ErrNoSender) {
				t.Errorf("settle: %v", err)
			}
			if _, err := b.memory.OpenProducer(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestMemoryRefusesMisuseAndExecutesNothing(t *testing.T) {
	t.Parallel()
	b := setupMemory(t)
	b.append(t, &durable.Job{ID: "a"})
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"append 0": func() error { _, err := b.p.Append(ctx, 0, nil); return err },
		"close 0":  func() error { _, err := b.p.Close(ctx, 0); return err },
		"claim 0":  func() error { _, err := b.c.Claim(ctx, durable.ClaimRequest{Slots: 1}); return err },
		"no slots": func() error { _, err := b.c.Claim(ctx, durable.ClaimRequest{N: 1}); return err },
		"settle 0": func() error { _, err := b.c.Settle(ctx, 0, nil); return err },
		"no lease": func() error { return b.c.Renew(ctx, 0) },
		"verdict":  func() error { _, err := b.c.Settle(ctx, 1, []durable.Outcome{{}}); return err },
		"opening":  func() error { _, err := b.memory.OpenConsumer(ctx, -1); return err },
	} {
		if err := call(); !errors.Is(err, durable.ErrNotExecuted) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := b.claim(t, 1); len(got) != 1 || got[0].ID != "a" {
		t.Errorf("after all: claimed %v", got)
	}
}

func TestMemoryKeepsTheOrderOfJobsDueAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupMemory(t)
		var want []string
		for i := range 90 {
			delay := []time.Duration{time.Second, 3 * time.Second, 2 * time.Second}[i/30]
			b.append(t, &durable.Job{ID: fmt.Sprint(i), Delay: delay})
		}
		for _, from := range []int{0, 60, 30} {
			for i := range 30 {
				want = append(want, fmt.Sprint(from+i))
			}
		}
		time.Sleep(time.Hour - time.Second)
		var got []string
		for range 9 {
			for _, c := range b.claim(t, 10) {
				got = append(got, c.ID)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("claimed %v, want %v", got, want)
		}
	})
}

// Jobs that lost their worker together do not come back together.
func TestMemoryDelaysWhatLostItsWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupMemory(t)
		for i := range 50 {
			b.append(t, &durable.Job{ID: fmt.Sprint(i)})
		}
		b.claim(t, 50)
		if err := b.c.Renew(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
		start := time.Now()
		if s, err := b.memory.Sweep(t.Context()); err != nil || s.Returned != 50 {
			t.Fatalf("sweep: %+v, %v", s, err)
		}
		var err error
		if b.c, err = b.memory.OpenConsumer(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		b.asked = 0
		at := make(map[time.Duration]bool)
		for n := uint64(1); n <= 50; {
			for claims := b.claim(t, 1); len(claims) > 0; claims = b.claim(t, 1) {
				c := claims[0]
				at[time.Since(start)] = true
				s, err := b.c.Settle(t.Context(), n, []durable.Outcome{{Ref: durable.Ref{ID: c.ID, Token: c.Token}, Verdict: durable.Done}})
				if err != nil || s.Codes[0] != durable.CodeOK {
					t.Fatalf("settle: %+v, %v", s, err)
				}
				n++
			}
			time.Sleep(time.Millisecond)
		}
		if len(at) < 40 {
			t.Errorf("50 jobs came back at %d different times", len(at))
		}
		for d := range at {
			if d < 100*time.Millisecond || d > 2500*time.Millisecond {
				t.Errorf("one came back after %v", d)
			}
		}
	})
}

// A cancel leaves a hole where the job was, or takes it out of the heap; what is around it keeps its order.
func TestMemoryKeepsTheOrderAroundWhatIsCancelled(t *testing.T) {
	t.Parallel()
	for name, delay := range map[string]time.Duration{"pending": 0, "scheduled": time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setupMemory(t)
				random := rand.New(rand.NewPCG(1, 2))
				const n = 1000
				left := make(map[int]bool)
				for i := range n {
					job := &durable.Job{ID: fmt.Sprint(i), Priority: i % 3}
					if delay > 0 {
						job.Delay = delay + time.Duration(i)*time.Millisecond
					}
					b.append(t, job)
					left[i] = true
				}
				cancel := func(share float64) {
					for i := range n {
						if left[i] && random.Float64() < share {
							if _, err := b.memory.Cancel(t.Context(), durable.CancelRequest{ID: fmt.Sprint(i)}); err != nil {
								t.Fatal(err)
							}
							delete(left, i)
						}
					}
				}
				cancel(0.3)
				if delay == 0 { // what is returned to the head is cancelled as well
					var back []durable.Outcome
					for _, c := range b.claim(t, 100) {
						back = append(back, durable.Outcome{Ref: durable.Ref{ID: c.ID, Token: c.Token}, Verdict: durable.Release})
					}
					if _, err := b.c.Settle(t.Context(), 1, back); err != nil {
						t.Fatal(err)
					}
				}
				cancel(0.8)
				time.Sleep(30 * time.Minute)
				if stats, err := b.memory.Stats(t.Context()); err != nil || stats.Pending+stats.Scheduled != int64(len(left)) {
					t.Errorf("stats are %+v, %v; want %d left", stats, err, len(left))
				}
				last := []int{-1, -1, -1} // of each priority
				priority := 2
				for len(left) > 0 {
					for _, c := range b.claim(t, 50) {
						i, err := strconv.Atoi(c.ID)
						if err != nil || !left[i] || i <= last[i%3] || i%3 > priority {
							t.Fatalf("%s comes after %v, in priority %d", c.ID, last, priority)
						}
						last[i%3], priority = i, i%3
						delete(left, i)
					}
				}
			})
		})
	}
}
