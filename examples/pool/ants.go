package main

import (
	"context"
	"errors"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// likeAnts is the usual program around ants.
//
//	pool, err := ants.NewPool(8)
//	…
//	defer pool.Release()
//	var wg sync.WaitGroup
//	for _, name := range files.names {
//		wg.Add(1)
//		err := pool.Submit(func() {          // blocks without a limit, whoever calls it
//			defer wg.Done()
//			n, err := files.count(name)
//			if err != nil {
//				…                            // to a place of your own, under a lock
//			}
//			got.add(n)
//		})
//		if err != nil {
//			wg.Done()
//			…
//		}
//	}
//	wg.Wait()
//
// What is different: the task returns its error, a panic is an error too, the wait for room has
// a limit, and Release, which waits for nobody, has become a Shutdown that does, and hands back
// what it could not wait for.
func likeAnts(ctx context.Context, files *folder, got *total) (err error) {
	pool, err := local.NewPool(&local.PoolOptions{Workers: 8, Policy: policy.Wait(maxWait)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shutdown(ctx, pool)) }()
	var tickets []*local.Ticket
	for _, name := range files.names {
		ticket, err := pool.Submit(ctx, func(context.Context) error {
			n, err := files.count(name)
			got.add(n)
			return err
		}, policy.Policy{})
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

// likeAntsNonblocking is the program that would rather do the work itself than wait.
//
//	pool, err := ants.NewPool(8, ants.WithNonblocking(true))
//	…
//	if err := pool.Submit(task); errors.Is(err, ants.ErrPoolOverload) {
//		task()
//	}
//
// What is different: there can be a queue before the pool is full, and whether to wait is
// said at the call and not by the pool.
func likeAntsNonblocking(ctx context.Context, files *folder, got *total) (err error) {
	pool, err := local.NewPool(&local.PoolOptions{Workers: 8, Capacity: 16})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shutdown(ctx, pool)) }()
	group := pool.Group(ctx, nil)
	for _, name := range files.names {
		task := func(context.Context) error {
			n, err := files.count(name)
			got.add(n)
			return err
		}
		_, err := group.Submit(ctx, task, policy.Reject())
		if errors.Is(err, policy.ErrFull) {
			err = task(ctx)
		}
		if err != nil {
			return errors.Join(err, group.Wait(ctx))
		}
	}
	return group.Wait(ctx)
}
