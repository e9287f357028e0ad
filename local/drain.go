package local

import (
	"math/rand/v2"
	"time"

	"github.com/seed-9dec4fca/weir/policy"
)

// stopwatch counts the time while it runs.
type stopwatch struct {
	running bool
	since   time.Duration // it runs, if it does
	before  time.Duration // counted until then
}

func (w *stopwatch) run(now time.Duration) { w.running, w.since = true, now }

func (w *stopwatch) halt(now time.Duration) {
	w.before = w.at(now)
	w.running = false
}

// at is the time counted. Clocks are read before the mutex is taken, so now may lie a little
// before since.
func (w *stopwatch) at(now time.Duration) time.Duration {
	if !w.running {
		return w.before
	}
	return w.before + w.lap(now)
}

// lap is how long it has been running, 0 if it is not.
func (w *stopwatch) lap(now time.Duration) time.Duration {
	if !w.running {
		return 0
	}
	return max(now-w.since, 0)
}

// drainMemory is the time constant by which old releases are forgotten.
const drainMemory = time.Second

// drainRate estimates how many slots are given back per second of busy time: the mean of
// the rate over time, the past weighing exponentially less. Each stretch between two
// releases counts with its own rate, the slots released at its end divided by its
// length, so that a regular drain is met exactly at any speed, the first release
// included. Times are busy time, so that idleness is no slowness.
type drainRate struct {
	slots   float64 // weighted integral of the rate
	seconds float64 // weighted integral of the time
	last    time.Duration
	known   bool
}

// add notes that n slots were given back.
func (r *drainRate) add(n int, busy time.Duration) {
	x, growth := r.stretch(busy)
	fade := 1 + x*growth
	r.slots = (r.slots + float64(n)*growth) / fade
	r.seconds = (r.seconds + x*drainMemory.Seconds()*growth) / fade
	r.last, r.known = max(r.last, busy), true
}

// perSecond is the estimate, 0 if there has been no release. While the current stretch is
// shorter than usual it tells nothing. Once it is longer it counts as if it ended
// now with one release: a drain that stopped looks slower and slower, but never slower
// than one slot in the time since: it may merely be slow.
func (r *drainRate) perSecond(busy time.Duration) float64 {
	if !r.known {
		return 0
	}
	x, growth := r.stretch(busy)
	// Releases at one instant happen, above all in a synctest bubble.
	seconds := max(r.seconds, time.Nanosecond.Seconds())
	return min(r.slots/seconds, (r.slots+growth)/(seconds+x*drainMemory.Seconds()*growth))
}

// stretch is the time since the last release in units of drainMemory, x, and (exp(x)-1)/x,
// where exp is the beginning of its series: the past loses weight by exp(-x), and what the
// stretch itself weighs, in proportion, is x times growth. The series needs no call of
// exp while mu is held, and forgets a little less of what lies more than a few units back.
func (r *drainRate) stretch(busy time.Duration) (x, growth float64) {
	x = max(busy-r.last, 0).Seconds() / drainMemory.Seconds()
	return x, 1 + x/2 + x*x/6
}

// shortestRetry is the shortest RetryAfter that is not 0.
const shortestRetry = time.Millisecond

// retryAfter estimates when all that stands before a newcomer will have been let through.
// It is spread by a tenth, so that those refused together do not come back together. mu is
// held.
func (f *Front[T]) retryAfter(reason policy.Reason, now time.Duration) time.Duration {
	switch reason {
	case policy.ReasonClosed, policy.ReasonTooLarge, policy.ReasonInvalid, policy.ReasonCancelled:
		return 0 // trying again is of no use, or not a matter of room
	case policy.ReasonUnusable:
		return f.maxRetryAfter // nothing drains
	}
	rate := f.drain.perSecond(f.busy.at(now))
	if rate == 0 {
		return f.maxRetryAfter
	}
	seconds := float64(f.held+f.waiters.n) / rate * (0.9 + 0.2*rand.Float64())
	if seconds >= f.maxRetryAfter.Seconds() {
		return f.maxRetryAfter
	}
	return min(max(time.Duration(seconds*float64(time.Second)), shortestRetry), f.maxRetryAfter)
}
