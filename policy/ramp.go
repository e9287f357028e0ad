package policy

import (
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
)

// Ramp refuses a growing share of calls before the front is full: none while no more than
// from of it is in use, all from to on, and linearly more in between. Callers are told early,
// and a few of them each time, that it is getting tight, instead of all at once; those who
// back off then keep it from filling up.
//
// In use is the largest of the shares of slots, bytes and durable backlog. The calls that are
// not refused (ReasonShed) go by otherwise; the zero Policy is the queue's default, and it may
// be a Func.
//
// The choice is not random: of any n calls in a row at one level, by all callers together, the
// share that is refused is met within a few calls (about log n), evenly spread.
//
// Make it once and keep it: making it allocates, using it does not. It keeps a counter, and
// is safe for concurrent use without a lock. Unless 0 ≤ from < to ≤ 1, or if otherwise is
// invalid, it is refused where it is used, with ErrInvalid.
func Ramp(from, to float64, otherwise Policy) Policy {
	r := &ready{text: "ramp(" + percent(from) + " to " + percent(to) + ", " + otherwise.String() + ")", err: otherwise.Validate()}
	if !(from >= 0 && from < to && to <= 1) { // so that NaN is refused
		r.err = fmt.Errorf("policy: Ramp: not 0 <= from < to <= 1: %v, %v", from, to)
	}
	var calls atomic.Uint64 // on the slope
	p := Func(func(s Snapshot) Policy {
		share := (s.Fill() - from) / (to - from)
		if share >= 1 || share > 0 && spread(calls.Add(1)) < share {
			return Shed()
		}
		return otherwise.plan(s)
	})
	p.ready = r
	return p
}

// spread is the n-th number of a sequence in [0, 1) of which any stretch is spread evenly: the
// fractions of the multiples of the golden ratio.
func spread(n uint64) float64 {
	const ratio = 0x9E3779B97F4A7C15 // as a fraction of 1<<64
	return float64(n*ratio>>11) * (1.0 / (1 << 53))
}

func percent(share float64) string {
	return strconv.FormatFloat(math.Round(share*1000)/10, 'g', -1, 64) + "%"
}
