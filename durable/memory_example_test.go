package durable_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

// What a bridge does with an engine: append, claim, settle, each under its number.
func ExampleMemory() {
	ctx := context.Background()
	queue := durable.NewMemory(&durable.MemoryOptions{Name: "mail", MaxBacklog: 1000})
	producer, err := queue.OpenProducer(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	consumer, err := queue.OpenConsumer(ctx, 30*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}

	appended, err := producer.Append(ctx, 1, []*durable.Job{{ID: "42", Kind: "welcome", Payload: []byte("ada@example.org")}})
	fmt.Println("appended:", appended.Taken, err)
	claimed, err := consumer.Claim(ctx, durable.ClaimRequest{N: 1, Slots: 10, MaxBytes: 1 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, c := range claimed.Jobs {
		fmt.Printf("run %s %s: %s\n", c.Kind, c.ID, c.Payload)
		settled, err := consumer.Settle(ctx, uint64(i+1), []durable.Outcome{
			{Ref: durable.Ref{ID: c.ID, Token: c.Token}, Verdict: durable.Done},
		})
		fmt.Println("completed:", settled.Codes[0] == durable.CodeOK, err)
	}

	// Output:
	// appended: 1 <nil>
	// run welcome 42: ada@example.org
	// completed: true <nil>
}
