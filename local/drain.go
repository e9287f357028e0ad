package local

import (
	"math"
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

// drainStep is the time within which releases count as if they all came with the last of them.
// It spares most of them the arithmetic.
const drainStep = time.Millisecond

// drainRate estimates how many slots are given back per second of busy time: the mean of
// the rate over time, the past weighing exponentially less. Each stretch between two
// releases, or two steps of them, counts with its own rate, the slots released in it divided by its
// length, so that a regular drain is met exactly at any speed, the first release
// included. Times are busy time, so that idleness is no slowness.
type drainRate struct {
	slots   float64       // weighted integral of the rate
	time    float64       // the same of the time, in units of drainMemory
	last    time.Duration // until when they are
	counted int64         // slots given back until last
	latest  time.Duration // when one was, as far as is known
	dated   int64         // slots given back until latest
}

// note is told how many slots have been given back in all, the last ones now.
func (r *drainRate) note(released int64, busy time.Duration) {
	if busy-r.latest >= drainStep {
		r.fold() // what came before the pause
	}
	r.latest, r.dated = max(r.latest, busy), released
	if r.latest-r.last >= drainStep {
		r.fold()
	}
}

// fold makes the recent ones part of the past.
func (r *drainRate) fold() {
	if r.dated == r.counted {
		return
	}
	x, growth := r.stretch(r.latest)
	keep := 1 / (1 + x*growth)
	r.slots = (r.slots + float64(r.dated-r.counted)*growth) * keep
	r.time = (r.time + x*growth) * keep
	r.last, r.counted = r.latest, r.dated
}

// perSecond is the estimate, 0 if there has been no release.
func (r *drainRate) perSecond(released int64, busy time.Duration) float64 {
	if slot := r.perSlot(released, busy); slot > 0 {
		return float64(time.Second) / slot
	}
	return 0
}

// perSlot is the estimated time for one slot, in nanoseconds, 0 if there has been no release. Releases that came
// without a look at the clock count with this one.
// While the current stretch is shorter than usual it tells nothing. Once it is longer it
// counts as if it ended now with one release: a drain that stopped looks slower and slower,
// but never slower than one slot in the time since: it may merely be slow.
func (r *drainRate) perSlot(released int64, busy time.Duration) float64 {
	if released > r.dated {
		r.note(released, busy)
	}
	r.fold()
	if r.slots == 0 {
		return 0
	}
	x, growth := r.stretch(busy)
	slots, past := r.slots, r.time
	if past < slots*x {
		slots, past = slots+growth, past+x*growth
	}
	// Releases at one instant happen, above all in a synctest bubble.
	return max(past*float64(drainMemory), 1) / slots
}

// stretch is the time since last in units of drainMemory, x, and (exp(x)-1)/x: the past loses weight by
// exp(-x), and what the stretch itself weighs, in proportion, is x times growth.
func (r *drainRate) stretch(busy time.Duration) (x, growth float64) {
	x = float64(max(busy-r.last, 0)) * (1 / float64(drainMemory))
	if x < 0.1 { // nearly always, and mu is held: the beginning of the series will do
		return x, 1 + x*(1.0/2+x*(1.0/6))
	}
	return x, math.Expm1(min(x, 100)) / x // after that nothing is left of the past
}

// shortestRetry is the shortest RetryAfter that is not 0.
const shortestRetry = time.Millisecond

// glances is how many rejections go by one look at the clock, if nothing is released between
// them. The look is dearer than all else about a rejection. That the drain stands still is
// noticed all the same, a few calls later.
const glances = 8

// slotTime is drain.perSlot now, or at most glances rejections ago. mu is held.
func (f *Front[T]) slotTime() float64 {
	if f.glanced%glances == 0 {
		f.slotTimed = f.drain.perSlot(f.released(), f.busy.at(f.now()))
	}
	f.glanced++
	return f.slotTimed
}

// golden is the golden ratio's fraction of 1<<64. Any stretch of its multiples is spread evenly,
// better than by chance, and at a fraction of the cost.
const golden = 0x9E3779B97F4A7C15

// spread is a factor between 0.9 and 1.1, so that those refused together do not come back together.
func spread(jitter uint64) float64 { return 0.9 + 0.2/(1<<53)*float64(jitter>>11) }

// retryAfter is what a rejection says: when all that stands before a newcomer will have been
// let through, that many jobs, each in slotTime.
func (f *Front[T]) retryAfter(reason policy.Reason, before, slotTime float64) time.Duration {
	switch reason {
	case policy.ReasonClosed, policy.ReasonTooLarge, policy.ReasonInvalid, policy.ReasonCancelled:
		return 0 // trying again is of no use, or not a matter of room
	case policy.ReasonUnusable:
		return f.maxRetryAfter // nothing drains
	}
	wait := before * slotTime
	if slotTime == 0 || wait >= float64(f.maxRetryAfter) {
		return f.maxRetryAfter
	}
	return min(max(time.Duration(wait), shortestRetry), f.maxRetryAfter)
}
