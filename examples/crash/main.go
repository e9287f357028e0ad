// Command crash kills and freezes its own workers in the middle of a job, and shows step by
// step where the job is.
//
//	go run ./examples/crash
//
// Two orders are to be charged, each by a worker that is another process: this program again.
// Charging writes a line into a ledger, a file outside Redis. Then comes the worst moment there
// is: the effect has happened and its completion has not been sent.
//
//  1. In that moment order-1's worker gets a kill -9. Its lease runs out, another worker
//     notices, takes the job back and runs it again, with deliveries = 2.
//  2. In that moment order-2's worker is frozen (kill -STOP) for longer than its lease. When it
//     goes on, it says that it has finished, but the job is somebody else's by then: Redis
//     refuses the late completion by its token, and nothing changes.
//
// What to look at: the ID is in exactly one place at every step. The ledger has two lines for
// each order, since at least once means just that; the receipts, which are named after the
// job's ID and made only where there is none, have one. That is how to make repetition harmless.
//
// It needs a real Redis, since it kills processes: REDIS_URL, or a redis-server in PATH, which it
// starts on its own and ends.
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

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/examples/internal/scene"
)

// Bounds: of a worker's silence, here much shorter than the 30 s that are the default; and of
// the whole program.
const (
	lease  = 2 * time.Second
	within = 50 * time.Second
)

// order is the work of one job.
type order struct {
	Customer string `json:"customer"`
	Cents    int    `json:"cents"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv("REDIS_URL"), os.Stdin, os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "crash:", err)
		os.Exit(1)
	}
}

// run is the program: the story without arguments, else the worker that the story starts.
func run(ctx context.Context, args []string, redisURL string, in io.Reader, out io.Writer) error {
	switch {
	case len(args) == 0:
		return tell(ctx, redisURL, out)
	case args[0] == "worker":
		return work(ctx, args[1:], redisURL, in, out)
	}
	return fmt.Errorf("unexpected argument %q", args[0])
}

// tell tells both stories, and whether they came true.
func tell(ctx context.Context, redisURL string, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	server, err := scene.Open(redisURL, scene.Launch)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	dir, err := os.MkdirTemp("", "weir-ledger-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	store, err := durable.NewRedis(server.Client, nil)
	if err != nil {
		return err
	}
	name := server.Queue("crash")
	queue, err := bridge.Open(store.List(name, nil), nil)
	if err != nil {
		return err
	}
	d := &drill{
		Narrator: scene.NewNarrator(out), server: server, books: books{dir}, queue: name,
		charge: bridge.NewKind[order](queue, "charge", nil),
	}
	d.Say("%s\n\n", server.Banner)
	d.Say("At each step Redis is asked, in one MULTI, where the job is and what its record says:\n")
	d.Say("  LPOS    {%s}:pending ID         and :arriving, and :processing:<consumer> of each\n", name)
	d.Say("  ZSCORE  {%s}:scheduled ID       and :dead, :corrupt\n", name)
	d.Say("  HGETALL {%s}:job:ID\n", name)
	d.Say("The lease is %v here, so that the story is short; without a word it is 30 s.\n", lease)

	err = d.killed(ctx)
	if err == nil {
		err = d.frozen(ctx)
	}
	ending, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	stats, statsErr := queue.Stats(ending)
	_, downErr := queue.Shutdown(ending)
	if err := errors.Join(err, statsErr, downErr); err != nil {
		return err
	}
	return d.account(stats)
}

// account is the end: what the whole thing came to.
func (d *drill) account(stats bridge.Stats) error {
	account := scene.Account{Completed: int64(d.completed), Stale: int64(d.stale)}
	account.Add(stats)
	d.Say("%s", account.Table())
	d.Claim(account.Balanced() && account.Completed == 2, "no job was lost: %d enqueued, %d completed", account.Enqueued, account.Completed)
	d.Claim(account.Stale == 1, "late completions that Redis refused: %d", account.Stale)
	d.Claim(d.astray == 0, "at each of %d looks the job was in exactly one place", d.looks)
	durable := stats.Durable
	left := durable.Pending + durable.Scheduled + durable.Processing + durable.Dead + durable.Corrupt
	d.Claim(left == 0, "jobs left in Redis: %d", left)
	return d.End()
}
