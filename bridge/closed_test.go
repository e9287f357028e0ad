package bridge_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
	"github.com/seed-9dec4fca/weir/policy"
)

// closings counts what is asked of an engine, and notes how much that was when it was last closed.
type closings struct {
	*outage
	last int
}

func (c *closings) Close() error {
	c.last = c.total()
	return c.outage.Close()
}

// An engine that was closed connects anew when it is asked, and nobody would close it again.
func TestNothingIsAskedAfterShutdown(t *testing.T) {
	t.Parallel()
	bubble(t, "a Run that Shutdown could not wait for closes what it has opened again", func(t *testing.T) {
		engine := &closings{outage: newOutage(durable.NewMemory(nil))}
		b := open(t, engine, nil)
		var early error
		kind := b.handle(t, "count", func(ctx context.Context, _ *bridge.Delivery[int]) error {
			_, early = b.q.Shutdown(ctx)
			return nil
		})
		b.run(t, &bridge.RunOptions{Grace: time.Second})
		submit(t, kind, 1)
		if err := <-b.ran; err != nil || early == nil {
			t.Errorf("run: %v, shutdown: %v", err, early)
		}
		if n := engine.total(); engine.last != n || engine.Calls(durabletest.OpSettle) != 1 {
			t.Errorf("closed after %d calls of %d", engine.last, n)
		}
	})
	bubble(t, "stats and check are refused", func(t *testing.T) {
		b := open(t, durable.NewMemory(nil), nil)
		shutdown(t, b.q)
		calls := b.outage.total()
		if _, err := b.q.Stats(t.Context()); !errors.Is(err, policy.ErrClosed) {
			t.Errorf("stats: %v", err)
		}
		if err := b.q.Check(t.Context()); !errors.Is(err, policy.ErrClosed) {
			t.Errorf("check: %v", err)
		}
		if n := b.outage.total() - calls; n != 0 {
			t.Errorf("%d calls of the engine", n)
		}
	})
}
