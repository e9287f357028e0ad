package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// settleCheck is how often it is asked whether all is completed, once all was handled.
const settleCheck = 2 * time.Millisecond

// openQueue opens the side of a task.
func openQueue(t *task) (queue, error) {
	return open(&env{addr: t.Addr, load: t.Load, trips: t.trips}, t.Side)
}

// randomPayload cannot be compressed, and is the same for all jobs of a measurement.
func randomPayload(size int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(random.UintN(256))
	}
	return b
}

// produce shares n calls between producers.
func produce(ctx context.Context, producers, n int, submit func(ctx context.Context) error) error {
	var left atomic.Int64
	left.Store(int64(n))
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for range producers {
		wg.Go(func() {
			for left.Add(-1) >= 0 && failed.Load() == nil {
				if err := submit(ctx); err != nil {
					cause := err // escapes, but only here
					failed.Store(&cause)
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return fmt.Errorf("submit: %w", *err)
	}
	return nil
}

// countdown closes done at the n-th call of hit.
type countdown struct {
	left atomic.Int64
	done chan struct{}
}

func newCountdown(n int) *countdown {
	c := &countdown{done: make(chan struct{})}
	c.left.Store(int64(n))
	return c
}

func (c *countdown) hit() {
	if c.left.Add(-1) == 0 {
		close(c.done)
	}
}

func (c *countdown) wait(ctx context.Context) error {
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d jobs were not handled: %w", c.left.Load(), ctx.Err())
	}
}

// settled waits until all n jobs are completed for good.
func settled(ctx context.Context, q queue, n int) error {
	tick := time.NewTicker(settleCheck)
	defer tick.Stop()
	for {
		left, err := q.left(ctx, int64(n))
		if err != nil || left == 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d jobs were not completed: %w", left, ctx.Err())
		}
	}
}

// endToEnd is from the first submit to the last completion, producers and workers at the same time. Some
// jobs go before, so that connections and goroutines are there when the clock starts.
func endToEnd(ctx context.Context, t *task) (*outcome, error) {
	q, err := openQueue(t)
	if err != nil {
		return nil, err
	}
	submit := q.submit
	if t.Load.Wait {
		submit = q.enqueue
	}
	payload := randomPayload(t.Load.Payload)
	before := min(2*(t.Load.Workers+t.Load.Producers), 2000)
	warm, handled := newCountdown(before), newCountdown(before+t.Load.Jobs)
	err = q.consume(ctx, t.Load.Workers, func([]byte) {
		warm.hit()
		handled.hit()
	})
	if err != nil {
		return nil, err
	}
	send := func(n int) error {
		return produce(ctx, t.Load.Producers, n, func(ctx context.Context) error { return submit(ctx, payload) })
	}
	if err := errors.Join(send(before), warm.wait(ctx)); err != nil {
		return nil, err
	}
	m, err := newMeter(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := send(t.Load.Jobs); err != nil {
		return nil, err
	}
	if err := handled.wait(ctx); err != nil {
		return nil, err
	}
	return finish(ctx, q, m, before+t.Load.Jobs, t.Load.Jobs)
}

// drain is from the start of the workers on a filled queue to the last completion.
func drain(ctx context.Context, t *task) (*outcome, error) {
	q, err := openQueue(t)
	if err != nil {
		return nil, err
	}
	if err := fill(ctx, q, t.Load.Payload, t.Load.Jobs); err != nil {
		return nil, err
	}
	handled := newCountdown(t.Load.Jobs)
	m, err := newMeter(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := q.consume(ctx, t.Load.Workers, func([]byte) { handled.hit() }); err != nil {
		return nil, err
	}
	if err := handled.wait(ctx); err != nil {
		return nil, err
	}
	return finish(ctx, q, m, t.Load.Jobs, t.Load.Jobs)
}

// fill puts n jobs into a queue.
func fill(ctx context.Context, q queue, size, n int) error {
	payload := randomPayload(size)
	err := produce(ctx, producers, n, func(ctx context.Context) error { return q.submit(ctx, payload) })
	if err != nil {
		return err
	}
	return q.flush(ctx)
}

// finish waits until all that was handled is completed, and reads the meter before anything is torn down.
func finish(ctx context.Context, q queue, m *meter, handled, measured int) (*outcome, error) {
	if err := settled(ctx, q, handled); err != nil {
		return nil, err
	}
	return m.stop(ctx, measured)
}

// standingBacklog fills the queue, then keeps it at that: each job that is handled lets one in. It measures
// how many go through. Producers and consumers are two, as in two processes: else jobs would be handed to free workers with their
// append, and the backlog would not stand.
func standingBacklog(ctx context.Context, t *task) (*outcome, error) {
	q, err := openQueue(t)
	if err != nil {
		return nil, err
	}
	producer, err := openQueue(t)
	if err != nil {
		return nil, err
	}
	if err := fill(ctx, producer, t.Load.Payload, t.Load.Backlog); err != nil {
		return nil, err
	}
	// The backlog stands: where workers are more than a batch ahead of the producers they wait for these.
	handled, credits := newCountdown(t.Load.Jobs), make(chan struct{}, plainBatch)
	var given atomic.Int64
	m, err := newMeter(ctx, t)
	if err != nil {
		return nil, err
	}
	err = q.consume(ctx, t.Load.Workers, func([]byte) {
		if given.Add(1) <= int64(t.Load.Jobs) {
			credits <- struct{}{}
		}
		handled.hit()
	})
	if err != nil {
		return nil, err
	}
	payload := randomPayload(t.Load.Payload)
	err = produce(ctx, t.Load.Producers, t.Load.Jobs, func(ctx context.Context) error {
		<-credits
		return producer.submit(ctx, payload)
	})
	if err != nil {
		return nil, err
	}
	if err := handled.wait(ctx); err != nil {
		return nil, err
	}
	return m.stop(ctx, t.Load.Jobs)
}
