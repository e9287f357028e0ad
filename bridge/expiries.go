package bridge

import (
	"container/heap"
	"sync"
	"time"
	"weak"

	"github.com/seed-9dec4fca/weir/local"
)

// expiries look after jobs that are not worth waiting for any more, when that is so. Those in the front end; those that the
// shipper has taken are its own; and the store is asked for those that it has, if somebody waits for one of them: it ends them
// then, though no worker may be there to meet them.
type expiries struct {
	q  *Queue
	mu sync.Mutex // guards what follows; times are those of now()

	timer  *time.Timer   // nil: there was nothing to look at yet
	next   time.Duration // when it fires; 0: it does not
	front  time.Duration // when the front is to be looked through; 0: it is not
	stored storedExpiries
	closed bool
}

// storedExpiries is a heap by time.
type storedExpiries []storedExpiry

type storedExpiry struct {
	at time.Duration
	p  weak.Pointer[local.Promise]
}

func (s storedExpiries) Len() int           { return len(s) }
func (s storedExpiries) Less(i, j int) bool { return s[i].at < s[j].at }
func (s storedExpiries) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *storedExpiries) Push(x any)        { *s = append(*s, x.(storedExpiry)) }
func (s *storedExpiries) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	*s = (*s)[:last]
	return x
}

const (
	// expiriesEvery is the least time between two looks through the front, which may be long, and between two questions.
	expiriesEvery = 50 * time.Millisecond
	// expiryMargin is for what the store's clock and this one's may differ by in the time of an expiry, but for very long ones.
	expiryMargin = 20 * time.Millisecond
)

// look has the front looked through at a time, or before.
func (e *expiries) look(at time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.front == 0 || at < e.front {
		e.front = at
	}
	e.wake(at)
}

// keep has the store asked for a job that it has got just now, when it is over; of as many at once as tickets may be watched.
func (e *expiries) keep(p *local.Promise, left time.Duration) {
	at := e.q.now() + left + expiryMargin
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.stored) < e.q.opts.MaxWatched {
		heap.Push(&e.stored, storedExpiry{at, weak.Make(p)})
		e.wake(at)
	}
}

// wake has the timer fire at a time, or before. mu is held.
func (e *expiries) wake(at time.Duration) {
	if e.closed || e.next != 0 && e.next <= at {
		return
	}
	e.next = at
	if wait := at - e.q.now(); e.timer == nil {
		e.timer = time.AfterFunc(wait, func() { e.q.calls.begin(e.fire) })
	} else {
		e.timer.Reset(wait)
	}
}

// fire is what the timer does.
func (e *expiries) fire() {
	now := e.q.now()
	e.mu.Lock()
	e.next = 0
	front := e.front > 0 && e.front <= now
	if front {
		e.front = 0
	}
	var over []weak.Pointer[local.Promise]
	for len(e.stored) > 0 && e.stored[0].at <= now {
		over = append(over, heap.Pop(&e.stored).(storedExpiry).p)
	}
	if len(e.stored) > 0 {
		e.wake(max(e.stored[0].at, now+expiriesEvery))
	}
	if e.front > 0 {
		e.wake(e.front)
	}
	e.mu.Unlock()
	if front {
		e.end(now)
	}
	e.ask(over)
}

// end ends what is over in the front.
func (e *expiries) end(now time.Duration) {
	next := time.Duration(0)
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

// ask has the store asked for what is over there, if it waits and somebody looks at its ticket: now or later.
func (e *expiries) ask(over []weak.Pointer[local.Promise]) {
	var ids []string
	for _, w := range over {
		p := w.Value()
		if p == nil || p.Ticket().State() != local.Enqueued {
			continue
		}
		_, life := p.Origin()
		p.SetOrigin(0, life) // whoever looks from now on asks
		if p.LookedAt() {
			ids = append(ids, p.Ticket().ID())
		}
	}
	if len(ids) > 0 {
		e.q.following.ask(ids...)
	}
}

// close stops the timer; what it does is waited for by Shutdown.
func (e *expiries) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	if e.timer != nil {
		e.timer.Stop()
	}
}
