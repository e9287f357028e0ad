package durabletest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
)

// A job is seen where it is sent and not yet stored, without sleeping.
func ExampleGate() {
	ctx := context.Background()
	gate := durabletest.NewGate(durable.NewMemory(nil))
	producer, err := gate.OpenProducer(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}

	gate.Hold(durabletest.OpAppend)
	done := make(chan error)
	go func() {
		_, err := producer.Append(ctx, 1, []*durable.Job{{ID: "a"}})
		done <- err
	}()
	if err := gate.Held(ctx, durabletest.OpAppend); err != nil {
		fmt.Println(err)
		return
	}
	stats, err := gate.Stats(ctx)
	fmt.Println("held:", stats.Pending, err)

	gate.Release(durabletest.OpAppend)
	fmt.Println("released:", <-done)
	stats, err = gate.Stats(ctx)
	fmt.Println("after:", stats.Pending, err)

	// Output:
	// held: 0 <nil>
	// released: <nil>
	// after: 1 <nil>
}

// The answer to the first append is lost; asked again under the same number, it is stored
// once all the same.
func ExampleFaulty() {
	ctx := context.Background()
	faulty := durabletest.NewFaulty(durable.NewMemory(nil), durabletest.Script(map[durabletest.Op][]durabletest.Fault{
		durabletest.OpAppend: {{Action: durabletest.Lose}},
	}))
	defer func() { _ = faulty.Close() }()
	producer, err := faulty.OpenProducer(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}

	_, err = producer.Append(ctx, 1, []*durable.Job{{ID: "a"}})
	fmt.Println("in doubt:", errors.Is(err, durable.ErrInDoubt))
	appended, err := producer.Append(ctx, 1, []*durable.Job{{ID: "a"}})
	fmt.Println("taken:", appended.Taken, err)
	stats, err := faulty.Stats(ctx)
	fmt.Println("pending:", stats.Pending, err)

	// Output:
	// in doubt: true
	// taken: 1 <nil>
	// pending: 1 <nil>
}
