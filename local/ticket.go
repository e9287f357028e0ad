package local

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
)

// Ticket is the producer's view of one job. All methods are safe for concurrent use.
type Ticket struct {
	// status is the state in the low byte, and what has ever been reached above. It changes by
	// compare-and-swap, from anywhere; after an end it does not change.
	//
	// A channel is made, and closed if its state is reached already, after isWatched was set.
	// Whoever changes the status and sees isWatched closes what is reached; whoever does not
	// see it was first, and the status that the maker of the channel reads shows it. So as
	// long as nobody looks nothing is locked.
	status atomic.Uint32
	era    atomic.Uint32 // see Promise.SetOrigin

	id     string
	number atomic.Int64 // of a pool's task, whose id is empty; else which life of id this is

	mu                       sync.Mutex    // guards the channels and more, and makes bad ends one by one
	enqueued, started, ended chan struct{} // made when asked for
	err                      *EndError     // written before the status of the bad end
	more                     *more         // nil: nothing of it
	lookout                  *Lookout      // nil: nobody is
}

// Flags of status.
const (
	stateMask   = 0xff
	wasEnqueued = 1 << 8
	wasStarted  = 1 << 9
	inMemory    = 1 << 10 // a pool's: it never becomes durable
	isWatched   = 1 << 11 // a channel was asked for, or another ticket shares what becomes of this one
	unanswered  = 1 << 12 // it is enqueued when it is known how many replicas have it, and not before
	isLookedAt  = 1 << 13 // a channel was asked for, of what others than the owner of the promise may make of the job; or at a twin
	heardNews   = 1 << 14 // the store has told of others while a worker of this process had the job
	isKept      = 1 << 15 // the lookout holds on to it
	replicas    = 16      // eight bits from here on: how many have it
	claims      = 24      // the bits from here on: how many workers of this process have the job, and will say how it ends
)

// ErrInMemory is what waiting for the job of a Pool to be enqueued comes to: it never leaves
// the memory of this process.
var ErrInMemory = errors.New("local: the job of a pool is never durable")

// ID is the job's. Those of a Pool are unique within the pool.
func (t *Ticket) ID() string {
	if t.id != "" {
		return t.id
	}
	switch n := t.number.Load(); {
	case n == 0:
		return ""
	case n < 0: // never had a slot
		return "dropped-" + strconv.FormatInt(-n, 10)
	default:
		return "task-" + strconv.FormatInt(n, 10)
	}
}

// State tells where the job is, as far as this process knows. It does not block.
//
// Who calls State, Err or Result only, however often, does not count as looking at the ticket: that begins with the first call of
// Started, Done, Wait or Progress. Before it this process need not find out what others make of the job, and State may stay Enqueued
// for ever though the job has ended there. Where only State is wanted, call Done once, and drop what it returns.
func (t *Ticket) State() State { return State(t.status.Load() & stateMask) }

// Err is nil while the job is under way and when it has completed, else an *EndError. It
// does not block.
func (t *Ticket) Err() error {
	if state := t.State(); !state.Ended() || state == Completed {
		return nil
	}
	return t.err
}

// Replicas is how many replicas of the store had the job when it was reported enqueued; 0 where none were
// asked for. It is known once Enqueued is closed. It does not block.
func (t *Ticket) Replicas() int { return int(t.status.Load() >> replicas & math.MaxUint8) }

// Enqueued returns a channel that closes when the job is durable, or can no longer become
// so as far as this ticket will tell; State and WaitEnqueued know which.
func (t *Ticket) Enqueued() <-chan struct{} {
	return t.channel(&t.enqueued, func(s uint32) bool { return s&(wasEnqueued|inMemory) != 0 || State(s&stateMask).Ended() })
}

// Started returns a channel that closes when the handler is called for the first time, or
// will not be as far as this ticket will tell.
func (t *Ticket) Started() <-chan struct{} {
	defer t.look()
	defer t.keep()
	return t.channel(&t.started, func(s uint32) bool { return s&wasStarted != 0 || State(s&stateMask).Ended() })
}

