package bridge

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

// crew runs the claims of a Run, at most Workers at a time. A worker is a goroutine that takes the
// next claim when it is done with one, and ends when there is none.
//
// Claims may wait here for a worker, so that quick handlers do not stand idle for the length of an
// exchange: as many as will be begun within ahead, at the rate seen last (Little's law); with slow
// handlers that is none. One that has waited for longer than a look or two, because the handlers have
// become slow, goes back to the queue with all behind it, where others may take it.
type crew struct {
	r       *run
	changed chan struct{} // a token when there may be room for more
	busy    sync.WaitGroup

	mu      sync.Mutex // guards what follows
	waiting []*execution
	low     int          // so few waiting are few
	seats   []*execution // by worker: what it runs
	idle    []int        // workers that run nothing
	rate    float64      // claims begun in a second, lately
	begun   int          // claims begun since then
	since   time.Duration
	looking *time.Timer
	seen    *execution // the last of those that waited at the last look
}

const (
	ahead     = 5 * time.Millisecond
	aheadMost = 768 // the store's lists of claims stay short
	lookEvery = 100 * time.Millisecond
)

// errWaited is why a claim that was not begun goes back.
var errWaited = errors.New("bridge: claimed ahead, and no worker was free soon")

func newCrew(r *run) *crew {
	c := &crew{r: r, changed: make(chan struct{}, 1), seats: make([]*execution, r.opts.Workers)}
	for seat := range c.seats {
		c.idle = append(c.idle, seat)
	}
	return c
}

// room is how many more claims can be run at once or soon; 0: none until changed says so.
func (c *crew) room() int {
	now := c.r.q.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if span := now - c.since; span >= time.Millisecond {
		c.rate = (c.rate + float64(c.begun)/span.Seconds()) / 2
		c.begun, c.since = 0, now
	}
	most := min(int(c.rate*ahead.Seconds()), aheadMost)
	c.low = most / 2
	if len(c.idle) == 0 && (most == 0 || len(c.waiting) > c.low) {
		return 0
	}
	return max(len(c.idle)+most-len(c.waiting), 0)
}

// quick tells whether claims are made ahead.
func (c *crew) quick() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.low > 0
}

// wait waits until there may be more room, and reports false when soon is over, or where that is not to be expected. The
// caller passes on by signal what it was told: somebody else may wait for room.
func (c *crew) wait(soon <-chan time.Time) bool {
	if !c.quick() {
		return false
	}
	select {
	case <-c.changed:
		return true
	case <-soon:
		return false
	}
}

func (c *crew) signal() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// run takes claims: those for which there is no worker wait.
func (c *crew) run(claims []*execution) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, claims...)
	free := min(len(c.idle), len(c.waiting))
	for _, seat := range c.idle[len(c.idle)-free:] {
		c.busy.Add(1)
		go c.work(seat)
	}
	c.idle = c.idle[:len(c.idle)-free]
	if len(c.waiting) > free && c.looking == nil {
		c.looking = time.AfterFunc(lookEvery, c.look)
	}
}

func (c *crew) work(seat int) {
	home := false
	defer func() {
		if !home { // a handler left by runtime.Goexit, and took its worker along
			go c.work(seat)
			return
		}
		c.busy.Done()
	}()
	for e := c.next(seat); e != nil; e = c.next(seat) {
		e.run()
	}
	home = true
}

// next gives a worker the next claim; nil ends it. A claim of a session that has ended takes no
// seat: after Run has given up what is running, nobody would know of it.
func (c *crew) next(seat int) *execution {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seats[seat] = nil
	if len(c.waiting) <= c.low {
		c.signal()
	}
	if len(c.waiting) == 0 {
		c.idle = append(c.idle, seat)
		return nil
	}
	e := c.waiting[0]
	c.waiting[0] = nil
	c.waiting = c.waiting[1:]
	c.begun++
	if e.s.ctx.Err() == nil {
		c.seats[seat] = e
	}
	return e
}

// look returns what waits to the queue, if the last of those that waited at the last look still does. The
// first would not do: where handlers are slow but end, it is another each time.
func (c *crew) look() {
	c.mu.Lock()
	var late []*execution
	if slices.Contains(c.waiting, c.seen) {
		late = c.take()
	}
	c.looking, c.seen = nil, nil
	if len(c.waiting) > 0 {
		c.seen = c.waiting[len(c.waiting)-1]
		c.looking = time.AfterFunc(lookEvery, c.look)
	}
	c.mu.Unlock()
	c.handOn(late, errWaited)
}

// take takes all that waits; handOn must follow. mu is held.
func (c *crew) take() []*execution {
	all := c.waiting
	c.waiting, c.rate, c.begun = nil, 0, 0
	if c.looking != nil && c.looking.Stop() { // else look is on its way
		c.looking = nil
	}
	if len(all) > 0 {
		c.busy.Add(1) // until it is handed on
	}
	return all
}

// clear returns to the queue whatever waits.
func (c *crew) clear(why error) {
	c.mu.Lock()
	all := c.take()
	c.mu.Unlock()
	c.handOn(all, why)
}

func (c *crew) handOn(claims []*execution, why error) {
	if len(claims) > 0 {
		c.r.putBack(claims, why)
		c.busy.Done()
	}
}

// putBack releases claims that were not begun, all at once, so that they keep their order.
func (r *run) putBack(claims []*execution, why error) {
	for _, e := range claims {
		e.ended(EventReleased, durable.Outcome{Verdict: durable.Release}, why)
	}
	r.settler.add(claims...)
}

// each calls f for what is running, and nothing begins or ends meanwhile.
func (c *crew) each(f func(*execution)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.seats {
		if e != nil {
			f(e)
		}
	}
}
