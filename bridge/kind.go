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
	worth time.Duration
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
	// Expiry is for how long a job of the kind is worth waiting; see Job.Expiry. 0: for ever.
	Expiry time.Duration
}

// NewKind names a kind of q; the producer and the consumer use the same name. Jobs enqueued
// by others without a kind have the kind "". A nil q, and errors in name or opts, are returned by each
// method of the Kind.
func NewKind[T any](q *Queue, name string, opts *KindOptions[T]) *Kind[T] {
	k := &Kind[T]{q: q, name: name, codec: JSON[T]{}}
	if q == nil {
		k.err = fmt.Errorf("bridge: kind %q: the queue is nil", name)
		return k
	}
	k.retry, k.keep = q.opts.Retry, q.opts.Retention
	if opts != nil {
		if opts.Codec != nil {
			k.codec = opts.Codec
		}
		if opts.Retry != (policy.Retry{}) {
			k.retry = opts.Retry.WithDefaults()
		}
		k.limit, k.worth = opts.Timeout, opts.Expiry
		if opts.Retention > 0 {
			k.keep = opts.Retention
		}
		if err := firstError(storable("Retention", opts.Retention), storable("Expiry", opts.Expiry)); err != nil {
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
	if k.err != nil {
		return nil, k.refuse(k.err)
	}
	return k.submit(ctx, Job[T]{Value: value, ID: k.q.NewID()}, false, p)
}

// TrySubmit is Submit without waiting: the front has room now, or the error matches
// policy.ErrFull. It does not overtake those who wait.
func (k *Kind[T]) TrySubmit(value T) (*Ticket, error) {
	return k.Submit(context.Background(), value, policy.Reject())
}

// SubmitJob is Submit for a job with an ID and settings of its own.
func (k *Kind[T]) SubmitJob(ctx context.Context, j Job[T], p policy.Policy) (*Ticket, error) {
	if err := j.validate(); err != nil {
		return nil, k.refuse(err)
	}
	return k.submit(ctx, j, true, p)
}

func (j *Job[T]) validate() error {
	if err := validateID("Job.ID", j.ID); j.ID == "" {
		return fmt.Errorf("%w; Queue.NewID makes one", err)
	} else if err != nil {
		return err
	}
	switch {
	case j.Delay < 0:
		return fmt.Errorf("bridge: Job.Delay is negative: %v", j.Delay)
	case j.Delay > 0 && !j.NotBefore.IsZero():
		return fmt.Errorf("bridge: Job.Delay and Job.NotBefore are both set: %v, %v", j.Delay, j.NotBefore)
	case j.MaxAttempts < 0:
		return fmt.Errorf("bridge: Job.MaxAttempts is negative: %d", j.MaxAttempts)
	case j.Priority < -durable.MaxPriority || j.Priority > durable.MaxPriority:
		return fmt.Errorf("bridge: Job.Priority is %d, must be from %d to %d", j.Priority, -durable.MaxPriority, durable.MaxPriority)
	case len(j.LimitKey) > durable.MaxIDBytes:
		return fmt.Errorf("bridge: Job.LimitKey has %d bytes, more than %d", len(j.LimitKey), durable.MaxIDBytes)
	}
	err := firstError(storable("Timeout", j.Timeout), storable("Retention", j.Retention), storable("Expiry", j.Expiry),
		storable("Unique.Window", j.Unique.Window), storable("Unique.After", j.Unique.After))
	if err != nil {
		return fmt.Errorf("bridge: Job.%w", err)
	}
	if j.unique() {
		if err := j.Unique.Validate(); err != nil {
			return fmt.Errorf("bridge: Job.Unique: %w", err)
		}
	}
	return nil
}

// unique tells whether the job is to have a key.
func (j *Job[T]) unique() bool {
	u := &j.Unique
	return u.Key != "" || len(u.States) > 0 || u.Window != 0 || u.After != 0
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

func (k *Kind[T]) submit(ctx context.Context, j Job[T], named bool, p policy.Policy) (*Ticket, error) {
	if k.err != nil {
		return nil, k.refuse(k.err)
	}
	payload, err := k.codec.Encode(j.Value)
	if err != nil {
		return nil, k.refuse(fmt.Errorf("bridge: encode kind %q: %w", k.name, err))
	}
	headers, err := encodeHeaders(j.Headers)
	if err != nil {
		return nil, k.refuse(fmt.Errorf("bridge: encode headers: %w", err))
	}
	w := &wire{notBefore: j.NotBefore, Job: durable.Job{
		ID: j.ID, Kind: k.name, Payload: payload, Headers: headers,
		Delay: roundUp(j.Delay), MaxAttempts: j.MaxAttempts, Timeout: min(j.Timeout, longest),
		Retention: min(cmp.Or(j.Retention, k.keep), longest), Priority: j.Priority,
		Expiry: min(cmp.Or(j.Expiry, k.worth), longest), LimitKey: j.LimitKey,
	}}
	if j.unique() {
		unique := j.Unique // not the one in j, which would have to live as long
		unique.States = slices.Clone(unique.States)
		unique.Window, unique.After = min(unique.Window, longest), min(unique.After, longest)
		w.Unique = &unique
	}
	return k.q.submit(ctx, w, named, p)
}

// refuse is the rejection of what can never be accepted.
func (k *Kind[T]) refuse(cause error) error {
	if k.q == nil {
		return &policy.Rejection{Reason: policy.ReasonInvalid, Stage: policy.StageFront, Cause: cause}
	}
	return k.q.refuse(policy.ReasonInvalid, k.name, cause)
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
			ID: raw.ID, Kind: raw.Kind, Value: value, Headers: raw.Headers, Reporter: raw.Reporter, Attempt: raw.Attempt,
			MaxAttempts: raw.MaxAttempts, Deliveries: raw.Deliveries, Fence: raw.Fence,
		})
	}})
}

