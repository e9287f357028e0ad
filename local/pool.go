package local

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-9dec4fca/weir/policy"
)

// PoolOptions configures a Pool. Zero fields mean the default, negative ones are refused.
type PoolOptions struct {
	// Workers is how many tasks run at once, at most; as many as GOMAXPROCS. See Resize.
	Workers int
	// Capacity is how many tasks there are at once, those that run included; 1024.
	Capacity int
	// Bytes bounds the sizes of all these tasks together; 0: not bounded by bytes.
	Bytes int64
	// Policy is for calls that give the zero Policy; policy.Reject().
	Policy policy.Policy
	// MaxRetryAfter is the longest RetryAfter of a rejection; 30 s.
	MaxRetryAfter time.Duration
	// Full is told in turns that the pool has become full and that it no longer is, as
	// FrontOptions.Full is; nil: nobody is told.
	Full func(full bool)
	// Marks say when that is. Full at 1, no longer at 0.5; see policy.Marks.
	Marks policy.Marks
}

// Pool runs tasks in this process, on a bounded number of workers behind a Front: the same
// policies, rejections and tickets as for a durable queue, and nothing that survives the
// process.
//
// A task holds its slot from accept until it has ended. So Capacity bounds waiting and running
// tasks together: of 1,024 slots with 8 busy workers, 1,016 can wait. Tasks start in the
// order in which they were accepted.
//
// A ticket passes accepted and processing; it is never enqueued. Its end is one of
//
//   - completed: the task returned nil
//   - dead: it returned an error, panicked (*PanicError) or called runtime.Goexit. That
//     is the cause; there is no second run
//   - cancelled: it returned an error after its context had ended, or its group was cancelled
//     before it began
//   - abandoned: Shutdown handed it back, unrun
//   - dropped, evicted: as the policies have it
//
// No goroutine is started before the first task is accepted. Workers start when there is
// something to do for them, stay, and end with Shutdown.
//
// All methods are safe for concurrent use.
type Pool struct {
	front   *Front[task]
	dropped atomic.Int64
	running atomic.Bool // a call of Run is under way

	// ctx is what tasks get. It ends with the cause ErrStopping.
	ctx    context.Context
	cancel context.CancelCauseFunc

	stopOnce sync.Once
	returned []ReturnedTask // written by stopOnce
	gone     chan struct{}  // closed when it was stopped and the last worker has ended

	crew crew // guarded by the front's mutex, like all that is decided about slots
}

// task is one task: what is to be done, and who is told.
type task struct {
	work   work
	holder *holder // nil: of Go, nobody is told
}

// holder is what a task that has a ticket is known by.
type holder struct {
	group *Group // nil: none
	Promise
}

func newHolder(g *Group) *holder {
	h := &holder{group: g}
	h.initInMemory()
	return h
}

// work is what a task does.
type work interface {
	// do runs on a worker. t is the ticket, nil for Go; number is that of the admission.
	do(ctx context.Context, t *Ticket, number uint64) error
}

// funcWork is the work of Submit.
type funcWork func(ctx context.Context) error

func (f funcWork) do(ctx context.Context, _ *Ticket, _ uint64) error { return f(ctx) }

