package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
)

// At a stop, the answer of the claim that was under way was not waited for, so that nobody here knew
// its jobs; they were held until the last handler had returned, for the whole grace.
func TestJobsOfAClaimUnderWayAtAStopGoBackAtOnce(t *testing.T) {
	t.Parallel()
	bubble(t, "when its answer comes, in order and uncharged", func(t *testing.T) {
		memory := durable.NewMemory(nil)
		slow := false
		b := setupOn(t, &claimer{Engine: memory, claim: func(ctx context.Context, c durable.Consumer, r durable.ClaimRequest) (durable.Claimed, error) {
			claimed, err := c.Claim(ctx, r)
			if slow {
				time.Sleep(50 * time.Millisecond)
			}
			return claimed, err
		}}, nil)
		kind := b.handle(t, "long", func(ctx context.Context, _ *bridge.Delivery[int]) error { <-ctx.Done(); return nil })
		b.run(t, &bridge.RunOptions{Workers: 4, Grace: 25 * time.Second})
		long := submit(t, kind, 0)
		<-long.Started()
		synctest.Wait()
		slow = true
		b.gate.Hold(durabletest.OpClaim)
		for i := range 3 {
			submit(t, kind, 1+i)
		}
		if err := b.q.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.gate.Release(durabletest.OpClaim)
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		if s := memoryStats(t, memory); s.Processing != 4 {
			t.Fatalf("stored %+v, want all claimed", s)
		}
		b.stop()
		time.Sleep(time.Second)
		synctest.Wait()
		if s := memoryStats(t, memory); s.Pending != 3 || s.Processing != 1 {
			t.Errorf("a second later: %+v, want 3 pending", s)
		}
		if got := b.q.Counters(); got.Started != 1 || got.Released != 3 {
			t.Errorf("counters %+v", got)
		}
		other := setupOn(t, memory, nil)
		got := make(chan int, 4)
		other.handle(t, "long", func(_ context.Context, d *bridge.Delivery[int]) error {
			if d.Attempt != 1 || d.Deliveries != 2 {
				t.Errorf("job %d: attempt %d, delivery %d", d.Value, d.Attempt, d.Deliveries)
			}
			got <- d.Value
			return nil
		})
		other.run(t, &bridge.RunOptions{Workers: 1})
		if diff := cmp.Diff([]int{1, 2, 3}, []int{<-got, <-got, <-got}); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
		if err := <-b.ran; err != nil {
			t.Error(err)
		}
	})
	bubble(t, "and one that is not answered does not hold the stop", func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return nil })
		b.run(t, nil)
		synctest.Wait()
		b.outage.begin(durabletest.Fault{Action: durabletest.Hang}, durabletest.OpClaim)
		if err := submit(t, kind, 1).WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		b.stop()
		start := time.Now()
		if err := <-b.ran; err != nil || time.Since(start) > 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		b.outage.end()
	})
}

// farOpening is an engine whose answers of OpenConsumer are long under way.
type farOpening struct{ *durable.Memory }

func (f farOpening) OpenConsumer(ctx context.Context, lease time.Duration) (durable.Consumer, error) {
	c, err := f.Memory.OpenConsumer(ctx, lease)
	select {
	case <-time.After(50 * time.Millisecond):
	case <-ctx.Done():
		return nil, durable.ErrInDoubt
	}
	return c, err
}

// Nor was that of the opening: the identity stayed in the registry until somebody swept it.
func TestAnIdentityUnderWayAtAStopIsGivenBack(t *testing.T) {
	t.Parallel()
	bubble(t, "when its answer comes, and claims nothing", func(t *testing.T) {
		memory := durable.NewMemory(nil)
		b := setupOn(t, farOpening{memory}, nil)
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return nil })
		if err := submit(t, kind, 1).WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.run(t, nil)
		synctest.Wait()
		if s := memoryStats(t, memory); s.Consumers != 1 {
			t.Fatalf("%d consumers: this shows nothing", s.Consumers)
		}
		b.stop()
		if err := <-b.ran; err != nil {
			t.Error(err)
		}
		if s := memoryStats(t, memory); s.Consumers != 0 || s.Pending != 1 {
			t.Errorf("after the stop: %+v", s)
		}
		if n := b.outage.Calls(durabletest.OpClaim); n != 0 {
			t.Errorf("%d claims", n)
		}
	})
	bubble(t, "and one that is not answered does not hold the stop", func(t *testing.T) {
		b := setup(t, nil)
		b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return nil })
		b.outage.begin(durabletest.Fault{Action: durabletest.Hang}, durabletest.OpOpenConsumer)
		b.run(t, nil)
		synctest.Wait()
		b.stop()
		start := time.Now()
		if err := <-b.ran; err != nil || time.Since(start) > 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		b.outage.end()
	})
}

// A Shutdown that came soon after the end of Run's context reported that Run had not ended.
func TestShutdownSoonAfterAStop(t *testing.T) {
	t.Parallel()
	for _, op := range []durabletest.Op{durabletest.OpOpenConsumer, durabletest.OpClaim} {
		bubble(t, fmt.Sprint("while no ", op, " is answered"), func(t *testing.T) {
			b := open(t, durable.NewMemory(nil), nil)
			b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return nil })
			b.outage.begin(durabletest.Fault{Action: durabletest.Hang}, op)
			b.run(t, nil)
			synctest.Wait()
			b.stop()
			time.Sleep(10 * time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			if _, err := b.q.Shutdown(ctx); err != nil {
				t.Error(err)
			}
			<-b.ran
			b.outage.end()
		})
	}
}

