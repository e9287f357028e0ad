package bridge_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
)

// forgetful is a store that opens identities and does not know them afterwards.
type forgetful struct {
	*durable.Memory
	opened atomic.Int64
	trip   func() // a round trip
}

type forgotten struct {
	durable.Consumer
	trip func()
}

func (f *forgetful) OpenConsumer(ctx context.Context, lease time.Duration) (durable.Consumer, error) {
	f.opened.Add(1)
	c, err := f.Memory.OpenConsumer(ctx, lease)
	return forgotten{c, f.trip}, err
}

func (f forgotten) Claim(context.Context, durable.ClaimRequest) (durable.Claimed, error) {
	f.trip()
	return durable.Claimed{}, durable.ErrNoSender
}

// An identity that was lost at once was followed by the next one at once: a thousand a second, each with a
// line in the log.
func TestIdentitiesThatAreLostAtOnceFollowWithBackOff(t *testing.T) {
	t.Parallel()
	bubble(t, "and are logged at a bounded rate", func(t *testing.T) {
		engine, log := &forgetful{Memory: durable.NewMemory(nil), trip: func() { time.Sleep(time.Millisecond) }}, &lineCounter{}
		b := setupOn(t, engine, &bridge.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
		b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return nil })
		b.run(t, nil)
		time.Sleep(time.Minute)
		if n := engine.opened.Load(); n < 10 || n > 120 {
			t.Errorf("%d identities in a minute", n)
		}
		if n := log.lines.Load(); n > 60 {
			t.Errorf("%d lines in a minute", n)
		}
	})
}

// answering is an engine whose consumers get the same answer to each claim.
type answering struct {
	*durable.Memory
	claim func() (durable.Claimed, error)
}

func (a answering) OpenConsumer(ctx context.Context, lease time.Duration) (durable.Consumer, error) {
	c, err := a.Memory.OpenConsumer(ctx, lease)
	return answered{c, a.claim}, err
}

type answered struct {
	durable.Consumer
	claim func() (durable.Claimed, error)
}

func (a answered) Claim(context.Context, durable.ClaimRequest) (durable.Claimed, error) {
	return a.claim()
}

// A store that says again and again what a claim can mend was asked again at once each time.
func TestClaimsThatCannotBeMendedPause(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]struct {
		claimed durable.Claimed
		err     error
	}{
		"reconcile":     {claimed: durable.Claimed{Status: durable.ClaimReconcile}},
		"lease expired": {err: durable.ErrLeaseExpired},
	} {
		bubble(t, name, func(t *testing.T) {
			asked := 0
			b := setupOn(t, answering{durable.NewMemory(nil), func() (durable.Claimed, error) {
				time.Sleep(time.Millisecond)
				asked++
				return answer.claimed, answer.err
			}}, nil)
			b.handle(t, "count", nop)
			b.run(t, nil)
			time.Sleep(time.Minute)
			b.stop()
			if err := <-b.ran; err != nil || asked < 10 || asked > 120 {
				t.Errorf("asked %d times in a minute, then %v", asked, err)
			}
		})
	}
}

// Handlers began after Run and Shutdown had returned, and nobody was told what they did.
func TestNoHandlerBeginsAfterRunHasReturned(t *testing.T) {
	t.Parallel()
	const rounds, jobs = 300, 200
	for i := range rounds {
		q, err := bridge.Open(durable.NewMemory(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		kind := bridge.NewKind[int](q, "count", nil)
		var over atomic.Bool
		var began, late atomic.Int64
		_ = kind.Handle(func(context.Context, *bridge.Delivery[int]) error {
			if began.Add(1); over.Load() {
				late.Add(1)
			}
			runtime.Gosched() // for who waits until some have begun
			return nil
		})
		ran := make(chan error, 1)
		go func() {
			err := q.Run(context.Background(), &bridge.RunOptions{Workers: jobs})
			over.Store(true)
			ran <- err
		}()
		for k := range jobs {
			_, _ = kind.TrySubmit(k)
		}
		for began.Load() < int64(i%(jobs/2)) { // it ends while others are about to
			runtime.Gosched()
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i%20)*100*time.Microsecond)
		_, _ = q.Shutdown(ctx)
		stuck := errors.Is(<-ran, bridge.ErrStuck) // about to begin when it was given up, and said so
		cancel()
		for range 1000 { // let whatever is ready to run do so
			runtime.Gosched()
		}
		if n := late.Load(); n > 0 && !stuck {
			t.Fatalf("round %d: %d handlers began after Run had returned", i, n)
		}
	}
}
