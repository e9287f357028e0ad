package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// Kind is one kind of job of a queue: its values have type T. All kinds of a queue
// share its front, its connection and its workers. A Kind is safe for concurrent use.
type Kind[T any] struct {
	q     *Queue
	name  string
	codec Codec[T]
	retry policy.Retry
	limit time.Duration
	keep  time.Duration
	err   error // of construction; reported by every call
}

// KindOptions configures a Kind. The zero value of a field means its default; a
// negative one is refused by name.
type KindOptions[T any] struct {
	// Codec makes payloads of values. JSON.
	Codec Codec[T]
	// Retry says when a failed handler runs again, and how often. As the queue's options say.
	Retry policy.Retry
	// Timeout ends the context of one run with ErrTimeout. 0: there is none.
	Timeout time.Duration
	// Retention is for how long the store keeps a record of a completed job; see Job.Retention. As the
	// queue's options say.
	Retention time.Duration
}

// NewKind names a kind of q; the producer and the consumer use the same name. Jobs enqueued
// by others without a kind have the kind "". Errors in name or opts are returned by each
// method of the Kind.
func NewKind[T any](q *Queue, name string, opts *KindOptions[T]) *Kind[T] {
	k := &Kind[T]{q: q, name: name, codec: JSON[T]{}, retry: q.opts.Retry, keep: q.opts.Retention}
	if opts != nil {
		if opts.Codec != nil {
			k.codec = opts.Codec
		}
		if opts.Retry != (policy.Retry{}) {
			k.retry = opts.Retry.WithDefaults()
		}
		k.limit = opts.Timeout
		if opts.Retention > 0 {
			k.keep = opts.Retention
		}
		if err := storable("Retention", opts.Retention); err != nil {
			k.err = fmt.Errorf("bridge: kind %q: %w", name, err)
		} else if opts.Timeout < 0 {
			k.err = fmt.Errorf("bridge: kind %q: Timeout is negative: %v", name, opts.Timeout)
		} else if err := opts.Retry.Validate(); err != nil {
			k.err = fmt.Errorf("bridge: kind %q: Retry: %w", name, err)
		}
	}
	if len(name) > maxIDLen {
		k.err = fmt.Errorf("bridge: kind has %d bytes, more than %d", len(name), maxIDLen)
	} else if err := validateName("kind", name); err != nil {
		k.err = err
	}
	return k
}

// Submit hands value to the queue, under a new ID. It blocks only as p says: for a Wait, at
// most until its limit or ctx's deadline. ctx bounds the admission, never the job.
//
// A nil error means that the queue owns the job and that its fate is on the ticket; the
// ticket of a job that p discarded is in state Dropped. An error means that nothing of the
// job will ever run. It is a *policy.Rejection, which matches policy.ErrFull, ErrClosed,
// ErrTooLarge, ErrInvalid or ErrUnusable, or the error of a cancelled ctx.
func (k *Kind[T]) Submit(ctx context.Context, value T, p policy.Policy) (*Ticket, error) {
	return k.submit(ctx, Job[T]{Value: value, ID: k.q.NewID()}, p)
}

// TrySubmit is Submit without waiting: the front has room now, or the error matches
// policy.ErrFull. It does not overtake those who wait.
func (k *Kind[T]) TrySubmit(value T) (*Ticket, error) {
	return k.Submit(context.Background(), value, policy.Reject())
}

// SubmitJob is Submit for a job with an ID and settings of its own.
func (k *Kind[T]) SubmitJob(ctx context.Context, j Job[T], p policy.Policy) (*Ticket, error) {
	if err := j.validate(); err != nil {
		return nil, k.q.refuse(policy.ReasonInvalid, k.name, err)
	}
	return k.submit(ctx, j, p)
}

func (j *Job[T]) validate() error {
	if err := validateID(j.ID); err != nil {
		return err
	}
	switch {
	case j.Delay < 0:
		return fmt.Errorf("bridge: Job.Delay is negative: %v", j.Delay)
	case j.MaxAttempts < 0:
		return fmt.Errorf("bridge: Job.MaxAttempts is negative: %d", j.MaxAttempts)
	case j.Priority < -durable.MaxPriority || j.Priority > durable.MaxPriority:
		return fmt.Errorf("bridge: Job.Priority is %d, must be from %d to %d", j.Priority, -durable.MaxPriority, durable.MaxPriority)
	}
	if err := storable("Timeout", j.Timeout); err != nil {
		return fmt.Errorf("bridge: Job.%w", err)
	}
	if err := storable("Retention", j.Retention); err != nil {
		return fmt.Errorf("bridge: Job.%w", err)
	}
	return nil
}

// storable refuses a time that the store, which keeps whole milliseconds, would take for none at all.
func storable(name string, d time.Duration) error {
	switch {
	case d < 0:
		return fmt.Errorf("%s is negative: %v", name, d)
	case d > 0 && d < time.Millisecond:
		return fmt.Errorf("%s is %v, less than a millisecond", name, d)
	}
	return nil
}

