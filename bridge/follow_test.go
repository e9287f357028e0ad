package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

func TestFollow(t *testing.T) {
	t.Parallel()
	bubble(t, "a job that this process submitted before it was started again", func(t *testing.T) {
		a := setupApart(t, nop)
		id := submit(t, a.kind, 1).ID()
		_ = a.producer.q.Flush(t.Context())
		again := setupOn(t, a.memory, nil)
		ticket, err := again.q.Follow(t.Context(), id)
		if err != nil || ticket.ID() != id || ticket.State() != local.Enqueued {
			t.Fatalf("%+v, %v", ticket, err)
		}
		twin, err := again.q.Follow(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		done := ticket.Done()
		a.consumer.run(t, nil)
		<-done
		ends(t, ticket, nil, "")
		ends(t, twin, nil, "")
	})
	bubble(t, "a job that this process runs", func(t *testing.T) {
		a := setupApart(t, nop)
		id := submit(t, a.kind, 1).ID()
		_ = a.producer.q.Flush(t.Context())
		ticket, err := a.consumer.q.Follow(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		a.consumer.run(t, nil)
		ends(t, ticket, nil, "")
	})
	bubble(t, "one that has ended and whose record is kept", func(t *testing.T) {
		a := setupApart(t, func(_ context.Context, d *bridge.Delivery[int]) error {
			if d.Value == 1 {
				return bridge.Permanent(errors.New("broken"))
			}
			return nil
		})
		a.consumer.run(t, nil)
		dead := submit(t, a.kind, 1)
		kept := submitJob(t, a.kind, bridge.Job[int]{ID: "kept", Retention: time.Hour})
		time.Sleep(time.Minute)
		for id, want := range map[string]local.State{dead.ID(): local.Dead, "kept": local.Completed} {
			ticket, err := a.consumer.q.Follow(t.Context(), id)
			if err != nil || ticket.State() != want {
				t.Errorf("%s: %+v, %v", id, ticket, err)
			}
		}
		runtime.KeepAlive(kept)
	})
	bubble(t, "whoever looks at its ticket then does not have the store asked again", func(t *testing.T) {
		a := setupApart(t, nop)
		id := submit(t, a.kind, 1).ID()
		_ = a.producer.q.Flush(t.Context())
		again := setupOn(t, a.memory, nil)
		ticket, err := again.q.Follow(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		done := ticket.Done()
		runtime.GC() // who waits need not hold the ticket
		time.Sleep(time.Minute)
		if n := again.outage.Calls(durabletest.OpFollow); n != 1 {
			t.Errorf("asked %d times", n)
		}
		a.consumer.run(t, nil)
		soon(t, done)
	})
	// Two calls for one job shared one ticket, and the one whose context ended first ended that of the other.
	bubble(t, "the job that another caller has given up to follow", func(t *testing.T) {
		a := setupApart(t, nop)
		id := submit(t, a.kind, 1).ID()
		_ = a.producer.q.Flush(t.Context())
		again := setupOn(t, a.memory, nil)
		again.gate.Hold(durabletest.OpFollow)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		gaveUp := make(chan error)
		go func() {
			_, err := again.q.Follow(ctx, id)
			gaveUp <- err
		}()
		synctest.Wait()
		followed := make(chan *bridge.Ticket)
		go func() {
			ticket, err := again.q.Follow(t.Context(), id)
			if err != nil {
				t.Error(err)
			}
			followed <- ticket
		}()
		if err := <-gaveUp; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		again.gate.Release(durabletest.OpFollow)
		ticket := <-followed
		if ticket == nil || ticket.State() != local.Enqueued {
			t.Fatalf("got %+v", ticket)
		}
		a.consumer.run(t, nil)
		ends(t, ticket, nil, "")
	})
	bubble(t, "none", func(t *testing.T) {
		a := setupApart(t, nop)
		if ticket, err := a.producer.q.Follow(t.Context(), "nobody"); !errors.Is(err, durable.ErrNoJob) || ticket != nil {
			t.Errorf("got %v, %v", ticket, err)
		}
	})
	bubble(t, "an invalid ID is refused by name, as by Cancel", func(t *testing.T) {
		a := setupApart(t, nop)
		for id, says := range map[string]string{
			"": "the ID is empty", strings.Repeat("x", 1025): "the ID has 1025 bytes, more than 1024",
		} {
			_, err := a.producer.q.Follow(t.Context(), id)
			if err == nil || !strings.Contains(err.Error(), "bridge: follow: "+says) || strings.Contains(err.Error(), "NewID") {
				t.Errorf("follow: %v", err)
			}
			_, err = a.producer.q.Cancel(t.Context(), id)
			if err == nil || !strings.Contains(err.Error(), "bridge: cancel: "+says) {
				t.Errorf("cancel: %v", err)
			}
		}
	})
	bubble(t, "of a job whose ID others have made, as by Cancel", func(t *testing.T) {
		a := setupApart(t, nop)
		id := "\x00" + strings.Repeat("x", 1023)
		p, err := a.memory.OpenProducer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Append(t.Context(), 1, []*durable.Job{{ID: id, Kind: "count", Payload: []byte("1")}}); err != nil || got.Taken != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		ticket, err := a.producer.q.Follow(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		done := ticket.Done()
		if _, err := a.consumer.q.Cancel(t.Context(), id); err != nil {
			t.Error(err)
		}
		soon(t, done)
		ends(t, ticket, local.ErrCancelled, "")
	})
	bubble(t, "an engine that does not tell", func(t *testing.T) {
		q, err := bridge.Open(withoutPriority{durable.NewMemory(nil)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer shutdown(t, q)
		if _, err := q.Follow(t.Context(), "a"); !errors.Is(err, durable.ErrUnsupported) {
			t.Errorf("got %v", err)
		}
	})
	bubble(t, "ends with its context while the store is frozen", func(t *testing.T) {
		a := setupApart(t, nop)
		a.producer.outage.begin(durabletest.Fault{Action: durabletest.Hang})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.producer.q.Follow(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		a.producer.outage.end()
		a.producer.outage.Release()
	})
	bubble(t, "after Shutdown", func(t *testing.T) {
		a := setupApart(t, nop)
		shutdown(t, a.producer.q)
		if _, err := a.producer.q.Follow(t.Context(), "a"); !errors.Is(err, bridge.ErrShutdown) || !errors.Is(err, policy.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

func TestShutdownEndsFollowing(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]durabletest.Fault{"in order": {}, "while the store is frozen": {Action: durabletest.Hang}} {
		bubble(t, name, func(t *testing.T) {
			a := setupApart(t, nop)
			q := open(t, a.memory, nil)
			kind := bridge.NewKind[int](q.q, "count", nil)
			ticket := submit(t, kind, 1)
			done := ticket.Done()
			time.Sleep(time.Second)
			q.outage.begin(fault)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if _, err := q.q.Shutdown(ctx); err != nil && fault.Action == durabletest.Pass {
				t.Error(err)
			}
			<-done
			ends(t, ticket, bridge.ErrShutdown, "")
			if n := q.outage.Calls(durabletest.OpCloseFollower); n != 1 {
				t.Errorf("the follower was closed %d times", n)
			}
			q.outage.Release()
		})
	}
}

func ExampleQueue_Follow() {
	ctx := context.Background()
	memory := durable.NewMemory(nil)
	before, _ := bridge.Open(memory, nil)
	kind := bridge.NewKind[int](before, "count", nil)
	ticket, _ := kind.SubmitJob(ctx, bridge.Job[int]{ID: "invoice-7"}, policy.Reject())
	_ = ticket.WaitEnqueued(ctx)

	after, _ := bridge.Open(memory, nil) // the same program, started again, say
	_ = bridge.NewKind[int](after, "count", nil).Handle(func(context.Context, *bridge.Delivery[int]) error { return nil })
	again, err := after.Follow(ctx, "invoice-7")
	fmt.Println(again.State(), err)
	go func() { _ = after.Run(ctx, nil) }()
	fmt.Println(again.Wait(ctx))

	_, _ = after.Shutdown(ctx)
	_, _ = before.Shutdown(ctx)
	// Output:
	// enqueued <nil>
	// <nil>
}
