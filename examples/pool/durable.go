package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

const (
	// maxWait is how long a caller waits for room.
	maxWait = 10 * time.Second
	// stopWithin bounds the end of a pool or a queue.
	stopWithin = 10 * time.Second
)

// onPool and onQueue are one program with two constructors. What a handler gets is called
// Delivery in both packages, with the same fields.
//
//	pool, err := local.NewPool(…)                  queue, err := bridge.Open(store.List("words", nil), …)
//	kind := local.NewKind[string](pool, …)         kind := bridge.NewKind[string](queue, …)
//	kind.Handle(func(ctx, d *local.Delivery…       kind.Handle(func(ctx, d *bridge.Delivery…
//	go pool.Run(ctx, nil)                          go queue.Run(ctx, nil)
//	kind.Submit(ctx, value, policy)                kind.Submit(ctx, value, policy)
//	pool.Shutdown(ctx)                             queue.Shutdown(ctx)
func onPool(ctx context.Context, files *folder, got *total) error {
	pool, err := local.NewPool(nil)
	if err != nil {
		return err
	}
	kind := local.NewKind[string](pool, "count", nil)
	err = kind.Handle(func(_ context.Context, d *local.Delivery[string]) error { return files.handle(d.Value, got) })
	return errors.Join(err, serve(ctx, pool, kind, files.names), shutdown(ctx, pool))
}

// onQueue uses the engine in memory, so that it needs no Redis. A job that runs a second time
// would be counted a second time: on a store that outlives its processes, that is what
// Deliveries and the job's ID are for.
func onQueue(ctx context.Context, files *folder, got *total) error {
	queue, err := bridge.Open(durable.NewMemory(nil), nil)
	if err != nil {
		return err
	}
	kind := bridge.NewKind[string](queue, "count", nil)
	err = kind.Handle(func(_ context.Context, d *bridge.Delivery[string]) error { return files.handle(d.Value, got) })
	err = errors.Join(err, serve(ctx, queue, kind, files.names))
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	_, endErr := queue.Shutdown(ending)
	return errors.Join(err, endErr)
}

func (s *folder) handle(name string, got *total) error {
	n, err := s.count(name)
	if err == nil {
		got.add(n)
	}
	return err
}

// submitter and runner are what is used of a Kind and of what it belongs to.
type submitter interface {
	Submit(ctx context.Context, name string, p policy.Policy) (*local.Ticket, error)
}

type runner[Options any] interface {
	Run(ctx context.Context, o *Options) error
}

// serve has all names counted. It does not know by what.
func serve[Options any](ctx context.Context, queue runner[Options], kind submitter, names []string) error {
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- queue.Run(running, nil) }()
	err := submit(ctx, kind, names)
	stop()
	return errors.Join(err, <-ended)
}

func submit(ctx context.Context, kind submitter, names []string) error {
	tickets := make([]*local.Ticket, 0, len(names))
	for _, name := range names {
		ticket, err := kind.Submit(ctx, name, policy.Wait(maxWait))
		if err != nil {
			return err
		}
		tickets = append(tickets, ticket)
	}
	for _, ticket := range tickets {
		if err := ticket.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// shutdown ends a pool that has nothing left to do.
func shutdown(ctx context.Context, pool *local.Pool) error {
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	report, err := pool.Shutdown(ending)
	if err == nil && len(report.Returned) > 0 {
		err = fmt.Errorf("%d tasks were handed back", len(report.Returned))
	}
	return err
}
