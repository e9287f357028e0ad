// Command httpgate is an HTTP service that renders pictures in the background, and a load test that
// offers it ten times what it can do.
//
//	go run ./examples/httpgate [-for 2s] [-edge 128]
//
//	POST /jobs      202 with Location: /jobs/ID: accepted, not done. 429 with Retry-After: full.
//	                503 with Retry-After: shutting down, or Redis cannot be used.
//	GET /jobs/ID    accepted, enqueued, processing, completed … ; ?wait=5s waits for the end
//	GET /healthz    200 or 503 by Redis's state, with the pressure, which alone makes nobody ill
//
// The client first finds out how many jobs a second the service can do. Then it comes in phases:
// below that; at ten times that; below it again, where whoever is refused comes back after Retry-After;
// and once more with all its might while the service shuts down. What had not reached Redis by
// then is handed back, kept in a file, and submitted again by the next instance.
//
// What to look at: the refusals are quick and the accepted do not take longer the more is offered,
// since every place where jobs wait is bounded. And the counts: each 202 is one picture in the
// end, and no picture is without a 202.
//
// It needs nothing but Go, and uses REDIS_URL if that is set.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// within bounds the whole program.
const within = 55 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv("REDIS_URL"), os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "httpgate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, redisURL string, out io.Writer) error {
	var s story
	flags := flag.NewFlagSet("httpgate", flag.ContinueOnError)
	flags.DurationVar(&s.length, "for", 2*time.Second, "how long each phase takes, 200ms to 5s")
	flags.IntVar(&s.edge, "edge", 128, "edge of a picture in pixels, 1 to 512: how much there is to do")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if s.length < 200*time.Millisecond || s.length > 5*time.Second {
		return fmt.Errorf("-for is %v, not between 200ms and 5s", s.length)
	}
	if s.edge < 1 || s.edge > maxEdge {
		return fmt.Errorf("-edge is %d, not between 1 and %d", s.edge, maxEdge)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return s.play(ctx, redisURL, out)
}
