package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/examples/internal/scene"
)

// parent starts the others and compares what they say. It takes no part itself.
type parent struct {
	producers, consumers, jobs int

	*scene.Narrator
	server *scene.Server
	queue  string
	list   *durable.List // for a look at the queue
	deep   int64         // the most that was seen waiting
}

// child is one process and what it told at the end.
type child struct {
	*scene.Process
	sums sums
}

func (p *parent) play(ctx context.Context, redisURL string, out io.Writer) (err error) {
	if p.server, err = scene.Open(redisURL, scene.Launch); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.server.Close()) }()
	store, err := durable.NewRedis(p.server.Client, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	p.Narrator, p.queue = scene.NewNarrator(out), p.server.Queue("fanin")
	p.list = store.List(p.queue, nil)
	p.Say("%s\n\n", p.server.Banner)

	var children []*child
	defer func() {
		for _, c := range children {
			c.Close()
		}
	}()
	start := func(role string, n int, args ...string) error {
		c, err := scene.Start(role+" "+strconv.Itoa(n), p.server.URL, append([]string{role, "-queue", p.queue}, args...)...)
		if err == nil {
			children = append(children, &child{Process: c})
		}
		return err
	}
	for n := range p.consumers {
		if err := start("consumer", n+1); err != nil {
			return err
		}
	}
	for n := range p.producers {
		if err := start("producer", n+1, "-number", strconv.Itoa(n), "-jobs", strconv.Itoa(p.jobs)); err != nil {
			return err
		}
	}
	consumers, producers := children[:p.consumers], children[p.consumers:]

	// Nobody begins before all consumers are there, so that the shares mean something.
	if err := p.until(ctx, func(s durable.Stats) bool { return int(s.Consumers) == p.consumers }); err != nil {
		return err
	}
	begun := time.Now()
	for _, c := range producers {
		if err := c.Tell("begin"); err != nil {
			return err
		}
	}
	if err := p.finish(ctx, producers); err != nil {
		return err
	}
	p.Say("%d producers had all in Redis after %v; then the consumers go on until nothing is left\n",
		p.producers, time.Since(begun).Round(time.Millisecond))
	idle := func(s durable.Stats) bool { return s.Pending+s.Scheduled+s.Processing == 0 }
	if err := p.until(ctx, idle); err != nil {
		return err
	}
	took := time.Since(begun)
	p.Say("nothing is left after %v, %.0f documents a second\n\n", took.Round(time.Millisecond), float64(p.producers*p.jobs)/took.Seconds())
	for _, c := range consumers {
		if err := c.HangUp(); err != nil {
			return err
		}
	}
	if err := p.finish(ctx, consumers); err != nil {
		return err
	}
	return p.account(ctx, producers, consumers)
}

// until looks at the queue until it is as it should be.
func (p *parent) until(ctx context.Context, good func(durable.Stats) bool) error {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		s, err := p.list.Stats(ctx)
		if err != nil {
			return err
		}
		p.deep = max(p.deep, s.Pending)
		if good(s) {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("the queue has %d pending, %d processing, %d consumers: %w",
				s.Pending, s.Processing, s.Consumers, context.Cause(ctx))
		}
	}
}

// finish hears the sums of children and waits for their end, and looks at the queue meanwhile.
func (p *parent) finish(ctx context.Context, children []*child) error {
	heard := make(chan error, len(children))
	for _, c := range children {
		go func() { heard <- c.finish(ctx) }()
	}
	var err error
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for left := len(children); left > 0; {
		select {
		case e := <-heard:
			left--
			err = errors.Join(err, e)
		case <-look.C:
			if s, e := p.list.Stats(ctx); e == nil {
				p.deep = max(p.deep, s.Pending)
			}
		}
	}
	return err
}

func (c *child) finish(ctx context.Context) error {
	text, err := c.Expect(ctx, saysSums)
	if err == nil {
		err = json.Unmarshal([]byte(text), &c.sums)
	}
	return errors.Join(err, c.Wait(ctx))
}

// account adds up.
func (p *parent) account(ctx context.Context, producers, consumers []*child) error {
	var in, out sums
	for _, c := range producers {
		p.Say("%-12s (process %7d) says %s\n", c.Name, c.PID, &c.sums)
		in.merge(c.sums)
	}
	both := 0
	for _, c := range consumers {
		p.Say("%-12s (process %7d) says %s\n", c.Name, c.PID, &c.sums)
		both += out.merge(c.sums)
	}
	p.Say("%-12s %17s      %s\n", "in", "", &in)
	p.Say("%-12s %17s      %s\n", "out", "", &out)

	total := int64(p.producers * p.jobs)
	missing := 0
	for producer := range p.producers {
		for n := range p.jobs {
			if !out.has(producer, n) {
				missing++
			}
		}
	}
	even := float64(total) / float64(p.consumers)
	least, most := out.Documents, int64(0)
	for _, c := range consumers {
		least, most = min(least, c.sums.Documents), max(most, c.sums.Documents)
	}
	p.Say("\nshares of the consumers: %.0f %% to %.0f %% of an even one\n", 100*float64(least)/even, 100*float64(most)/even)

	account := in.Account
	account.Merge(out.Account)
	p.Say("%s", account.Table())
	p.Claim(in.Documents == total && out.Documents == total, "documents: %d made, %d in, %d out", total, in.Documents, out.Documents)
	p.Claim(in.Bytes == out.Bytes, "bytes: %d in, %d out", in.Bytes, out.Bytes)
	p.Claim(in.Checksums == out.Checksums, "sums of the checksums: %016x in, %016x out", in.Checksums, out.Checksums)
	p.Claim(missing == 0, "documents that no consumer had: %d", missing)

	p.Claim(out.Twice == 0 && out.Repeated == 0,
		"documents that were had more than once: %d, %d of them by two consumers; deliveries after the first: %d", out.Twice, both, out.Repeated)
	// With a handful for each, chance decides.
	p.Claim(float64(least) >= even/4 || even < 100, "no consumer had less than a quarter of an even share: %d of %.0f", least, even)
	p.Claim(p.deep <= maxBacklog, "the most that was seen waiting in Redis: %d, bound %d", p.deep, maxBacklog)
	p.Claim(account.Balanced(), "the accounts of %d processes add up", len(producers)+len(consumers))
	left, err := p.list.Stats(ctx)
	if err != nil {
		return err
	}
	p.Claim(left.Pending+left.Scheduled+left.Processing+left.Dead+left.Corrupt == 0 && left.Consumers == 0,
		"left in Redis: %d jobs, %d consumers", left.Pending+left.Scheduled+left.Processing+left.Dead+left.Corrupt, left.Consumers)
	return p.End()
}
