package bridge_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
)

// slowStore makes every exchange take so long, as a network would.
func slowStore(b *bench, each time.Duration) {
	b.outage.decide(func(durabletest.Call) durabletest.Fault { return durabletest.Fault{Delay: each} })
}

func TestClaimingAhead(t *testing.T) {
	t.Parallel()

	bubble(t, "quick handlers do not stand idle for the length of an exchange", func(t *testing.T) {
		b := setup(t, nil)
		slowStore(b, time.Millisecond)
		kind := b.handle(t, "k", func(context.Context, *bridge.Delivery[int]) error {
			time.Sleep(50 * time.Microsecond)
			return nil
		})
		tickets := make([]*bridge.Ticket, 1000)
		for i := range tickets {
			tickets[i] = submit(t, kind, i)
		}
		if err := b.q.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.run(t, &bridge.RunOptions{Workers: 1})
		began := time.Now()
		for _, ticket := range tickets {
			if err := ticket.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		// One by one, each job would take an exchange as well: a second and more.
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("1,000 jobs of 50 µs took %v on one worker", took)
		}
	})

	bubble(t, "slow handlers have nothing claimed ahead", func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "k", func(context.Context, *bridge.Delivery[int]) error {
			time.Sleep(20 * time.Millisecond)
			return nil
		})
		for i := range 100 {
			submit(t, kind, i)
		}
		b.run(t, &bridge.RunOptions{Workers: 2})
		for range 50 {
			time.Sleep(15 * time.Millisecond)
			// One that runs and one that is being settled, for each worker.
			if s := memoryStats(t, b.memory); s.Processing > 4 {
				t.Fatalf("%d claims on two workers", s.Processing)
			}
		}
	})

	bubble(t, "what was claimed ahead of a slow job is run by another, in its order", func(t *testing.T) {
		memory := durable.NewMemory(nil)
		busy, idle := setupOn(t, memory, nil), setupOn(t, memory, nil)
		slowStore(busy, time.Millisecond)
		work := func(ctx context.Context, d *bridge.Delivery[int]) error {
			select {
			case <-time.After(time.Duration(d.Value) * time.Microsecond):
			case <-ctx.Done():
			}
			return ctx.Err()
		}
		kind := busy.handle(t, "k", work)
		idle.handle(t, "k", work)
		for range 300 {
			submit(t, kind, 50)
		}
		slow := int(time.Hour / time.Microsecond)
		first := submit(t, kind, slow)
		submit(t, kind, slow)
		submit(t, kind, 50)
		if err := busy.q.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		busy.run(t, &bridge.RunOptions{Workers: 1})
		<-first.Started()
		if s := memoryStats(t, memory); s.Processing < 3 {
			t.Fatalf("nothing was claimed ahead: %+v", s)
		}
		idle.run(t, &bridge.RunOptions{Workers: 2})
		time.Sleep(time.Second)
		if s := memoryStats(t, memory); s.Processing != 2 || s.Pending != 0 {
			t.Errorf("two slow jobs and two consumers: %+v", s)
		}
		if n := busy.q.Counters().Released; n != 2 {
			t.Errorf("%d claims were given back, want the two behind the slow one", n)
		}
	})

	bubble(t, "what was claimed ahead of jobs that became slow, but end, is run by others too", func(t *testing.T) {
		memory := durable.NewMemory(nil)
		busy, idle := setupOn(t, memory, nil), setupOn(t, memory, nil)
		slowStore(busy, time.Millisecond)
		work := func(_ context.Context, d *bridge.Delivery[int]) error {
			time.Sleep(time.Duration(d.Value) * time.Microsecond)
			return nil
		}
		kind := busy.handle(t, "k", work)
		idle.handle(t, "k", work)
		for range 300 {
			submit(t, kind, 50)
		}
		slow := int(50 * time.Millisecond / time.Microsecond)
		first := submit(t, kind, slow)
		for range 40 {
			submit(t, kind, slow)
		}
		if err := busy.q.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		busy.run(t, &bridge.RunOptions{Workers: 1})
		<-first.Started()
		if s := memoryStats(t, memory); s.Processing < 20 {
			t.Fatalf("little was claimed ahead: %+v", s)
		}
		idle.run(t, &bridge.RunOptions{Workers: 20})
		time.Sleep(500 * time.Millisecond) // one worker needs two seconds
		if s := memoryStats(t, memory); s.Counters["completed"] != 341 {
			t.Errorf("%+v", s)
		}
	})

	bubble(t, "what was claimed ahead goes back at once at a stop", func(t *testing.T) {
		b := setup(t, nil)
		slowStore(b, time.Millisecond)
		gate := make(chan struct{})
		kind := b.handle(t, "k", func(_ context.Context, d *bridge.Delivery[int]) error {
			if time.Sleep(50 * time.Microsecond); d.Value == 300 {
				<-gate
			}
			return nil
		})
		for i := range 340 {
			submit(t, kind, i)
		}
		if err := b.q.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.run(t, &bridge.RunOptions{Workers: 1, Grace: time.Minute})
		time.Sleep(90 * time.Millisecond)
		before := memoryStats(t, b.memory)
		if before.Processing < 2 {
			t.Fatalf("nothing was claimed ahead: %+v", before)
		}
		b.stop()
		time.Sleep(10 * time.Millisecond)
		if s := memoryStats(t, b.memory); s.Processing != 1 || s.Pending != before.Pending+before.Processing-1 {
			t.Errorf("before the stop %+v, soon after it %+v", before, s)
		}
		close(gate)
		if err := <-b.ran; err != nil {
			t.Error(err)
		}
	})

	bubble(t, "order is kept", func(t *testing.T) {
		b := setup(t, nil)
		slowStore(b, time.Millisecond)
		var got []int
		kind := b.handle(t, "k", func(_ context.Context, d *bridge.Delivery[int]) error {
			time.Sleep(50 * time.Microsecond)
			got = append(got, d.Value)
			return nil
		})
		for i := range 500 {
			submit(t, kind, i)
		}
		b.run(t, &bridge.RunOptions{Workers: 1})
		time.Sleep(time.Second)
		synctest.Wait()
		for i, v := range got {
			if v != i {
				t.Fatalf("job %d came as number %d", v, i)
			}
		}
		if len(got) != 500 {
			t.Errorf("%d jobs ran", len(got))
		}
	})
}
