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