// submit admits one encoded job.
func (q *Queue) submit(ctx context.Context, wire *wire, named bool, p policy.Policy) (*Ticket, error) {
	size := int64(len(wire.Payload) + len(wire.Headers))
	if size > int64(q.opts.MaxPayload) {
		return nil, q.refuse(policy.ReasonTooLarge, wire.Kind,
			fmt.Errorf("bridge: payload and headers have %d bytes, more than Options.MaxPayload = %d", size, q.opts.MaxPayload))
	}
	if err := q.supports(&wire.Job); err != nil {
		return nil, q.refuse(policy.ReasonInvalid, wire.Kind, err)
	}
	if cause := q.unusable.Load(); cause != nil && q.askAgain() {
		return nil, q.refuse(policy.ReasonUnusable, wire.Kind, *cause)
	}
	if cause := q.intake.paused(); cause != nil && q.askIntake() {
		return nil, q.refuse(policy.ReasonUnusable, wire.Kind, cause)
	}
	j := &job{kind: wire.Kind, size: size, wire: wire, named: named, persist: q.now() + q.opts.PersistWithin}
	expires := q.expires(j)
	j.InitFor(&q.following.lookout, wire.ID)
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
		q.tell(Event{Type: EventDropped, ID: j.id(), Kind: j.kind})
	default:
		q.emit(Event{Type: EventAccepted, ID: wire.ID, Kind: wire.Kind})
		if expires > 0 {
			q.expiries.look(expires)
		}
	}
	return j.Ticket(), nil
}

// supports refuses what the engine lacks, by name.
func (q *Queue) supports(j *durable.Job) error {
	has := &q.info.Capabilities
	var lacks string
	switch {
	case j.Priority != 0 && !has.Priority:
		lacks = fmt.Sprintf("Job.Priority is %d", j.Priority)
	case j.Expiry != 0 && !has.Expiry:
		lacks = fmt.Sprintf("Job.Expiry is %v", j.Expiry)
	case j.Unique != nil && !has.Unique:
		lacks = fmt.Sprintf("Job.Unique has the key %q", j.Unique.Key)
	case j.LimitKey != "" && !has.Limits:
		lacks = fmt.Sprintf("Job.LimitKey is %q", j.LimitKey)
	default:
		return nil
	}
	return fmt.Errorf("bridge: %s: %w", lacks, durable.ErrUnsupported)
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
func (q *Queue) evicted(j *job) { q.endUnstored(j, EventEvicted, local.Evicted, nil) }

// endUnstored ends a job that will not be reported enqueued.
func (q *Queue) endUnstored(j *job, event EventType, state local.State, cause error) {
	j.wire = nil
	q.count(event)
	switch event {
	case EventCancelled:
		q.tally.frontCancelled.Add(1)
	case EventExpired:
		q.tally.frontExpired.Add(1)
	default:
	}
	j.End(state, cause)
	if j.Claimed() { // by a worker that was quicker than the answer, so it is watched
		q.watched.Forget(j.id(), &j.Promise)
	}
	q.tell(Event{Type: event, ID: j.id(), Kind: j.kind, Err: cause})
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
