package bridge_test

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
)

// A time that stands for "never" or "for ever" overflowed in sums: a job not to run before the year 9999 ran at once, and
// one that might run for ever was given up after a second.
func TestTimesAsLongAsCanBe(t *testing.T) {
	t.Parallel()
	const forever = time.Duration(math.MaxInt64)
	for name, job := range map[string]bridge.Job[int]{
		"NotBefore in 9999":             {NotBefore: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)},
		"NotBefore far beyond that":     {NotBefore: time.Unix(1<<60, 0)},
		"the longest Delay":             {Delay: forever},
		"the longest Delay, and Expiry": {Delay: forever, Expiry: forever, Retention: forever},
	} {
		bubble(t, name+": never run", func(t *testing.T) {
			b := setup(t, nil)
			kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { t.Error("run"); return nil })
			b.run(t, nil)
			job.ID = "a"
			ticket := submitJob(t, kind, job)
			time.Sleep(10 * time.Second)
			info, err := b.q.Operator().Lookup(t.Context(), "a")
			if err != nil || info.State != durable.StateScheduled || time.Until(info.Due) < 100*365*24*time.Hour || ticket.State().Ended() {
				t.Errorf("%s, due %v, %v; %v", info.State, info.Due, err, ticket.State())
			}
			if n := b.outage.total(); n > 200 {
				t.Errorf("%d calls of the engine in ten seconds", n)
			}
			b.conserved(t)
		})
	}
	bubble(t, "all others: run, not given up, kept", func(t *testing.T) {
		b := setup(t, &bridge.Options{Retention: forever})
		kind := bridge.NewKind[int](b.q, "count", &bridge.KindOptions[int]{Timeout: forever, Expiry: forever})
		err := kind.Handle(func(ctx context.Context, d *bridge.Delivery[int]) error {
			if d.Deliveries == 1 {
				return bridge.Snooze(time.Second)
			}
			time.Sleep(5 * time.Second)
			if ctx.Err() != nil {
				t.Error(context.Cause(ctx))
			}
			return d.SetResult([]byte("result"), forever)
		})
		if err != nil {
			t.Fatal(err)
		}
		tickets := []*bridge.Ticket{
			submit(t, kind, 1),
			submitJob(t, kind, bridge.Job[int]{
				ID: "a", Expiry: forever, Timeout: forever, Retention: forever,
				Unique: durable.Unique{Key: "key", Window: forever, After: forever},
			}),
		}
		time.Sleep(5 * time.Second) // in the store, and then in a worker
		b.run(t, nil)
		for _, ticket := range tickets {
			if err := ticket.Wait(t.Context()); err != nil || string(ticket.Result()) != "result" {
				t.Errorf("%v, %q", err, ticket.Result())
			}
		}
		time.Sleep(time.Minute)
		if _, err := b.q.Operator().Lookup(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		if again := submitJob(t, kind, bridge.Job[int]{ID: "b", Unique: durable.Unique{Key: "key"}}); again.Wait(t.Context()) != nil || again.Duplicate() != "a" {
			t.Errorf("%q, %v", again.Duplicate(), again.Err())
		}
		synctest.Wait()
		b.conserved(t)
	})
	bubble(t, "the longest Snooze: never again", func(t *testing.T) {
		b := setup(t, nil)
		var runs atomic.Int64
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error {
			runs.Add(1)
			return bridge.Snooze(forever)
		})
		b.run(t, &bridge.RunOptions{Grace: forever, Lease: forever, SweepEvery: forever, UnknownDelay: forever})
		ticket := submit(t, kind, 1)
		time.Sleep(10 * time.Second)
		if runs.Load() != 1 || ticket.State().Ended() {
			t.Errorf("%d runs, %v", runs.Load(), ticket.State())
		}
	})
}

// A delay of less than a millisecond, of which the store keeps whole ones, was taken for none there and for one here.
func TestDelayIsRoundedUp(t *testing.T) {
	t.Parallel()
	bubble(t, "to a millisecond", func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return errors.ErrUnsupported })
		ticket := submitJob(t, kind, bridge.Job[int]{ID: "a", Delay: 1})
		if err := ticket.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		info, err := b.q.Operator().Lookup(t.Context(), "a")
		if err != nil || info.State != durable.StateScheduled || !info.Due.Equal(time.Now().Add(time.Millisecond)) {
			t.Errorf("%s, in %v, %v", info.State, time.Until(info.Due), err)
		}
	})
}
