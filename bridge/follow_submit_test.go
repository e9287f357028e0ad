package bridge_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// Whoever followed an ID while a job was submitted under it, in the same process, had a promise of his own for that job: the
// worker told one of them how it ended, and the ticket of the other stayed open, or ended detached.
func TestFollowWhileTheJobIsSubmitted(t *testing.T) {
	t.Parallel()
	// following begins to follow "a", and leaves it to the gate when the store is asked.
	following := func(t *testing.T, b *bench) (followed func() *bridge.Ticket) {
		t.Helper()
		b.gate.Hold(durabletest.OpFollow)
		tickets := make(chan *bridge.Ticket)
		go func() {
			ticket, err := b.q.Follow(t.Context(), "a")
			if err != nil {
				t.Error(err)
			}
			tickets <- ticket
		}()
		if err := b.gate.Held(t.Context(), durabletest.OpFollow); err != nil {
			t.Fatal(err)
		}
		return func() *bridge.Ticket {
			b.gate.Release(durabletest.OpFollow)
			return <-tickets
		}
	}
	// submitted has stored "a", and the answer to that is lost: it comes when the append is released.
	submitted := func(t *testing.T, b *bench, kind *bridge.Kind[int]) *bridge.Ticket {
		t.Helper()
		b.outage.once(durabletest.Fault{Action: durabletest.Lose}, durabletest.OpAppend)
		ticket := submitJob(t, kind, bridge.Job[int]{ID: "a"})
		synctest.Wait()
		b.gate.Hold(durabletest.OpAppend)
		return ticket
	}
	bubble(t, "nobody has it when it is stored", func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "count", nop)
		followed := following(t, b)
		ticket := submitJob(t, kind, bridge.Job[int]{ID: "a"})
		if err := ticket.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		again := followed()
		if again.State() != local.Enqueued {
			t.Fatalf("%v, %v", again.State(), again.Err())
		}
		b.run(t, nil)
		soon(t, again.Done())
		soon(t, ticket.Done())
		ends(t, again, nil, "")
		ends(t, ticket, nil, "")
	})
	bubble(t, "a worker here has it before the store has answered", func(t *testing.T) {
		b := setup(t, nil)
		finish := make(chan struct{})
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { <-finish; return nil })
		followed := following(t, b)
		ticket := submitted(t, b, kind)
		b.run(t, nil)
		synctest.Wait()
		b.gate.Release(durabletest.OpAppend)
		if err := ticket.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		again := followed()
		close(finish)
		soon(t, ticket.Done())
		soon(t, again.Done())
		ends(t, ticket, nil, "")
		ends(t, again, nil, "")
		b.conserved(t)
	})
	bubble(t, "and is done with it by then", func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "count", nop)
		followed := following(t, b)
		ticket := submitted(t, b, kind)
		b.run(t, nil)
		synctest.Wait()
		b.gate.Release(durabletest.OpAppend)
		soon(t, ticket.Done())
		ends(t, ticket, nil, "")
		ends(t, followed(), nil, "")
		b.conserved(t)
	})
	bubble(t, "another process is done with it by then", func(t *testing.T) {
		a := setupApart(t, nop)
		ticket := submitted(t, a.producer, a.kind)
		again, err := a.producer.q.Follow(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		done := again.Done()
		a.consumer.run(t, nil)
		soon(t, done)
		a.producer.gate.Release(durabletest.OpAppend)
		soon(t, ticket.Done())
		ends(t, ticket, nil, "")
		ends(t, again, nil, "")
		a.producer.conserved(t)
	})
	t.Run("and again and again, by many", func(t *testing.T) {
		t.Parallel()
		q, err := bridge.Open(durable.NewMemory(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		kind := bridge.NewKind[int](q, "count", nil)
		if err := kind.Handle(nop); err != nil {
			t.Fatal(err)
		}
		ran, over := make(chan error, 1), make(chan struct{})
		go func() { ran <- q.Run(ctx, nil) }()
		for range 2 {
			go func() {
				for ctx.Err() == nil {
					_, _ = q.Follow(ctx, "a")
				}
				over <- struct{}{}
			}()
		}
		for began := time.Now(); time.Since(began) < time.Second; {
			ticket, err := kind.SubmitJob(ctx, bridge.Job[int]{ID: "a"}, policy.Wait(time.Second))
			if err != nil {
				t.Fatal(err)
			}
			if err := ticket.Wait(ctx); err != nil {
				t.Fatalf("%v; %v, %+v", err, ticket.State(), q.Counters())
			}
		}
		cancel()
		<-over
		<-over
		if err := <-ran; err != nil {
			t.Error(err)
		}
		shutdown(t, q)
	})
}

// A worker that had another process's job took it for the one that this process had submitted under the ID before, of whose end
// it had not heard. When it had, a duplicate of the job that the worker still had was never told of that one's end.
func TestDuplicateOfAnIDThatHadAnotherLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := setupApart(t, nop)
		a.consumer.run(t, nil)
		first := submitJob(t, a.kind, bridge.Job[int]{ID: "a"})
		time.Sleep(time.Second) // nobody looks at it, so its end is not read
		a.consumer.stop()
		<-a.consumer.ran
		elsewhere := submitJob(t, bridge.NewKind[int](a.consumer.q, "count", nil), bridge.Job[int]{ID: "a"})
		if err := elsewhere.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		finish := make(chan struct{})
		if err := a.kind.Handle(func(context.Context, *bridge.Delivery[int]) error { <-finish; return nil }); err != nil {
			t.Fatal(err)
		}
		a.producer.run(t, nil)
		synctest.Wait()
		soon(t, first.Done())
		duplicate := submitJob(t, a.kind, bridge.Job[int]{ID: "a"})
		done := duplicate.Done()
		time.Sleep(time.Second)
		if got := duplicate.State(); got != local.Processing || duplicate.Duplicate() != "a" {
			t.Errorf("%v, a duplicate of %q", got, duplicate.Duplicate())
		}
		close(finish)
		soon(t, done)
		ends(t, duplicate, nil, "")
		ends(t, elsewhere, nil, "")
	})
}

