package durable

import (
	"fmt"
	"time"
)

// Limits bound what all processes together claim of a queue (Capabilities.Limits). They are kept in the store, and enforced by the claim. Zero
// values mean no limit.
type Limits struct {
	Concurrency int  // claims at once, of the queue: counted where they are, not in a counter
	Rate        Rate // claims over time, of the queue
	// KeyConcurrency and KeyRate are the same for the jobs of each Job.LimitKey. A job that has to wait for its key is scheduled meanwhile, and holds
	// up nobody else. Those that wait for the rate of their key go in their order, and before whoever comes meanwhile.
	KeyConcurrency int
	KeyRate        Rate
}

// LimitsBy tells whether a queue has limits, and who has set them.
type LimitsBy struct {
	Active bool
	By     string    // as given to Operator.SetLimits; empty if they were set by other means
	Since  time.Time // by the store's clock; zero likewise
}

// String says who has set limits and when, or that there are none.
func (b LimitsBy) String() string {
	return said(b.Active, "no limits", "limits set", b.By, b.Since)
}

// Rate is so many in any stretch of so long, evenly: one each Per/Count, and up to Burst at once after a pause.
// Of a KeyRate, a turn that is taken late, by up to Per/Count, does not put off the next one: two starts may be closer together than
// that by as much, and with a Burst of 1 two come at once after a pause of those who claim.
// The algorithm is GCRA, that of ATM Forum TM 4.1 and of many limiters since: one moment is kept, nothing is counted.
type Rate struct {
	Count int
	Per   time.Duration // whole milliseconds; 0: a second
	Burst int           // 0: 1
}

const (
	maxLimit = 1_000_000 // far beyond what could be enforced
	// longestRate is how far from now the moments of a rate can be, so that they can be computed with.
	longestRate = 100 * 365 * 24 * time.Hour
)

func (l *Limits) valid() error {
	for _, f := range []struct {
		name  string
		value int
	}{{"Concurrency", l.Concurrency}, {"KeyConcurrency", l.KeyConcurrency}} {
		if f.value < 0 || f.value > maxLimit {
			return fmt.Errorf("the limit %s is %d, must be from 0 to %d", f.name, f.value, maxLimit)
		}
	}
	if err := l.Rate.valid("Rate"); err != nil {
		return err
	}
	return l.KeyRate.valid("KeyRate")
}

func (r *Rate) valid(name string) error {
	switch {
	case r.Count < 0 || r.Count > maxLimit || r.Burst < 0 || r.Burst > maxLimit:
		return fmt.Errorf("the limit %s has Count %d and Burst %d, must be from 0 to %d", name, r.Count, r.Burst, maxLimit)
	case r.Per < 0 || r.Per > 0 && r.Per < time.Millisecond:
		return fmt.Errorf("the limit %s.Per is %v, must be 0 or at least a millisecond", name, r.Per)
	case r.Count == 0 && (r.Per != 0 || r.Burst != 0):
		return fmt.Errorf("the limit %s has Per or Burst, and no Count", name)
	case float64(r.Per)*float64(max(r.Burst, 1)) > float64(longestRate)*float64(r.Count):
		return fmt.Errorf("the limit %s has a Burst of %d at %d in %v: it would take more than 100 years to be allowed again", name, max(r.Burst, 1), r.Count, r.Per)
	}
	return nil
}
