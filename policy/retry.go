package policy

import (
	"fmt"
	"math"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Defaults of Retry.
const (
	DefaultMaxAttempts  = 20
	DefaultRetryInitial = 500 * time.Millisecond
	DefaultRetryMax     = 15 * time.Minute
	DefaultMultiplier   = 2.0
	DefaultJitter       = 0.5
)

// longestRetry bounds Initial and Max, so that no arithmetic on delays can overflow.
const longestRetry = 365 * 24 * time.Hour

// Retry says how often a failing handler runs, and how long it rests in between:
// exponentially longer each time, with jitter. The zero value is the default, and so is
// each zero field. It is a plain value, safe for concurrent use.
//
// With the defaults a job fails for good after about two and a quarter hours.
type Retry struct {
	// MaxAttempts is the number of failed runs that ends the job as dead; 20.
	MaxAttempts int
	// Initial is the delay after the first failure, before jitter; 500 ms.
	Initial time.Duration
	// Max is the longest delay, before jitter; 15 min, or Initial if that is longer. At most a year.
	Max time.Duration
	// Multiplier is the growth from one delay to the next, at least 1; 2.
	Multiplier float64
	// Jitter spreads each delay evenly over delay × (1 ± Jitter), below 1; 0.5. For
	// practically none say 1e-9.
	Jitter float64
}

// Validate names the first field that is negative or makes no sense.
func (r Retry) Validate() error {
	switch {
	case r.MaxAttempts < 0:
		return fmt.Errorf("policy: Retry.MaxAttempts is negative: %d", r.MaxAttempts)
	case r.Initial < 0:
		return fmt.Errorf("policy: Retry.Initial is negative: %v", r.Initial)
	case r.Initial > longestRetry:
		return fmt.Errorf("policy: Retry.Initial is more than a year: %v", r.Initial)
	case r.Max < 0:
		return fmt.Errorf("policy: Retry.Max is negative: %v", r.Max)
	case r.Max > longestRetry:
		return fmt.Errorf("policy: Retry.Max is more than a year: %v", r.Max)
	case r.Max > 0 && r.Max < r.WithDefaults().Initial:
		return fmt.Errorf("policy: Retry.Max is %v, less than Retry.Initial, %v", r.Max, r.WithDefaults().Initial)
	case r.Multiplier < 0:
		return fmt.Errorf("policy: Retry.Multiplier is negative: %v", r.Multiplier)
	case r.Multiplier != 0 && !(r.Multiplier >= 1 && r.Multiplier <= math.MaxFloat32):
		return fmt.Errorf("policy: Retry.Multiplier is not a number of at least 1: %v", r.Multiplier)
	case r.Jitter < 0:
		return fmt.Errorf("policy: Retry.Jitter is negative: %v", r.Jitter)
	case !(r.Jitter < 1):
		return fmt.Errorf("policy: Retry.Jitter is not below 1: %v", r.Jitter)
	}
	return nil
}

// WithDefaults returns r with each zero field replaced by its default.
func (r Retry) WithDefaults() Retry {
	if r.MaxAttempts == 0 {
		r.MaxAttempts = DefaultMaxAttempts
	}
	if r.Initial == 0 {
		r.Initial = DefaultRetryInitial
		if r.Max > 0 {
			r.Initial = min(r.Initial, r.Max)
		}
	}
	if r.Max == 0 {
		r.Max = max(DefaultRetryMax, r.Initial)
	}
	if r.Multiplier == 0 {
		r.Multiplier = DefaultMultiplier
	}
	if r.Jitter == 0 {
		r.Jitter = DefaultJitter
	}
	return r
}

// Delay is how long to rest after that many failed runs, the last one included; less than
// 1 counts as 1. It is different each time, within the jitter, and never ends: who counts
// attempts is the caller. r must be valid.
func (r Retry) Delay(failed int) time.Duration {
	r = r.WithDefaults()
	// The interval is computed, not iterated: the job may have failed in another process.
	interval := float64(r.Initial) * math.Pow(r.Multiplier, float64(max(failed, 1)-1))
	b := backoff.ExponentialBackOff{
		InitialInterval:     time.Duration(min(interval, float64(r.Max))),
		RandomizationFactor: r.Jitter,
		Multiplier:          r.Multiplier,
		MaxInterval:         r.Max,
		MaxElapsedTime:      0, // the library's own default makes every delay end after 15 minutes
		Stop:                backoff.Stop,
		Clock:               backoff.SystemClock,
	}
	b.Reset()
	return b.NextBackOff()
}