// An engine that is asked to tell of the jobs of this process, and does not answer, kept the turn to claim from the consumer, for ten
// seconds: at a stop handlers were taken for stuck then.
func TestAStopWhileFollowingIsArranged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &handing{Memory: durable.NewMemory(nil), trip: func() {}}
		unanswered := &unadopted{handing: h, let: make(chan struct{})}
		q, err := bridge.Open(unanswered, nil)
		if err != nil {
			t.Fatal(err)
		}
		kind := bridge.NewKind[int](q, "count", nil)
		if err := kind.Handle(func(ctx context.Context, _ *bridge.Delivery[int]) error { <-ctx.Done(); return ctx.Err() }); err != nil {
			t.Fatal(err)
		}
		first := submit(t, kind, 1)
		if err := first.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- q.Run(ctx, &bridge.RunOptions{Grace: time.Second, Workers: 2}) }()
		<-first.Started()
		synctest.Wait()
		submit(t, kind, 2)
		time.Sleep(100 * time.Millisecond)
		if unanswered.asked.Load() < 2 {
			t.Error("nothing was to be adopted: this shows nothing")
		}
		stop()
		start := time.Now()
		if err := <-ran; err != nil || time.Since(start) > 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if s := memoryStats(t, h.Memory); s.Consumers != 0 || s.Processing != 0 {
			t.Errorf("left behind: %+v", s)
		}
		close(unanswered.let)
		shutdown(t, q)
	})
}

// unadopted is an engine whose followers adopt one, and do not answer then.
type unadopted struct {
	*handing
	let   chan struct{}
	asked atomic.Int64
}

func (u *unadopted) OpenFollower(ctx context.Context) (durable.Follower, error) {
	f, err := u.handing.OpenFollower(ctx)
	return &unadopting{f, u}, err
}

type unadopting struct {
	durable.Follower
	u *unadopted
}

func (f *unadopting) Adopt(ctx context.Context, sender string, adopted bool) error {
	if f.u.asked.Add(1) > 1 {
		<-f.u.let
	}
	return f.Follower.Adopt(ctx, sender, adopted)
}

// A Shutdown after a Run that had left a handler behind said that all had ended.
func TestShutdownAfterAStuckRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := open(t, durable.NewMemory(nil), nil)
		release := make(chan struct{})
		kind := b.handle(t, "deaf", func(context.Context, *bridge.Delivery[int]) error { <-release; return nil })
		b.run(t, &bridge.RunOptions{Grace: time.Second})
		<-submit(t, kind, 1).Started()
		b.stop()
		if err := <-b.ran; !errors.Is(err, bridge.ErrStuck) {
			t.Error(err)
		}
		if _, err := b.q.Shutdown(t.Context()); !errors.Is(err, bridge.ErrStuck) {
			t.Error(err)
		}
		close(release)
		synctest.Wait()
	})
}

// An identity whose opening took longer than its lease claimed all the same, and jobs that no handler had seen were charged.
func TestAnOpeningThatTakesLongerThanTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return nil })
		if err := submit(t, kind, 1).WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.outage.begin(durabletest.Fault{Delay: 110 * time.Millisecond}, durabletest.OpOpenConsumer)
		b.run(t, &bridge.RunOptions{Lease: 100 * time.Millisecond})
		time.Sleep(10 * time.Second)
		if n, c := b.outage.Calls(durabletest.OpClaim), b.q.Counters(); n != 0 || c.LeaseLost == 0 {
			t.Errorf("%d claims, %+v", n, c)
		}
		b.outage.end()
		time.Sleep(time.Minute)
		if c := b.q.Counters(); c.Completed != 1 {
			t.Errorf("%+v", c)
		}
	})
}

// What an unanswered claim takes at a stop came on top.
func TestRunEndsTwoSecondsAfterTheGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := open(t, durable.NewMemory(nil), nil)
		release := make(chan struct{})
		kind := b.handle(t, "deaf", func(context.Context, *bridge.Delivery[int]) error { <-release; return nil })
		b.run(t, &bridge.RunOptions{Workers: 2, Grace: 5 * time.Second})
		<-submit(t, kind, 1).Started()
		b.outage.begin(durabletest.Fault{Action: durabletest.Hang}, durabletest.OpClaim, durabletest.OpSettle, durabletest.OpLeave)
		if err := submit(t, kind, 2).WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.stop()
		start := time.Now()
		if err := <-b.ran; !errors.Is(err, bridge.ErrStuck) || time.Since(start) > 7*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		b.outage.end()
		close(release)
		synctest.Wait()
		shutdown(t, b.q)
	})
}

// A handler that had been given up for its own timeout was no longer counted at the stop.
func TestHandlersStuckSinceTheirTimeoutAreReportedAtAStop(t *testing.T) {
	t.Parallel()
	bubble(t, "by Run and by Shutdown", func(t *testing.T) {
		b := open(t, durable.NewMemory(nil), nil)
		release := make(chan struct{})
		kind := bridge.NewKind(b.q, "deaf", &bridge.KindOptions[int]{Timeout: time.Minute})
		_ = kind.Handle(func(context.Context, *bridge.Delivery[int]) error { <-release; return nil })
		b.run(t, &bridge.RunOptions{Workers: 1, Grace: 5 * time.Second})
		<-submit(t, kind, 1).Started()
		time.Sleep(2 * time.Minute)
		if _, err := b.q.Shutdown(t.Context()); !errors.Is(err, bridge.ErrStuck) {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-b.ran; !errors.Is(err, bridge.ErrStuck) {
			t.Errorf("run: %v", err)
		}
		close(release)
		synctest.Wait()
	})
}
