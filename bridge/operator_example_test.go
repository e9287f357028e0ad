package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/policy"
)

// A job that has died is found, and sent back to the queue.
func ExampleQueue_Operator() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	queue, err := bridge.Open(durable.NewMemory(&durable.MemoryOptions{Name: "mail"}), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	mended := false
	welcome := bridge.NewKind(queue, "welcome", &bridge.KindOptions[string]{Retention: time.Hour})
	err = welcome.Handle(func(context.Context, *bridge.Delivery[string]) error {
		if !mended {
			return bridge.Permanent(errors.New("no such template"))
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() { _ = queue.Run(ctx, nil) }()
	ticket, err := welcome.SubmitJob(ctx, bridge.Job[string]{ID: "hello-1", Value: "ann@example.org"}, policy.Reject())
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = ticket.Wait(ctx)

	op := queue.Operator()
	job, err := op.Lookup(ctx, "hello-1")
	fmt.Println(job.State, job.Reason, err)

	mended = true
	done, err := op.Redrive(ctx, durable.Selection{Filter: durable.Filter{Reason: "template"}})
	fmt.Println("redriven", done.IDs, err)
	for job.State != durable.StateCompleted && ctx.Err() == nil {
		job, err = op.Lookup(ctx, "hello-1") // a ticket has one end; the second life has none here
	}
	fmt.Println(job.State, job.Deliveries, "deliveries", err)

	if _, err := queue.Shutdown(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// dead no such template <nil>
	// redriven [hello-1] <nil>
	// completed 2 deliveries <nil>
}
