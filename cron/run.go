package cron

import (
	"container/heap"
	"context"
	"fmt"
	"time"
)

const (
	// lookEvery is how long Run sleeps at most, and how old what it knows of the shared clock gets. Timers go by the
	// monotonic clock, ticks by a wall clock, and somebody may set that.
	lookEvery = time.Minute
	// readAge is how old a note may be when it decides about ticks that were missed.
	readAge = 10 * time.Second
	// exchangeWithin bounds one exchange of notes.
	exchangeWithin = 5 * time.Second
	// lastWords is what Run may take to write its notes when it ends.
	lastWords = time.Second
	// oddClock is by how much this machine's clock may differ from the shared one before the log says so.
	oddClock = 10 * time.Second

	minAgain = time.Second // between attempts; doubled each time
	maxAgain = 30 * time.Second
)

// run is one Run: all of it belongs to its goroutine.
type run struct {
	s   *Scheduler
	ctx context.Context

	waiting agenda
	firing  int // goroutines under way
	fired   chan fired

	dirty     map[string]time.Time // notes to write
	unread    map[string]*schedule // notes to read, before anything else happens to them
	exchanges chan exchanged
	asking    bool
	retries   int
	notBefore time.Time // of the next exchange, on this process's clock

	base, learnt time.Time // the shared clock showed base at learnt
	odd          bool      // it differs from this machine's, and that was said
}

// loop works until the context ends or a queue is closed.
func (r *run) loop() error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for r.ctx.Err() == nil {
		for _, e := range r.s.take() {
			r.begin(e)
		}
		r.fireDue()
		r.exchange()
		timer.Reset(r.rest())
		select {
		case <-r.ctx.Done():
		case <-timer.C:
		case <-r.s.wake:
		case f := <-r.fired:
			r.settle(f)
			if f.closed {
				return fmt.Errorf("cron: schedule %q: %w", f.e.name, f.err)
			}
		case x := <-r.exchanges:
			r.learn(x)
		}
	}
	return nil
}

// end waits for what is under way, and writes the notes that are left.
func (r *run) end() error {
	for r.firing > 0 {
		r.settle(<-r.fired)
	}
	if r.asking {
		r.learn(<-r.exchanges)
	}
	if len(r.dirty) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), lastWords)
	defer cancel()
	if err := r.s.notes.Note(ctx, r.dirty); err != nil {
		// Nothing is lost: the ticks are submitted again, and are duplicates.
		r.s.log.Warn("cron: the last notes could not be written", "schedules", len(r.dirty), "error", err)
	}
	return nil
}

// now is the time that ticks go by.
func (r *run) now() time.Time {
	if r.s.notes == nil {
		return time.Now().Round(0)
	}
	return r.base.Add(time.Since(r.learnt))
}

// begin has a schedule looked at. Without notes it begins now.
func (r *run) begin(e *schedule) {
	if r.s.notes != nil {
		r.unread[e.name] = e
		return
	}
	e.moveTo(r.now())
	r.wait(e)
}

// wait puts a schedule on the agenda, unless there is nothing to wait for.
func (r *run) wait(e *schedule) {
	if !e.tick.IsZero() && r.s.has(e) {
		heap.Push(&r.waiting, e)
	}
}

// fireDue begins to fire what is due.
func (r *run) fireDue() {
	now := r.now()
	for len(r.waiting) > 0 && !r.waiting[0].at.After(now) {
		e := heap.Pop(&r.waiting).(*schedule)
		if !r.s.has(e) {
			continue
		}
		if e.missed(now) && r.s.notes != nil && now.Sub(e.read).Abs() > readAge {
			r.unread[e.name] = e // others may have fired it while this instance slept
			continue
		}
		fire, from, to := e.plan(now)
		if !from.IsZero() {
			r.s.log.Warn("cron: ticks were missed, and are skipped", "schedule", e.name, "first", from, "last", to)
			r.s.event(Event{Type: EventSkipped, Schedule: e.name, Tick: from, Until: to})
			r.deal(e, to)
		}
		if len(fire) == 0 {
			r.wait(e)
			continue
		}
		r.firing++
		go func() { r.fired <- e.fire(r.ctx, fire) }()
	}
}

// deal notes that ticks are dealt with.
func (r *run) deal(e *schedule, last time.Time) {
	e.moveTo(last)
	if r.s.notes != nil {
		r.dirty[e.name] = last
	}
}

// settle takes up what became of ticks.
func (r *run) settle(f fired) {
	r.firing--
	e := f.e
	for _, event := range f.events {
		if event.Type == EventFailed {
			r.s.log.Error("cron: a tick can never be enqueued", "schedule", e.name, "tick", event.Tick, "error", event.Err)
		}
		r.s.event(event)
	}
	if !f.last.IsZero() {
		e.retries = 0
		r.deal(e, f.last)
	}
	if f.err != nil && r.ctx.Err() == nil {
		e.at = r.now().Add(max(f.again, backOff(e.retries)))
		e.retries++
		r.s.log.Warn("cron: a tick could not be enqueued, and is tried again", "schedule", e.name, "tick", e.tick, "error", f.err)
		r.s.event(Event{Type: EventDelayed, Schedule: e.name, Tick: e.tick, Err: f.err})
	}
	r.wait(e)
}

// backOff is how long to wait after so many attempts that came to nothing.
func backOff(retries int) time.Duration { return min(maxAgain, minAgain<<min(retries, 8)) }

// rest is how long there is nothing to do.
func (r *run) rest() time.Duration {
	rest := lookEvery
	if len(r.waiting) > 0 {
		rest = min(rest, r.waiting[0].at.Sub(r.now()))
	}
	if r.s.notes != nil && !r.asking {
		due := lookEvery - time.Since(r.learnt)
		if len(r.dirty) > 0 || len(r.unread) > 0 {
			due = 0
		}
		rest = min(rest, max(due, time.Until(r.notBefore)))
	}
	return max(rest, 0)
}
