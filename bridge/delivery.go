package bridge

import (
	"context"

	"github.com/seed-9dec4fca/weir/local"
)

// Delivery is one run of one job, as its handler sees it: ID, Kind, Value, Headers, Attempt, MaxAttempts, Deliveries,
// Fence. See local.Delivery.
type Delivery[T any] = local.Delivery[T]

// Handler runs jobs whose payload has not been decoded yet; it is what middleware
// wraps. See Kind.Handle for what its error means.
type Handler func(ctx context.Context, d *Delivery[[]byte]) error

// Middleware wraps a handler. It must call the next one on the same goroutine, or not at all.
type Middleware func(next Handler) Handler
