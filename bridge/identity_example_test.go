package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// One import of a customer's data at a time: whoever asks for another one meanwhile gets a ticket for the one that is there.
func ExampleJob_unique() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	q, err := bridge.Open(durable.NewMemory(nil), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	imports := bridge.NewKind[string](q, "import", nil)
	if err := imports.Handle(func(_ context.Context, d *bridge.Delivery[string]) error {
		return d.SetResult([]byte("imported "+d.Value), 0)
	}); err != nil {
		fmt.Println(err)
		return
	}
	var tickets []*bridge.Ticket
	for _, id := range []string{"import-1", "import-2"} {
		ticket, err := imports.SubmitJob(ctx, bridge.Job[string]{
			ID: id, Value: id + " of north", Unique: durable.Unique{Key: "import north"},
		}, policy.Wait(time.Second))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(ticket.WaitEnqueued(ctx))
		tickets = append(tickets, ticket)
	}
	go func() { _ = q.Run(ctx, nil) }()
	for _, ticket := range tickets {
		err := ticket.Wait(ctx)
		fmt.Printf("%s: %q, %v, a duplicate of %q\n", ticket.ID(), ticket.Result(), err, ticket.Duplicate())
	}
	_, err = q.Shutdown(ctx)
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
	// import-1: "imported import-1 of north", <nil>, a duplicate of ""
	// import-2: "imported import-1 of north", <nil>, a duplicate of "import-1"
	// <nil>
}

// What nobody waits for any more is not run.
func ExampleJob_expiry() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	q, err := bridge.Open(durable.NewMemory(nil), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	quotes := bridge.NewKind[string](q, "quote", nil)
	if err := quotes.Handle(func(_ context.Context, d *bridge.Delivery[string]) error {
		fmt.Println("a quote for", d.Value)
		return nil
	}); err != nil {
		fmt.Println(err)
		return
	}
	ticket, err := quotes.SubmitJob(ctx, bridge.Job[string]{ID: q.NewID(), Value: "tea", Expiry: time.Millisecond}, policy.Wait(time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	<-ticket.Enqueued()
	<-time.After(10 * time.Millisecond) // the workers come late
	go func() { _ = q.Run(ctx, nil) }()
	fmt.Println(errors.Is(ticket.Wait(ctx), local.ErrExpired))
	_, err = q.Shutdown(ctx)
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

// A job that runs is cancelled: its handler is told, and what it makes of that counts.
func ExampleQueue_Cancel() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	q, err := bridge.Open(durable.NewMemory(nil), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	reports := bridge.NewKind[string](q, "report", nil)
	if err := reports.Handle(func(ctx context.Context, d *bridge.Delivery[string]) error {
		if err := d.Progress([]byte("half")); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err() // nil would say that it is done all the same
	}); err != nil {
		fmt.Println(err)
		return
	}
	go func() { _ = q.Run(ctx, nil) }()
	ticket, err := reports.Submit(ctx, "2026", policy.Wait(time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	report, next := ticket.Progress()
	for report == nil {
		<-next
		report, next = ticket.Progress()
	}
	cancelled, err := q.Cancel(ctx, ticket.ID())
	fmt.Println("was running:", cancelled.Running, err)
	err = ticket.Wait(ctx)
	fmt.Printf("%v, %v, progress %q\n", ticket.State(), errors.Is(err, bridge.ErrCancelled), report)
	_, err = q.Cancel(ctx, ticket.ID())
	fmt.Println("again:", errors.Is(err, durable.ErrNoJob))
	_, err = q.Shutdown(ctx)
	fmt.Println(err)
	// Output:
	// was running: true <nil>
	// cancelled, true, progress "half"
	// again: true
	// <nil>
}
