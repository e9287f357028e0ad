package main

import (
	"context"
	"errors"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// likePond is the usual program around pond.
//
//	pool := pond.NewPool(8, pond.WithQueueSize(1024))
//	defer pool.StopAndWait()
//	group := pool.NewGroupContext(ctx)
//	for _, name := range files.names {
//		group.SubmitErr(func() error {       // blocks while the queue is full
//			n, err := files.count(name)
//			got.add(n)
//			return err
//		})
//	}
//	return group.Wait()                      // the first error; the rest is cancelled
//
// What is different: a task gets the context that ends with its group, Submit says whether the
// task was accepted, waiting for the group has a limit of its own, and capacity counts
// running tasks too.
func likePond(ctx context.Context, files *folder, got *total) (err error) {
	pool, err := local.NewPool(&local.PoolOptions{Workers: 8, Capacity: 8 + 1024})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shutdown(ctx, pool)) }()
	group := pool.Group(ctx, &local.GroupOptions{CancelOnError: true})
	for _, name := range files.names {
		_, err := group.Submit(ctx, func(ctx context.Context) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			n, err := files.count(name)
			got.add(n)
			return err
		}, policy.Wait(maxWait))
		if err != nil {
			return errors.Join(err, group.Wait(ctx))
		}
	}
	return group.Wait(ctx)
}
