package bridge_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
	"github.com/seed-9dec4fca/weir/local"
)

// A duplicate shared one promise with whoever followed the first job meanwhile, and one that was refused, or given up, ended
// the tickets of all of them.
func TestDuplicateEndsAlone(t *testing.T) {
	t.Parallel()
	// setup has a duplicate of "a", which another process has submitted, wait for what the store says of that, and a call of
	// Follow behind it.
	type bundle struct {
		*apart
		duplicate *bridge.Ticket
		kind      *bridge.Kind[int] // of the process that has the duplicate
		follow    func() (*bridge.Ticket, error)
	}
	setup := func(t *testing.T, h func(context.Context, *bridge.Delivery[int]) error) (*bundle, *bench) {
		t.Helper()
		a := setupApart(t, h)
		first := submitJob(t, a.kind, bridge.Job[int]{ID: "a"})
		if err := first.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		b := setupOn(t, a.memory, &bridge.Options{PersistWithin: 30 * time.Second})
		kind := bridge.NewKind[int](b.q, "count", nil)
		b.gate.Hold(durabletest.OpFollow)
		second := &bundle{apart: a, kind: kind, duplicate: submitJob(t, kind, bridge.Job[int]{ID: "a"})}
		synctest.Wait()
		type answer struct {
			ticket *bridge.Ticket
			err    error
		}
		answered := make(chan answer, 1)
		go func() {
			time.Sleep(25 * time.Second)
			ticket, err := b.q.Follow(t.Context(), "a")
			answered <- answer{ticket, err}
		}()
		second.follow = func() (*bridge.Ticket, error) { got := <-answered; return got.ticket, got.err }
		return second, b
	}
	dies := func(context.Context, *bridge.Delivery[int]) error { return bridge.Permanent(errors.New("broken")) }

	bubble(t, "refused, for the first one is dead", func(t *testing.T) {
		s, b := setup(t, dies)
		s.consumer.run(t, nil)
		time.Sleep(26 * time.Second)
		b.gate.Release(durabletest.OpFollow)
		ticket, err := s.follow()
		if err != nil {
			t.Fatal(err)
		}
		ends(t, ticket, local.ErrDead, "broken")
		ends(t, s.duplicate, local.ErrRefused, "")
		b.conserved(t)
	})
	bubble(t, "refused, for the first one has ended", func(t *testing.T) {
		s, b := setup(t, nop)
		s.consumer.run(t, nil)
		time.Sleep(26 * time.Second)
		b.gate.Release(durabletest.OpFollow)
		if ticket, err := s.follow(); !errors.Is(err, durable.ErrNoJob) {
			t.Errorf("%v, %v", ticket, err)
		}
		ends(t, s.duplicate, bridge.ErrDuplicate, "")
		b.conserved(t)
	})
	bubble(t, "given up, for the store has not said what the first one is", func(t *testing.T) {
		s, b := setup(t, nop)
		time.Sleep(20 * time.Second)
		late := submitJob(t, s.kind, bridge.Job[int]{ID: "a"})
		ends(t, s.duplicate, durable.ErrInDoubt, "")
		b.gate.Release(durabletest.OpFollow)
		ticket, err := s.follow()
		if err != nil {
			t.Fatal(err)
		}
		s.consumer.run(t, nil)
		ends(t, ticket, nil, "")
		ends(t, late, nil, "")
		b.conserved(t)
	})
	bubble(t, "nor is it refused when this process runs the first one", func(t *testing.T) {
		s, b := setup(t, nop)
		b.handle(t, "count", nop)
		b.run(t, nil)
		ends(t, s.duplicate, nil, "")
		b.gate.Release(durabletest.OpFollow)
		time.Sleep(time.Minute)
		if c := b.q.Counters(); c.Duplicate != 1 || c.Refused != 0 {
			t.Errorf("%+v", c)
		}
		b.conserved(t)
		runtime.KeepAlive(s)
	})
}

// The store had said that the first job was being run, and nobody was running it any more.
func TestDuplicateOfWhatTheStoreIsBeingToldOf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := durable.NewMemory(nil)
		first, b := setupOn(t, memory, nil), setupOn(t, lonely(memory), nil)
		if err := submitJob(t, bridge.NewKind[int](first.q, "count", nil), bridge.Job[int]{ID: "a"}).WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		kind := b.handle(t, "count", nop)
		b.gate.Hold(durabletest.OpSettle)
		b.run(t, nil)
		synctest.Wait()
		ticket := submitJob(t, kind, bridge.Job[int]{ID: "a"})
		synctest.Wait()
		if got := ticket.State(); got != local.Processing {
			t.Errorf("got %v, %v", got, ticket.Err())
		}
		b.gate.Release(durabletest.OpSettle)
		ends(t, ticket, nil, "")
	})
}
