package durabletest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

// Action is what happens to a call.
type Action uint8

// Actions.
const (
	Pass     Action = iota // executed and answered
	Refuse                 // not executed; the error is durable.ErrNotExecuted
	Lose                   // executed, the answer is lost: durable.ErrInDoubt
	Repeat                 // executed twice; the second answer is given
	Postpone               // durable.ErrInDoubt now, executed Delay later, the answer lost
	Hang                   // waits for Faulty.Release, then executed and answered; durable.ErrInDoubt, and not executed, when ctx ends first
)

func (a Action) String() string {
	names := []string{"pass", "refuse", "lose", "repeat", "postpone", "hang"}
	if int(a) >= len(names) {
		return "unknown"
	}
	return names[a]
}

// Fault is what a Faulty does with one call. The zero value lets it pass.
type Fault struct {
	Action Action
	// Delay is how long the call waits before anything else is done with it; when ctx ends in
	// that time it is not executed. A postponed call is answered at once and executed after it.
	Delay time.Duration
	// Err is what the caller gets in place of the action's own error; nil: that one.
	Err error
}

// Call is what a fault is chosen for.
type Call struct {
	Op     Op
	Seq    int    // how many of this Op there have been, this one included
	Sender string // identity of the producer or consumer; empty for the engine's own calls
}

// Faulty is an engine that makes calls fail. It is safe for concurrent use.
type Faulty struct {
	engine
	decide func(Call) Fault

	mu      sync.Mutex
	calls   [ops]int
	release chan struct{} // closed to let hung calls go on

	late   sync.WaitGroup // postponed calls
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// NewFaulty wraps an engine. Decide chooses for every call, see Script and Seeded; it is
// asked by one goroutine at a time, must not block, and may be nil: everything passes.
func NewFaulty(inner durable.Engine, decide func(Call) Fault) *Faulty {
	f := &Faulty{decide: decide, release: make(chan struct{})}
	f.ctx, f.cancel = context.WithCancelCause(context.Background())
	f.engine = engine{inner: inner, hook: f.call}
	return f
}

// Calls tells how many calls of op there have been.
func (f *Faulty) Calls(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

// Release lets go on the calls that hang now.
func (f *Faulty) Release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.release)
	f.release = make(chan struct{})
}

// Settled blocks until every postponed call so far has been executed.
func (f *Faulty) Settled() { f.late.Wait() }

// Close forgets what is postponed and not under way, waits for the rest, and closes the
// engine. Calls that come later are not postponed but lost.
func (f *Faulty) Close() error {
	f.mu.Lock()
	f.cancel(context.Canceled)
	f.mu.Unlock()
	f.late.Wait()
	return f.engine.Close()
}

// call is the hook.
func (f *Faulty) call(ctx context.Context, op Op, sender string, call attempt) error {
	f.mu.Lock()
	f.calls[op]++
	var fault Fault
	if f.decide != nil {
		fault = f.decide(Call{Op: op, Seq: f.calls[op], Sender: sender})
	}
	release := f.release
	if fault.Action == Postpone && f.ctx.Err() == nil {
		f.late.Go(func() {
			if pause(f.ctx, fault.Delay) == nil {
				_, _ = call(f.ctx)
			}
		})
	}
	f.mu.Unlock()

	lost := func(class error) error {
		if fault.Err != nil {
			return fault.Err
		}
		return fmt.Errorf("durabletest: %s %s: %w", fault.Action, op, class)
	}
	if fault.Action == Postpone {
		return lost(durable.ErrInDoubt)
	}
	if err := pause(ctx, fault.Delay); err != nil {
		return fmt.Errorf("durabletest: delay %s: %w: %w", op, durable.ErrNotExecuted, err)
	}
	switch fault.Action {
	case Refuse:
		return lost(durable.ErrNotExecuted)
	case Lose:
		_, _ = call(ctx)
		return lost(durable.ErrInDoubt)
	case Hang:
		select {
		case <-release:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", lost(durable.ErrInDoubt), context.Cause(ctx))
		}
	case Repeat:
		_, _ = call(ctx)
	case Pass, Postpone:
	}
	keep, err := call(ctx)
	keep()
	return err
}

// pause waits; its error is that of ctx.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Script gives the n-th call of an operation its n-th fault; those after the last pass.
func Script(faults map[Op][]Fault) func(Call) Fault {
	return func(c Call) Fault {
		if script := faults[c.Op]; c.Seq <= len(script) {
			return script[c.Seq-1]
		}
		return Fault{}
	}
}

// Seeded gives each call one of faults with the probability share, else lets it pass. What
// the n-th call of an operation gets depends on the seed alone, whatever runs beside it.
func Seeded(seed uint64, share float64, faults ...Fault) func(Call) Fault {
	return func(c Call) Fault {
		r := rand.New(rand.NewPCG(seed, uint64(c.Op)<<32|uint64(c.Seq)))
		if len(faults) == 0 || r.Float64() >= share {
			return Fault{}
		}
		return faults[r.IntN(len(faults))]
	}
}

var _ durable.Engine = (*Faulty)(nil)
