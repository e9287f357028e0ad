package bridge_test

import (
	"bytes"
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
	"github.com/seed-9dec4fca/weir/policy"
)

// apart is two processes on one store: one submits, the other runs.
type apart struct {
	memory   *durable.Memory
	producer *bench
	consumer *bench
	kind     *bridge.Kind[int] // of the producer
}

// setupApart does not run the consumer yet.
func setupApart(t *testing.T, h func(context.Context, *bridge.Delivery[int]) error) *apart {
	t.Helper()
	a := &apart{memory: durable.NewMemory(nil)}
	a.producer, a.consumer = setupOn(t, a.memory, nil), setupOn(t, a.memory, nil)
	a.kind = bridge.NewKind[int](a.producer.q, "count", nil)
	a.consumer.handle(t, "count", h)
	return a
}

func nop(context.Context, *bridge.Delivery[int]) error { return nil }

// reads is how often the producer has asked for news.
func (a *apart) reads() int { return a.producer.outage.Calls(durabletest.OpFollowAwait) }

// ends expects that a ticket comes to an end and that it is that one; nil: completed.
func ends(t *testing.T, ticket *bridge.Ticket, want error, says string) {
	t.Helper()
	err := ticket.Wait(t.Context())
	if want == nil {
		if err != nil {
			t.Fatalf("got %v, want completed", err)
		}
		return
	}
	if !errors.Is(err, want) || !contains(err, says) {
		t.Fatalf("got %v, want %v that says %q", err, want, says)
	}
}

// soon expects that a channel closes long before everything is asked for again anyway.
func soon(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(10 * time.Second):
		t.Fatal("not within ten seconds")
	}
}

func contains(err error, text string) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if text == "" || err.Error() == text {
			return true
		}
	}
	return false
}

