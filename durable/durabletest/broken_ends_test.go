package durabletest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

// careless does not store all that it is asked to.
type careless struct {
	*durable.Memory
	forget func(i int, j *durable.Job)
}

func (e *careless) OpenProducer(ctx context.Context) (durable.Producer, error) {
	p, err := e.Memory.OpenProducer(ctx)
	return &carelessProducer{p, e}, err
}

type carelessProducer struct {
	durable.Producer
	e *careless
}

func (p *carelessProducer) Append(ctx context.Context, n uint64, jobs []*durable.Job) (durable.Appended, error) {
	stored := make([]*durable.Job, len(jobs))
	for i, j := range jobs {
		clone := *j
		p.e.forget(i, &clone)
		stored[i] = &clone
	}
	return p.Producer.Append(ctx, n, stored)
}

// lenient says of a claim that it was asked to end, and asks nobody.
type lenient struct{ *durable.Memory }

func (e *lenient) Cancel(ctx context.Context, r durable.CancelRequest) (durable.Cancelled, error) {
	job, err := e.Lookup(ctx, durable.LookupRequest{ID: r.ID})
	if err == nil && job.State == durable.StateProcessing && (r.Life == "" || r.Life == job.Life) {
		return durable.Cancelled{Running: true, Consumer: job.Consumer}, nil
	}
	if errors.Is(err, durable.ErrNoJob) {
		return durable.Cancelled{}, err
	}
	return e.Memory.Cancel(ctx, r)
}

// resultless keeps no result beyond what the job has asked for.
type resultless struct{ *durable.Memory }

func (e *resultless) OpenConsumer(ctx context.Context, lease time.Duration) (durable.Consumer, error) {
	c, err := e.Memory.OpenConsumer(ctx, lease)
	if err != nil {
		return nil, err
	}
	return &resultlessConsumer{c.(durable.Teller)}, nil
}

type resultlessConsumer struct{ durable.Teller }

func (c *resultlessConsumer) Settle(ctx context.Context, n uint64, outcomes []durable.Outcome) (durable.Settled, error) {
	outcomes = slices.Clone(outcomes)
	for i := range outcomes {
		if outcomes[i].Retention > 0 {
			outcomes[i].Result = nil
		}
	}
	return c.Teller.Settle(ctx, n, outcomes)
}

// deaf is a follower that does not hear all, or takes its own consumers for strangers.
type deaf struct {
	*durable.Memory
	hear     func(*durable.News)
	stranger bool

	mu        sync.Mutex
	consumers map[string]bool
}

func (e *deaf) OpenConsumer(ctx context.Context, lease time.Duration) (durable.Consumer, error) {
	c, err := e.Memory.OpenConsumer(ctx, lease)
	if err == nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.consumers == nil {
			e.consumers = make(map[string]bool)
		}
		e.consumers[c.ID()] = true
	}
	return c, err
}

func (e *deaf) OpenFollower(ctx context.Context) (durable.Follower, error) {
	f, err := e.Memory.OpenFollower(ctx)
	if err != nil {
		return nil, err
	}
	return &deafFollower{f, e}, nil
}

type deafFollower struct {
	durable.Follower
	e *deaf
}

func (f *deafFollower) Adopt(ctx context.Context, sender string, adopted bool) error {
	f.e.mu.Lock()
	own := f.e.consumers[sender]
	f.e.mu.Unlock()
	if own && f.e.stranger {
		return nil
	}
	return f.Follower.Adopt(ctx, sender, adopted)
}

func (f *deafFollower) Await(ctx context.Context) (durable.News, error) {
	news, err := f.Follower.Await(ctx)
	if f.e.hear != nil {
		f.e.hear(&news)
	}
	return news, err
}

// generous does not keep to a limit, and shows it as it was asked for.
type generous struct {
	*durable.Memory
	raise func(l *durable.Limits, by int)
}

func (e *generous) SetLimits(ctx context.Context, l durable.Limits, by string) error {
	if l != (durable.Limits{}) {
		e.raise(&l, 1)
	}
	return e.Memory.SetLimits(ctx, l, by)
}

func (e *generous) Stats(ctx context.Context) (durable.Stats, error) {
	s, err := e.Memory.Stats(ctx)
	if s.LimitedBy.Active {
		e.raise(&s.Limits, -1)
	}
	return s, err
}
