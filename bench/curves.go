package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redisproc"
)

// manyQueues is one process that produces to and consumes many queues of one store.
func manyQueues(ctx context.Context, t *task) (*outcome, error) {
	e, err := engineOf(t.Side)
	if err != nil {
		return nil, err
	}
	rdb := redis.NewClient(&redis.Options{Addr: t.Addr, PoolSize: 1})
	defer rdb.Close() //nolint:errcheck // nothing of it is kept
	before, err := connections(ctx, rdb)
	if err != nil {
		return nil, err
	}
	goroutines := runtime.NumGoroutine()
	store, err := e.store(&env{addr: t.Addr, load: t.Load, trips: t.trips})
	if err != nil {
		return nil, err
	}
	handled := newCountdown(t.Load.Jobs)
	queues := make([]*weirQueue, t.Load.Queues)
	for i := range queues {
		if queues[i], err = newWeir(e.on(store, fmt.Sprintf("bench-%d", i), backlog)); err != nil {
			return nil, err
		}
		if err := queues[i].consume(ctx, t.Load.Workers, func([]byte) { handled.hit() }); err != nil {
			return nil, err
		}
	}
	// All are at rest when each has a consumer: it takes one round trip after another.
	if err := waitFor(ctx, func() (bool, error) {
		return registered(ctx, rdb, t.Load.Queues)
	}); err != nil {
		return nil, err
	}
	atRest, err := connections(ctx, rdb)
	if err != nil {
		return nil, err
	}
	goroutines = runtime.NumGoroutine() - goroutines
	m, err := newMeter(ctx, t)
	if err != nil {
		return nil, err
	}
	var next atomic.Int64
	payload := randomPayload(t.Load.Payload)
	err = produce(ctx, t.Load.Producers, t.Load.Jobs, func(ctx context.Context) error {
		return queues[int(next.Add(1))%len(queues)].submit(ctx, payload)
	})
	if err != nil {
		return nil, err
	}
	if err := handled.wait(ctx); err != nil {
		return nil, err
	}
	o, err := m.stop(ctx, t.Load.Jobs)
	if err != nil {
		return nil, err
	}
	o.set("goroutines/queue", float64(goroutines)/float64(t.Load.Queues))
	o.set("connections/queue", (atRest-before)/float64(t.Load.Queues))
	return o, nil
}

func connections(ctx context.Context, rdb *redis.Client) (n float64, err error) {
	info, err := rdb.Info(ctx, "clients").Result()
	for line := range strings.Lines(info) {
		_, _ = fmt.Sscanf(line, "connected_clients:%g", &n)
	}
	return n, err
}

// registered tells whether there are that many queues with a consumer that waits for jobs.
func registered(ctx context.Context, rdb *redis.Client, queues int) (bool, error) {
	info, err := rdb.Info(ctx, "clients").Result()
	if err != nil {
		return false, err
	}
	var blocked int
	for line := range strings.Lines(info) {
		_, _ = fmt.Sscanf(line, "blocked_clients:%d", &blocked)
	}
	return blocked >= queues, nil
}

// waitFor asks until it is so.
func waitFor(ctx context.Context, so func() (bool, error)) error {
	tick := time.NewTicker(settleCheck)
	defer tick.Stop()
	for {
		if yes, err := so(); yes || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// consumerRow names the task of a process that only consumes.
const consumerRow = "consumer"

// consumeOnly consumes until its standard input ends.
func consumeOnly(ctx context.Context, t *task) (*outcome, error) {
	q, err := openQueue(t)
	if err != nil {
		return nil, err
	}
	var n atomic.Int64
	if err := q.consume(ctx, t.Load.Workers, func([]byte) { n.Add(1) }); err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, t.in); err != nil {
		return nil, err
	}
	return &outcome{Jobs: int(n.Load()), Seconds: 1}, nil
}

// consumer is a child that consumes.
type consumer struct {
	process *redisproc.Process
	stdin   io.Closer
}

func startConsumer(t *task) (*consumer, error) {
	child := *t
	child.Row = consumerRow
	input, err := json.Marshal(&child)
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	p, err := spawn(io.MultiReader(bufio.NewReader(strings.NewReader(string(input))), r), io.Discard)
	if err != nil {
		return nil, err
	}
	return &consumer{process: p, stdin: w}, nil
}

func (c *consumer) stop(ctx context.Context) error {
	_ = c.stdin.Close()
	select {
	case <-c.process.Done():
	case <-ctx.Done():
		c.process.Kill()
	}
	if code := c.process.ExitCode(); code != 0 {
		return fmt.Errorf("a consumer ended with %d: %s", code, c.process.Output())
	}
	return nil
}

// manyProcesses is one process that produces, and several that consume. It stops the clock when nothing is left.
func manyProcesses(ctx context.Context, t *task) (*outcome, error) {
	q, err := openQueue(t)
	if err != nil {
		return nil, err
	}
	consumers := make([]*consumer, t.Load.Processes)
	for i := range consumers {
		if consumers[i], err = startConsumer(t); err != nil {
			return nil, err
		}
	}
	e, err := engineOf(t.Side)
	if err != nil {
		return nil, err
	}
	store, err := e.store(&env{addr: t.Addr, load: t.Load, trips: &trips{}})
	if err != nil {
		return nil, err
	}
	view := e.on(store, "bench", backlog)
	stats := func() (durable.Stats, error) { return view.Stats(ctx) }
	if err := waitFor(ctx, func() (bool, error) {
		s, err := stats()
		return s.Consumers >= int64(t.Load.Processes), err
	}); err != nil {
		return nil, err
	}
	m, err := newMeter(ctx, t)
	if err != nil {
		return nil, err
	}
	payload := randomPayload(t.Load.Payload)
	err = produce(ctx, t.Load.Producers, t.Load.Jobs, func(ctx context.Context) error { return q.submit(ctx, payload) })
	if err != nil {
		return nil, err
	}
	if err := q.flush(ctx); err != nil {
		return nil, err
	}
	if err := waitFor(ctx, func() (bool, error) {
		s, err := stats()
		return s.Pending+s.Processing+s.Scheduled == 0, err
	}); err != nil {
		return nil, err
	}
	o, err := m.stop(ctx, t.Load.Jobs)
	if err != nil {
		return nil, err
	}
	for _, c := range consumers {
		err = errors.Join(err, c.stop(ctx))
	}
	return o, err
}
