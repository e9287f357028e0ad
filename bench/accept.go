package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/alitto/pond/v2"
	"golang.org/x/sync/semaphore"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// What it costs to say yes, to say no, and to keep a ticket. One producer, so that it is the price and not the
// contention that is measured; the pool rows have that.

var (
	accept = among(func() []contestant { return acceptors })
	reject = among(func() []contestant { return rejecters })
	ticket = among(func() []contestant { return tickets })
)

// batch is how many are taken out of a front at once, as the bridge does.
const batch = 256

// ticketed is a job with its ticket, as the bridge has it: one allocation.
type ticketed struct {
	local.Promise
	payload []byte
}

var acceptors = []contestant{
	// Admission with a ticket; what is admitted is taken and released in batches, in the same loop.
	{weir, func(n int, l *laps) error {
		f, err := local.NewFront(&local.FrontOptions[*ticketed]{Capacity: batch, Bytes: 1 << 20})
		if err != nil {
			return err
		}
		ctx, payload, buf := context.Background(), make([]byte, small), make([]local.Slot[*ticketed], 0, batch)
		return l.time(func() error {
			for i := range n {
				j := &ticketed{payload: payload}
				j.Init("")
				if ok, err := f.Admit(ctx, j, small, policy.Reject()); !ok {
					return err
				}
				if i%batch == batch-1 {
					buf = f.TryTake(buf[:0], batch, 1<<20)
					f.Release(buf...)
				}
			}
			return nil
		})
	}},
	// The whole front door: kind, codec, ID, ticket, admission; the store does not answer meanwhile.
	{weir + " bridge", func(n int, l *laps) error {
		const some = 20_000
		for ; n > 0; n -= some {
			if err := acceptAtTheDoor(min(n, some), l); err != nil {
				return err
			}
		}
		return nil
	}},
	{"pond Submit", func(n int, l *laps) error {
		p := pond.NewPool(2, pond.WithQueueSize(1024))
		defer p.StopAndWait()
		return l.time(func() error {
			for range n {
				p.Submit(nothing)
			}
			return nil
		})
	}},
	{"semaphore and channel", func(n int, l *laps) error {
		type slot struct {
			job *ticketed
			at  time.Duration
		}
		jobs, bytes, start := make(chan slot, batch), semaphore.NewWeighted(1<<20), time.Now()
		return l.time(func() error {
			for i := range n {
				if !bytes.TryAcquire(small) {
					return errors.New("full")
				}
				jobs <- slot{&ticketed{}, time.Since(start)}
				if i%batch == batch-1 {
					for range batch {
						<-jobs
						bytes.Release(small)
					}
				}
			}
			return nil
		})
	}},
	{"channel", func(n int, l *laps) error {
		jobs := make(chan *ticketed, batch)
		return l.time(func() error {
			for i := range n {
				jobs <- &ticketed{}
				if i%batch == batch-1 {
					for range batch {
						<-jobs
					}
				}
			}
			return nil
		})
	}},
}

func nothing() {}

func acceptAtTheDoor(n int, l *laps) error {
	gate := durabletest.NewGate(durable.NewMemory(nil))
	gate.Hold(durabletest.OpAppend)
	q, err := bridge.Open(gate, &bridge.Options{Capacity: n})
	if err != nil {
		return err
	}
	kind, payload := bridge.NewKind(q, "noop", &bridge.KindOptions[[]byte]{Codec: bridge.Bytes{}}), make([]byte, small)
	err = l.time(func() error {
		for range n {
			if _, err := kind.TrySubmit(payload); err != nil {
				return err
			}
		}
		return nil
	})
	gate.Release(durabletest.OpAppend)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, stopErr := q.Shutdown(ctx)
	return errors.Join(err, stopErr)
}

// refused keeps what is returned, so that nothing is optimised away.
var refused error

var rejecters = []contestant{
	{weir, func(n int, l *laps) error {
		f, err := local.NewFront(&local.FrontOptions[*ticketed]{Capacity: 2, Bytes: 1 << 20})
		if err != nil {
			return err
		}
		ctx, j := context.Background(), &ticketed{}
		for _, take := range []int{1, 0, 0} { // one is released, so that there is a rate to estimate from
			if ok, err := f.Admit(ctx, j, small, policy.Reject()); !ok {
				return err
			}
			f.Release(f.TryTake(nil, take, 0)...)
		}
		return l.time(func() error {
			for range n {
				if _, refused = f.Admit(ctx, j, small, policy.Reject()); refused == nil {
					return errors.New("accepted")
				}
			}
			return nil
		})
	}},
	{weir + " accept", acceptors[0].run},
	{"semaphore", func(n int, l *laps) error {
		slots := semaphore.NewWeighted(1)
		slots.TryAcquire(1)
		return l.time(func() error {
			for range n {
				if slots.TryAcquire(1) {
					return errors.New("accepted")
				}
				refused = &policy.Rejection{Reason: policy.ReasonFull}
			}
			return nil
		})
	}},
	{"pond TrySubmit", func(n int, l *laps) error {
		p, end := pond.NewPool(1, pond.WithQueueSize(1)), make(chan struct{})
		defer p.StopAndWait()
		defer close(end)
		p.Submit(func() { <-end })
		p.Submit(nothing)
		return l.time(func() error {
			for range n {
				if _, ok := p.TrySubmit(nothing); ok {
					return errors.New("accepted")
				}
			}
			return nil
		})
	}},
}

var tickets = []contestant{
	{weir, func(n int, l *laps) error {
		return l.time(func() error {
			for range n {
				p := new(local.Promise)
				p.Init("id")
				p.MarkEnqueued()
				p.MarkStarted()
				p.End(local.Completed, nil)
			}
			return nil
		})
	}},
	{weir + " waited for", func(n int, l *laps) error {
		return l.time(func() error {
			for range n {
				p := new(local.Promise)
				p.Init("id")
				enqueued, done := p.Ticket().Enqueued(), p.Ticket().Done()
				p.MarkEnqueued()
				<-enqueued
				p.End(local.Completed, nil)
				<-done
			}
			return nil
		})
	}},
	{"channel", func(n int, l *laps) error {
		return l.time(func() error {
			for range n {
				enqueued, done := make(chan struct{}), make(chan struct{})
				close(enqueued)
				<-enqueued
				close(done)
				<-done
			}
			return nil
		})
	}},
	{"context with timeout", func(n int, l *laps) error {
		var wg sync.WaitGroup
		defer wg.Wait()
		return l.time(func() error {
			for range n {
				ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
				cancel()
				<-ctx.Done()
			}
			return nil
		})
	}},
}