// Done returns a channel that closes when the ticket has reached its end. Whoever waits on it, or on the channel of Started or
// Progress, need not hold the ticket: it is held on to until its end, then.
func (t *Ticket) Done() <-chan struct{} {
	defer t.keep()
	return t.done()
}

// done is Done for who holds t as long as he waits.
func (t *Ticket) done() <-chan struct{} {
	defer t.look()
	return t.channel(&t.ended, func(s uint32) bool { return State(s & stateMask).Ended() })
}

// channel makes a channel that set closes when reached first holds, closed already if it
// holds now.
func (t *Ticket) channel(c *chan struct{}, reached func(status uint32) bool) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if *c == nil {
		*c = make(chan struct{})
		if s := t.status.Or(isWatched); reached(s) {
			close(*c)
		}
	}
	return *c
}

// WaitEnqueued blocks until the job is durable: nil, also when it has come to a bad end
// since; or has ended before it was: an *EndError. For the job of a Pool it is ErrInMemory, at
// once. If ctx ends first the error matches ctx's
// and its cause, and the job goes on.
func (t *Ticket) WaitEnqueued(ctx context.Context) error {
	if done, err := t.enqueuedOutcome(); done {
		return err
	}
	select {
	case <-t.Enqueued():
	case <-ctx.Done():
	}
	if done, err := t.enqueuedOutcome(); done {
		return err
	}
	return fmt.Errorf("local: waiting for job %s to be enqueued: %w", t.ID(), contextError(ctx))
}

func (t *Ticket) enqueuedOutcome() (done bool, err error) {
	s := t.status.Load()
	switch {
	case s&wasEnqueued != 0:
		return true, nil
	case s&inMemory != 0:
		return true, ErrInMemory
	case State(s & stateMask).Ended():
		return true, t.Err()
	}
	return false, nil
}

// Wait blocks until the ticket reaches its end: nil if the job has completed, else an
// *EndError. If ctx ends first the error matches ctx's and its cause, and the job goes on.
func (t *Ticket) Wait(ctx context.Context) error {
	if t.State().Ended() {
		return t.Err()
	}
	select {
	case <-t.done():
	case <-ctx.Done():
	}
	if t.State().Ended() {
		return t.Err()
	}
	return fmt.Errorf("local: waiting for job %s: %w", t.ID(), contextError(ctx))
}

// Promise is the owner's end of a ticket, to be embedded in what the owner keeps of a job,
// so that both are one allocation. It must be given its Init before anything else, and
// not be copied after. Marks that come too late are ignored; all methods are safe for
// concurrent use and none blocks.
type Promise struct{ ticket Ticket }

// Init makes p the promise for a job that is accepted.
func (p *Promise) Init(id string) { p.ticket.id = id }

// initInMemory is Init for a job that is never durable, and gets its number later.
func (p *Promise) initInMemory() { p.ticket.status.Store(inMemory) }

// Ticket returns the ticket, always the same.
func (p *Promise) Ticket() *Ticket { return &p.ticket }

// MarkEnqueued notes that the job is durable. If it has been started meanwhile, by a worker
// that was quicker than the answer to the append, it stays processing.
func (p *Promise) MarkEnqueued() {
	p.ticket.set(func(s State) State { return max(s, Enqueued) }, wasEnqueued)
}

// ExpectReplicas has the job count as enqueued by MarkReplicated only, not by a worker that is quicker. It
// comes before all marks.
func (p *Promise) ExpectReplicas() { p.ticket.status.Or(unanswered) }

// MarkReplicated is MarkEnqueued, with the number of replicas that have the job; up to 255 are told apart.
func (p *Promise) MarkReplicated(n int) {
	p.ticket.status.And(^uint32(unanswered))
	p.ticket.status.Or(uint32(min(n, math.MaxUint8)) << replicas) //nolint:gosec // it is small
	p.MarkEnqueued()
}