func TestTicketLearnsWhatAnotherProcessMakesOfItsJob(t *testing.T) {
	t.Parallel()
	bubble(t, "completed", func(t *testing.T) {
		a := setupApart(t, nop)
		a.consumer.run(t, nil)
		ends(t, submit(t, a.kind, 1), nil, "")
		if c := a.producer.q.Counters(); c.Started != 0 || c.Completed != 0 {
			t.Errorf("counted where it did not run: %+v", c)
		}
	})
	bubble(t, "started while its handler runs, with its progress and its result", func(t *testing.T) {
		reported, finish := make(chan struct{}), make(chan struct{})
		a := setupApart(t, func(_ context.Context, d *bridge.Delivery[int]) error {
			<-reported
			if err := d.Progress([]byte("half")); err != nil {
				t.Error(err)
			}
			<-finish
			return d.SetResult([]byte("sum"), 0)
		})
		a.consumer.run(t, nil)
		ticket := submit(t, a.kind, 1)
		soon(t, ticket.Started())
		if got := ticket.State(); got != local.Processing {
			t.Errorf("in the handler: %v", got)
		}
		_, next := ticket.Progress()
		close(reported)
		soon(t, next)
		if got, _ := ticket.Progress(); string(got) != "half" {
			t.Errorf("progress %q", got)
		}
		close(finish)
		ends(t, ticket, nil, "")
		if got := string(ticket.Result()); got != "sum" {
			t.Errorf("result %q", got)
		}
	})
	bubble(t, "with a result that is too long for a notice and kept", func(t *testing.T) {
		long := bytes.Repeat([]byte("x"), durable.MaxNoticed+1)
		a := setupApart(t, func(_ context.Context, d *bridge.Delivery[int]) error { return d.SetResult(long, time.Hour) })
		a.consumer.run(t, nil)
		ticket := submit(t, a.kind, 1)
		ends(t, ticket, nil, "")
		if !bytes.Equal(ticket.Result(), long) {
			t.Errorf("a result of %d bytes", len(ticket.Result()))
		}
	})
	bubble(t, "expired", func(t *testing.T) {
		a := setupApart(t, nop)
		ticket := submitJob(t, a.kind, bridge.Job[int]{ID: "late", Expiry: time.Minute})
		done := ticket.Done()
		_ = a.producer.q.Flush(t.Context())
		time.Sleep(2 * time.Minute)
		a.consumer.run(t, nil)
		soon(t, done)
		ends(t, ticket, local.ErrExpired, "")
	})
	bubble(t, "a duplicate too", func(t *testing.T) {
		a := setupApart(t, nop)
		other := setupOn(t, a.memory, nil)
		first := submitJob(t, a.kind, bridge.Job[int]{ID: "same"})
		_ = a.producer.q.Flush(t.Context())
		kind := bridge.NewKind[int](other.q, "count", nil)
		second, third := submitJob(t, kind, bridge.Job[int]{ID: "same"}), submitJob(t, kind, bridge.Job[int]{ID: "same"})
		_ = other.q.Flush(t.Context())
		if got := third.State(); got != local.Enqueued {
			t.Errorf("a duplicate is %v", got)
		}
		done := second.Done()
		a.consumer.run(t, nil)
		soon(t, done)
		for _, ticket := range []*bridge.Ticket{first, second, third} {
			ends(t, ticket, nil, "")
		}
	})
	bubble(t, "dead, and why", func(t *testing.T) {
		a := setupApart(t, func(context.Context, *bridge.Delivery[int]) error { return bridge.Permanent(errors.New("broken")) })
		a.consumer.run(t, nil)
		ends(t, submit(t, a.kind, 1), local.ErrDead, "broken")
	})
	bubble(t, "enqueued again while a retry waits", func(t *testing.T) {
		again := make(chan struct{})
		a := setupApart(t, func(_ context.Context, d *bridge.Delivery[int]) error {
			if d.Deliveries == 1 {
				<-again
				return bridge.Snooze(5 * time.Second)
			}
			return nil
		})
		ticket := submit(t, a.kind, 1)
		done := ticket.Done()
		a.consumer.run(t, nil)
		time.Sleep(time.Second)
		close(again)
		time.Sleep(time.Second)
		if got := ticket.State(); got != local.Enqueued {
			t.Errorf("while it waits again: %v", got)
		}
		soon(t, done)
		ends(t, ticket, nil, "")
	})
	bubble(t, "cancelled, and deleted, by an operator", func(t *testing.T) {
		a := setupApart(t, nop)
		cancelled, purged := submit(t, a.kind, 1), submit(t, a.kind, 2)
		_, _ = cancelled.Done(), purged.Done()
		time.Sleep(time.Second)
		if _, err := a.memory.Cancel(t.Context(), durable.CancelRequest{ID: cancelled.ID()}); err != nil {
			t.Fatal(err)
		}
		ends(t, cancelled, local.ErrCancelled, "")
		if _, err := a.consumer.q.Operator().Purge(t.Context(), durable.PurgeRequest{Confirm: "memory"}); err != nil {
			t.Fatal(err)
		}
		ends(t, purged, bridge.ErrGone, "")
	})
	bubble(t, "as the first or the last of many, though nobody has looked before", func(t *testing.T) {
		a := setupApart(t, nop)
		a.consumer.run(t, nil)
		var tickets []*bridge.Ticket
		for i := range 3000 {
			ticket, err := a.kind.Submit(t.Context(), i, policy.Wait(time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			tickets = append(tickets, ticket)
		}
		time.Sleep(time.Hour) // the store has forgotten the follower by then
		for _, ticket := range tickets {
			ends(t, ticket, nil, "")
		}
	})
	bubble(t, "also before the append is answered", func(t *testing.T) {
		a := setupApart(t, nop)
		a.producer.outage.once(durabletest.Fault{Action: durabletest.Lose, Delay: 0}, durabletest.OpAppend)
		a.producer.gate.Hold(durabletest.OpStats)
		a.consumer.run(t, nil)
		ticket := submit(t, a.kind, 1)
		ends(t, ticket, nil, "")
		if err := ticket.WaitEnqueued(t.Context()); err != nil {
			t.Error(err)
		}
		if err := a.producer.q.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		a.producer.gate.Release(durabletest.OpStats)
		a.producer.conserved(t)
	})
}

func TestNewsOfAnEarlierJobIsNotTakenForThatOfALaterOneWithItsID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := setupApart(t, nop)
		a.consumer.run(t, nil)
		for range 3 { // nobody looks, so what becomes of them is not read
			submitJob(t, a.kind, bridge.Job[int]{ID: "same"})
			time.Sleep(time.Second)
		}
		a.consumer.stop()
		<-a.consumer.ran
		ticket := submitJob(t, a.kind, bridge.Job[int]{ID: "same"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := ticket.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("nobody has run it: %v, %v", ticket.State(), err)
		}
		a.consumer.run(t, nil)
		ends(t, ticket, nil, "")
	})
}

