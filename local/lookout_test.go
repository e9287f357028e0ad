package local_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"weak"

	"github.com/seed-9dec4fca/weir/local"
)

func TestLookout(t *testing.T) {
	t.Parallel()
	setup := func() (p *local.Promise, looks *[]string) {
		looks = &[]string{}
		p = new(local.Promise)
		p.InitFor(&local.Lookout{Looked: func(t *local.Ticket, _ uint32) { *looks = append(*looks, t.ID()) }}, "a")
		return p, looks
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()

	t.Run("the first look is told, before anybody waits, and no other", func(t *testing.T) {
		t.Parallel()
		for name, look := range map[string]func(*local.Ticket){
			"Started":  func(t *local.Ticket) { t.Started() },
			"Done":     func(t *local.Ticket) { t.Done() },
			"Wait":     func(t *local.Ticket) { _ = t.Wait(ended) },
			"Progress": func(t *local.Ticket) { t.Progress() },
		} {
			p, looks := setup()
			look(p.Ticket())
			look(p.Ticket())
			p.Ticket().Started()
			if !slices.Equal(*looks, []string{"a"}) || !p.LookedAt() {
				t.Errorf("%s: %q", name, *looks)
			}
		}
	})
	t.Run("what is known without it is no look", func(t *testing.T) {
		t.Parallel()
		p, looks := setup()
		p.Ticket().Enqueued()
		_ = p.Ticket().WaitEnqueued(ended)
		_, _ = p.Ticket().State(), p.Ticket().Err()
		if len(*looks) != 0 || p.LookedAt() {
			t.Errorf("told %q", *looks)
		}
	})
	t.Run("a ticket that has ended has nothing more to learn", func(t *testing.T) {
		t.Parallel()
		p, looks := setup()
		p.End(local.Completed, nil)
		p.Ticket().Done()
		if len(*looks) != 0 {
			t.Errorf("told %q", *looks)
		}
	})
	t.Run("the owner who enqueues and the one who looks do not miss each other", func(t *testing.T) {
		t.Parallel()
		var looker, owner int
		for i := range 2000 {
			var enqueued, looked bool
			p := new(local.Promise)
			p.InitFor(&local.Lookout{Looked: func(t *local.Ticket, _ uint32) { enqueued = t.State() != local.Accepted }}, "a")
			sides := []func(){func() { p.Ticket().Done() }, func() { p.MarkEnqueued(); looked = p.LookedAt() }}
			var both sync.WaitGroup
			both.Go(sides[i%2])
			both.Go(sides[1-i%2])
			both.Wait()
			if !enqueued && !looked {
				t.Fatal("neither saw the other")
			}
			if enqueued {
				looker++
			}
			if looked {
				owner++
			}
		}
		if looker == 0 || owner == 0 {
			t.Errorf("who looked saw the owner %d times, the owner who looked %d times", looker, owner)
		}
	})
	t.Run("one that nobody looks out for has none", func(t *testing.T) {
		t.Parallel()
		p := new(local.Promise)
		p.Init("a")
		p.Ticket().Done()
		if p.LookedAt() {
			t.Error("looked at")
		}
	})
}

func TestOriginIsKeptAndDoesNotShow(t *testing.T) {
	t.Parallel()
	p := new(local.Promise)
	p.Init("a")
	p.SetOrigin(7, 1<<63+5)
	if era, life := p.Origin(); era != 7 || life != 1<<63+5 {
		t.Errorf("got %d, %d", era, life)
	}
	if id := p.Ticket().ID(); id != "a" {
		t.Errorf("ID %q", id)
	}
}

func TestRegistryFindsWhatIsLookedAt(t *testing.T) {
	t.Parallel()
	lookout := &local.Lookout{Looked: func(*local.Ticket, uint32) {}}
	watch := func(r *local.Registry, id string) *local.Promise {
		p := new(local.Promise)
		p.InitFor(lookout, id)
		p.MarkEnqueued()
		r.Watch(p)
		return p
	}
	crowd := func(r *local.Registry) {
		for i := range 1025 {
			watch(r, "crowd"+string(rune(i)))
		}
	}
	t.Run("looked at and open, old or young, and no more than asked for", func(t *testing.T) {
		t.Parallel()
		r := local.NewRegistry(1 << 16)
		old, ended := watch(r, "old"), watch(r, "ended")
		old.Ticket().Done()
		ended.Ticket().Done()
		crowd(r)
		young := watch(r, "young")
		young.Ticket().Done()
		ended.End(local.Completed, nil)
		got := r.LookedAt(10)
		slices.Sort(got)
		if !slices.Equal(got, []string{"old", "young"}) {
			t.Errorf("found %q", got)
		}
		if got := r.LookedAt(1); len(got) != 1 {
			t.Errorf("found %q, one was asked for", got)
		}
		runtime.KeepAlive(old)
	})
	t.Run("whoever looks at a ticket that shares the fate of another looks at that", func(t *testing.T) {
		t.Parallel()
		for name, before := range map[string]bool{"before it does": true, "after": false} {
			r := local.NewRegistry(10)
			first, twin := watch(r, "first"), new(local.Promise)
			twin.InitFor(lookout, "twin")
			if before {
				twin.Ticket().Done()
			}
			r.Join("first", twin)
			twin.Ticket().Done()
			if got := r.LookedAt(10); !slices.Equal(got, []string{"first"}) {
				t.Errorf("%s: found %q", name, got)
			}
			runtime.KeepAlive(first)
		}
	})
}

// A channel of a ticket that nobody held but who waited on it never closed, once the collector had come by.
func TestChannelOfATicketThatNobodyHolds(t *testing.T) {
	t.Parallel()
	for name, channel := range map[string]func(*local.Ticket) <-chan struct{}{
		"done":     (*local.Ticket).Done,
		"started":  (*local.Ticket).Started,
		"progress": func(t *local.Ticket) <-chan struct{} { _, next := t.Progress(); return next },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lookout, r := &local.Lookout{}, local.NewRegistry(10_000)
			watched := func(id string) weak.Pointer[local.Promise] {
				p := new(local.Promise)
				p.InitFor(lookout, id)
				r.Watch(p)
				return weak.Make(p)
			}
			of := func(id string) <-chan struct{} { return channel(r.Find(id).Ticket()) }
			watched("a")
			ends := of("a")
			twin := func() <-chan struct{} {
				p := new(local.Promise)
				p.InitFor(lookout, "twin")
				r.Join("b", p) // of a stand-in
				return channel(p.Ticket())
			}()
			over := watched("over")
			_ = of("over")
			r.Find("over").End(local.Completed, nil)
			dropped := watched("dropped")
			for i := range 2000 { // more than the registry holds itself
				watched(fmt.Sprint(i))
			}
			for over.Value() != nil || dropped.Value() != nil {
				runtime.GC()
			}
			for _, id := range []string{"a", "b"} {
				p := r.Find(id)
				if p == nil {
					t.Fatalf("%s: nobody finds it to end it", id)
				}
				p.End(local.Completed, nil)
			}
			<-ends
			<-twin
		})
	}
}