// MarkStarted notes that a handler is called; the job is durable, then.
func (p *Promise) MarkStarted() {
	p.ticket.set(func(State) State { return Processing }, wasEnqueued|wasStarted)
}

// Claimed reports whether a worker of this process has the job: see Registry.Claim.
func (p *Promise) Claimed() bool { return p.claimed() > 0 }

// claimed is how many workers have it: those to whom the lease was lost may have it still.
func (p *Promise) claimed() uint32 { return p.ticket.status.Load() >> claims }

// markRunning is MarkStarted for a job that is not durable.
func (p *Promise) markRunning() { p.ticket.set(func(State) State { return Processing }, wasStarted) }

// MarkRequeued notes that the job is durable and waits for a worker again. If another worker of this process has it by
// now that is older than its claim, and says only that the job is durable.
func (p *Promise) MarkRequeued() { p.requeued(1) }

// HeardStarted is MarkStarted for what the store tells that others have done.
func (p *Promise) HeardStarted() {
	p.heard() // first: a worker may let go meanwhile
	p.MarkStarted()
}

// HeardRequeued is MarkRequeued for what the store tells, which may be older than the claim of any worker of this process.
func (p *Promise) HeardRequeued() {
	p.heard()
	p.requeued(0)
}

// requeued is for who knows of so many workers of this process.
func (p *Promise) requeued(known uint32) {
	p.ticket.set(func(s State) State {
		if p.claimed() > known { // or this is tried again
			return max(s, Enqueued)
		}
		return Enqueued
	}, wasEnqueued)
}

// heard has Registry.Unclaim tell that there was news.
func (p *Promise) heard() {
	if p.Claimed() {
		p.ticket.status.Or(heardNews)
	}
}

// End ends the ticket, and reports whether this call did: the first one does. cause may be
// nil. For Completed it is ignored.
func (p *Promise) End(state State, cause error) bool {
	if !state.Ended() {
		panic("local: Promise.End: " + state.String() + " is not an end")
	}
	t := &p.ticket
	if state == Completed {
		return t.set(func(State) State { return Completed }, 0)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.State().Ended() {
		return false
	}
	t.err = &EndError{ID: t.ID(), State: state, Cause: cause} // nobody reads it if a good end comes first now
	reached, watched, moved := t.move(func(State) State { return state }, 0)
	if watched {
		t.announce(true, reached)
	}
	return moved
}

// set moves to the next state, notes what is reached, and closes the channels of that. It
// reports false if the ticket has ended before.
func (t *Ticket) set(next func(State) State, reached uint32) bool {
	reached, watched, moved := t.move(next, reached)
	if watched {
		t.mu.Lock()
		t.announce(t.State().Ended(), reached)
		t.mu.Unlock()
	}
	return moved
}

// move changes the status, unless the ticket has ended. watched: it has, and there may be
// channels to close: those of now.
func (t *Ticket) move(next func(State) State, reached uint32) (now uint32, watched, moved bool) {
	for {
		s := t.status.Load()
		if State(s & stateMask).Ended() {
			return 0, false, false
		}
		now = reached
		if s&unanswered != 0 {
			now &^= wasEnqueued
		}
		if t.status.CompareAndSwap(s, s&^stateMask|uint32(next(State(s&stateMask)))|now) {
			return now, s&isWatched != 0, true
		}
	}
}

// announce closes the channels of what is reached. mu is held.
func (t *Ticket) announce(ended bool, reached uint32) {
	if ended || reached&wasEnqueued != 0 {
		closeOpen(t.enqueued)
	}
	if ended || reached&wasStarted != 0 {
		closeOpen(t.started)
	}
	if ended {
		closeOpen(t.ended)
		if t.status.Load()&isKept != 0 {
			t.letGo()
		}
	}
	if t.more != nil {
		t.more.announce(t, ended)
	}
}

// closeOpen closes c if it was made and is open. The ticket's mu is held.
func closeOpen(c chan struct{}) {
	if c == nil {
		return
	}
	select {
	case <-c:
	default:
		close(c)
	}
}
