package local

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/seed-9dec4fca/weir/policy"
)

// Errors of a Kind. Package bridge has the same values under the same names.
var (
	// ErrNoHandler: a value was submitted before its kind had a handler.
	ErrNoHandler = errors.New("local: no handler")
	// ErrHandlerSet: Handle was called a second time.
	ErrHandlerSet = errors.New("local: kind has a handler already")
)

// Kind is one kind of task of a pool: a value of type T for one handler. It has
// Submit, TrySubmit and Handle of bridge.Kind, as Pool has Run and Shutdown of bridge.Queue, so
// that a program moves from a pool to a durable queue by its constructors: NewPool
// becomes bridge.Open and NewKind becomes bridge.NewKind; what a handler gets is the same type.
//
// What is different then: values are encoded, jobs survive the process, a failed one
// runs again, and a job may run more than once. It is safe for concurrent use.
type Kind[T any] struct {
	p       *Pool
	name    string
	size    func(T) int64
	handler atomic.Pointer[func(ctx context.Context, d *Delivery[T]) error]
}

// KindOptions configures a Kind. The zero value of a field means its default.
type KindOptions[T any] struct {
	// Size tells how many bytes a value counts with against PoolOptions.Bytes; nil: 0.
	Size func(T) int64
}

// Delivery is one run of one job, as its handler sees it. The handler owns it.
type Delivery[T any] struct {
	ID      string
	Kind    string
	Value   T
	Headers map[string]string // nil in a pool
	// Attempt is 1 for the first run and grows with every failed one; 1 in a pool.
	Attempt int
	// MaxAttempts is the Attempt whose failure is the last; 1 in a pool.
	MaxAttempts int
	// Deliveries counts how often the job was handed to a worker, this time included; 1 in a
	// pool. More than 1 means that a handler may have run before, wholly or in part.
	Deliveries int
	// Fence grows with every delivery of the queue, also when an ID is used again: give it to a
	// downstream store that can refuse smaller numbers than it has seen. In a pool it grows as
	// long as that lives.
	Fence int64
	// Reporter takes what SetResult and Progress say. Nil: it goes nowhere, as in a handler's own tests.
	Reporter Reporter
}

// kindWork is a value for the handler. The task lets go of it at its end.
type kindWork[T any] struct {
	kind  *Kind[T]
	value T
}

// NewKind names a kind of task of p; the name is for its handler and for messages. o may be
// nil.
func NewKind[T any](p *Pool, name string, o *KindOptions[T]) *Kind[T] {
	k := &Kind[T]{p: p, name: name}
	if o != nil {
		k.size = o.Size
	}
	return k
}

// Submit hands value to the pool, for the handler of the kind. It is Pool.Submit in all
// else. Before Handle it is refused with policy.ErrInvalid and ErrNoHandler.
func (k *Kind[T]) Submit(ctx context.Context, value T, pl policy.Policy) (*Ticket, error) {
	if k.handler.Load() == nil {
		return nil, k.p.front.Refuse(policy.ReasonInvalid, policy.StageFront, fmt.Errorf("%w: %q", ErrNoHandler, k.name))
	}
	var size int64
	if k.size != nil {
		size = k.size(value)
	}
	return k.p.submit(ctx, &kindWork[T]{k, value}, nil, size, pl)
}

// TrySubmit is Submit without waiting: there is room now, or the error matches
// policy.ErrFull. It does not overtake those who wait.
func (k *Kind[T]) TrySubmit(value T) (*Ticket, error) {
	return k.Submit(context.Background(), value, policy.Reject())
}

// Handle sets the handler. It is called on a worker, for each value once; d and its Value
// belong to it. ctx ends with ErrStopping as its cause. An error, a panic and
// runtime.Goexit are bad ends, as for any task. Handle returns ErrHandlerSet for a second
// handler, and an error for nil.
func (k *Kind[T]) Handle(h func(ctx context.Context, d *Delivery[T]) error) error {
	if h == nil {
		return fmt.Errorf("local: handler of kind %q is nil", k.name)
	}
	if !k.handler.CompareAndSwap(nil, &h) {
		return fmt.Errorf("%w: %q", ErrHandlerSet, k.name)
	}
	return nil
}

func (w *kindWork[T]) do(ctx context.Context, ticket *Ticket, number uint64) error {
	h := *w.kind.handler.Load()
	return h(ctx, &Delivery[T]{
		ID: ticket.ID(), Kind: w.kind.name, Value: w.value,
		Attempt: 1, MaxAttempts: 1, Deliveries: 1, Fence: int64(number),
		Reporter: taskReporter{ticket},
	})
}

// Returned finds the value of a task that Shutdown has handed back; false: it is not one of
// this kind.
func (k *Kind[T]) Returned(r ReturnedTask) (value T, ok bool) {
	w, ok := r.work.(*kindWork[T])
	if !ok || w.kind != k {
		return value, false
	}
	return w.value, true
}
