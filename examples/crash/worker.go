package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
)

// What a worker says of a job, each followed by its ID.
const (
	saysHolding   = "holding "       // it has been charged, and the completion has not been sent
	saysLost      = "context ended " // of the handler, with the cause behind
	saysCompleted = "completed "     // Redis confirmed it
	saysStale     = "stale "         // Redis refused it: the claim was somebody else's by then
)

// work is a worker process. It reports on out, and ends in order when in does.
func work(ctx context.Context, args []string, redisURL string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("crash worker", flag.ContinueOnError)
	name := flags.String("queue", "", "the queue")
	dir := flags.String("books", "", "the folder with the ledger and the receipts")
	if err := flags.Parse(args); err != nil {
		return err
	}
	opts, err := redis.ParseURL(redisURL)
	if err != nil {
		return fmt.Errorf("REDIS_URL: %w", err)
	}
	client := redis.NewClient(opts)
	defer client.Close() //nolint:errcheck // only its address is used
	store, err := durable.NewRedis(client, nil)
	if err != nil {
		return err
	}

	var mu sync.Mutex // events come from several goroutines
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(out, format+"\n", args...) //nolint:errcheck // nobody left to tell
	}
	queue, err := bridge.Open(store.List(*name, nil), &bridge.Options{OnEvent: func(e bridge.Event) {
		switch e.Type {
		case bridge.EventCompleted:
			say("%s%s %d", saysCompleted, e.ID, e.Deliveries)
		case bridge.EventStale:
			say("%s%s %d", saysStale, e.ID, e.Deliveries)
		default:
		}
	}})
	if err != nil {
		return err
	}

	working, stop := context.WithCancel(ctx)
	defer stop()
	goOn := make(chan struct{})
	go func() { // ends with in, which the story closes, also by dying
		for lines := bufio.NewScanner(in); lines.Scan(); {
			select {
			case goOn <- struct{}{}:
			case <-working.Done():
			}
		}
		stop()
	}()

	books := books{*dir}
	charge := bridge.NewKind[order](queue, "charge", nil)
	err = charge.Handle(func(ctx context.Context, d *bridge.Delivery[order]) error {
		defer context.AfterFunc(ctx, func() { say("%s%s: %v", saysLost, d.ID, context.Cause(ctx)) })()
		if err := books.charge(d); err != nil {
			return err
		}
		// The moment of the story. This handler is one that does not look at its context.
		say("%s%s", saysHolding, d.ID)
		select {
		case <-goOn:
			return nil
		case <-working.Done():
			return errors.New("the story ended")
		}
	})
	if err != nil {
		return err
	}
	err = queue.Run(working, &bridge.RunOptions{Workers: 1, Lease: lease})
	_, downErr := queue.Shutdown(context.Background()) // nothing is in memory: it does not wait
	return errors.Join(err, downErr)
}
