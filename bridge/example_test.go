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

type Email struct{ To string }

// A whole life in one process. In earnest the engine is a list in Redis; this one is in memory.
func ExampleQueue() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	q, err := bridge.Open(durable.NewMemory(nil), &bridge.Options{Capacity: 100})
	if err != nil {
		fmt.Println(err)
		return
	}
	welcome := bridge.NewKind[Email](q, "welcome", nil)
	if err := welcome.Handle(func(_ context.Context, d *bridge.Delivery[Email]) error {
		fmt.Println("welcome,", d.Value.To)
		return nil
	}); err != nil {
		fmt.Println(err)
		return
	}
	ran := make(chan error, 1)
	go func() { ran <- q.Run(ctx, &bridge.RunOptions{Workers: 4}) }()

	ticket, err := welcome.Submit(ctx, Email{To: "ada"}, policy.Wait(50*time.Millisecond))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("completed:", ticket.Wait(ctx) == nil)

	report, err := q.Shutdown(ctx)
	fmt.Println("came back:", len(report.Returned), "error:", err)
	fmt.Println("run:", <-ran)
	// Output:
	// welcome, ada
	// completed: true
	// came back: 0 error: <nil>
	// run: <nil>
}

// When there is no room the error says so, and when to try again.
func ExampleKind_Submit() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	// The store has room for one job, the front for one more; and nobody works.
	store := durable.NewMemory(&durable.MemoryOptions{MaxBacklog: 1})
	q, err := bridge.Open(store, &bridge.Options{Capacity: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	mail := bridge.NewKind[Email](q, "mail", nil)
	stored, err := mail.TrySubmit(Email{To: "ada"})
	fmt.Println("first:", err, stored.WaitEnqueued(ctx))
	if err := q.Flush(ctx); err != nil {
		fmt.Println(err)
	}
	waiting, err := mail.TrySubmit(Email{To: "bob"})
	fmt.Println("second:", err, waiting.State())

	_, err = mail.Submit(ctx, Email{To: "eve"}, policy.Reject())
	if rejection, ok := errors.AsType[*policy.Rejection](err); ok && errors.Is(err, policy.ErrFull) {
		fmt.Println("third:", rejection.Reason, rejection.Depth, "of", rejection.Capacity, "later:", rejection.RetryAfter > 0)
	}
	dropped, err := mail.Submit(ctx, Email{To: "eve"}, policy.DropIncoming())
	fmt.Println("fourth:", err, dropped.State())

	ctx, cancel = context.WithTimeout(ctx, time.Second)
	defer cancel()
	report, err := q.Shutdown(ctx)
	for _, back := range report.Returned {
		fmt.Println("came back:", string(back.Payload), err)
	}
	// Output:
	// first: <nil> <nil>
	// second: <nil> accepted
	// third: full 1 of 1 later: true
	// fourth: <nil> dropped
	// came back: {"To":"bob"} <nil>
}

// A producer and a consumer use the same kind; the ID makes a second submission harmless.
func ExampleKind_SubmitJob() {
	ctx := context.Background()
	q, err := bridge.Open(durable.NewMemory(nil), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	invoices := bridge.NewKind(q, "invoice", &bridge.KindOptions[int]{
		Retry:   policy.Retry{MaxAttempts: 5},
		Timeout: time.Minute,
	})
	job := bridge.Job[int]{
		ID:      "invoice-2026-0042",
		Value:   42,
		Headers: map[string]string{"tenant": "north"},
	}
	for range 2 {
		ticket, err := invoices.SubmitJob(ctx, job, policy.Wait(time.Second))
		if err != nil {
			fmt.Println(err)
			return
		}
		err = ticket.WaitEnqueued(ctx)
		fmt.Println(ticket.State(), err, "a duplicate:", ticket.Duplicate() != "")
	}
	_, err = q.Shutdown(ctx)
	fmt.Println(err)
	// Output:
	// enqueued <nil> a duplicate: false
	// enqueued <nil> a duplicate: true
	// <nil>
}

// Many at once: each is decided by itself, and the wait is for all together.
func ExampleKind_SubmitMany() {
	ctx := context.Background()
	// The store takes one and has it, the front takes two more; and nobody works.
	q, err := bridge.Open(durable.NewMemory(&durable.MemoryOptions{MaxBacklog: 1}), &bridge.Options{Capacity: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	mail := bridge.NewKind[Email](q, "mail", nil)
	_, err = mail.TrySubmit(Email{To: "ada"})
	fmt.Println(err, q.Flush(ctx))

	everybody := []Email{{To: "bob"}, {To: "cid"}, {To: "dan"}, {To: "eve"}}
	var later []Email
	for i, one := range mail.SubmitMany(ctx, everybody, policy.Wait(50*time.Millisecond)) {
		if errors.Is(one.Err, policy.ErrFull) {
			later = append(later, everybody[i]) // still ours
		} else if one.Err != nil {
			fmt.Println(one.Err)
		}
	}
	fmt.Println("later:", later)

	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	report, err := q.Shutdown(ctx)
	fmt.Println("came back:", len(report.Returned), err)
	// Output:
	// <nil> <nil>
	// later: [{dan} {eve}]
	// came back: 2 <nil>
}

// Many with IDs of their own; what was submitted before is a duplicate, whose ticket follows the first.
func ExampleKind_SubmitJobs() {
	ctx := context.Background()
	q, err := bridge.Open(durable.NewMemory(nil), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	invoices := bridge.NewKind[int](q, "invoice", nil)
	for _, one := range invoices.SubmitJobs(ctx, []bridge.Job[int]{
		{ID: "invoice-41", Value: 41},
		{ID: "invoice-42", Value: 42, Delay: time.Hour},
		{ID: "invoice-41", Value: 41},
	}, policy.Wait(time.Second)) {
		if one.Err != nil {
			fmt.Println(one.Err)
			continue
		}
		err := one.Ticket.WaitEnqueued(ctx)
		fmt.Println(one.Ticket.ID(), one.Ticket.State(), err, one.Ticket.Duplicate() != "")
	}
	_, err = q.Shutdown(ctx)
	fmt.Println(err)
	// Output:
	// invoice-41 enqueued <nil> false
	// invoice-42 enqueued <nil> false
	// invoice-41 enqueued <nil> true
	// <nil>
}

// The producer's view of a job: its states, and its end.
func ExampleTicket() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	q, err := bridge.Open(durable.NewMemory(nil), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	kind := bridge.NewKind[string](q, "charge", nil)
	if err := kind.Handle(func(_ context.Context, d *bridge.Delivery[string]) error {
		if d.Value == "" {
			return bridge.Permanent(errors.New("no account"))
		}
		return nil
	}); err != nil {
		fmt.Println(err)
		return
	}
	var tickets []*bridge.Ticket
	for _, account := range []string{"ada", ""} {
		ticket, err := kind.TrySubmit(account)
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := ticket.WaitEnqueued(ctx); err != nil { // nil: the store has it
			fmt.Println(err)
		}
		fmt.Println(ticket.State())
		tickets = append(tickets, ticket)
	}

	ran := make(chan error, 1)
	go func() { ran <- q.Run(ctx, nil) }()
	for _, ticket := range tickets {
		err := ticket.Wait(ctx) // nil: completed
		cause := errors.Unwrap(err)
		fmt.Println(ticket.State(), errors.Is(err, local.ErrDead), cause)
	}
	if _, err := q.Shutdown(ctx); err != nil {
		fmt.Println(err)
	}
	<-ran
	// Output:
	// enqueued
	// enqueued
	// completed false <nil>
	// dead true no account
}

// What a handler sees, and what it may answer.
func ExampleDelivery() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	q, err := bridge.Open(durable.NewMemory(nil), &bridge.Options{
		Retry: policy.Retry{Initial: time.Millisecond, Max: 10 * time.Millisecond},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	thumbnail := bridge.NewKind[string](q, "thumbnail", nil)
	if err := thumbnail.Handle(func(_ context.Context, d *bridge.Delivery[string]) error {
		fmt.Printf("%s %s: attempt %d, delivery %d\n", d.ID, d.Value, d.Attempt, d.Deliveries)
		switch d.Deliveries {
		case 1:
			return errors.New("disk is full") // again after a delay; an attempt is charged
		case 2:
			return bridge.Snooze(time.Millisecond) // again later; nothing is charged
		default:
			return nil
		}
	}); err != nil {
		fmt.Println(err)
		return
	}
	ran := make(chan error, 1)
	go func() { ran <- q.Run(ctx, nil) }()
	ticket, err := thumbnail.SubmitJob(ctx, bridge.Job[string]{ID: "t1", Value: "cat.png"}, policy.Reject())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ticket.Wait(ctx))
	if _, err := q.Shutdown(ctx); err != nil {
		fmt.Println(err)
	}
	<-ran
	// Output:
	// t1 cat.png: attempt 1, delivery 1
	// t1 cat.png: attempt 2, delivery 2
	// t1 cat.png: attempt 2, delivery 3
	// <nil>
}

// Middleware goes around every handler: for tracing, metrics, or to refuse.
func ExampleMiddleware() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	trace := func(next bridge.Handler) bridge.Handler {
		return func(ctx context.Context, d *bridge.Delivery[[]byte]) error {
			fmt.Println("begin", d.Kind, d.Headers["trace"])
			err := next(ctx, d)
			fmt.Println("end", err)
			return err
		}
	}
	q, err := bridge.Open(durable.NewMemory(nil), &bridge.Options{Middleware: []bridge.Middleware{trace}})
	if err != nil {
		fmt.Println(err)
		return
	}
	kind := bridge.NewKind[int](q, "count", nil)
	if err := kind.Handle(func(context.Context, *bridge.Delivery[int]) error { return nil }); err != nil {
		fmt.Println(err)
		return
	}
	ran := make(chan error, 1)
	go func() { ran <- q.Run(ctx, nil) }()
	ticket, err := kind.SubmitJob(ctx, bridge.Job[int]{ID: q.NewID(), Headers: map[string]string{"trace": "4bf9"}}, policy.Reject())
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := ticket.Wait(ctx); err != nil {
		fmt.Println(err)
	}
	if _, err := q.Shutdown(ctx); err != nil {
		fmt.Println(err)
	}
	<-ran
	// Output:
	// begin count 4bf9
	// end <nil>
}
