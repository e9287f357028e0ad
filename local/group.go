package local

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/seed-9dec4fca/weir/policy"
)

// GroupOptions configures a Group. The zero value of a field means its default.
type GroupOptions struct {
	// CancelOnError ends the contexts of the group's tasks, and keeps those that have not
	// begun from running, as soon as one ends other than completed; false.
	CancelOnError bool
}

// Group is tasks of a pool that are waited for together. Its tasks are like any others of the
// pool, and share its workers and bounds. It is safe for concurrent use.
type Group struct {
	pool          *Pool
	cancelOnError bool
	ctx           context.Context // of its tasks
	cancel        context.CancelCauseFunc
	detach        func() bool // ctx no longer ends with the pool's

	mu    sync.Mutex    // guards what follows
	open  int           // tasks that have not ended, and calls of Submit that have not returned
	quiet chan struct{} // closed when open falls to 0; nil: nobody waits
	first error         // the first bad end
	over  bool          // Wait has seen it quiet
}

// What a group ends with.
var (
	errGroupOver = errors.New("local: the group has been waited for")
	// ErrGroupFailed is the cause with which the contexts of a group's tasks end under
	// CancelOnError; the first error is matched too.
	ErrGroupFailed = errors.New("local: a task of the group failed")
)

// Group makes a group. Tasks of the group get a context that carries the values of ctx and
// ends with ctx, with the pool, or as o says; those that have not begun by then end as
// cancelled when their turn comes, without having run. o may be nil. Every group must
// be waited for: that lets go of ctx.
func (p *Pool) Group(ctx context.Context, o *GroupOptions) *Group {
	g := &Group{pool: p, cancelOnError: o != nil && o.CancelOnError}
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	g.detach = context.AfterFunc(p.ctx, func() { g.cancel(context.Cause(p.ctx)) })
	return g
}

// Submit is Pool.Submit for a task of the group. An error of it is the caller's to handle: it
// is not an error of the group. After Wait it matches policy.ErrClosed.
func (g *Group) Submit(ctx context.Context, fn func(ctx context.Context) error, pl policy.Policy) (*Ticket, error) {
	return g.SubmitSized(ctx, fn, 0, pl)
}

// SubmitSized is Pool.SubmitSized for a task of the group.
func (g *Group) SubmitSized(ctx context.Context, fn func(ctx context.Context) error, size int64, pl policy.Policy) (*Ticket, error) {
	if fn == nil {
		return nil, g.pool.front.Refuse(policy.ReasonInvalid, policy.StageFront, errNilTask)
	}
	g.mu.Lock()
	over := g.over
	g.open++
	g.mu.Unlock()
	if over {
		g.close()
		return nil, g.pool.front.Refuse(policy.ReasonClosed, policy.StageFront, errGroupOver)
	}
	t, err := g.pool.submit(ctx, funcWork(fn), g, size, pl)
	if err != nil {
		g.close()
	}
	return t, err
}

// ended is told of each task of the group that has ended.
func (g *Group) ended(err error) {
	if err != nil {
		g.mu.Lock()
		isFirst := g.first == nil
		if isFirst {
			g.first = err
		}
		g.mu.Unlock()
		if isFirst && g.cancelOnError {
			g.cancel(fmt.Errorf("%w: %w", ErrGroupFailed, err))
		}
	}
	g.close()
}

// close notes that one thing less is open.
func (g *Group) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open--; g.open == 0 && g.quiet != nil {
		close(g.quiet)
		g.quiet = nil
	}
}

// Wait blocks until all tasks of the group have ended, those that are submitted meanwhile
// included, and returns the first bad end, an *EndError, or nil if all have completed. That is the
// end of the group. If ctx ends first the error matches ctx's and its cause, and the group
// goes on. A task of the group must not wait for it without a deadline.
func (g *Group) Wait(ctx context.Context) error {
	for {
		g.mu.Lock()
		if g.open == 0 {
			g.over = true
			err := g.first
			g.mu.Unlock()
			g.detach()
			g.cancel(errGroupOver)
			return err
		}
		if g.quiet == nil {
			g.quiet = make(chan struct{})
		}
		quiet := g.quiet
		g.mu.Unlock()
		select {
		case <-quiet:
		case <-ctx.Done():
			return fmt.Errorf("local: waiting for a group: %w", contextError(ctx))
		}
	}
}
