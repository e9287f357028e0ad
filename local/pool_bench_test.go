package local_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// The pool stands beside what it would cost without one: a channel with as many workers on
// it, and with a channel to wait on for each task, as a ticket has it.

func noTask(context.Context) error { return nil }

var benchWorkers = []int{2, 16, 100}

// BenchmarkPool is a task from Submit to its end, by 16 producers that wait for room.
func BenchmarkPool(b *testing.B) {
	for _, workers := range benchWorkers {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			p := newPool(b, &local.PoolOptions{Workers: workers, Capacity: 1024})
			produceTasks(b, func(ctx context.Context) error {
				_, err := p.Submit(ctx, noTask, policy.Wait(patience))
				return err
			}, func() {
				if _, err := p.Shutdown(context.Background()); err != nil {
					b.Error(err)
				}
			})
			if s := p.Stats(); s.Completed != int64(b.N) {
				b.Errorf("%+v", s)
			}
		})
	}
}

// BenchmarkPoolGo is the same without tickets.
func BenchmarkPoolGo(b *testing.B) {
	for _, workers := range benchWorkers {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			p := newPool(b, &local.PoolOptions{Workers: workers, Capacity: 1024})
			produceTasks(b, func(ctx context.Context) error {
				return p.Go(ctx, noTask, policy.Wait(patience))
			}, func() {
				if _, err := p.Shutdown(context.Background()); err != nil {
					b.Error(err)
				}
			})
			if s := p.Stats(); s.Completed != int64(b.N) {
				b.Errorf("%+v", s)
			}
		})
	}
}

func BenchmarkPoolBaselineChannel(b *testing.B) {
	for _, workers := range benchWorkers {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			tasks := make(chan func(context.Context) error, 1024)
			var wg sync.WaitGroup
			for range workers {
				wg.Go(func() {
					for fn := range tasks {
						if fn(context.Background()) != nil {
							b.Error("not done")
						}
					}
				})
			}
			produceTasks(b, func(context.Context) error {
				tasks <- noTask
				return nil
			}, func() {
				close(tasks)
				wg.Wait()
			})
		})
	}
}

// The obvious pool with a handle: a result channel for each task.
func BenchmarkPoolBaselineChannelAndHandle(b *testing.B) {
	type handle struct {
		fn   func(context.Context) error
		done chan struct{}
		err  error
	}
	for _, workers := range benchWorkers {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			tasks := make(chan *handle, 1024)
			var wg sync.WaitGroup
			for range workers {
				wg.Go(func() {
					for h := range tasks {
						h.err = h.fn(context.Background())
						close(h.done)
					}
				})
			}
			produceTasks(b, func(context.Context) error {
				tasks <- &handle{fn: noTask, done: make(chan struct{})}
				return nil
			}, func() {
				close(tasks)
				wg.Wait()
			})
		})
	}
}

// produceTasks shares b.N submissions between 16 goroutines, and waits for the end of all.
func produceTasks(b *testing.B, submit func(context.Context) error, finish func()) {
	b.Helper()
	var producers sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for i := range 16 {
		producers.Go(func() {
			ctx := context.Background()
			for range b.N/16 + min(1, max(0, b.N%16-i)) {
				if err := submit(ctx); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	producers.Wait()
	finish()
}

// BenchmarkPoolReject is the answer of a full pool.
func BenchmarkPoolReject(b *testing.B) {
	p := newPool(b, &local.PoolOptions{Workers: 1, Capacity: 1})
	end := make(chan struct{})
	if _, err := p.TrySubmit(func(context.Context) error { <-end; return nil }); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if _, errSink = p.TrySubmit(noTask); errSink == nil {
			b.Fatal("accepted")
		}
	}
	b.StopTimer()
	close(end)
}

// BenchmarkPoolWait is a task that is waited for, one after the other.
func BenchmarkPoolWait(b *testing.B) {
	p := newPool(b, &local.PoolOptions{Workers: 2})
	ctx := context.Background()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		t, err := p.Submit(ctx, noTask, policy.Wait(patience))
		if err == nil {
			err = t.Wait(ctx)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
