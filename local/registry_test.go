package local_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/local"
)

func TestRegistry(t *testing.T) {
	t.Parallel()
	t.Run("finds what is watched, until it is forgotten", func(t *testing.T) {
		t.Parallel()
		r, p := local.NewRegistry(10), promise("a")
		if r.Find("a") != nil {
			t.Error("found before")
		}
		r.Watch(p)
		r.Watch(p)
		if r.Find("a") != p || p.Ticket().State() != local.Accepted {
			t.Errorf("found %p, want %p, %v", r.Find("a"), p, p.Ticket().State())
		}
		r.Forget("a", promise("a"))
		if r.Find("a") != p {
			t.Error("forgotten for another")
		}
		r.Forget("a", p)
		r.Forget("a", p)
		if r.Find("a") != nil {
			t.Error("found after")
		}
		runtime.KeepAlive(p)
	})
	t.Run("the one too many ends detached, and says why", func(t *testing.T) {
		t.Parallel()
		r := local.NewRegistry(2)
		a, b, c := promise("a"), promise("b"), promise("c")
		for _, p := range []*local.Promise{a, b, c} {
			r.Watch(p)
		}
		err := c.Ticket().Err()
		if !errors.Is(err, local.ErrDetached) || a.Ticket().Err() != nil || b.Ticket().Err() != nil || r.Find("c") != nil {
			t.Errorf("%v, %v, %v", a.Ticket().Err(), b.Ticket().Err(), err)
		}
		if want := "local: job c ended as detached: local: 2 tickets are watched already, as many as may be"; err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
		r.Forget("a", a)
		d := promise("d")
		r.Watch(d)
		if r.Find("d") != d || d.Ticket().Err() != nil {
			t.Errorf("there was room: %v", d.Ticket().Err())
		}
		runtime.KeepAlive(a)
		runtime.KeepAlive(b)
		runtime.KeepAlive(d)
	})
	t.Run("none may be watched", func(t *testing.T) {
		t.Parallel()
		p := promise("a")
		local.NewRegistry(0).Watch(p)
		if !errors.Is(p.Ticket().Err(), local.ErrDetached) {
			t.Error(p.Ticket().Err())
		}
	})
	t.Run("of two with one ID the older is returned, and open", func(t *testing.T) {
		t.Parallel()
		r, older, newer := local.NewRegistry(1), promise("a"), promise("a")
		r.Watch(older)
		superseded := r.Watch(newer)
		if superseded != older || older.Ticket().State().Ended() || newer.Ticket().State().Ended() || r.Find("a") != newer {
			t.Errorf("%p is superseded: %v, %v", superseded, older.Ticket().Err(), newer.Ticket().Err())
		}
		runtime.KeepAlive(newer)
	})
	t.Run("one that has ended is not watched, and takes no place", func(t *testing.T) {
		t.Parallel()
		r, a, b := local.NewRegistry(1), promise("a"), promise("b")
		a.End(local.Completed, nil)
		r.Watch(a)
		r.Watch(b)
		if r.Find("a") != nil || r.Find("b") != b || b.Ticket().Err() != nil {
			t.Errorf("%v, %v", r.Find("a"), b.Ticket().Err())
		}
		runtime.KeepAlive(b)
	})
	t.Run("DetachAll ends every open one, with its cause", func(t *testing.T) {
		t.Parallel()
		r, a, b, boom := local.NewRegistry(9), promise("a"), promise("b"), errors.New("boom")
		r.Watch(a)
		r.Watch(b)
		b.End(local.Completed, nil)
		r.DetachAll(boom)
		if err := a.Ticket().Err(); !errors.Is(err, local.ErrDetached) || !errors.Is(err, boom) {
			t.Error(err)
		}
		if b.Ticket().State() != local.Completed || r.Find("a") != nil || r.Find("b") != nil {
			t.Errorf("%v", b.Ticket().State())
		}
	})
	t.Run("does not keep alive what nobody holds, and uses its place again", func(t *testing.T) {
		t.Parallel()
		const n = 100
		r := local.NewRegistry(n)
		for generation := range 3 {
			// Fill it, and let go of nine in ten.
			held := []*local.Promise{}
			watch := func(what string, i int) *local.Promise {
				p := promise(fmt.Sprint(what, generation, "-", i))
				r.Watch(p)
				return p
			}
			for i := range n {
				if p := watch("first", i); i%10 == 0 && p.Ticket().Err() == nil {
					held = append(held, p)
				}
			}
			// The collector decides when their places become free; it may come by itself in the middle of this.
			for deadline := time.Now().Add(patience); len(held) < n; {
				if p := watch("second", len(held)); p.Ticket().Err() == nil {
					held = append(held, p)
					continue
				}
				if time.Now().After(deadline) {
					t.Fatalf("generation %d: of %d places %d are used", generation, n, len(held))
				}
				runtime.GC()
			}
			if p := watch("too many", 0); !errors.Is(p.Ticket().Err(), local.ErrDetached) {
				t.Error("more are watched than may be")
			}
			for _, p := range held {
				if r.Find(p.Ticket().ID()) != p {
					t.Errorf("%s is held and not found", p.Ticket().ID())
				}
			}
			if r.Find(fmt.Sprint("first", generation, "-", 1)) != nil {
				t.Error("found what nobody holds")
			}
			runtime.KeepAlive(held)
		}
	})
	t.Run("of many that nobody holds it keeps a thousand or so alive", func(t *testing.T) {
		t.Parallel()
		const n = 10_000
		r := local.NewRegistry(2 * n)
		held := []*local.Promise{}
		for i := range n {
			p := promise(fmt.Sprint(i))
			r.Watch(p)
			if i%100 == 0 {
				held = append(held, p)
			}
		}
		for deadline := time.Now().Add(patience); ; {
			runtime.GC()
			found := 0
			for i := range n {
				if p := r.Find(fmt.Sprint(i)); p != nil {
					found++
				} else if i%100 == 0 {
					t.Fatalf("%d is held and not found", i)
				}
			}
			if found <= 1024+len(held) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d are alive", found)
			}
		}
		for _, p := range held {
			r.Forget(p.Ticket().ID(), p)
			if r.Find(p.Ticket().ID()) != nil {
				t.Errorf("%s is found after it was forgotten", p.Ticket().ID())
			}
		}
	})
	t.Run("the newest and the older are found, superseded and detached alike", func(t *testing.T) {
		t.Parallel()
		const n = 3000
		r, held, boom := local.NewRegistry(2*n), make([]*local.Promise, n), errors.New("boom")
		for i := range held {
			held[i] = promise(fmt.Sprint(i))
			r.Watch(held[i])
		}
		for _, i := range []int{0, n - 1} {
			again := promise(fmt.Sprint(i))
			if p := r.Watch(again); p != held[i] || p.Ticket().State().Ended() || r.Find(fmt.Sprint(i)) != again {
				t.Errorf("%d was not superseded, but %p", i, p)
			}
			held[i] = again
		}
		r.DetachAll(boom)
		for i, p := range held {
			if !errors.Is(p.Ticket().Err(), boom) || r.Find(fmt.Sprint(i)) != nil {
				t.Errorf("%d was not detached: %v", i, p.Ticket().Err())
			}
		}
	})
	t.Run("under races no more are watched than may be", func(t *testing.T) {
		t.Parallel()
		const n, each, ids, most = 8, 2000, 8, 4
		r := local.NewRegistry(most)
		var held, unwatched [n][]*local.Promise
		var wg sync.WaitGroup
		var superseded atomic.Int64
		for i := range n {
			wg.Go(func() {
				for k := range each {
					p := promise(fmt.Sprint(k % ids))
					if older := r.Watch(p); older != nil {
						superseded.Add(1)
						older.End(local.Detached, nil)
					}
					if r.Find(p.Ticket().ID()) == p {
						held[i] = append(held[i], p)
					} else { // too many, or superseded: then another goroutine ends it
						unwatched[i] = append(unwatched[i], p)
					}
					if len(held[i]) < most {
						continue
					}
					oldest := held[i][0]
					held[i] = held[i][1:]
					if k%3 == 0 {
						oldest.End(local.Completed, nil)
					}
					r.Forget(oldest.Ticket().ID(), oldest)
				}
			})
		}
		wg.Wait()
		for k := range ids { // as many as find a place
			p := promise(fmt.Sprint(k))
			if older := r.Watch(p); older != nil {
				older.End(local.Detached, nil)
			}
			held[0] = append(held[0], p)
		}
		watched := 0
		for _, p := range slices.Concat(unwatched[:]...) {
			if !p.Ticket().State().Ended() {
				t.Error("one that is not watched goes on")
			}
		}
		for _, p := range slices.Concat(held[:]...) {
			if r.Find(p.Ticket().ID()) == p {
				watched++
			} else if !p.Ticket().State().Ended() {
				t.Error("one that is not watched any more goes on")
			}
		}
		if watched != most || len(slices.Concat(unwatched[:]...)) == 0 || superseded.Load() == 0 {
			t.Errorf("%d are watched; %d were not, and %d superseded", watched, len(slices.Concat(unwatched[:]...)), superseded.Load())
		}
		r.DetachAll(nil)
	})
}

func BenchmarkRegistry(b *testing.B) {
	r := local.NewRegistry(65_536)
	b.ReportAllocs()
	for range b.N {
		p := promise("id")
		r.Watch(p)
		p.End(local.Completed, nil)
		r.Forget("id", p)
	}
}

func BenchmarkRegistryBaselineStrongMap(b *testing.B) {
	var mu sync.Mutex
	watched := map[string]*local.Promise{}
	b.ReportAllocs()
	for range b.N {
		p := promise("id")
		mu.Lock()
		watched["id"] = p
		mu.Unlock()
		p.End(local.Completed, nil)
		mu.Lock()
		delete(watched, "id")
		mu.Unlock()
	}
}

// A full registry whose tickets are all held must not search through them for each newcomer.
func BenchmarkRegistryFull(b *testing.B) {
	const n = 65_536
	r, held := local.NewRegistry(n), make([]*local.Promise, n)
	for i := range held {
		held[i] = promise(fmt.Sprint(i))
		r.Watch(held[i])
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		r.Watch(promise("too many"))
	}
	runtime.KeepAlive(held)
}
