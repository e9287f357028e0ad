package local_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// A front of two: each call says what it wants when both slots are held.
func ExampleFront() {
	front, err := local.NewFront(&local.FrontOptions[string]{
		Capacity: 2,
		Evicted:  func(job string) { fmt.Println("evicted:", job) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	submit := func(job string, p policy.Policy) {
		accepted, err := front.Admit(ctx, job, int64(len(job)), p)
		if rej, ok := errors.AsType[*policy.Rejection](err); ok {
			fmt.Println(job, "refused:", rej.Reason)
			return
		}
		fmt.Println(job, "accepted:", accepted)
	}
	submit("a", policy.Reject())
	submit("b", policy.Reject())
	submit("c", policy.Reject())
	submit("d", policy.DropIncoming())
	submit("e", policy.DropOldest())

	// The other side: what is taken holds its slot until it is released.
	slots, err := front.Take(ctx, nil, 10, 1<<20)
	fmt.Println("took", len(slots), err)
	submit("f", policy.Wait(time.Millisecond))
	front.Release(slots...)
	submit("g", policy.Wait(time.Millisecond))
	// Output:
	// a accepted: true
	// b accepted: true
	// c refused: full
	// d accepted: false
	// evicted: a
	// e accepted: true
	// took 2 <nil>
	// f refused: timeout
	// g accepted: true
}

// The owner of a job keeps the promise, the producer the ticket.
func ExampleTicket() {
	type job struct {
		local.Promise
		address string
	}
	j := &job{address: "nobody@example.org"}
	j.Init("job-1")
	ticket := j.Ticket()
	fmt.Println(ticket.State())

	j.MarkEnqueued()
	fmt.Println(ticket.WaitEnqueued(context.Background()), ticket.State())

	j.MarkStarted()
	<-ticket.Started()
	fmt.Println(ticket.State())

	j.End(local.Dead, errors.New("no such address: "+j.address))
	err := ticket.Wait(context.Background())
	fmt.Println(errors.Is(err, local.ErrDead), err)
	// Output:
	// accepted
	// <nil> enqueued
	// processing
	// true local: job job-1 ended as dead: no such address: nobody@example.org
}
