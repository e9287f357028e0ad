package local

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// crew is the workers of a pool, guarded by the front's mutex.
//
// Whenever a task is queued, or in the hand, and a worker could be had for it, idle or not yet started, one
// worker is seeking: it was woken or started and has not looked at the queue since. It
// looks, takes a task, and has the next one woken if there is more. So a burst wakes workers
// one by one while submitting costs one wake-up at most, and none when all are busy.
type crew struct {
	p       *Pool
	size    int     // how many there should be, at most
	serving int     // how many there are, those who are about to end not counted
	present int     // goroutines
	seeking bool    // see above
	idle    *worker // those who sleep, the last one first: it is the warmest
	stopped bool
	ends    PoolStats // the counts of ends that are no completion
}

// worker is one of them. While it sleeps it belongs to the crew, else to its goroutine.
type worker struct {
	p       *Pool
	wake    chan struct{}
	next    *worker // below it among the idle
	seeking bool
	blind   int           // turns to come that need no look at the clock
	stride  int           // how many these were
	looked  time.Duration // when it did last
	slot    Slot[task]    // what it runs or has run; without work: nothing
	err     error         // what came of it
}

// arouse sees to it that somebody looks at the queue. mu is held.
func (c *crew) arouse() {
	switch {
	case c.seeking:
		return
	case c.idle != nil:
		c.rouse(true)
	case c.serving < c.size:
		c.serving++
		c.present++
		c.seeking = true
		w := &worker{p: c.p, wake: make(chan struct{}, 1), seeking: true}
		go w.work()
	}
}

// rouse wakes one who sleeps. mu is held.
func (c *crew) rouse(seeking bool) {
	w := c.idle
	c.idle, w.next = w.next, nil
	w.seeking = seeking
	c.seeking = c.seeking || seeking
	w.wake <- struct{}{}
}

// resize changes the number. mu is held.
func (c *crew) resize(size int) {
	c.size = size
	c.p.front.recall()
	for surplus := c.serving - size; surplus > 0 && c.idle != nil; surplus-- {
		c.rouse(false)
	}
	if c.p.front.queue.n > 0 {
		c.arouse()
	}
}

// work is a worker's goroutine, from its start until there are too many.
func (w *worker) work() {
	for w.serve() {
	}
}

// serve runs tasks. It returns false at the worker's end, and true if a task has panicked: the
// next call goes on after it.
func (w *worker) serve() (again bool) {
	defer func() {
		if w.slot.Job.work == nil {
			return
		}
		value := recover()
		w.err = Panicked(value)
		if again = value != nil; !again {
			go w.work() // runtime.Goexit is the end of this goroutine, not of the worker
		}
	}()
	for w.turn() {
		w.err = w.run()
	}
	return false
}

// run runs the task that was taken.
func (w *worker) run() error {
	t := w.slot.Job
	ctx := t.context(w.p)
	var ticket *Ticket
	if t.holder != nil {
		if t.holder.group != nil && ctx.Err() != nil {
			return errNotBegun
		}
		t.holder.markRunning()
		ticket = &t.holder.ticket
	}
	return t.work.do(ctx, ticket, w.slot.number)
}

var errNotBegun = errors.New("local: not begun")

// context is what the task gets.
func (t task) context(p *Pool) context.Context {
	if t.holder != nil && t.holder.group != nil {
		return t.holder.group.ctx
	}
	return p.ctx
}

// mostBlind is how many turns of a worker whose tasks are quick go by one look at the clock, which is dearer than all
// else about them. The drain rate needs no more than one look in a drainStep.
const mostBlind = 31

// look is now, or unread if nobody needs to know.
func (w *worker) look() time.Duration {
	if w.blind > 0 && !w.p.front.measuring.Load() {
		w.blind--
		return unread
	}
	now := w.p.front.now()
	if now-w.looked < drainStep {
		w.stride = min(2*w.stride+1, mostBlind)
	} else {
		w.stride = 0
	}
	w.looked, w.blind = now, w.stride
	return now
}

// turn ends the task that was run and takes the next one, in one step; it sleeps while there
// is none. False: the worker has ended.
func (w *worker) turn() bool {
	if w.playOn() {
		return true
	}
	c, f := &w.p.crew, w.p.front
	for {
		last, state, cause := w.slot.Job, Completed, error(nil)
		ended := last.work != nil
		if w.err != nil {
			state, cause = last.failure(w.p, w.err)
			w.err = nil
		}
		now := w.look()
		f.mu.Lock()
		if f.measuring.Load() { // perhaps since just now
			now = f.read(now)
		}
		f.collect() // what has ended on the hand counts with this end
		if ended {
			if f.barriers.slots > 0 {
				f.barriers.leave(w.slot.number)
			}
			f.free(now, 1, w.slot.size)
			if state != Completed {
				c.count(state, cause)
			}
		}
		if w.seeking {
			w.seeking, c.seeking = false, false
		}
		found, leaving := false, c.serving > c.size
		if leaving {
			c.serving--
			w.slot = Slot[task]{}
		} else if w.slot, found = f.pick(now, w.stride > 1); !found {
			w.next, c.idle = c.idle, w
		}
		if f.queue.n > 0 || f.hand.Load() != nil {
			c.arouse()
		}
		f.unlock(false)
		if ended {
			last.finish(state, cause)
		}
		switch {
		case found:
			return true
		case leaving:
			w.p.leave()
			return false
		}
		<-w.wake
	}
}

// playOn is turn without the mutex, off the hand, after a task that has completed, and without a look at the clock.
func (w *worker) playOn() bool {
	h := w.p.front.hand.Load()
	if h == nil || w.blind == 0 || w.err != nil || w.slot.size > 0 || w.slot.Job.work == nil {
		return false
	}
	last := w.slot.Job
	s, found, counted := h.next(true)
	if !counted {
		return false
	}
	w.blind--
	w.slot = s
	last.finish(Completed, nil)
	return found
}

// failure says what it is that a task ended with err.
func (t task) failure(p *Pool, err error) (State, error) {
	ctx := t.context(p)
	_, panicked := errors.AsType[*PanicError](err)
	switch {
	case panicked || ctx.Err() == nil:
		return Dead, err
	case errors.Is(err, errNotBegun):
		return Cancelled, context.Cause(ctx)
	case errors.Is(err, context.Cause(ctx)):
		return Cancelled, err
	}
	return Cancelled, fmt.Errorf("%w: %w", context.Cause(ctx), err)
}

// count counts one end that is no completion. mu is held.
func (c *crew) count(state State, cause error) {
	switch state {
	case Dead:
		c.ends.Dead++
		if _, panicked := errors.AsType[*PanicError](cause); panicked {
			c.ends.Panicked++
		}
	case Cancelled:
		c.ends.Cancelled++
	default:
		c.ends.Abandoned++
	}
}

// leave is a worker's last act.
func (p *Pool) leave() {
	p.front.mu.Lock()
	defer p.front.mu.Unlock()
	p.crew.present--
	p.crew.goneIfEmpty()
}

// goneIfEmpty tells that nobody is there and nobody will come. mu is held.
func (c *crew) goneIfEmpty() {
	if c.stopped && c.present == 0 {
		close(c.p.gone)
	}
}
