// Command telemetry measures in a hot loop that must never wait, loses most of what it measures,
// and knows exactly what it has lost.
//
//	go run ./examples/telemetry [-samples 40000]
//
// A loop hashes blocks and takes the time of each, for three owners: http, db and cache. That is
// many times more samples than the collector behind the queue can take, and nobody may slow the
// loop down for them. So each sample is submitted twice, to two queues with the same bounds:
// one drops the oldest sample in memory for the new one, the other drops the new one.
//
//  1. The loop runs, and the collector works as fast as it can.
//  2. The collector goes away and the loop runs on: first the backlog in Redis fills up, then the
//     front in memory. From then on each sample costs one, the oldest or itself.
//  3. The loop ends, the collector comes back and takes what there is.
//
// What to look at: three ways to count what was lost agree to the last sample, for each owner: its
// own tickets, the event hook, and the queue's counters. The newest samples survive with
// DropOldest and none of them with DropIncoming. And the totals still add up: the application
// knows the number and the sum of what its collector never saw.
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

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/examples/internal/scene"
	"github.com/seed-9dec4fca/weir/policy"
)

// The bounds of each queue. The front holds more than the 256 jobs that may be on their way to
// Redis and out of reach of DropOldest; else it could find nothing to drop.
const (
	capacity   = 1024
	maxBacklog = 512
)

// newest is how many samples at the end are looked at: fewer than are within DropOldest's reach.
const newest = 500

// within bounds the whole program.
const within = 50 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv("REDIS_URL"), os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "telemetry:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, redisURL string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("telemetry", flag.ContinueOnError)
	samples := flags.Int("samples", 40_000, "how many to take while the collector works, 1,000 to 1,000,000")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *samples < 1000 || *samples > 1_000_000 {
		return fmt.Errorf("-samples is %d, not between 1,000 and 1,000,000", *samples)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	server, err := scene.Open(redisURL, scene.Embed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	store, err := durable.NewRedis(server.Client, nil)
	if err != nil {
		return err
	}

	s := &story{Narrator: scene.NewNarrator(out), probe: newProbe()}
	for _, p := range []policy.Policy{policy.DropOldest(), policy.DropIncoming()} {
		engine := store.List(server.Queue("telemetry-"+p.String()), &durable.ListOptions{MaxBacklog: maxBacklog})
		l, err := newLane(engine, p)
		if err != nil {
			return err
		}
		s.lanes = append(s.lanes, l)
	}
	s.Say("%s\n\n", server.Banner)
	err = s.play(ctx, *samples)
	for _, l := range s.lanes {
		err = errors.Join(err, l.close())
	}
	if err != nil {
		return err
	}
	return s.account()
}

// story is one run: the loop and the two queues it feeds.
type story struct {
	*scene.Narrator
	probe *probe
	lanes []*lane
}

func (s *story) play(ctx context.Context, samples int) error {
	stop, err := s.collect(ctx)
	if err != nil {
		return err
	}
	begun := time.Now()
	s.loop(samples)
	took := time.Since(begun)
	s.Say("1. The collector works: %d samples in %v, %.0f a second\n", samples, took.Round(time.Millisecond), float64(samples)/took.Seconds())
	s.progress()

	if err := stop(); err != nil {
		return err
	}
	for full := false; !full; {
		s.loop(1000)
		if full, err = s.full(ctx); err != nil {
			return err
		}
	}
	before := s.probe.taken
	s.loop(5000)
	s.Say("2. The collector is away: after %d more samples all is full, and there came %d on top\n", before-samples, s.probe.taken-before)
	s.progress()

	stop, err = s.collect(ctx)
	if err != nil {
		return err
	}
	for _, l := range s.lanes {
		if err := l.settle(ctx); err != nil {
			return errors.Join(err, stop())
		}
	}
	if err := stop(); err != nil {
		return err
	}
	s.Say("3. The collector is back and has taken what there was\n")
	s.progress()
	return nil
}

// loop is the hot loop. It waits for nothing.
func (s *story) loop(samples int) {
	for range samples {
		owner, m := s.probe.take()
		for _, l := range s.lanes {
			l.emit(owner, m)
		}
	}
}

// full tells whether nothing more fits anywhere.
func (s *story) full(ctx context.Context) (bool, error) {
	for _, l := range s.lanes {
		stats, err := l.queue.Stats(ctx)
		if err != nil || stats.Front.Length < capacity || stats.Durable.Pending < maxBacklog {
			return false, err
		}
	}
	return true, nil
}

// collect starts the collectors of both queues.
func (s *story) collect(ctx context.Context) (stop func() error, err error) {
	for _, l := range s.lanes {
		if err := l.queue.Check(ctx); err != nil {
			return nil, err
		}
	}
	working, cancel := context.WithCancel(ctx)
	ended := make(chan error, len(s.lanes))
	for _, l := range s.lanes {
		go func() { ended <- l.queue.Run(working, &bridge.RunOptions{Workers: 64}) }()
	}
	return func() error {
		cancel()
		var err error
		for range s.lanes {
			err = errors.Join(err, <-ended)
		}
		return err
	}, nil
}

func (s *story) progress() {
	for _, l := range s.lanes {
		front, c := l.front(), l.queue.Counters()
		s.Say("     %-14s accepted %6d, evicted %6d, dropped %6d, collected %6d\n",
			l.policy, front.Accepted, front.Evicted, front.Dropped, c.Completed)
	}
}
