package bridge

import "context"

// Delivery is one run of one job, as its handler sees it.
type Delivery[T any] struct {
	ID      string
	Kind    string
	Value   T
	Headers map[string]string
	// Attempt is 1 for the first run and grows with every failed one.
	Attempt int
	// MaxAttempts is the Attempt whose failure is the last.
	MaxAttempts int
	// Deliveries counts how often the job was handed to a worker, this time included.
	// More than 1 means that a handler may have run before, wholly or in part.
	Deliveries int
	// Fence grows with every delivery of the queue, also when an ID is used again: give it to
	// a downstream store that can refuse smaller numbers than it has seen.
	Fence int64
}

// Handler runs jobs whose payload has not been decoded yet; it is what middleware
// wraps. See Kind.Handle for what its error means.
type Handler func(ctx context.Context, d *Delivery[[]byte]) error

// Middleware wraps a handler. It must call the next one on the same goroutine, or not at all.
type Middleware func(next Handler) Handler
