package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/examples/internal/scene"
)

// step is what a latency leads to; all are measured from the call of Submit on.
type step int

const (
	stepAccept   step = iota // Submit returned
	stepEnqueue              // Redis has it
	stepStart                // the handler is called
	stepComplete             // the completion is confirmed
	numSteps
)

var stepNames = [numSteps]string{"accept", "enqueue", "start", "complete"}

// watch measures how long each accepted job took to each state. It is the queue's event
// hook, so it must be quick and safe for concurrent use.
type watch struct {
	mu   sync.Mutex
	open map[string]flight
	took [numSteps][]time.Duration
	dead error // why the first dead job is dead
}

// flight is a job that has not passed all its steps.
type flight struct {
	begun                    time.Time
	enqueued, started, ended bool
}

func newWatch() *watch { return &watch{open: map[string]flight{}} }

// begin is called before Submit: the first event can come before Submit returns.
func (w *watch) begin(id string) time.Time {
	now := time.Now()
	w.mu.Lock()
	w.open[id] = flight{begun: now}
	w.mu.Unlock()
	return now
}

// forget is called when the job was not accepted.
func (w *watch) forget(id string) {
	w.mu.Lock()
	delete(w.open, id)
	w.mu.Unlock()
}

func (w *watch) accepted(begun time.Time) {
	took := time.Since(begun)
	w.mu.Lock()
	w.took[stepAccept] = append(w.took[stepAccept], took)
	w.mu.Unlock()
}

// event follows a job. A worker of this process may be quicker than the answer to the
// append, so enqueued can come last.
func (w *watch) event(e bridge.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f, ok := w.open[e.ID]
	if !ok {
		return
	}
	after := e.Time.Sub(f.begun)
	switch e.Type {
	case bridge.EventEnqueued:
		f.enqueued = true
		w.took[stepEnqueue] = append(w.took[stepEnqueue], after)
	case bridge.EventStarted:
		if !f.started {
			w.took[stepStart] = append(w.took[stepStart], after)
		}
		f.started = true
	case bridge.EventCompleted:
		f.ended = true
		w.took[stepComplete] = append(w.took[stepComplete], after)
	case bridge.EventDead:
		f.ended = true
		if w.dead == nil {
			w.dead = e.Err
		}
	case bridge.EventEvicted, bridge.EventRefused, bridge.EventAbandoned, bridge.EventUncertain,
		bridge.EventDuplicate, bridge.EventCancelled, bridge.EventExpired:
		f.enqueued, f.ended = true, true // it will not come to that
	default:
		return
	}
	if w.open[e.ID] = f; f.enqueued && f.ended {
		delete(w.open, e.ID)
	}
}

// latencies is the last table, and why a job is dead if one is.
func (w *watch) latencies() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "\nlatency from Submit on      p50        p99\n")
	for s, took := range w.took {
		slices.Sort(took)
		fmt.Fprintf(&b, "  %-17s %10s %10s\n", stepNames[s], scene.Quantile(took, 50), scene.Quantile(took, 99))
	}
	if w.dead != nil {
		fmt.Fprintf(&b, "\nThe first dead job: %v\n", w.dead)
	}
	return b.String()
}
