// Command quickstart checksums the files below a folder, with more work offered than
// can be done, and shows what becomes of every job.
//
//	go run ./examples/quickstart [-dir folder] [-policy wait|reject|drop|drop-oldest] [-for 3s]
//
// It uses the Redis that REDIS_URL names, under a name of its own that it cleans up. Without
// REDIS_URL it brings a small Redis along, in this process: the same client, the same
// scripts, the same blocking commands, but nothing survives the process.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/examples/internal/scene"
	"github.com/seed-9dec4fca/weir/policy"
)

// drainWithin bounds the time from the last submission until all is done.
const drainWithin = 25 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv("REDIS_URL"), os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// run is the program. Its context ends the offering; what was accepted by then is still
// seen through.
func run(ctx context.Context, args []string, redisURL string, out io.Writer) (err error) {
	opts, err := parse(args)
	if err != nil {
		return err
	}
	folder, err := openFolder(opts.dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	server, err := scene.Open(redisURL, scene.Embed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	screen := newScreen(out)
	screen.say("%s\n%d blocks, %s, below %s\n\n", server.Banner, len(folder.blocks), folder.size(), opts.dir)

	// A small front and a small backlog, so that both fill up.
	watch := newWatch()
	store, err := durable.NewRedis(server.Client, nil)
	if err != nil {
		return err
	}
	queue, err := bridge.Open(
		store.List(server.Queue("quickstart"), &durable.ListOptions{MaxBacklog: 1024}),
		&bridge.Options{Capacity: 256, OnEvent: watch.event},
	)
	if err != nil {
		return err
	}
	p := &plan{queue: queue, folder: folder, sums: newSums(), sites: opts.sites(), watch: watch, screen: screen}
	stats, workErr := p.work(ctx, opts.offerFor)

	ending, cancel := context.WithTimeout(context.Background(), drainWithin)
	defer cancel()
	report, err := queue.Shutdown(ending)
	if err := errors.Join(workErr, err); err != nil {
		return err
	}
	if left := len(report.Returned) + len(report.Uncertain); left > 0 {
		return fmt.Errorf("%d jobs were handed back at the end", left)
	}
	screen.say("%s%s%s%s", p.sums.line(folder), callSites(p.sites), jobs(stats, p.sites), watch.latencies())
	return errors.Join(screen.err, disagreements(stats, p.sites))
}

// plan is what one run does, and with what.
type plan struct {
	queue  *bridge.Queue
	folder *folder
	sums   *sums
	sites  []*site
	watch  *watch
	screen *screen
}

// work offers blocks from every site at once, has them done, and returns the queue's
// account when all is quiet.
func (p *plan) work(ctx context.Context, offerFor time.Duration) (bridge.Stats, error) {
	kind := bridge.NewKind[block](p.queue, "sha256", &bridge.KindOptions[block]{
		Retry: policy.Retry{MaxAttempts: 3, Initial: 50 * time.Millisecond},
	})
	err := kind.Handle(func(ctx context.Context, d *bridge.Delivery[block]) error {
		sum, err := p.folder.sum(ctx, d.Value)
		if err == nil {
			p.sums.add(d.Value, sum)
		}
		return err
	})
	if err != nil {
		return bridge.Stats{}, err
	}
	if err := p.queue.Check(ctx); err != nil { // Run checks too, but here nothing has been said yet
		return bridge.Stats{}, err
	}

	working, stopWorking := context.WithCancel(context.Background())
	defer stopWorking()
	var workers sync.WaitGroup
	var workErr error
	workers.Go(func() { workErr = p.queue.Run(working, nil) })

	offering, stopOffering := context.WithTimeout(ctx, offerFor)
	defer stopOffering()
	progress := p.screen.follow(p.queue, p.sites)
	var producers sync.WaitGroup
	for _, s := range p.sites {
		producers.Go(func() { s.offer(offering, p.queue, kind, p.folder.blocks, p.watch) })
	}
	producers.Wait()

	// No more is coming. First everything accepted gets to Redis, then it is done: an empty
	// queue alone would not mean that.
	draining, cancel := context.WithTimeout(context.Background(), drainWithin)
	defer cancel()
	err = p.queue.Flush(draining)
	for _, s := range p.sites {
		err = errors.Join(err, s.settle(draining))
	}
	stopWorking()
	workers.Wait()
	progress.stop()
	stats, statsErr := p.queue.Stats(draining)
	return stats, errors.Join(err, workErr, statsErr)
}

type options struct {
	dir      string
	policy   string
	offerFor time.Duration
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.StringVar(&o.dir, "dir", ".", "checksum the files below this folder; links are not followed")
	flags.StringVar(&o.policy, "policy", "", "wait, reject, drop or drop-oldest, for all producers (default: each has its own)")
	flags.DurationVar(&o.offerFor, "for", 3*time.Second, "offer work for this long, at most 20s")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.offerFor <= 0 || o.offerFor > 20*time.Second:
		return o, fmt.Errorf("-for is %v, not between 0 and 20s", o.offerFor)
	}
	if _, ok := policies[o.policy]; o.policy != "" && !ok {
		return o, fmt.Errorf("-policy %q is none of wait, reject, drop, drop-oldest", o.policy)
	}
	return o, nil
}
