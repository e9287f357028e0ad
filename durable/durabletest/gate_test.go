package durabletest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
)

func TestGate(t *testing.T) {
	t.Parallel()

	// setup appends one job through a gate that holds appends.
	type bundle struct {
		gate   *durabletest.Gate
		memory *durable.Memory
		cancel context.CancelFunc
		done   chan error
	}
	setup := func(t *testing.T) *bundle {
		t.Helper()
		b := &bundle{memory: durable.NewMemory(nil), done: make(chan error, 1)}
		b.gate = durabletest.NewGate(b.memory)
		p, err := b.gate.OpenProducer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		b.cancel = cancel
		t.Cleanup(cancel)
		b.gate.Hold(durabletest.OpAppend)
		go func() {
			_, err := p.Append(ctx, 1, []*durable.Job{{ID: "a"}})
			b.done <- err
		}()
		if err := b.gate.Held(t.Context(), durabletest.OpAppend); err != nil {
			t.Fatal(err)
		}
		return b
	}
	pending := func(t *testing.T, b *bundle) int64 {
		t.Helper()
		s, err := b.gate.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s.Pending
	}

	t.Run("a held call is not executed until it is released", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := setup(t)
			synctest.Wait()
			if n := pending(t, b); n != 0 {
				t.Fatalf("%d pending while held", n)
			}
			b.gate.Release(durabletest.OpAppend)
			if err := <-b.done; err != nil {
				t.Fatal(err)
			}
			if n := pending(t, b); n != 1 {
				t.Fatalf("%d pending after release", n)
			}
		})
	})

	t.Run("a held call ends with its context and is not executed", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := setup(t)
			b.cancel()
			err := <-b.done
			if !errors.Is(err, durable.ErrNotExecuted) || !errors.Is(err, context.Canceled) {
				t.Fatalf("got %v", err)
			}
			b.gate.Release(durabletest.OpAppend)
			synctest.Wait()
			if n := pending(t, b); n != 0 {
				t.Fatalf("%d pending", n)
			}
		})
	})

	t.Run("held ends with its context when no call comes", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			g := durabletest.NewGate(durable.NewMemory(nil))
			g.Hold(durabletest.OpClaim)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := g.Held(ctx, durabletest.OpClaim); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("got %v", err)
			}
		})
	})
}
