package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/policy"
)

// endWithin bounds what a child does after its work.
const endWithin = 10 * time.Second

// produce is a producer process. It begins when a line comes in.
func produce(ctx context.Context, args []string, redisURL string, in io.Reader, out io.Writer) (err error) {
	flags := flag.NewFlagSet("fanin producer", flag.ContinueOnError)
	name := flags.String("queue", "", "the queue")
	number := flags.Int("number", 0, "which producer it is")
	jobs := flags.Int("jobs", 0, "how many documents to make")
	if err := flags.Parse(args); err != nil {
		return err
	}
	queue, err := open(redisURL, *name, &bridge.Options{Capacity: capacity})
	if err != nil {
		return err
	}
	kind := bridge.NewKind[document](queue, "document", nil)
	if _, err := bufio.NewReader(in).ReadString('\n'); err != nil {
		return fmt.Errorf("nobody said when to begin: %w", err)
	}

	var mine sums
	for n := range *jobs {
		d := newDocument(*number, n)
		// Waits for as long as the queue is full: this is what slows the producer down.
		if _, err = kind.SubmitJob(ctx, bridge.Job[document]{ID: d.id(), Value: d}, policy.Wait(within)); err != nil {
			break
		}
		mine.add(d)
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	err = errors.Join(err, queue.Flush(ending)) // all that was accepted is in Redis now
	stats, statsErr := queue.Stats(ending)
	report, downErr := queue.Shutdown(ending)
	if err := errors.Join(err, statsErr, downErr); err != nil {
		return err
	}
	if left := len(report.Returned) + len(report.Uncertain); left > 0 {
		return fmt.Errorf("%d documents were handed back", left)
	}
	mine.Account.Add(stats)
	line, err := mine.line()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, line)
	return err
}
