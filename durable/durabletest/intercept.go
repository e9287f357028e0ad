package durabletest

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

// Op is an operation of an engine, a producer, a consumer or a follower.
type Op uint8

// Operations. Info and Engine.Close are not among them: they ask nothing of the store. Inspect counts
// as a check.
const (
	OpCheck Op = iota + 1
	OpOpenProducer
	OpOpenConsumer
	OpSweep
	OpStats
	OpAppend
	OpCloseProducer
	OpClaim
	OpAwait
	OpSettle
	OpRenew
	OpLeave
	OpLookup
	OpJobs
	OpRedrive
	OpDiscard
	OpPause
	OpResume
	OpPurge
	OpCancel
	OpSetLimits
	OpTell
	OpCancels
	OpOpenFollower
	OpAdopt
	OpFollow
	OpFollowAwait // Follower.Await
	OpCloseFollower

	ops // one more than the last
)

func (op Op) String() string {
	names := [ops]string{
		"none", "check", "open producer", "open consumer", "sweep", "stats", "append",
		"close producer", "claim", "await", "settle", "renew", "leave",
		"lookup", "jobs", "redrive", "discard", "pause", "resume", "purge", "cancel", "set limits",
		"tell", "cancels", "open follower", "adopt", "follow", "await of a follower", "close follower",
	}
	if op >= ops {
		return "unknown"
	}
	return names[op]
}

// hook stands around every call. It may make the call never, once or several times, now
// or after it returned; what keep of one of them sets is the reply that is returned.
type hook func(ctx context.Context, op Op, sender string, call attempt) error

// attempt executes a call. It may be used by several goroutines.
type attempt func(ctx context.Context) (keep func(), err error)

// through makes one call through a hook.
func through[R any](ctx context.Context, h hook, op Op, sender string, call func(context.Context) (R, error)) (R, error) {
	var reply R
	err := h(ctx, op, sender, func(ctx context.Context) (func(), error) {
		r, err := call(ctx)
		return func() { reply = r }, err
	})
	return reply, err
}

// bare is a call without a reply.
func bare(call func(context.Context) error) func(context.Context) (struct{}, error) {
	return func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) }
}

// engine passes every call to another engine, through a hook.
type engine struct {
	inner durable.Engine
	hook  hook
}

func (e *engine) Info() (durable.Info, error) { return e.inner.Info() }
func (e *engine) Close() error                { return e.inner.Close() }

func (e *engine) Check(ctx context.Context) error {
	_, err := through(ctx, e.hook, OpCheck, "", bare(e.inner.Check))
	return err
}

func (e *engine) OpenProducer(ctx context.Context) (durable.Producer, error) {
	p, err := through(ctx, e.hook, OpOpenProducer, "", e.inner.OpenProducer)
	if err != nil {
		return nil, err
	}
	return &producer{inner: p, hook: e.hook}, nil
}

func (e *engine) OpenConsumer(ctx context.Context, lease time.Duration) (durable.Consumer, error) {
	c, err := through(ctx, e.hook, OpOpenConsumer, "", func(ctx context.Context) (durable.Consumer, error) {
		return e.inner.OpenConsumer(ctx, lease)
	})
	if err != nil {
		return nil, err
	}
	return &consumer{inner: c, hook: e.hook}, nil
}

func (e *engine) Sweep(ctx context.Context) (durable.Swept, error) {
	return through(ctx, e.hook, OpSweep, "", e.inner.Sweep)
}

func (e *engine) Stats(ctx context.Context) (durable.Stats, error) {
	return through(ctx, e.hook, OpStats, "", e.inner.Stats)
}

type producer struct {
	inner durable.Producer
	hook  hook
}

func (p *producer) ID() string { return p.inner.ID() }

func (p *producer) Append(ctx context.Context, n uint64, jobs []*durable.Job) (durable.Appended, error) {
	jobs = cloneJobs(jobs)
	return through(ctx, p.hook, OpAppend, p.ID(), func(ctx context.Context) (durable.Appended, error) {
		return p.inner.Append(ctx, n, jobs)
	})
}

func (p *producer) Close(ctx context.Context, n uint64) (durable.Appended, error) {
	return through(ctx, p.hook, OpCloseProducer, p.ID(), func(ctx context.Context) (durable.Appended, error) {
		return p.inner.Close(ctx, n)
	})
}

type consumer struct {
	inner durable.Consumer
	hook  hook
}

func (c *consumer) ID() string { return c.inner.ID() }

func (c *consumer) Claim(ctx context.Context, r durable.ClaimRequest) (durable.Claimed, error) {
	r.Named = slices.Clone(r.Named)
	return through(ctx, c.hook, OpClaim, c.ID(), func(ctx context.Context) (durable.Claimed, error) {
		return c.inner.Claim(ctx, r)
	})
}

func (c *consumer) Await(ctx context.Context) error {
	_, err := through(ctx, c.hook, OpAwait, c.ID(), bare(c.inner.Await))
	return err
}

func (c *consumer) Settle(ctx context.Context, n uint64, outcomes []durable.Outcome) (durable.Settled, error) {
	outcomes = slices.Clone(outcomes)
	for i := range outcomes {
		outcomes[i].Result = bytes.Clone(outcomes[i].Result)
	}
	return through(ctx, c.hook, OpSettle, c.ID(), func(ctx context.Context) (durable.Settled, error) {
		return c.inner.Settle(ctx, n, outcomes)
	})
}

func (c *consumer) Renew(ctx context.Context, lease time.Duration) error {
	_, err := through(ctx, c.hook, OpRenew, c.ID(), bare(func(ctx context.Context) error {
		return c.inner.Renew(ctx, lease)
	}))
	return err
}

func (c *consumer) Leave(ctx context.Context) (bool, error) {
	return through(ctx, c.hook, OpLeave, c.ID(), c.inner.Leave)
}

// cloneJobs lets a call be made after its caller was answered.
func cloneJobs(jobs []*durable.Job) []*durable.Job {
	clones := make([]*durable.Job, len(jobs))
	for i, j := range jobs {
		clone := *j
		clone.Payload = bytes.Clone(j.Payload)
		clone.Headers = bytes.Clone(j.Headers)
		if j.Unique != nil {
			unique := *j.Unique
			unique.States = slices.Clone(unique.States)
			clone.Unique = &unique
		}
		clones[i] = &clone
	}
	return clones
}