// NewPool makes a pool. It starts no goroutine.
func NewPool(o *PoolOptions) (*Pool, error) {
	if o == nil {
		o = &PoolOptions{}
	}
	switch {
	case o.Workers < 0:
		return nil, fmt.Errorf("local: PoolOptions.Workers is negative: %d", o.Workers)
	case o.Capacity < 0:
		return nil, fmt.Errorf("local: PoolOptions.Capacity is negative: %d", o.Capacity)
	case o.Bytes < 0:
		return nil, fmt.Errorf("local: PoolOptions.Bytes is negative: %d", o.Bytes)
	case o.MaxRetryAfter < 0:
		return nil, fmt.Errorf("local: PoolOptions.MaxRetryAfter is negative: %v", o.MaxRetryAfter)
	}
	if err := o.Policy.Validate(); err != nil {
		return nil, fmt.Errorf("local: PoolOptions.Policy: %w", err)
	}
	if err := o.Marks.Validate(); err != nil {
		return nil, fmt.Errorf("local: PoolOptions.Marks: %w", err)
	}
	front, err := NewFront(&FrontOptions[task]{
		Capacity: o.Capacity, Bytes: o.Bytes, Policy: o.Policy, MaxRetryAfter: o.MaxRetryAfter,
		Evicted: func(t task) { t.finish(Evicted, nil) },
		Full:    o.Full, Marks: o.Marks,
	})
	if err != nil {
		return nil, err
	}
	front.handful = handful
	p := &Pool{front: front, gone: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	p.crew = crew{p: p, size: o.Workers}
	if p.crew.size == 0 {
		p.crew.size = runtime.GOMAXPROCS(0)
	}
	front.arrived = func(s *Slot[task]) { // under the front's mutex
		if h := s.Job.holder; h != nil {
			h.ticket.number.Store(int64(s.number))
		}
		p.crew.arouse()
	}
	return p, nil
}

// Submit hands fn to the pool. It blocks only as policy pl says: for a Wait, at most until its
// limit or ctx's deadline. ctx bounds the admission, never the task, whose own context ends
// when the pool stops.
//
// A nil error means that the fate of the task is on the ticket; that of a task that pl
// discarded is in state Dropped already. An error means that fn will never run. It is a
// *policy.Rejection, which matches policy.ErrFull, ErrClosed, ErrTooLarge or ErrInvalid, or
// the error of a cancelled ctx.
//
// A task may submit to its own pool. That cannot deadlock it, although the slot of the task
// itself is not free before it returns: a Wait ends by its deadline, or at once
// (policy.ReasonPredicted) if what stands before it would take longer than that, at the
// rate at which tasks end.
func (p *Pool) Submit(ctx context.Context, fn func(ctx context.Context) error, pl policy.Policy) (*Ticket, error) {
	return p.SubmitSized(ctx, fn, 0, pl)
}

// SubmitSized is Submit for a task that counts with that many bytes against
// PoolOptions.Bytes. More than that is refused with policy.ErrTooLarge, less than 0 with
// policy.ErrInvalid.
func (p *Pool) SubmitSized(ctx context.Context, fn func(ctx context.Context) error, size int64, pl policy.Policy) (*Ticket, error) {
	if fn == nil {
		return nil, p.front.Refuse(policy.ReasonInvalid, policy.StageFront, errNilTask)
	}
	return p.submit(ctx, funcWork(fn), nil, size, pl)
}

// TrySubmit is Submit without waiting: there is room now, or the error matches
// policy.ErrFull. It does not overtake those who wait.
func (p *Pool) TrySubmit(fn func(ctx context.Context) error) (*Ticket, error) {
	return p.Submit(context.Background(), fn, policy.Reject())
}

var errNilTask = errors.New("local: task is nil")

func (p *Pool) submit(ctx context.Context, w work, g *Group, size int64, pl policy.Policy) (*Ticket, error) {
	if refusal := p.front.refuseFull(ctx, size, pl); refusal != nil { // then there is no ticket to be made
		return nil, refusal
	}
	t := task{work: w, holder: newHolder(g)}
	accepted, err := p.front.Admit(ctx, t, size, pl)
	if err != nil {
		return nil, err
	}
	ticket := &t.holder.ticket
	if !accepted {
		ticket.number.Store(-p.dropped.Add(1))
		t.finish(Dropped, nil)
	}
	return ticket, nil
}

// Go is Submit for who does not want to know: there is no ticket, and nothing but Stats and
// the report of Shutdown tells what becomes of the task. It is cheaper by what a ticket costs.
//
// A nil error means that fn is the pool's: it will run, unless it is evicted or handed back.
// An error means that it never will: a *policy.Rejection as from Submit, or ErrDropped if pl has
// discarded it.
func (p *Pool) Go(ctx context.Context, fn func(ctx context.Context) error, pl policy.Policy) error {
	if fn == nil {
		return p.front.Refuse(policy.ReasonInvalid, policy.StageFront, errNilTask)
	}
	accepted, err := p.front.Admit(ctx, task{work: funcWork(fn)}, 0, pl)
	if err == nil && !accepted {
		return ErrDropped
	}
	return err
}

// finish ends the ticket, and tells the group.
func (t task) finish(state State, cause error) {
	h := t.holder
	if h == nil {
		return
	}
	h.End(state, cause)
	if h.group != nil {
		h.group.ended(h.ticket.Err())
	}
}

// Resize changes the number of workers, at least 1. More start when there is something to do
// for them; of fewer, those too many end after the task they run. It does not block.
func (p *Pool) Resize(workers int) error {
	if workers < 1 {
		return fmt.Errorf("local: Pool.Resize: less than one worker: %d", workers)
	}
	p.front.mu.Lock()
	defer p.front.mu.Unlock()
	if !p.crew.stopped {
		p.crew.resize(workers)
	}
	return nil
}

// Pressure says how close the pool is to refusing, 0 to 1: the larger of the shares of
// slots and bytes in use. It does not block.
func (p *Pool) Pressure() float64 { return p.front.Pressure() }

// PoolStats is the state of a pool at one instant. Besides what Front promises,
//
//	Front.Released = Completed + Dead + Cancelled + Abandoned
type PoolStats struct {
	Front FrontStats

	Completed int64
	Dead      int64 // failed, panics included
	Panicked  int64 // of Dead, those that panicked or called runtime.Goexit
	Cancelled int64
	Abandoned int64 // handed back by Shutdown

	Workers int // as configured
	Started int // of them, those that have a goroutine now
	Running int // tasks that a worker has taken and that have not ended
}

// Stats reads all numbers at one instant. It does not block.
func (p *Pool) Stats() PoolStats {
	p.front.mu.Lock()
	defer p.front.mu.Unlock()
	s := p.crew.ends
	s.Front = p.front.stats(p.front.now())
	s.Workers, s.Started = p.crew.size, p.crew.present
	s.Completed = s.Front.Released - s.Dead - s.Cancelled - s.Abandoned
	s.Running = s.Front.Length - s.Front.Queued
	return s
}