func (k *Kind[T]) submit(ctx context.Context, j Job[T], p policy.Policy) (*Ticket, error) {
	if k.err != nil {
		return nil, k.q.refuse(policy.ReasonInvalid, k.name, k.err)
	}
	payload, err := k.codec.Encode(j.Value)
	if err != nil {
		return nil, k.q.refuse(policy.ReasonInvalid, k.name, fmt.Errorf("bridge: encode kind %q: %w", k.name, err))
	}
	headers, err := encodeHeaders(j.Headers)
	if err != nil {
		return nil, k.q.refuse(policy.ReasonInvalid, k.name, fmt.Errorf("bridge: encode headers: %w", err))
	}
	return k.q.submit(ctx, &durable.Job{
		ID: j.ID, Kind: k.name, Payload: payload, Headers: headers,
		Delay: j.Delay, MaxAttempts: j.MaxAttempts, Timeout: j.Timeout,
		Retention: cmp.Or(j.Retention, k.keep), Priority: j.Priority,
	}, p)
}

// Handle sets the handler of the kind for Run. It is called on a goroutine of its own for
// each delivery; d and its Value belong to it. ctx ends with ErrTimeout, ErrLeaseLost or
// ErrStopping as its cause.
//
// Its result: nil completes the job; an error has it run again after a delay, until its
// attempts are used up; Permanent(err) makes it dead at once; Snooze(d) has it run later. A
// panic or runtime.Goexit is an error with its stack, and costs no worker.
//
// Handle returns ErrHandlerSet for a second handler, and an error for nil.
func (k *Kind[T]) Handle(h func(ctx context.Context, d *Delivery[T]) error) error {
	if k.err != nil {
		return k.err
	}
	if h == nil {
		return fmt.Errorf("bridge: handler of kind %q is nil", k.name)
	}
	return k.q.handle(k.name, &handling{retry: k.retry, timeout: k.limit, run: func(ctx context.Context, raw *Delivery[[]byte]) error {
		value, err := k.codec.Decode(raw.Value)
		if err != nil {
			return Permanent(fmt.Errorf("bridge: decode kind %q: %w", k.name, err))
		}
		return h(ctx, &Delivery[T]{
			ID: raw.ID, Kind: raw.Kind, Value: value, Headers: raw.Headers, Attempt: raw.Attempt,
			MaxAttempts: raw.MaxAttempts, Deliveries: raw.Deliveries, Fence: raw.Fence,
		})
	}})
}

// submit admits one encoded job.
func (q *Queue) submit(ctx context.Context, wire *durable.Job, p policy.Policy) (*Ticket, error) {
	size := int64(len(wire.Payload) + len(wire.Headers))
	if size > int64(q.opts.MaxPayload) {
		return nil, q.refuse(policy.ReasonTooLarge, wire.Kind,
			fmt.Errorf("bridge: payload and headers have %d bytes, more than Options.MaxPayload = %d", size, q.opts.MaxPayload))
	}
	if wire.Priority != 0 && !q.info.Capabilities.Priority {
		return nil, q.refuse(policy.ReasonInvalid, wire.Kind,
			fmt.Errorf("bridge: Job.Priority is %d: %w", wire.Priority, durable.ErrUnsupported))
	}
	if cause := q.unusable.Load(); cause != nil && q.askAgain() {
		return nil, q.refuse(policy.ReasonUnusable, wire.Kind, *cause)
	}
	if cause := q.intake.paused(); cause != nil && q.askIntake() {
		return nil, q.refuse(policy.ReasonUnusable, wire.Kind, cause)
	}
	j := &job{id: wire.ID, kind: wire.Kind, size: size, wire: wire, persist: q.now() + q.opts.PersistWithin}
	j.Init(wire.ID)
	if q.info.Replicas > 0 {
		j.ExpectReplicas()
	}
	q.startShipper()
	accepted, err := q.front.Admit(ctx, j, size, p)
	switch {
	case err != nil:
		q.emit(Event{Type: EventRejected, Kind: wire.Kind, Err: err})
		return nil, err
	case !accepted:
		j.wire = nil
		q.count(EventDropped)
		j.End(local.Dropped, nil)
		q.tell(Event{Type: EventDropped, ID: j.id, Kind: j.kind})
	default:
		q.emit(Event{Type: EventAccepted, ID: wire.ID, Kind: wire.Kind})
	}
	return j.Ticket(), nil
}

// refuse counts and returns the rejection of a call that never reached the front.
func (q *Queue) refuse(reason policy.Reason, kind string, cause error) error {
	stage := policy.StageFront
	if reason == policy.ReasonUnusable {
		stage = policy.StageDurable
	}
	rejection := q.front.Refuse(reason, stage, cause)
	q.emit(Event{Type: EventRejected, Kind: kind, Err: rejection})
	return rejection
}

// evicted is told by the front of each job that another one displaced.
func (q *Queue) evicted(j *job) {
	j.wire = nil
	q.count(EventEvicted)
	j.End(local.Evicted, nil)
	q.tell(Event{Type: EventEvicted, ID: j.id, Kind: j.kind})
}

// handling is a kind's handler and what governs its failures.
type handling struct {
	run     Handler
	retry   policy.Retry
	timeout time.Duration
}

func (q *Queue) handle(kind string, h *handling) error {
	for _, wrap := range slices.Backward(q.opts.Middleware) {
		if h.run = wrap(h.run); h.run == nil {
			return errors.New("bridge: a middleware returned no handler")
		}
	}
	if _, set := q.handlers.LoadOrStore(kind, h); set {
		return fmt.Errorf("%w: %q", ErrHandlerSet, kind)
	}
	q.handled.Store(true)
	return nil
}

// handling is the one of a kind; nil where it has none here.
func (q *Queue) handling(kind string) *handling {
	if h, ok := q.handlers.Load(kind); ok {
		return h.(*handling)
	}
	return nil
}
