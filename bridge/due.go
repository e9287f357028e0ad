package bridge

import (
	"sync"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

// dues is when the next delayed job of this process falls due, so that its consumer is not
// parked past that: the store wakes nobody for it. Jobs that other processes delay are found
// when the parking ends, within a second.
type dues struct {
	sooner chan struct{} // a token after next has become earlier

	mu   sync.Mutex
	next time.Time // zero: none is known
}

func (d *dues) init() { d.sooner = make(chan struct{}, 1) }

// note notes a job that the store has just begun to delay.
func (d *dues) note(delay time.Duration) {
	if delay > durable.Park { // the claims meanwhile will tell
		return
	}
	at := time.Now().Add(delay)
	d.mu.Lock()
	earlier := d.next.IsZero() || at.Before(d.next)
	if earlier {
		d.next = at
	}
	d.mu.Unlock()
	if earlier {
		select {
		case d.sooner <- struct{}{}:
		default:
		}
	}
}

// forget is for before a claim, whose answer tells of every delayed job there is.
func (d *dues) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next = time.Time{}
}

// before returns the earlier one of what is known and t.
func (d *dues) before(t time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.next.IsZero() && d.next.Before(t) {
		return d.next
	}
	return t
}
