package bridge_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
	"github.com/seed-9dec4fca/weir/local"
)

// The ID of a job that ran elsewhere, whose ticket is still held here, is used again. The news of its end may come after that: the
// ticket was detached.
func TestIDUsedAgainAfterTheFirstRanElsewhere(t *testing.T) {
	t.Parallel()
	again := func(t *testing.T, b *bench, kind *bridge.Kind[int]) {
		t.Helper()
		second := submitJob(t, kind, bridge.Job[int]{ID: "same"})
		if err := second.WaitEnqueued(t.Context()); err != nil || second.Duplicate() != "" {
			t.Fatal(err, second.Duplicate())
		}
		synctest.Wait()
		if second.State() != local.Enqueued {
			t.Errorf("the second is %v", second.State())
		}
		if n := b.q.Counters().Completed; n != 0 {
			t.Errorf("%d are counted as completed here", n)
		}
	}
	result := func(_ context.Context, d *bridge.Delivery[int]) error {
		return d.SetResult(bytes.Repeat([]byte("r"), d.Value), time.Second)
	}
	const small, large = 1, durable.MaxNoticed + 1 // one that a notice has, and one that the record kept
	for name, size := range map[string]int{"somebody looks": small, "its record is over": large} {
		bubble(t, name, func(t *testing.T) {
			a := setupApart(t, result)
			a.consumer.run(t, nil)
			a.producer.outage.begin(durabletest.Fault{Action: durabletest.Refuse}, durabletest.OpFollowAwait)
			first := submitJob(t, a.kind, bridge.Job[int]{ID: "same", Value: size})
			first.Done()
			time.Sleep(time.Minute)
			again(t, a.producer, a.kind)
			if s := first.State(); s.Ended() {
				t.Errorf("the first is %v before there can be news of it", s)
			}
			a.producer.outage.end()
			ends(t, first, nil, "")
			if got := len(first.Result()); size == small && got != small {
				t.Errorf("a result of %d bytes", got)
			}
		})
	}
	for name, engine := range map[string]func(*durable.Memory) durable.Engine{
		"nobody looks": func(m *durable.Memory) durable.Engine { return m },
		"nobody tells": lonely,
	} {
		bubble(t, name, func(t *testing.T) {
			memory := durable.NewMemory(nil)
			producer, consumer := setupOn(t, engine(memory), nil), setupOn(t, memory, nil)
			consumer.handle(t, "count", result)
			consumer.run(t, nil)
			kind := bridge.NewKind[int](producer.q, "count", nil)
			first := submitJob(t, kind, bridge.Job[int]{ID: "same"})
			time.Sleep(time.Minute)
			again(t, producer, kind)
			ends(t, first, bridge.ErrNoRecord, "")
		})
	}
}

// The notice of a kept end is read, the question for its result is not answered before the record is over and the ID used again.
func TestIDUsedAgainWhileAResultIsAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := setupApart(t, func(_ context.Context, d *bridge.Delivery[int]) error {
			return d.SetResult(bytes.Repeat([]byte("r"), durable.MaxNoticed+1), time.Second)
		})
		a.consumer.run(t, nil)
		a.producer.outage.begin(durabletest.Fault{Action: durabletest.Refuse}, durabletest.OpFollow)
		first := submitJob(t, a.kind, bridge.Job[int]{ID: "same"})
		first.Done()
		time.Sleep(time.Minute)
		second := submitJob(t, a.kind, bridge.Job[int]{ID: "same", Delay: time.Hour})
		if err := second.WaitEnqueued(t.Context()); err != nil || second.Duplicate() != "" {
			t.Fatal(err)
		}
		a.producer.outage.end()
		ends(t, first, nil, "")
	})
}

// A ticket whose ID was used again ends at Shutdown, whatever the store does.
func TestIDUsedAgainBeforeShutdown(t *testing.T) {
	t.Parallel()
	for name, op := range map[string]durabletest.Op{"news hangs": durabletest.OpFollowAwait, "questions hang": durabletest.OpFollow} {
		bubble(t, name, func(t *testing.T) {
			a := setupApart(t, nop)
			a.consumer.run(t, nil)
			a.producer.outage.begin(durabletest.Fault{Action: durabletest.Hang}, op, durabletest.OpFollowAwait)
			first := submitJob(t, a.kind, bridge.Job[int]{ID: "a"})
			first.Done()
			time.Sleep(time.Minute)
			if err := submitJob(t, a.kind, bridge.Job[int]{ID: "a", Delay: time.Hour}).WaitEnqueued(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if first.State().Ended() {
				t.Fatal(first.State())
			}
			shutdown(t, a.producer.q)
			if !errors.Is(first.Err(), bridge.ErrShutdown) {
				t.Error(first.State(), first.Err())
			}
		})
	}
}

// Tickets that nobody holds any more were kept while no news could be read, without a bound.
func TestIDUsedAgainAndAgainIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := durable.NewMemory(nil)
		b, other := setupOn(t, memory, &bridge.Options{MaxWatched: 10}), setupOn(t, memory, nil)
		other.handle(t, "count", nop)
		other.run(t, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		b.outage.begin(durabletest.Fault{Action: durabletest.Refuse}, durabletest.OpFollowAwait)
		var all []weak.Pointer[bridge.Ticket]
		for range 1000 {
			ticket := submitJob(t, kind, bridge.Job[int]{ID: "a"})
			ticket.Done()
			if err := ticket.WaitEnqueued(t.Context()); err != nil {
				t.Fatal(err)
			}
			all = append(all, weak.Make(ticket))
			time.Sleep(time.Second)
		}
		runtime.GC()
		runtime.GC()
		alive := 0
		for _, w := range all {
			if w.Value() != nil {
				alive++
			}
		}
		if alive > 10+1 { // those whose news is waited for, and the one that is watched
			t.Errorf("%d tickets that nobody holds are alive", alive)
		}
	})
}

// A process that uses an ID again and again, and looks at nothing, does not read.
func TestIDUsedAgainAndAgainCostsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := setupApart(t, nop)
		a.consumer.run(t, nil)
		for range 100 {
			if err := submitJob(t, a.kind, bridge.Job[int]{ID: "a"}).WaitEnqueued(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
		}
		if n := a.reads(); n > 0 {
			t.Errorf("%d reads", n)
		}
	})
}
