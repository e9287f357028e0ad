package durable_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
)

// A queue on a server, who may use it, and whether the server is fit for it. The list is what
// bridge.Open takes.
func ExampleNewRedis() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer func() { _ = rdb.Close() }()
	store, err := durable.NewRedis(rdb, &durable.RedisOptions{Timeout: 5 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	mail := store.List("mail", &durable.ListOptions{MaxBacklog: 50_000})
	defer func() { _ = mail.Close() }()

	// For an ACL file, or ACL SETUSER: the keys and commands of this queue, and nothing else.
	fmt.Println("user", mail.ACLRule("mailer"))

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	warnings, err := mail.Inspect(ctx)
	for _, warning := range warnings {
		fmt.Println("doubtful:", warning)
	}
	fmt.Println("usable:", err == nil, err) // a *durable.CheckError says all that is wrong at once
}

// A queue with priorities: what is urgent overtakes what came at most ten minutes before it, and what is not is never
// starved. It is what bridge.Open takes, as a list is.
func ExampleRedis_SortedSet() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer func() { _ = rdb.Close() }()
	store, err := durable.NewRedis(rdb, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	mail := store.SortedSet("mail", &durable.SortedSetOptions{Ageing: time.Minute})
	defer func() { _ = mail.Close() }()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	producer, err := mail.OpenProducer(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	appended, err := producer.Append(ctx, 1, []*durable.Job{
		{ID: "1", Kind: "newsletter", Payload: []byte("ann@example.org")},
		{ID: "2", Kind: "password-reset", Payload: []byte("bob@example.org"), Priority: 10}, // is claimed first
	})
	fmt.Println("appended:", appended.Taken, err)
}

// Two groups on one stream: each does every job, and an entry goes when both have done it. What any
// client adds with XADD is a job like any other. A stream is what bridge.Open takes, as a list is.
func ExampleRedis_Stream() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer func() { _ = rdb.Close() }()
	store, err := durable.NewRedis(rdb, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	mail := store.Stream("orders", &durable.StreamOptions{Group: "mail", MaxBacklog: 50_000})
	defer func() { _ = mail.Close() }()
	audit := store.Stream("orders", &durable.StreamOptions{Group: "audit", MaxBacklog: 50_000})
	defer func() { _ = audit.Close() }()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	rdb.XAdd(ctx, &redis.XAddArgs{Stream: "{orders}:stream", Values: []string{"payload", "order 42", "kind", "placed"}})
	groups, err := mail.Groups(ctx)
	for _, g := range groups {
		fmt.Println(g.Name, "has", g.Pending, "in hand;", g.Lag, "to come, where", durable.Unknown, "is unknown")
	}
	fmt.Println(err)
}
