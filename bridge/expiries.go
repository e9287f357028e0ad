package bridge

import (
	"sync"
	"time"

	"github.com/seed-9dec4fca/weir/local"
)

// expiries ends jobs that wait in the front for longer than they are worth, when that is over. Those that the shipper has
// taken are its own.
type expiries struct {
	q  *Queue
	mu sync.Mutex // guards what follows

	timer  *time.Timer   // nil: there was nothing to look at yet
	next   time.Duration // when it fires, on the clock of now(); 0: it does not
	closed bool
}

// expiriesEvery is the least time between two looks through the front, which may be long.
const expiriesEvery = 50 * time.Millisecond

// look has the front looked through at a time, or before.
func (e *expiries) look(at time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.next != 0 && e.next <= at {
		return
	}
	e.next = at
	if wait := at - e.q.now(); e.timer == nil {
		e.timer = time.AfterFunc(wait, func() { e.q.calls.begin(e.end) })
	} else {
		e.timer.Reset(wait)
	}
}

// end is the look.
func (e *expiries) end() {
	e.mu.Lock()
	e.next = 0
	e.mu.Unlock()
	now, next := e.q.now(), time.Duration(0)
	for _, j := range e.q.front.Remove(func(j *job) bool {
		at := e.q.expires(j)
		if at > now && (next == 0 || at < next) {
			next = at
		}
		return at > 0 && at <= now
	}) {
		e.q.endUnstored(j, EventExpired, local.Expired, nil)
	}
	if next > 0 {
		e.look(max(next, now+expiriesEvery))
	}
}

// close stops the timer; a look that is under way is waited for by Shutdown.
func (e *expiries) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	if e.timer != nil {
		e.timer.Stop()
	}
}