func TestNobodyWhoOnlyFiresAndForgetsPaysForFollowing(t *testing.T) {
	t.Parallel()
	fire := func(t *testing.T, a *apart, jobs int, hold func(*bridge.Ticket)) {
		t.Helper()
		for i := range jobs {
			ticket, err := a.kind.Submit(t.Context(), i, policy.Wait(time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			if hold != nil {
				hold(ticket)
			}
			if i%100 == 99 {
				runtime.GC()
				_ = a.producer.q.Flush(t.Context())
			}
		}
	}
	for _, quiet := range []time.Duration{time.Second, time.Hour} { // the store forgets the follower meanwhile, or not
		bubble(t, "its producer is let go, and nothing is read for "+quiet.String(), func(t *testing.T) {
			a := setupApart(t, nop)
			a.consumer.run(t, nil)
			fire(t, a, 5000, nil)
			time.Sleep(5 * time.Second)
			adopted, reads := a.producer.outage.Calls(durabletest.OpAdopt), a.reads()
			if adopted != 2 {
				t.Errorf("%d adoptions, want one and its end", adopted)
			}
			fire(t, a, 5000, nil)
			time.Sleep(quiet)
			if n, r := a.producer.outage.Calls(durabletest.OpAdopt), a.reads(); n != adopted || r != reads {
				t.Errorf("%d adoptions and %d reads more", n-adopted, r-reads)
			}
			// The next look: both the ticket and what comes after it.
			a.consumer.stop()
			<-a.consumer.ran
			ticket := submit(t, a.kind, 1)
			_ = a.producer.q.Flush(t.Context())
			done := ticket.Done()
			time.Sleep(time.Second)
			a.consumer.run(t, nil)
			soon(t, done)
			ends(t, ticket, nil, "")
			asked := a.producer.outage.Calls(durabletest.OpFollow)
			if asked == 0 || asked > 2 {
				t.Errorf("asked %d times for one that was enqueued before anybody looked", asked)
			}
			for range 10 {
				ends(t, submit(t, a.kind, 1), nil, "")
			}
			if n := a.producer.outage.Calls(durabletest.OpFollow) - asked; n != 0 {
				t.Errorf("asked %d times for others", n)
			}
		})
	}
	bubble(t, "one who has looked lately may look again", func(t *testing.T) {
		a := setupApart(t, nop)
		a.consumer.run(t, nil)
		for range 3 {
			ends(t, submit(t, a.kind, 1), nil, "")
			fire(t, a, 5000, nil)
			time.Sleep(9 * time.Minute)
		}
		if n := a.producer.outage.Calls(durabletest.OpFollow); n != 0 {
			t.Errorf("asked %d times", n)
		}
	})
	bubble(t, "one whose tickets are held may look yet", func(t *testing.T) {
		a := setupApart(t, nop)
		var held []*bridge.Ticket
		fire(t, a, 5000, func(ticket *bridge.Ticket) { held = append(held, ticket) })
		a.consumer.run(t, nil)
		time.Sleep(time.Minute)
		for _, ticket := range held {
			ends(t, ticket, nil, "")
		}
		if n := a.producer.outage.Calls(durabletest.OpFollow); n > 1+5000/256 {
			t.Errorf("%d exchanges for 5,000 jobs", n)
		}
	})
	bubble(t, "waiting until a job is durable is no look", func(t *testing.T) {
		a := setupApart(t, nop)
		a.consumer.run(t, nil)
		for i := range 100 {
			if err := submit(t, a.kind, i).WaitEnqueued(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		if n := a.reads(); n != 0 {
			t.Errorf("%d reads", n)
		}
	})
	bubble(t, "a process that only consumes follows nothing", func(t *testing.T) {
		a := setupApart(t, nop)
		a.consumer.run(t, nil)
		ends(t, submit(t, a.kind, 1), nil, "")
		if n, of := a.consumer.outage.Calls(durabletest.OpOpenFollower), a.producer.outage.Calls(durabletest.OpOpenFollower); n != 0 || of != 1 {
			t.Errorf("%d followers, and %d of who submits", n, of)
		}
	})
	bubble(t, "nothing is read once no open ticket is looked at", func(t *testing.T) {
		a := setupApart(t, nop)
		a.consumer.run(t, nil)
		ends(t, submit(t, a.kind, 1), nil, "")
		time.Sleep(3 * time.Second)
		reads := a.reads()
		time.Sleep(time.Hour)
		if n := a.reads() - reads; reads == 0 || n != 0 {
			t.Errorf("%d reads, and %d in an hour", reads, n)
		}
	})
	bubble(t, "nor for one that nobody holds any more", func(t *testing.T) {
		a := setupApart(t, nop)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		_ = submit(t, a.kind, 1).Wait(over)
		for range 1100 { // the registry holds the newest
			submit(t, a.kind, 1)
			_ = a.producer.q.Flush(t.Context())
		}
		runtime.GC()
		runtime.GC()
		time.Sleep(3 * time.Second)
		reads := a.reads()
		time.Sleep(time.Hour)
		if n := a.reads() - reads; reads == 0 || n != 0 {
			t.Errorf("%d reads, and %d in an hour", reads, n)
		}
	})
}

func TestFollowingIsBoundedInExchanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := setupApart(t, nop)
		var tickets []*bridge.Ticket
		for i := range 10_000 {
			ticket, err := a.kind.Submit(t.Context(), i, policy.Wait(time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			ticket.Done()
			tickets = append(tickets, ticket)
		}
		a.consumer.run(t, nil)
		for _, ticket := range tickets {
			ends(t, ticket, nil, "")
		}
		calls := a.reads() + a.producer.outage.Calls(durabletest.OpFollow) + a.producer.outage.Calls(durabletest.OpAdopt)
		if calls > 10_000/20 {
			t.Errorf("%d exchanges for 10,000 jobs", calls)
		}
	})
}