// A claim did not say which life of an ID it is of, and whoever was watched under the ID got it.
func TestClaimOfAnotherLife(t *testing.T) {
	t.Parallel()
	// stored has "a" appended by the producer, and the answer to that is lost: it comes when the append is released.
	stored := func(t *testing.T, a *apart) *bridge.Ticket {
		t.Helper()
		a.producer.outage.once(durabletest.Fault{Action: durabletest.Lose}, durabletest.OpAppend)
		ticket := submitJob(t, a.kind, bridge.Job[int]{ID: "a"})
		synctest.Wait()
		a.producer.gate.Hold(durabletest.OpAppend)
		return ticket
	}
	// over is a ticket of an earlier life, which another process has ended, and nobody has looked at it.
	over := func(t *testing.T, a *apart) *bridge.Ticket {
		t.Helper()
		a.consumer.run(t, nil)
		first := submitJob(t, a.kind, bridge.Job[int]{ID: "a"})
		time.Sleep(time.Second)
		a.consumer.stop()
		<-a.consumer.ran
		return first
	}
	elsewhere := func(t *testing.T, a *apart) *bridge.Ticket {
		t.Helper()
		ticket := submitJob(t, bridge.NewKind[int](a.consumer.q, "count", nil), bridge.Job[int]{ID: "a"})
		if err := ticket.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		return ticket
	}
	bubble(t, "that of a job under way is not that of a ticket whose end was not heard of", func(t *testing.T) {
		a := setupApart(t, nop)
		first := over(t, a)
		finish := make(chan struct{})
		if err := a.kind.Handle(func(context.Context, *bridge.Delivery[int]) error { <-finish; return nil }); err != nil {
			t.Fatal(err)
		}
		ticket := stored(t, a)
		a.producer.run(t, nil)
		synctest.Wait()
		a.producer.gate.Release(durabletest.OpAppend)
		if err := ticket.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := ticket.State(); got != local.Processing {
			t.Errorf("a worker has it: %v", got)
		}
		close(finish)
		soon(t, ticket.Done())
		ends(t, ticket, nil, "")
		soon(t, first.Done())
	})
	bubble(t, "that of another process's job is not that of one whose append takes long", func(t *testing.T) {
		a := setupApart(t, nop)
		there := elsewhere(t, a)
		first := make(chan struct{})
		var runs atomic.Int32
		if err := a.kind.Handle(func(context.Context, *bridge.Delivery[int]) error {
			if runs.Add(1) == 1 {
				<-first
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		a.producer.gate.Hold(durabletest.OpAppend)
		ticket := submitJob(t, a.kind, bridge.Job[int]{ID: "a"})
		if err := a.producer.gate.Held(t.Context(), durabletest.OpAppend); err != nil {
			t.Fatal(err)
		}
		a.producer.run(t, nil)
		synctest.Wait()
		if got := ticket.State(); got != local.Accepted {
			t.Errorf("its append was not sent: %v", got)
		}
		close(first)
		ends(t, there, nil, "")
		synctest.Wait()
		if got := ticket.State(); got != local.Accepted {
			t.Errorf("its append was not sent: %v", got)
		}
		a.producer.gate.Release(durabletest.OpAppend)
		soon(t, ticket.Done())
		ends(t, ticket, nil, "")
		if got := runs.Load(); got != 2 {
			t.Errorf("it was told after %d runs", got)
		}
	})
	bubble(t, "who follows an ID that has another life by now follows that one", func(t *testing.T) {
		for _, looked := range []bool{false, true} {
			a := setupApart(t, nop)
			first := over(t, a)
			there := elsewhere(t, a)
			if looked { // and what was noted of it is not read yet
				a.producer.gate.Hold(durabletest.OpFollowAwait)
				first.Done()
			}
			again, err := a.producer.q.Follow(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			done := again.Done()
			a.producer.gate.Release(durabletest.OpFollowAwait)
			soon(t, first.Done())
			ends(t, first, nil, "") // it was noted
			time.Sleep(5 * time.Second)
			if got := again.State(); got != local.Enqueued {
				t.Errorf("nobody has run it: %v, %v", got, again.Err())
			}
			a.consumer.run(t, nil)
			soon(t, done)
			ends(t, again, nil, "")
			ends(t, there, nil, "")
		}
	})
	bubble(t, "and a ticket of the other life does not stay open where nothing was noted of it", func(t *testing.T) {
		a := setupApart(t, nop)
		a.consumer.run(t, nil)
		a.producer.outage.begin(durabletest.Fault{Action: durabletest.Refuse}, durabletest.OpAdopt)
		first := submitJob(t, a.kind, bridge.Job[int]{ID: "a"})
		time.Sleep(time.Second)
		a.consumer.stop()
		<-a.consumer.ran
		a.producer.outage.end()
		elsewhere(t, a)
		if _, err := a.producer.q.Follow(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if got := first.State(); got != local.Detached || !errors.Is(first.Err(), bridge.ErrNoRecord) {
			t.Errorf("%v, %v", got, first.Err())
		}
	})
}

// While the answer to an append is out, what ends is kept for duplicates: the end of an earlier job was taken for that of the job that
// has the ID now.
func TestFollowWhileAnEarlierJobIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, other, kind, first, goOn := setupRunning(t, false)
		b.gate.Hold(durabletest.OpAppend)
		submitJob(t, kind, bridge.Job[int]{ID: "b"})
		if err := b.gate.Held(t.Context(), durabletest.OpAppend); err != nil {
			t.Fatal(err)
		}
		close(goOn)
		ends(t, first, nil, "")
		b.stop()
		<-b.ran
		elsewhere := submitJob(t, bridge.NewKind[int](other.q, "count", nil), bridge.Job[int]{ID: "a"})
		if err := elsewhere.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		again, err := b.q.Follow(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if s := again.State(); s != local.Enqueued {
			t.Errorf("%v", s)
		}
		b.gate.Release(durabletest.OpAppend)
	})
}

// The first append of a process that came while a Follow asked the store was told of too late: of a job that was quick nothing was
// known any more.
func TestSubmitWhileAFollowAsks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := setupApart(t, nop)
		a.consumer.run(t, nil)
		a.producer.gate.Hold(durabletest.OpFollow)
		followed := make(chan error)
		go func() {
			_, err := a.producer.q.Follow(t.Context(), "none")
			followed <- err
		}()
		if err := a.producer.gate.Held(t.Context(), durabletest.OpFollow); err != nil {
			t.Fatal(err)
		}
		ticket := submit(t, a.kind, 1)
		time.Sleep(time.Second / 2)
		a.producer.gate.Release(durabletest.OpFollow)
		if err := <-followed; !errors.Is(err, durable.ErrNoJob) {
			t.Error(err)
		}
		ends(t, ticket, nil, "")
	})
}
