package local_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// joined is a registry with two tickets of the job "a": the second is a duplicate.
func joined(t *testing.T) (r *local.Registry, first, second *local.Promise) {
	t.Helper()
	r, first, second = local.NewRegistry(10), promise("a"), promise("b")
	r.Watch(first)
	r.Join("a", second)
	return r, first, second
}

func TestDuplicateSharesTheFateOfTheFirst(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	t.Run("in every state, in their order", func(t *testing.T) {
		t.Parallel()
		_, first, second := joined(t)
		second.MarkDuplicate("a")
		ticket := second.Ticket()
		enqueued, started := ticket.Enqueued(), ticket.Started()
		first.MarkEnqueued()
		within(t, enqueued, "enqueued")
		first.MarkStarted()
		within(t, started, "started")
		if got := ticket.State(); got != local.Processing || ticket.ID() != "b" || ticket.Duplicate() != "a" || first.Ticket().Duplicate() != "" {
			t.Errorf("%v, %q, %q", got, ticket.ID(), ticket.Duplicate())
		}
		first.MarkRequeued()
		if got := ticket.State(); got != local.Enqueued {
			t.Error(got)
		}
		first.Complete([]byte("result"))
		if err := ticket.Wait(t.Context()); err != nil || string(ticket.Result()) != "result" {
			t.Errorf("%v, %q", err, ticket.Result())
		}
	})
	t.Run("its bad end, with the cause and its own name", func(t *testing.T) {
		t.Parallel()
		_, first, second := joined(t)
		first.End(local.Dead, boom)
		if err := second.Ticket().Err(); !errors.Is(err, local.ErrDead) || !errors.Is(err, boom) || err.Error() != "local: job b ended as dead: boom" {
			t.Error(err)
		}
		runtime.KeepAlive(second)
	})
	t.Run("that it has already", func(t *testing.T) {
		t.Parallel()
		r, first, _ := joined(t)
		first.MarkStarted()
		first.MarkProgress([]byte("half"))
		third := promise("c")
		r.Join("a", third)
		if report, _ := third.Ticket().Progress(); third.Ticket().State() != local.Processing || string(report) != "half" {
			t.Errorf("%v, %q", third.Ticket().State(), report)
		}
		runtime.KeepAlive(first)
	})
	t.Run("whose ticket nobody holds any more", func(t *testing.T) {
		t.Parallel()
		r, second := local.NewRegistry(10_000), promise("b")
		func() {
			first := promise("a")
			r.Watch(first)
			r.Join("a", second)
		}()
		others := []*local.Promise{}
		for i := range 3000 { // else the registry keeps it alive itself
			others = append(others, promise(fmt.Sprint(i)))
			r.Watch(others[i])
		}
		runtime.GC()
		runtime.GC()
		r.Find("a").End(local.Completed, nil)
		if got := second.Ticket().State(); got != local.Completed {
			t.Error(got)
		}
		runtime.KeepAlive(others)
	})
	t.Run("of a duplicate too, as that of the same first one", func(t *testing.T) {
		t.Parallel()
		r, first, second := joined(t)
		third := promise("c")
		r.Join("a", third)
		r.Join("a", second)
		first.End(local.Completed, nil)
		if third.Ticket().State() != local.Completed || second.Ticket().State() != local.Completed {
			t.Errorf("%v, %v", second.Ticket().State(), third.Ticket().State())
		}
	})
	t.Run("where that is not known yet", func(t *testing.T) {
		t.Parallel()
		r, p := local.NewRegistry(1), promise("b")
		r.Join("a", p)
		first := r.Find("a")
		if first == nil || first == p || p.Ticket().State() != local.Accepted {
			t.Fatalf("%p shares with %p: %v", p, first, p.Ticket().State())
		}
		if first.MarkEnqueued(); p.Ticket().State() != local.Enqueued {
			t.Errorf("%v", p.Ticket().State())
		}
		r.DetachAll(boom)
		if err := p.Ticket().Err(); !errors.Is(err, local.ErrDetached) || !errors.Is(err, boom) {
			t.Error(err)
		}
	})
	t.Run("but not that of the next job of its ID", func(t *testing.T) {
		t.Parallel()
		r, first, second := joined(t)
		next := promise("a")
		superseded := r.Watch(next)
		next.End(local.Completed, nil)
		if superseded != first || first.Ticket().State().Ended() || second.Ticket().State().Ended() {
			t.Errorf("%p is superseded: %v, %v", superseded, first.Ticket().State(), second.Ticket().State())
		}
	})
	t.Run("who has ended just now, between Keep and LetGo", func(t *testing.T) {
		t.Parallel()
		r, first, _ := joined(t)
		r.Keep()
		first.Complete([]byte("result"))
		r.Forget("a", first)
		late, later := promise("c"), promise("d")
		if r.First("a") != first {
			t.Fatalf("%p is found", r.First("a"))
		}
		r.Share(first, late)
		r.Join("a", later) // which asks for what is, not for what was
		r.LetGo()
		if late.Ticket().State() != local.Completed || string(late.Ticket().Result()) != "result" || later.Ticket().State() != local.Accepted {
			t.Errorf("%v, %q, %v", late.Ticket().State(), late.Ticket().Result(), later.Ticket().State())
		}
	})
	t.Run("until they leave", func(t *testing.T) {
		t.Parallel()
		r, leaves, second, third, alone := local.NewRegistry(2), promise("1"), promise("2"), new(local.Promise), promise("4")
		third.InitFor(&local.Lookout{Looked: func(*local.Ticket, uint32) {}}, "3")
		for _, p := range []*local.Promise{leaves, second} {
			r.Join("a", p)
		}
		r.Join("b", alone)
		if !r.Leave("a", leaves) || !r.Leave("b", alone) || r.Leave("a", third) {
			t.Error("who shares can leave, and nobody else")
		}
		r.Join("a", third)
		third.Ticket().Done()
		first := r.Find("a")
		if first == nil || r.Find("b") != nil || !slices.Equal(r.LookedAt(9), []string{"a"}) {
			t.Fatalf("found %p and %p, looked at %q", first, r.Find("b"), r.LookedAt(9))
		}
		first.Complete([]byte("result"))
		for _, p := range []*local.Promise{second, third} {
			if ticket := p.Ticket(); ticket.State() != local.Completed || string(ticket.Result()) != "result" {
				t.Errorf("%s: %v, %q", ticket.ID(), ticket.State(), ticket.Result())
			}
		}
		for _, p := range []*local.Promise{leaves, alone} {
			if got := p.Ticket().State(); got != local.Accepted {
				t.Errorf("%s has left, and is %v", p.Ticket().ID(), got)
			}
		}
	})
	t.Run("which is watched still when they have left, for it is another ticket", func(t *testing.T) {
		t.Parallel()
		r, first, second := joined(t)
		if !r.Leave("a", second) || r.Find("a") != first {
			t.Errorf("found %p", r.Find("a"))
		}
	})
	t.Run("of which more is known than that it is accepted: nobody leaves it", func(t *testing.T) {
		t.Parallel()
		r, first, second := joined(t)
		if p, _ := r.Claim("a", 0, nil); p != first || r.Leave("a", second) || r.Leave("a", first) {
			t.Error("left what a worker of this process has")
		}
		r.Unclaim(first)
		if first.MarkEnqueued(); r.Leave("a", second) {
			t.Error("left what is enqueued")
		}
		first.End(local.Completed, nil)
		if got := second.Ticket().State(); got != local.Completed {
			t.Error(got)
		}
	})
	t.Run("as many at once as may be watched", func(t *testing.T) {
		t.Parallel()
		r, first := local.NewRegistry(3), promise("a")
		r.Watch(first)
		twins := []*local.Promise{promise("1"), promise("2"), promise("3"), promise("4")}
		for _, p := range twins {
			r.Join("a", p)
		}
		if err := twins[3].Ticket().Err(); !errors.Is(err, local.ErrDetached) || twins[2].Ticket().Err() != nil {
			t.Errorf("%v, %v", err, twins[2].Ticket().Err())
		}
		runtime.KeepAlive(first)
	})
	t.Run("under races", func(t *testing.T) {
		t.Parallel()
		for range 500 {
			r, first := local.NewRegistry(100), promise("a")
			r.Watch(first)
			twins := make([]*local.Promise, 4)
			var all sync.WaitGroup
			for i := range twins {
				twins[i] = promise(fmt.Sprint(i))
				all.Go(func() { r.Join("a", twins[i]) })
			}
			all.Go(func() {
				first.MarkStarted()
				first.MarkRequeued()
				first.Complete([]byte("result"))
			})
			all.Go(first.MarkEnqueued)
			all.Wait()
			for _, p := range twins {
				if got := p.Ticket().State(); got != local.Completed || string(p.Ticket().Result()) != "result" {
					t.Fatalf("%v, %q", got, p.Ticket().Result())
				}
			}
		}
	})
	t.Run("under races with those who leave", func(t *testing.T) {
		t.Parallel()
		for range 500 {
			r := local.NewRegistry(100)
			all := make([]*local.Promise, 6)
			for i := range all {
				all[i] = promise(fmt.Sprint(i))
				r.Join("a", all[i])
			}
			var others sync.WaitGroup
			for _, p := range all[1:] {
				others.Go(func() {
					if r.Leave("a", p) && !p.End(local.Refused, boom) {
						t.Error("who has left was told of the first one's end")
					}
				})
			}
			others.Go(func() { all[0].Ticket().Done() })
			others.Go(func() { p, _ := r.Claim("a", 0, nil); p.Complete(nil) })
			others.Wait()
			for i, p := range all {
				if got := p.Ticket().State(); got != local.Completed && (got != local.Refused || i == 0) {
					t.Fatalf("%d is %v", i, got)
				}
			}
		}
	})
}

