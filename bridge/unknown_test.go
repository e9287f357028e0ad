package bridge_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/local"
)

func TestCase30_UnknownKindIsPutBackAndRunByAProcessThatKnowsIt(t *testing.T) {
	t.Parallel()
	// Elsewhere a node without a handler for a kind discarded the job: a rolling deployment lost work.
	synctest.Test(t, func(t *testing.T) {
		memory := durable.NewMemory(nil)
		old := setupOn(t, memory, nil)
		known := old.handle(t, "known", func(context.Context, *bridge.Delivery[int]) error { return nil })
		fresh := bridge.NewKind[int](old.q, "fresh", nil) // submitted here, handled elsewhere
		old.run(t, &bridge.RunOptions{Workers: 1, UnknownDelay: time.Minute})
		ticket := submit(t, fresh, 1)
		time.Sleep(5*time.Minute + time.Second)
		synctest.Wait()
		c := old.q.Counters()
		if c.Unhandled < 5 || c.Unhandled > 7 || c.Dead+c.Retried != 0 {
			t.Errorf("counters %+v, want put back each minute and nothing else", c)
		}
		if e := old.events.every(bridge.EventUnhandled); len(e) == 0 || e[0].Delay != time.Minute || e[0].Kind != "fresh" {
			t.Errorf("events %+v", e)
		}
		if ticket.State() != local.Enqueued {
			t.Errorf("its ticket is %v", ticket.State())
		}
		if err := submit(t, known, 1).Wait(t.Context()); err != nil {
			t.Errorf("a job of a known kind beside it: %v", err)
		}

		current := setupOn(t, memory, nil)
		var got []int
		current.handle(t, "fresh", func(_ context.Context, d *bridge.Delivery[int]) error {
			got = append(got, d.Value, d.Attempt)
			return nil
		})
		old.stop()
		if err := <-old.ran; err != nil {
			t.Fatal(err)
		}
		current.run(t, nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if len(got) != 2 || got[0] != 1 || got[1] != 1 {
			t.Errorf("the process that knows it: %v, want value 1 in attempt 1", got)
		}
	})
}
