package cron

import (
	"context"
	"sync"
	"time"
)

// Notes are what instances share besides the queue: which tick of each schedule was dealt with last, and
// what time it is. They are to be as durable as the queue. Every method is safe for concurrent use, blocks for one
// exchange, ends by ctx, and may be called again after an error.
type Notes interface {
	// Now is the time by the clock that all instances share.
	Now(ctx context.Context) (time.Time, error)
	// Last reads notes. A name without one is not in the result.
	Last(ctx context.Context, names []string) (map[string]time.Time, error)
	// Note writes notes, in whole milliseconds. A note never goes back: an earlier moment than that noted changes nothing.
	Note(ctx context.Context, ticks map[string]time.Time) error
}

// MemoryNotes are notes in this process's memory, for tests and beside durable.Memory: all schedulers that share
// the queue share them. They keep every name they are given. The zero value is empty and ready.
type MemoryNotes struct {
	mu    sync.Mutex // guards ticks
	ticks map[string]time.Time
}

// NewMemoryNotes makes empty notes.
func NewMemoryNotes() *MemoryNotes { return &MemoryNotes{} }

// Now is the time of this process.
func (n *MemoryNotes) Now(ctx context.Context) (time.Time, error) {
	return time.Now().Round(0), ctx.Err()
}

// Last reads notes.
func (n *MemoryNotes) Last(ctx context.Context, names []string) (map[string]time.Time, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	found := map[string]time.Time{}
	for _, name := range names {
		if tick, ok := n.ticks[name]; ok {
			found[name] = tick
		}
	}
	return found, ctx.Err()
}

// Note writes notes.
func (n *MemoryNotes) Note(ctx context.Context, ticks map[string]time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ticks == nil {
		n.ticks = map[string]time.Time{}
	}
	for name, tick := range ticks {
		if tick.After(n.ticks[name]) {
			n.ticks[name] = tick.Truncate(time.Millisecond)
		}
	}
	return nil
}
