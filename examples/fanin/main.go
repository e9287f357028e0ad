// Command fanin has many processes fill one queue and several empty it, and adds up what each of
// them says.
//
//	go run ./examples/fanin [-producers 6] [-consumers 3] [-jobs 400]
//
// Producers and consumers are processes of their own: this program again. Each producer makes
// documents and submits them with a deadline-wait, so it is slowed down to what the consumers
// can take: no more than 256 documents are ever waiting in Redis, and 64 in each producer. Each
// consumer compresses what it gets. At the end every process tells its own sums: how many
// documents, how many bytes, the sum of their checksums; and each consumer also tells
// which documents it had, one bit for each.
//
// What to look at: the parent has counted nothing itself, and yet it adds up: what the producers
// have put in is what the consumers have taken out, each document exactly once, since nothing has
// failed (crash shows what happens when something does). And the consumers have shared evenly,
// though nobody gave them their shares: each takes what it can run.
//
// It needs a real Redis, which several processes can reach: REDIS_URL, or a redis-server in PATH,
// which it starts on its own and ends.
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

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
)

// Bounds: of what waits in Redis, of what waits in one producer, and of the whole program.
const (
	maxBacklog = 256
	capacity   = 64
	within     = 50 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv("REDIS_URL"), os.Stdin, os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "fanin:", err)
		os.Exit(1)
	}
}

// run is the program: the parent, or one of its children.
func run(ctx context.Context, args []string, redisURL string, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if len(args) > 0 {
		switch args[0] {
		case "producer":
			return produce(ctx, args[1:], redisURL, in, out)
		case "consumer":
			return consume(ctx, args[1:], redisURL, in, out)
		}
	}
	p, err := parse(args)
	if err != nil {
		return err
	}
	return p.play(ctx, redisURL, out)
}

func parse(args []string) (*parent, error) {
	p := &parent{}
	flags := flag.NewFlagSet("fanin", flag.ContinueOnError)
	flags.IntVar(&p.producers, "producers", 6, "how many processes produce, 1 to 32")
	flags.IntVar(&p.consumers, "consumers", 3, "how many processes consume, 1 to 16")
	flags.IntVar(&p.jobs, "jobs", 400, "how many documents each producer makes, 1 to 10,000")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		name      string
		n, atMost int
	}{{"-producers", p.producers, 32}, {"-consumers", p.consumers, 16}, {"-jobs", p.jobs, 10_000}} {
		if f.n < 1 || f.n > f.atMost {
			return nil, fmt.Errorf("%s is %d, not between 1 and %d", f.name, f.n, f.atMost)
		}
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return p, nil
}

// open opens the queue in a child process.
func open(redisURL, name string, opts *bridge.Options) (*bridge.Queue, error) {
	address, err := redis.ParseURL(redisURL)
	if err != nil {
		return nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	client := redis.NewClient(address)
	defer client.Close() //nolint:errcheck // only its address is used
	store, err := durable.NewRedis(client, nil)
	if err != nil {
		return nil, err
	}
	return bridge.Open(store.List(name, &durable.ListOptions{MaxBacklog: maxBacklog}), opts)
}
