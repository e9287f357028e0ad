package local_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// Each measured way through the front stands beside what it would cost without one: a
// channel, a semaphore, the two together.

const batch = 256

type job struct{ _ [64]byte }

var errSink error

// BenchmarkAccept is a slot from Admit to Release, taken and released in batches.
func BenchmarkAccept(b *testing.B) {
	f := newFront(b, &local.FrontOptions[*job]{Capacity: batch, Bytes: 1 << 20})
	ctx, j := context.Background(), &job{}
	buf := make([]local.Slot[*job], 0, batch)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if ok, err := f.Admit(ctx, j, 100, policy.Reject()); !ok {
			b.Fatal(err)
		}
		if i%batch == batch-1 {
			buf = f.TryTake(buf[:0], batch, 1<<20)
			f.Release(buf...)
		}
	}
}

// BenchmarkAcceptWithTicket is the same for jobs that have just been made, with their tickets.
func BenchmarkAcceptWithTicket(b *testing.B) {
	f := newFront(b, &local.FrontOptions[*local.Promise]{Capacity: batch, Bytes: 1 << 20})
	ctx, buf := context.Background(), make([]local.Slot[*local.Promise], 0, batch)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		p := new(local.Promise)
		p.Init("id")
		if ok, err := f.Admit(ctx, p, 100, policy.Reject()); !ok {
			b.Fatal(err)
		}
		if i%batch == batch-1 {
			buf = f.TryTake(buf[:0], batch, 1<<20)
			f.Release(buf...)
		}
	}
}

func BenchmarkAcceptBaselineChannel(b *testing.B) {
	jobs, j := make(chan *job, batch), &job{}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		select {
		case jobs <- j:
		default:
			b.Fatal("full")
		}
		if i%batch == batch-1 {
			for range batch {
				<-jobs
			}
		}
	}
}

// The obvious front: a semaphore for bytes, a channel for jobs, a time for each.
func BenchmarkAcceptBaselineSemaphoreAndChannel(b *testing.B) {
	type slot struct {
		job *job
		at  time.Duration
	}
	jobs, bytes, j, start := make(chan slot, batch), semaphore.NewWeighted(1<<20), &job{}, time.Now()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if !bytes.TryAcquire(100) {
			b.Fatal("full")
		}
		jobs <- slot{j, time.Since(start)}
		if i%batch == batch-1 {
			for range batch {
				<-jobs
				bytes.Release(100)
			}
		}
	}
}

// BenchmarkRejectWhenFull is the answer of a full front whose drain rate is known.
func BenchmarkRejectWhenFull(b *testing.B) {
	f := newFront(b, &local.FrontOptions[*job]{Capacity: 2, Bytes: 1 << 20})
	j := &job{}
	mustAdmit(b, f, 100, j, j)
	f.Release(f.TryTake(nil, 1, 0)...)
	mustAdmit(b, f, 100, j)
	ctx := context.Background()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if _, errSink = f.Admit(ctx, j, 100, policy.Reject()); errSink == nil {
			b.Fatal("accepted")
		}
	}
}

func BenchmarkRejectBaselineSemaphore(b *testing.B) {
	slots := semaphore.NewWeighted(1)
	if !slots.TryAcquire(1) {
		b.Fatal("full")
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if slots.TryAcquire(1) {
			b.Fatal("acquired")
		}
		errSink = &policy.Rejection{Reason: policy.ReasonFull}
	}
}

// BenchmarkDropOldest displaces one job by another in a full front.
func BenchmarkDropOldest(b *testing.B) {
	f := newFront(b, &local.FrontOptions[*job]{Capacity: batch, Bytes: 1 << 20, Evicted: func(*job) {}})
	ctx, j := context.Background(), &job{}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if ok, err := f.Admit(ctx, j, 100, policy.DropOldest()); !ok {
			b.Fatal(err)
		}
	}
}

// BenchmarkContended is 16 producers that wait, and one goroutine that takes and releases.
func BenchmarkContended(b *testing.B) {
	f := newFront(b, &local.FrontOptions[*job]{Capacity: 1024, Bytes: 1 << 20})
	produce(b, func(ctx context.Context, j *job) error {
		_, err := f.Admit(ctx, j, 100, policy.Wait(0))
		return err
	}, func(ctx context.Context) {
		var buf []local.Slot[*job]
		for {
			var err error
			if buf, err = f.Take(ctx, buf[:0], batch, 1<<20); err != nil {
				return
			}
			f.Release(buf...)
		}
	})
}

func BenchmarkContendedBaselineChannel(b *testing.B) {
	jobs := make(chan *job, 1024)
	produce(b, func(ctx context.Context, j *job) error {
		select {
		case jobs <- j:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, func(ctx context.Context) {
		for {
			select {
			case <-jobs:
			case <-ctx.Done():
				return
			}
		}
	})
}

func BenchmarkContendedBaselineSemaphoreAndChannel(b *testing.B) {
	jobs, slots := make(chan *job, 1024), semaphore.NewWeighted(1024)
	produce(b, func(ctx context.Context, j *job) error {
		if err := slots.Acquire(ctx, 1); err != nil {
			return err
		}
		jobs <- j
		return nil
	}, func(ctx context.Context) {
		for {
			select {
			case <-jobs:
				slots.Release(1)
			case <-ctx.Done():
				return
			}
		}
	})
}

// produce shares b.N submissions between 16 goroutines while consume runs.
func produce(b *testing.B, submit func(context.Context, *job) error, consume func(context.Context)) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var producers, consumer sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	consumer.Go(func() { consume(ctx) })
	for i := range 16 {
		producers.Go(func() {
			j := &job{}
			for range b.N/16 + min(1, max(0, b.N%16-i)) {
				if err := submit(ctx, j); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	producers.Wait()
	b.StopTimer()
	cancel()
	consumer.Wait()
}

// BenchmarkTicket is a promise kept without anybody looking, then one that is waited for.
func BenchmarkTicket(b *testing.B) {
	b.Run("unwatched", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			p := new(local.Promise)
			p.Init("id")
			p.MarkEnqueued()
			p.MarkStarted()
			p.End(local.Completed, nil)
		}
	})
	b.Run("waited for", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			p := new(local.Promise)
			p.Init("id")
			enqueued, done := p.Ticket().Enqueued(), p.Ticket().Done()
			p.MarkEnqueued()
			<-enqueued
			p.End(local.Completed, nil)
			<-done
		}
	})
}
