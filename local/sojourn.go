package local

import "time"

// The window over which the smallest sojourn is kept, in steps.
const (
	sojournStep   = 10 * time.Millisecond
	sojournWindow = 100 * time.Millisecond
)

// sojourns remembers how long jobs waited to be taken: the last one, and the smallest of
// each step of the window.
type sojourns struct {
	taken time.Duration // when the last one was
	last  time.Duration
	steps [sojournWindow / sojournStep]struct {
		start    time.Duration
		smallest time.Duration
		used     bool
	}
}

// add notes a job that was taken now.
func (s *sojourns) add(now, sojourn time.Duration) {
	sojourn = max(sojourn, 0)
	s.taken, s.last = now, sojourn
	nth := now / sojournStep
	start := nth * sojournStep
	step := &s.steps[nth%time.Duration(len(s.steps))]
	if !step.used || step.start != start {
		step.start, step.smallest, step.used = start, sojourn, true
	}
	step.smallest = min(step.smallest, sojourn)
}

// head is the last taken job's wait, or the time since that take if it is longer. If the
// front has been empty since, that job tells nothing any more, or a policy that goes by it
// would refuse for ever: then it is the time since the front was empty. busy is that
// time, in either case.
func (s *sojourns) head(now, busy time.Duration) time.Duration {
	if now-s.taken > busy {
		return busy
	}
	return max(s.last, now-s.taken)
}

// min is the smallest of the window, or the silence if nothing was taken in it.
func (s *sojourns) min(now, busy time.Duration) time.Duration {
	smallest, found := time.Duration(0), false
	for i := range s.steps {
		step := &s.steps[i]
		if step.used && step.start > now-sojournWindow-sojournStep && (!found || step.smallest < smallest) {
			smallest, found = step.smallest, true
		}
	}
	if !found {
		return s.silence(now, busy)
	}
	return smallest
}

// silence is how long nothing has been taken although something was there.
func (s *sojourns) silence(now, busy time.Duration) time.Duration {
	return min(busy, max(now-s.taken, 0))
}
