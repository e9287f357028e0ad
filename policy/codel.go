package policy

import (
	"fmt"
	"time"
)

// DefaultTarget is the sojourn that CoDel aims at if it is not told.
const DefaultTarget = 5 * time.Millisecond

// CoDel sheds load by how long jobs stay in the front, not by how many there are: it needs
// no tuning to the speed of what drains it. A burst that is worked off soon is let through; a
// standing queue, which only makes everybody wait and helps nobody, is not built up.
//
// The front counts as overloaded while even the luckiest job of the last 100 ms stayed for
// longer than target (0: 5 ms). While it is, a call is refused early (ReasonShed) if jobs
// stay for longer than twice the target now. Every other call goes by otherwise; the zero
// Policy is the queue's default, and it may be a Func. This is the form that Folly gave to
// CoDel for request queues, where nobody can be slowed down by dropping a packet now and then.
//
// It belongs where jobs should be taken from the front within milliseconds: a pool of workers,
// or a durable side that keeps up. A target below what one job or one batch takes to be
// taken refuses nearly everything.
//
// Make it once and keep it: making it allocates, using it does not. It keeps no state and is
// safe for concurrent use. A negative target, and an otherwise that is invalid, are refused
// where it is used, with ErrInvalid.
func CoDel(target time.Duration, otherwise Policy) Policy {
	if target == 0 {
		target = DefaultTarget
	}
	r := &ready{text: "codel(" + target.String() + ", " + otherwise.String() + ")", err: otherwise.Validate()}
	if target < 0 {
		r.err = fmt.Errorf("policy: CoDel: target is negative: %v", target)
	}
	p := Func(func(s Snapshot) Policy {
		if s.MinSojourn > target && s.HeadSojourn > 2*target {
			return Shed()
		}
		return otherwise.plan(s)
	})
	p.ready = r
	return p
}
