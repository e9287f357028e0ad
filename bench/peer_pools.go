package main

import (
	"context"
	"sync"

	"github.com/alitto/pond/v2"
	"github.com/gammazero/workerpool"
	"github.com/panjf2000/ants/v2"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// Each pool is made for one task, so that none pays for a closure that another does not need.

type localPool struct {
	p    *local.Pool
	task func(context.Context) error
}

func openLocalPool(workers int, task func()) (pool, error) {
	p, err := local.NewPool(&local.PoolOptions{Workers: workers, Capacity: poolRoom})
	return localPool{p, func(context.Context) error { task(); return nil }}, err
}

func (l localPool) run() error { return l.p.Go(context.Background(), l.task, policy.Wait(patience)) }

// localPoolSubmit is localPool with a ticket for each task.
type localPoolSubmit struct{ localPool }

func openLocalPoolSubmit(workers int, task func()) (pool, error) {
	p, err := openLocalPool(workers, task)
	if err != nil {
		return nil, err
	}
	return localPoolSubmit{p.(localPool)}, nil
}

func (l localPoolSubmit) run() error {
	_, err := l.p.Submit(context.Background(), l.task, policy.Wait(patience))
	return err
}

func (l localPool) stop() error {
	_, err := l.p.Shutdown(context.Background())
	return err
}

type antsPool struct {
	p    *ants.Pool
	task func()
}

func openAnts(workers int, task func()) (pool, error) {
	p, err := ants.NewPool(workers, ants.WithPreAlloc(true), ants.WithDisablePurge(true))
	return antsPool{p, task}, err
}

func (a antsPool) run() error { return a.p.Submit(a.task) }

func (a antsPool) stop() error {
	a.p.Release()
	return nil
}

type pondGo struct {
	p    pond.Pool
	task func()
}

func openPondGo(workers int, task func()) (pool, error) {
	return pondGo{pond.NewPool(workers, pond.WithQueueSize(poolRoom)), task}, nil
}

func (p pondGo) run() error { return p.p.Go(p.task) }

func (p pondGo) stop() error {
	p.p.StopAndWait()
	return nil
}

type pondSubmit struct{ pondGo }

func openPondSubmit(workers int, task func()) (pool, error) {
	return pondSubmit{pondGo{pond.NewPool(workers, pond.WithQueueSize(poolRoom)), task}}, nil
}

func (p pondSubmit) run() error {
	p.p.Submit(p.task)
	return nil
}

type gammazero struct {
	p    *workerpool.WorkerPool
	task func()
}

func openWorkerpool(workers int, task func()) (pool, error) {
	return gammazero{workerpool.New(workers), task}, nil
}

func (g gammazero) run() error {
	g.p.Submit(g.task)
	return nil
}

func (g gammazero) stop() error {
	g.p.StopWait()
	return nil
}

type channelPool struct {
	tasks   chan func()
	task    func()
	workers sync.WaitGroup
}

func openChannel(workers int, task func()) (pool, error) {
	c := &channelPool{tasks: make(chan func(), poolRoom), task: task}
	for range workers {
		c.workers.Go(func() {
			for task := range c.tasks {
				task()
			}
		})
	}
	return c, nil
}

func (c *channelPool) run() error {
	c.tasks <- c.task
	return nil
}

func (c *channelPool) stop() error {
	close(c.tasks)
	c.workers.Wait()
	return nil
}

// poolWait is one producer that waits for each of its tasks.
var poolWait = among(func() []contestant { return waiters })

var waiters = []contestant{
	{weir, func(n int, l *laps) error {
		p, err := local.NewPool(&local.PoolOptions{Workers: 2})
		if err != nil {
			return err
		}
		ctx := context.Background()
		err = l.time(func() error {
			for range n {
				t, err := p.Submit(ctx, func(context.Context) error { return nil }, policy.Wait(patience))
				if err == nil {
					err = t.Wait(ctx)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		_, err = p.Shutdown(ctx)
		return err
	}},
	{"pond Submit", func(n int, l *laps) error {
		p := pond.NewPool(2)
		defer p.StopAndWait()
		return l.time(func() error {
			for range n {
				if err := p.Submit(nothing).Wait(); err != nil {
					return err
				}
			}
			return nil
		})
	}},
	{"channel", func(n int, l *laps) error {
		tasks := make(chan func())
		defer close(tasks)
		for range 2 {
			go func() {
				for task := range tasks {
					task()
				}
			}()
		}
		return l.time(func() error {
			for range n {
				done := make(chan struct{})
				tasks <- func() { close(done) }
				<-done
			}
			return nil
		})
	}},
}
