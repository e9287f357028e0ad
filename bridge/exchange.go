package bridge

import (
	"context"
	"sync"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

// exchanges are the calls of the engine that are under way, those included that nobody waits
// for any more. Users ask for numbers when they like, also while Shutdown waits: so a wait
// is for what has begun before it, and what begins later belongs to another group.
type exchanges struct {
	over    context.Context // ends at close
	endOver context.CancelFunc
	mu      sync.Mutex      // guards what follows
	group   *sync.WaitGroup // nothing is added to it once it is waited for; nil: none has begun
	closed  bool            // nothing begins any more
}

// begin runs f on a goroutine of its own, unless the exchanges are closed.
func (x *exchanges) begin(f func()) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return false
	}
	if x.group == nil {
		x.group = &sync.WaitGroup{}
	}
	x.group.Go(f)
	return true
}

// close lets nothing begin any more, and ends what has not been sent yet: an engine that was
// closed would connect anew.
func (x *exchanges) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	x.endOver()
}

func (x *exchanges) init() { x.over, x.endOver = context.WithCancel(context.Background()) }

// wait waits for what has begun, or for ctx.
func (x *exchanges) wait(ctx context.Context) {
	x.mu.Lock()
	group := x.group
	x.group = nil
	x.mu.Unlock()
	if group == nil {
		return
	}
	over := make(chan struct{})
	go func() { group.Wait(); close(over) }()
	select {
	case <-over:
	case <-ctx.Done():
	}
}

// call makes one exchange with the engine. It returns when the engine does, after
// limit at the latest, or at once when ctx ends: what is then still under way (a socket
// cannot be told to stop) counts as in doubt, and is waited for by Shutdown.
func call[R any](ctx context.Context, q *Queue, limit time.Duration, exchange func(context.Context) (R, error)) (R, error) {
	type answer struct {
		result R
		err    error
	}
	answered := make(chan answer, 1)
	var none R
	limited, cancel := context.WithTimeout(ctx, limit) // here: it panics for a nil ctx, on the caller's goroutine
	if !q.calls.begin(func() {
		defer cancel()
		defer context.AfterFunc(q.calls.over, cancel)()
		result, err := exchange(limited)
		answered <- answer{result, err}
	}) {
		cancel()
		return none, ErrShutdown
	}
	select {
	case a := <-answered:
		return a.result, a.err
	case <-ctx.Done():
		return none, because(durable.ErrInDoubt, context.Cause(ctx))
	}
}
