package bridge_test

import (
	"context"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
)

// Run took longer to end than Shutdown had left, so that in every outage with a handler under way
// Shutdown said that Run has not ended.
func TestShutdownInAnOutageFindsRunEnded(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]time.Duration{"0.2 s": 200 * time.Millisecond, "1 s": time.Second, "5 s": 5 * time.Second} {
		bubble(t, name, func(t *testing.T) {
			b := setup(t, nil)
			kind := b.handle(t, "count", func(ctx context.Context, _ *bridge.Delivery[int]) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
			b.run(t, nil)
			<-submit(t, kind, 1).Started()
			b.outage.begin(durabletest.Fault{Action: durabletest.Hang})
			submit(t, kind, 2) // in doubt
			time.Sleep(time.Second)
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			report, err := b.q.Shutdown(ctx)
			if err != nil || len(report.Uncertain) != 1 {
				t.Errorf("%+v, %v", report, err)
			}
			if err := <-b.ran; err != nil {
				t.Errorf("run: %v", err)
			}
		})
	}
}
