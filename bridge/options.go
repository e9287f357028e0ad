package bridge

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/seed-9dec4fca/weir/policy"
)

// Options configures a Queue. The zero value of a field means its default; a
// negative one is refused by name.
type Options struct {
	// Capacity is how many accepted jobs may be in this process's memory. 1,024.
	Capacity int
	// CapacityBytes is how many bytes their payloads and headers may have together. 64 MiB.
	CapacityBytes int64
	// Policy is what a call does that gives the zero policy. policy.Reject().
	Policy policy.Policy
	// MaxPayload is how many bytes one encoded payload with its headers may have. 1 MiB.
	MaxPayload int
	// MaxWatched is how many tickets of durable jobs are watched; one more ends
	// detached, its job goes on. 65,536.
	MaxWatched int
	// PersistWithin is how long an accepted job may wait to become durable. Past it the
	// job ends abandoned, or uncertain if it was sent and not answered. The outcome of a
	// worker is given up after the same time. 2 hours; at most 12, half as long as the
	// store remembers a sender.
	PersistWithin time.Duration
	// Retry says when a failed handler runs again, and how often, unless its kind says
	// otherwise. See policy.Retry for its defaults.
	Retry policy.Retry
	// Retention is for how long the store keeps a record of a completed job, for Operator.Lookup, unless
	// its kind or itself says otherwise. Whole milliseconds. 0: it is gone at once.
	Retention time.Duration
	// Logger gets what an operator should know, at a bounded rate. Nil: silent.
	Logger *slog.Logger
	// OnEvent is called with each transition; see Event for the contract. Nil: nobody.
	OnEvent func(Event)
	// Middleware goes around every handler, the first outermost.
	Middleware []Middleware
}

// RunOptions configures Run. The zero value of a field means its default; a
// negative one is refused by name.
type RunOptions struct {
	// Workers is how many handlers run at once. 16. As many jobs are claimed, and up to 768 more when
	// handlers are so quick that these are begun within 5 ms; as many again are being settled at most.
	Workers int
	// Grace is how long handlers may go on after Run's context has ended, before their
	// own contexts do. 25 s.
	Grace time.Duration
	// Lease is how long the store waits for a sign of life before it hands this
	// process's claims to others; it is renewed three times in that time. 30 s; at
	// least 100 ms.
	Lease time.Duration
	// SweepEvery is how often the queue is searched for claims of dead processes. Half the lease.
	SweepEvery time.Duration
	// UnknownDelay is for how long a job of a kind without a handler here is put back. 10 s.
	UnknownDelay time.Duration
}

const (
	defaultCapacity      = 1024
	defaultCapacityBytes = 64 << 20
	defaultMaxPayload    = 1 << 20
	defaultMaxWatched    = 1 << 16
	defaultPersistWithin = 2 * time.Hour
	maxPersistWithin     = 12 * time.Hour

	defaultWorkers      = 16
	defaultGrace        = 25 * time.Second
	defaultLease        = 30 * time.Second
	minLease            = 100 * time.Millisecond
	defaultUnknownDelay = 10 * time.Second

	// maxBatch and maxBatchBytes bound a request to the engine. 256 is the knee of the
	// throughput curve: larger batches only make the server pause longer.
	maxBatch      = 256
	maxBatchBytes = 1 << 20
	// maxClaims is how many claims one request makes or settles. It is more than maxBatch, so that what waits becomes less where
	// workers are quick: nothing must wait for jobs to go to them directly.
	maxClaims = 2 * maxBatch

	// callTimeout bounds one exchange with the engine. A call that ran into it is asked again.
	callTimeout = 10 * time.Second
	// checkEvery is how often a running queue looks whether the store is still usable.
	checkEvery = 50 * time.Second
	// askAgainAfter is how old the news that a store is not usable must be before a refused call
	// has it looked at again.
	askAgainAfter = 2 * time.Second
	// endWithin is what Run may take to end after the grace, whatever the store does.
	endWithin = 1800 * time.Millisecond
	// stopWait is what a handler gets to return after its context has ended at a stop, and the
	// loops to tell the store what there is to tell.
	stopWait = time.Second
)

// withDefaults validates o and fills in what it leaves open. o may be nil.
func (o *Options) withDefaults() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	err := firstError(
		orDefault(&out.Capacity, defaultCapacity, "Capacity"),
		orDefault(&out.CapacityBytes, defaultCapacityBytes, "CapacityBytes"),
		orDefault(&out.MaxPayload, defaultMaxPayload, "MaxPayload"),
		orDefault(&out.MaxWatched, defaultMaxWatched, "MaxWatched"),
		orDefault(&out.PersistWithin, defaultPersistWithin, "PersistWithin"),
		orDefault(&out.Retention, 0, "Retention"),
	)
	if err != nil {
		return out, err
	}
	if err := storable("Retention", out.Retention); err != nil {
		return out, fmt.Errorf("bridge: Options.%w", err)
	}
	if out.PersistWithin > maxPersistWithin {
		return out, fmt.Errorf("bridge: Options.PersistWithin is %v, more than %v", out.PersistWithin, maxPersistWithin)
	}
	if err := out.Retry.Validate(); err != nil {
		return out, fmt.Errorf("bridge: Options.Retry: %w", err)
	}
	out.Retry = out.Retry.WithDefaults()
	for i, m := range out.Middleware {
		if m == nil {
			return out, fmt.Errorf("bridge: Options.Middleware[%d] is nil", i)
		}
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	if out.OnEvent == nil {
		out.OnEvent = func(Event) {}
	}
	return out, nil
}

// withDefaults validates o and fills in what it leaves open. o may be nil.
func (o *RunOptions) withDefaults() (RunOptions, error) {
	var out RunOptions
	if o != nil {
		out = *o
	}
	err := firstError(
		orDefault(&out.Workers, defaultWorkers, "Workers"),
		orDefault(&out.Grace, defaultGrace, "Grace"),
		orDefault(&out.Lease, defaultLease, "Lease"),
		orDefault(&out.SweepEvery, max(out.Lease/2, 1), "SweepEvery"),
		orDefault(&out.UnknownDelay, defaultUnknownDelay, "UnknownDelay"),
	)
	if err == nil && out.Lease < minLease {
		err = fmt.Errorf("bridge: RunOptions.Lease is %v, less than %v", out.Lease, minLease)
	}
	return out, err
}

// orDefault replaces a zero by the default and refuses a negative value by name.
func orDefault[N ~int | ~int64](field *N, def N, name string) error {
	if *field < 0 {
		return fmt.Errorf("bridge: option %s is negative: %v", name, *field)
	}
	if *field == 0 {
		*field = def
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
