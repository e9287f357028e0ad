package local_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// A pool with room for two tasks, one of which can run.
func ExamplePool() {
	pool, err := local.NewPool(&local.PoolOptions{Workers: 1, Capacity: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	begun, end := make(chan struct{}), make(chan struct{})
	first, err := pool.Submit(ctx, func(context.Context) error { close(begun); <-end; return nil }, policy.Reject())
	fmt.Println("first:", err)
	second, err := pool.Submit(ctx, func(context.Context) error { return errors.New("no such file") }, policy.Reject())
	fmt.Println("second:", err)

	<-begun
	_, err = pool.Submit(ctx, func(context.Context) error { return nil }, policy.Wait(time.Millisecond))
	fmt.Println("third:", errors.Is(err, policy.ErrFull))
	fmt.Println(first.State(), second.State())

	close(end)
	fmt.Println(first.Wait(ctx))
	fmt.Println(second.Wait(ctx))
	report, err := pool.Shutdown(ctx)
	fmt.Println(len(report.Returned), "handed back,", err)
	// Output:
	// first: <nil>
	// second: <nil>
	// third: true
	// processing accepted
	// <nil>
	// local: job task-2 ended as dead: no such file
	// 0 handed back, <nil>
}

// What could not be begun in time comes back, task by task.
func ExamplePool_Shutdown() {
	pool, err := local.NewPool(&local.PoolOptions{Workers: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	long, err := pool.TrySubmit(func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	fmt.Println(err)
	<-long.Started()
	_, err = pool.TrySubmit(func(context.Context) error { fmt.Println("done by its owner"); return nil })
	fmt.Println(err)

	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	report, err := pool.Shutdown(ctx)
	fmt.Println(len(report.Returned), "handed back,", err)
	fmt.Println(long.Err())
	for _, task := range report.Returned {
		fmt.Println(task.Ticket.State())
		fmt.Println(task.Do(context.Background()))
	}
	// Output:
	// <nil>
	// <nil>
	// 1 handed back, <nil>
	// local: job task-1 ended as cancelled: local: stopping
	// abandoned
	// done by its owner
	// <nil>
}

// The first error of many tasks, and no more work than needed after it.
func ExampleGroup() {
	pool, err := local.NewPool(&local.PoolOptions{Workers: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	group := pool.Group(ctx, &local.GroupOptions{CancelOnError: true})
	for _, name := range []string{"a", "b", "", "c"} {
		_, err := group.Submit(ctx, func(ctx context.Context) error {
			if name == "" {
				return errors.New("no name")
			}
			<-ctx.Done() // would go on for long
			return ctx.Err()
		}, policy.Wait(time.Second))
		if err != nil {
			fmt.Println(err)
		}
		if err := pool.Resize(4); err != nil { // at any time
			fmt.Println(err)
		}
	}
	fmt.Println(group.Wait(ctx))
	_, err = pool.Shutdown(ctx)
	fmt.Println(err)
	// Output:
	// local: job task-3 ended as dead: no name
	// <nil>
}

// Values and one handler. On a durable queue the constructors are bridge.Open and bridge.NewKind.
func ExampleKind() {
	pool, err := local.NewPool(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	type email struct{ To string }
	welcome := local.NewKind[email](pool, "welcome", nil)
	err = welcome.Handle(func(_ context.Context, d *local.Delivery[email]) error {
		fmt.Println(d.Kind, d.Value.To, d.Attempt)
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	ctx := context.Background()
	ticket, err := welcome.Submit(ctx, email{To: "nobody@example.org"}, policy.Wait(time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ticket.Wait(ctx))
	_, err = pool.Shutdown(ctx)
	fmt.Println(err)
	// Output:
	// welcome nobody@example.org 1
	// <nil>
	// <nil>
}

// A consumer of another queue is paused while this one is full, and goes on once half of it
// has drained.
func ExampleFrontOptions_marks() {
	front, err := local.NewFront(&local.FrontOptions[int]{
		Capacity: 4,
		Marks:    policy.Marks{High: 1, Low: 0.5},
		Full: func(full bool) {
			if full {
				fmt.Println("pause")
			} else {
				fmt.Println("go on")
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	for job := range 5 {
		_, err := front.Admit(ctx, job, 0, policy.DropIncoming())
		fmt.Println("job", job, err)
	}
	for range 4 {
		fmt.Println("release")
		front.Release(front.TryTake(nil, 1, 0)...)
	}
	// Output:
	// job 0 <nil>
	// job 1 <nil>
	// job 2 <nil>
	// pause
	// job 3 <nil>
	// job 4 <nil>
	// release
	// release
	// go on
	// release
	// release
}