func TestProgress(t *testing.T) {
	t.Parallel()
	p := promise("a")
	report, next := p.Ticket().Progress()
	if report != nil {
		t.Errorf("%q", report)
	}
	p.MarkProgress([]byte("half"))
	within(t, next, "the first report")
	report, next = p.Ticket().Progress()
	p.End(local.Completed, nil)
	within(t, next, "the end")
	p.MarkProgress([]byte("too late"))
	last, next := p.Ticket().Progress()
	within(t, next, "after the end")
	if string(report) != "half" || string(last) != "half" || p.Ticket().Result() != nil {
		t.Errorf("%q, %q, %q", report, last, p.Ticket().Result())
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	odd := func(i int) bool { return i%2 != 0 }
	t.Run("gives the slots back and keeps the order of the others", func(t *testing.T) {
		t.Parallel()
		f := newFront(t, &local.FrontOptions[int]{Capacity: 100, Bytes: 1000})
		for range 10 { // wherever the ring begins
			mustAdmit(t, f, 10, 1, 2, 3, 4, 5, 6, 7)
			taken := f.TryTake(nil, 2, 1000)
			if got := f.Remove(odd); !slices.Equal(got, []int{3, 5, 7}) {
				t.Fatal(got)
			}
			if s := f.Stats(); s.Length != 4 || s.Queued != 2 || s.Bytes != 40 {
				t.Fatalf("%+v", s)
			}
			rest := f.TryTake(nil, 9, 1000)
			if len(rest) != 2 || rest[0].Job != 4 || rest[1].Job != 6 {
				t.Fatalf("%+v", rest)
			}
			f.Release(append(taken, rest...)...)
		}
		if s := f.Stats(); s.Accepted != s.Released || s.Length != 0 || f.Remove(odd) != nil {
			t.Errorf("%+v", s)
		}
	})
	t.Run("takes its bytes along: they make no room for anybody", func(t *testing.T) {
		t.Parallel()
		f := newFront(t, &local.FrontOptions[int]{Capacity: 10, Bytes: 100})
		mustAdmit(t, f, 60, 2)
		taken := f.TryTake(nil, 1, 1000)
		mustAdmit(t, f, 30, 1)
		f.Remove(odd)
		mustReject(t.Context(), t, f, 4, 50, policy.DropOldest(), policy.ReasonFull)
		mustAdmit(t, f, 40, 4)
		f.Release(taken...)
	})
	t.Run("lets the barrier fall and those in who wait", func(t *testing.T) {
		t.Parallel()
		f := newFront(t, &local.FrontOptions[int]{Capacity: 1})
		mustAdmit(t, f, 0, 1)
		barrier, admitted := f.Barrier(), make(chan error, 1)
		go func() {
			_, err := f.Admit(context.Background(), 2, 0, policy.Wait(patience))
			admitted <- err
		}()
		for f.Stats().Waiting == 0 {
			runtime.Gosched()
		}
		f.Remove(odd)
		within(t, barrier, "the barrier")
		if err := <-admitted; err != nil {
			t.Error(err)
		}
	})
}

func TestPoolHandlerReports(t *testing.T) {
	t.Parallel()
	pool, err := local.NewPool(nil)
	if err != nil {
		t.Fatal(err)
	}
	kind, halfway := local.NewKind[int](pool, "count", nil), make(chan struct{})
	err = kind.Handle(func(_ context.Context, d *local.Delivery[int]) error {
		bad := d.SetResult(nil, -time.Second)
		if bad == nil {
			t.Error("a negative retention was taken")
		}
		err := errors.Join(d.Progress([]byte("half")), d.SetResult([]byte("result"), time.Hour))
		<-halfway
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := kind.TrySubmit(1)
	if err != nil {
		t.Fatal(err)
	}
	report, next := ticket.Progress()
	for ; report == nil; report, next = ticket.Progress() {
		within(t, next, "a report")
	}
	if ticket.Result() != nil {
		t.Error("there is a result already")
	}
	close(halfway)
	if err := ticket.Wait(t.Context()); err != nil || string(report) != "half" || string(ticket.Result()) != "result" {
		t.Errorf("%v, %q, %q", err, report, ticket.Result())
	}
	if err := (&local.Delivery[int]{}).Progress(nil); err != nil {
		t.Errorf("a delivery of no queue: %v", err)
	}
	if _, err := pool.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
