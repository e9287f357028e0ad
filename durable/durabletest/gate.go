package durabletest

import (
	"context"
	"fmt"
	"sync"

	"github.com/seed-9dec4fca/weir/durable"
)

// Gate is an engine whose calls can be held before they are executed. It is safe for
// concurrent use. A new Gate holds nothing.
type Gate struct {
	engine

	mu    sync.Mutex
	gates [ops]gate
}

// gate is the state of one operation.
type gate struct {
	open    chan struct{} // closed by Release; nil while nothing is held
	waiting int           // calls held now
	arrived chan struct{} // closed when the next call is held; nil when nobody asks
}

// NewGate wraps an engine. Closing the Gate closes the engine.
func NewGate(inner durable.Engine) *Gate {
	g := &Gate{}
	g.engine = engine{inner: inner, hook: g.pass}
	return g
}

// Hold holds every call of op from now on. Calls already under way go on.
func (g *Gate) Hold(op Op) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gates[op].open == nil {
		g.gates[op].open = make(chan struct{})
	}
}

// Held blocks until a call of op is held, or ctx ends, which is the only error.
func (g *Gate) Held(ctx context.Context, op Op) error {
	s := &g.gates[op]
	for {
		g.mu.Lock()
		if s.waiting > 0 {
			g.mu.Unlock()
			return nil
		}
		if s.arrived == nil {
			s.arrived = make(chan struct{})
		}
		arrived := s.arrived
		g.mu.Unlock()
		select {
		case <-arrived:
		case <-ctx.Done():
			return fmt.Errorf("durabletest: no %s is held: %w", op, context.Cause(ctx))
		}
	}
}

// Release lets the held calls of op be executed, and holds no more.
func (g *Gate) Release(op Op) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gates[op].open != nil {
		close(g.gates[op].open)
		g.gates[op].open = nil
	}
}

// pass is the hook. A call whose context ends while it is held is not executed.
func (g *Gate) pass(ctx context.Context, op Op, _ string, call attempt) error {
	if err := g.wait(ctx, op); err != nil {
		return err
	}
	keep, err := call(ctx)
	keep()
	return err
}

func (g *Gate) wait(ctx context.Context, op Op) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := &g.gates[op]
	if s.open == nil {
		return nil
	}
	open := s.open
	s.waiting++
	if s.arrived != nil {
		close(s.arrived)
		s.arrived = nil
	}
	g.mu.Unlock()
	var err error
	select {
	case <-open:
	case <-ctx.Done():
		err = fmt.Errorf("durabletest: %s ended while it was held: %w: %w", op, durable.ErrNotExecuted, context.Cause(ctx))
	}
	g.mu.Lock()
	s.waiting--
	return err
}

var _ durable.Engine = (*Gate)(nil)
