package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// lacking is a Memory without some capabilities.
type lacking struct {
	*durable.Memory
	lacks func(*durable.Capabilities)
}

func (l lacking) Info() (durable.Info, error) {
	info, err := l.Memory.Info()
	l.lacks(&info.Capabilities)
	return info, err
}

func lonely(m *durable.Memory) durable.Engine {
	return lacking{m, func(has *durable.Capabilities) { has.Follow = false }}
}

// unique is a job with a key.
func unique(id string) bridge.Job[int] {
	return bridge.Job[int]{ID: id, Unique: durable.Unique{Key: "key"}}
}

func TestUniqueJob(t *testing.T) {
	t.Parallel()
	bubble(t, "of a thousand at once one is stored, and all tickets follow it", func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { time.Sleep(time.Second); return nil })
		b.run(t, nil)
		tickets := make([]*bridge.Ticket, 1000)
		var all sync.WaitGroup
		for i := range tickets {
			all.Go(func() { tickets[i] = submitJob(t, kind, unique(fmt.Sprint(i))) })
		}
		all.Wait()
		first := ""
		for i, ticket := range tickets {
			if err := errors.Join(ticket.WaitEnqueued(t.Context()), ticket.Wait(t.Context())); err != nil {
				t.Fatal(err)
			}
			if ticket.Duplicate() == "" {
				first = fmt.Sprint(i)
			}
		}
		for i, ticket := range tickets {
			if got := ticket.Duplicate(); fmt.Sprint(i) != first && got != first {
				t.Errorf("%d is a duplicate of %q, want %q", i, got, first)
			}
		}
		if c := b.q.Counters(); c.Enqueued != 1 || c.Duplicate != 999 || c.Started != 1 || c.Refused != 0 {
			t.Errorf("%+v", c)
		}
		b.conserved(t)
		if err := submitJob(t, kind, unique("again")).Wait(t.Context()); err != nil || b.q.Counters().Started != 2 {
			t.Errorf("the key is not free: %v", err)
		}
	})
	bubble(t, "a dead one does not block", func(t *testing.T) {
		b := setup(t, nil)
		boom := errors.New("boom")
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return bridge.Permanent(boom) })
		b.run(t, nil)
		for i := range 3 {
			if err := submitJob(t, kind, unique(fmt.Sprint(i))).Wait(t.Context()); !errors.Is(err, boom) {
				t.Error(err)
			}
		}
	})
	bubble(t, "keys and limits are refused by name where the engine has none", func(t *testing.T) {
		b := setupOn(t, lacking{durable.NewMemory(nil), func(has *durable.Capabilities) { *has = durable.Capabilities{} }}, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		for name, job := range map[string]bridge.Job[int]{
			"Unique": unique("1"), "LimitKey": {ID: "1", LimitKey: "k"}, "Expiry": {ID: "1", Expiry: time.Hour}, "Priority": {ID: "1", Priority: 1},
		} {
			_, err := kind.SubmitJob(t.Context(), job, policy.Reject())
			if !errors.Is(err, durable.ErrUnsupported) || !errors.Is(err, policy.ErrInvalid) || !strings.Contains(err.Error(), "Job."+name) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestDuplicateOfWhatIsOverOrElsewhere(t *testing.T) {
	t.Parallel()
	// second submits the ID that another process has submitted, by an engine that tells of nobody else's jobs.
	second := func(t *testing.T, memory *durable.Memory, id string) (*bench, *bridge.Ticket) {
		t.Helper()
		b := setupOn(t, lonely(memory), nil)
		ticket := submitJob(t, bridge.NewKind[int](b.q, "count", nil), bridge.Job[int]{ID: id})
		if err := b.q.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.conserved(t)
		return b, ticket
	}
	bubble(t, "dead: refused, with the reason", func(t *testing.T) {
		memory := durable.NewMemory(nil)
		first := setupOn(t, memory, nil)
		kind := first.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { return bridge.Permanent(errors.New("no")) })
		first.run(t, nil)
		_ = submitJob(t, kind, bridge.Job[int]{ID: "a"}).Wait(t.Context())
		for name, b := range map[string]*bench{"here": first, "elsewhere": setupOn(t, lonely(memory), nil)} {
			ticket := submitJob(t, bridge.NewKind[int](b.q, "count", nil), bridge.Job[int]{ID: "a"})
			err := ticket.WaitEnqueued(t.Context())
			if !errors.Is(err, local.ErrRefused) || !errors.Is(err, bridge.ErrDuplicate) {
				t.Errorf("%s: %v", name, err)
			}
			if !strings.HasSuffix(err.Error(), `already there: "a", which is dead`) {
				t.Errorf("%s: which one, and what it is, is not said: %v", name, err)
			}
			if c := b.q.Counters(); c.Refused != 1 || c.Duplicate != 0 {
				t.Errorf("%s: %+v", name, c)
			}
			b.conserved(t)
		}
	})
	bubble(t, "a record: its end, and its result", func(t *testing.T) {
		memory := durable.NewMemory(nil)
		first := setupOn(t, memory, nil)
		kind := first.handle(t, "count", func(_ context.Context, d *bridge.Delivery[int]) error {
			return d.SetResult([]byte("result"), time.Hour)
		})
		for _, id := range []string{"cancelled", "expired"} {
			ticket := submitJob(t, kind, bridge.Job[int]{ID: id, Retention: 24 * time.Hour, Delay: time.Minute, Expiry: time.Minute})
			if err := ticket.WaitEnqueued(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := first.q.Cancel(t.Context(), "cancelled"); err != nil {
			t.Error(err)
		}
		first.run(t, nil)
		if err := submitJob(t, kind, bridge.Job[int]{ID: "completed"}).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		for id, want := range map[string]local.State{"completed": local.Completed, "cancelled": local.Cancelled, "expired": local.Expired} {
			b, ticket := second(t, memory, id)
			if got := ticket.State(); got != want || ticket.Duplicate() != id || (string(ticket.Result()) == "result") != (id == "completed") {
				t.Errorf("%s: %v, a duplicate of %q, result %q", id, ticket.Err(), ticket.Duplicate(), ticket.Result())
			}
			if c := b.q.Counters(); c.Duplicate != 1 || c.Refused != 0 {
				t.Errorf("%+v", c)
			}
		}
	})
	bubble(t, "elsewhere, where nobody tells: detached, for that reason", func(t *testing.T) {
		memory := durable.NewMemory(nil)
		first := setupOn(t, memory, nil)
		if err := submitJob(t, bridge.NewKind[int](first.q, "count", nil), bridge.Job[int]{ID: "a"}).WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, ticket := second(t, memory, "a")
		if err := ticket.Wait(t.Context()); !errors.Is(err, local.ErrDetached) || !errors.Is(err, bridge.ErrNotFollowed) || ticket.WaitEnqueued(t.Context()) != nil {
			t.Error(err)
		}
	})
	bubble(t, "while the store cannot say it keeps its slot, and a Shutdown says what it knows", func(t *testing.T) {
		memory := durable.NewMemory(nil)
		first := setupOn(t, memory, nil)
		if err := submitJob(t, bridge.NewKind[int](first.q, "count", nil), bridge.Job[int]{ID: "a"}).WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		b := open(t, memory, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		b.outage.begin(durabletest.Fault{Action: durabletest.Refuse}, durabletest.OpLookup, durabletest.OpFollow, durabletest.OpOpenFollower)
		ticket := submitJob(t, kind, bridge.Job[int]{ID: "a"})
		time.Sleep(time.Minute)
		if got := b.q.Front().Length; got != 1 || ticket.State() != local.Accepted {
			t.Errorf("%d slots, %v", got, ticket.State())
		}
		shutdown(t, b.q)
		if err := ticket.Err(); !errors.Is(err, local.ErrDetached) || !errors.Is(err, bridge.ErrShutdown) || ticket.Duplicate() != "a" {
			t.Error(err)
		}
		b.conserved(t)
	})
	bubble(t, "the first one is run here though nobody here has submitted it", func(t *testing.T) {
		memory := durable.NewMemory(nil)
		first, b := setupOn(t, memory, nil), setupOn(t, memory, nil)
		if err := submitJob(t, bridge.NewKind[int](first.q, "count", nil), bridge.Job[int]{ID: "a"}).WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		kind := b.handle(t, "count", func(_ context.Context, d *bridge.Delivery[int]) error {
			time.Sleep(time.Minute)
			return d.SetResult([]byte("result"), 0)
		})
		b.run(t, nil)
		synctest.Wait()
		ticket := submitJob(t, kind, bridge.Job[int]{ID: "a"})
		if err := ticket.Wait(t.Context()); err != nil || string(ticket.Result()) != "result" {
			t.Errorf("%v, %q", err, ticket.Result())
		}
	})
}

// Where a first job ends while the second is on its way, the second has run by itself, or is told of the first one's end: whatever
// the instant, and however quick the worker.
func TestDuplicateThatMeetsTheEndOfTheFirst(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]func(i int) bridge.Job[int]{
		"by ID":  func(i int) bridge.Job[int] { return bridge.Job[int]{ID: "same", Value: i} },
		"by key": func(i int) bridge.Job[int] { return unique(fmt.Sprint(i)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			memory := durable.NewMemory(nil)
			q, err := bridge.Open(lonely(memory), nil)
			if err != nil {
				t.Fatal(err)
			}
			kind := bridge.NewKind[int](q, "count", nil)
			if err := kind.Handle(func(context.Context, *bridge.Delivery[int]) error { return nil }); err != nil {
				t.Fatal(err)
			}
			ran := make(chan error, 1)
			go func() { ran <- q.Run(context.Background(), nil) }()
			const producers, each = 4, 1000
			ends := make([]map[string]int, producers)
			var all sync.WaitGroup
			for p := range producers {
				ends[p] = map[string]int{}
				all.Go(func() {
					for i := range each {
						ticket := submitJob(t, kind, key(p*each+i))
						ends[p][fmt.Sprint(ticket.Wait(t.Context()))]++
					}
				})
			}
			all.Wait()
			for _, e := range ends {
				if diff := cmp.Diff(map[string]int{"<nil>": each}, e); diff != "" {
					t.Error(diff)
				}
			}
			if c := q.Counters(); c.Completed != c.Enqueued || c.Enqueued+c.Duplicate != producers*each || c.Refused != 0 {
				t.Errorf("%+v", c)
			}
			shutdown(t, q)
			if err := <-ran; err != nil {
				t.Error(err)
			}
		})
	}
}
