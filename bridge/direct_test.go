package bridge_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/policy"
)

// handing is a store a network away that hands what is appended to a consumer, if nothing waits. It is used where only one
// process appends and claims: the two are two steps here.
type handing struct {
	*durable.Memory
	trip   func() // an exchange
	handed atomic.Int64
}

func (h *handing) OpenProducer(ctx context.Context) (durable.Producer, error) {
	p, err := h.Memory.OpenProducer(ctx)
	return &handingProducer{p, h}, err
}

func (h *handing) OpenConsumer(ctx context.Context, lease time.Duration) (durable.Consumer, error) {
	c, err := h.Memory.OpenConsumer(ctx, lease)
	return &farConsumer{c, h}, err
}

type handingProducer struct {
	durable.Producer
	h *handing
}

func (p *handingProducer) Append(ctx context.Context, n uint64, jobs []*durable.Job) (durable.Appended, error) {
	p.h.trip()
	return p.Producer.Append(ctx, n, jobs)
}

func (p *handingProducer) AppendFor(ctx context.Context, n uint64, jobs []*durable.Job, c durable.Consumer, r durable.ClaimRequest) (durable.Appended, []*durable.Claim, error) {
	p.h.trip()
	before, err := p.h.Stats(ctx)
	if err != nil {
		return durable.Appended{}, nil, err
	}
	a, err := p.Producer.Append(ctx, n, jobs)
	if err != nil || before.Pending > 0 || a.Taken == 0 {
		return a, nil, err
	}
	claimed, err := c.(*farConsumer).Consumer.Claim(ctx, r)
	p.h.handed.Add(int64(len(claimed.Jobs)))
	return a, claimed.Jobs, err
}

type farConsumer struct {
	durable.Consumer
	h *handing
}

func (c *farConsumer) Claim(ctx context.Context, r durable.ClaimRequest) (durable.Claimed, error) {
	c.h.trip()
	return c.Consumer.Claim(ctx, r)
}

func (c *farConsumer) Settle(ctx context.Context, n uint64, outcomes []durable.Outcome) (durable.Settled, error) {
	c.h.trip()
	return c.Consumer.Settle(ctx, n, outcomes)
}

// serve runs workers whose handler takes so long. It stands itself at the store: wrappers hide that it hands over.
func (h *handing) serve(t *testing.T, workers int, work time.Duration) (*bridge.Queue, *bridge.Kind[int]) {
	t.Helper()
	q, err := bridge.Open(h, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shutdown(t, q) })
	kind := bridge.NewKind[int](q, "k", nil)
	err = kind.Handle(func(context.Context, *bridge.Delivery[int]) error {
		time.Sleep(work)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := q.Run(t.Context(), &bridge.RunOptions{Workers: workers}); err != nil {
			t.Error(err)
		}
	}()
	time.Sleep(time.Second) // it has looked, and found nothing
	return q, kind
}

// saturate has producers submit as fast as they can until so many jobs are completed, and tells how many of
// them went to a worker with their append.
func saturate(t *testing.T, h *handing, workers, jobs int, work time.Duration) int64 {
	t.Helper()
	q, kind := h.serve(t, workers, work)
	var producers sync.WaitGroup
	for range 16 {
		producers.Go(func() {
			for i := range jobs / 16 {
				if _, err := kind.Submit(t.Context(), i, policy.Wait(time.Minute)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	producers.Wait()
	for q.Counters().Completed < uint64(jobs/16*16) {
		time.Sleep(time.Millisecond)
	}
	return h.handed.Load()
}

func TestHandingOver(t *testing.T) {
	t.Parallel()

	// Else append and claim, each with one request under way, miss each other for good: what is
	// appended while a claim is under way is not in that, and so the next append is not the first in line.
	bubble(t, "goes on under load where workers are quick", func(t *testing.T) {
		h := &handing{Memory: durable.NewMemory(nil), trip: func() { time.Sleep(time.Millisecond) }}
		const jobs = 20_000
		if handed := saturate(t, h, 20, jobs, 50*time.Microsecond); handed < jobs/2 {
			t.Errorf("%d of %d jobs", handed, jobs)
		}
	})

	bubble(t, "does not hold appends up where workers are slow", func(t *testing.T) {
		h := &handing{Memory: durable.NewMemory(nil), trip: func() { time.Sleep(time.Millisecond) }}
		_, kind := h.serve(t, 2, time.Second)
		for i := range 100 {
			began := time.Now()
			if err := submit(t, kind, 1).WaitEnqueued(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); i > 10 && took > 3*time.Millisecond { // they are known to be slow; the end of an append and of a claim, and one exchange
				t.Errorf("enqueued after %v", took)
			}
		}
	})
}
