package bridge

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

// busyDelay is how long a job waits whose effect another run is at, and up to twice that.
const busyDelay = 2 * time.Second

// Idempotent makes a Middleware that runs handlers at most once per key and window of once: a delivery whose effect
// was had is completed without a call of the handler. key names the effect; nil: the job's ID. Put it last, so that
// it wraps the handler alone, or use once.Do in the handler, around the effect alone.
//
// A delivery whose effect is under way elsewhere comes back in 2 to 4 seconds, and none of its attempts is charged. Redis
// that is not reached is a failed run, and the handler is not called. Once the handler has returned nil the job is
// completed, also if the marker could not be set (durable.ErrUnmarked): only another run would repeat the effect.
// What it can promise and what not is said at durable.Idempotent.
func Idempotent(once *durable.Idempotent, key func(d *Delivery[[]byte]) string) Middleware {
	return func(next Handler) Handler {
		return func(ctx context.Context, d *Delivery[[]byte]) error {
			effect := durable.Effect{Job: d.ID, Fence: d.Fence}
			if key != nil {
				effect.Key = key(d)
			}
			ran, err := once.Do(ctx, effect, func(ctx context.Context) error { return next(ctx, d) })
			switch {
			case !ran && (errors.Is(err, durable.ErrInProgress) || errors.Is(err, durable.ErrStaleFence)):
				return Snooze(busyDelay + rand.N(busyDelay)) // a stale claim is refused whatever it says
			case ran && errors.Is(err, durable.ErrUnmarked):
				return nil
			}
			return err
		}
	}
}
