package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"sync"

	"github.com/seed-9dec4fca/weir/bridge"
)

// consume is a consumer process. It ends in order when its input does.
func consume(ctx context.Context, args []string, redisURL string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("fanin consumer", flag.ContinueOnError)
	name := flags.String("queue", "", "the queue")
	if err := flags.Parse(args); err != nil {
		return err
	}
	queue, err := open(redisURL, *name, nil)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var mine sums
	kind := bridge.NewKind[document](queue, "document", nil)
	err = kind.Handle(func(_ context.Context, d *bridge.Delivery[document]) error {
		if _, err := d.Value.compress(); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		mine.add(d.Value)
		mine.had(d.Value)
		if d.Deliveries > 1 {
			mine.Repeated++
		}
		return nil
	})
	if err != nil {
		return err
	}

	working, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // ends with in, which the parent closes, also by dying
		_, _ = io.Copy(io.Discard, in)
		stop()
	}()
	if err := queue.Run(working, &bridge.RunOptions{Workers: 4}); err != nil {
		return err
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	stats, err := queue.Stats(ending)
	_, downErr := queue.Shutdown(ending)
	if err := errors.Join(err, downErr); err != nil {
		return err
	}
	mine.Account.Add(stats)
	line, err := mine.line()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, line)
	return err
}
