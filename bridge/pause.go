package bridge

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/policy"
)

// intake is what this process knows of a pause of the intake: from the answer to its last append,
// or from Stats. What was accepted before it was known waits in the front.
type intake struct {
	cause  atomic.Pointer[error] // nil: it is not paused, as far as is known
	looked atomic.Int64          // when it was last asked because of a refused call, on the clock of now()
	asking atomic.Bool           // it is being asked
}

// askIntakeAfter is the time between two looks at a pause that refused calls ask for.
const askIntakeAfter = 500 * time.Millisecond

// paused is why Submit is refused; nil if it is not.
func (i *intake) paused() error {
	if cause := i.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}

// noteIntake takes the store's word for it.
func (q *Queue) noteIntake(p durable.Pause) {
	if !p.Active {
		if q.intake.cause.Load() != nil && q.intake.cause.Swap(nil) != nil {
			q.log.Info("weir: intake is resumed")
			q.emit(Event{Type: EventIntakeResumed})
		}
		return
	}
	if p.By == "" && q.intake.cause.Load() != nil {
		return // known, perhaps with a name
	}
	cause := fmt.Errorf("%w: %w", policy.ErrUnusable, durable.ErrPaused)
	if p.By != "" {
		cause = fmt.Errorf("%w: %w: %v", policy.ErrUnusable, durable.ErrPaused, p)
	}
	if q.intake.cause.Swap(&cause) == nil {
		q.log.Warn("weir: intake is paused by an operator, submitting is refused until it is resumed")
		q.emit(Event{Type: EventIntakePaused, Err: cause})
	}
}

// askIntake has a pause looked at again, in the background, as askAgain does for a store that
// cannot be used. It reports false after Shutdown.
func (q *Queue) askIntake() bool {
	q.mu.Lock() // Shutdown waits for what has begun before it
	defer q.mu.Unlock()
	if q.down != nil {
		return false
	}
	looked := q.intake.looked.Load()
	if looked > 0 && q.now() < time.Duration(looked)+askIntakeAfter || !q.intake.asking.CompareAndSwap(false, true) {
		return true
	}
	q.intake.looked.Store(int64(max(q.now(), 1)))
	q.calls.begin(func() {
		defer q.intake.asking.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		defer cancel()
		if s, err := q.engine.Stats(ctx); err == nil {
			q.noteIntake(s.Intake)
		}
	})
	return true
}

// noteClaims takes the store's word for whether consumption is paused.
func (q *Queue) noteClaims(paused bool) {
	if q.claims.Swap(paused) == paused {
		return
	}
	if paused {
		q.log.Warn("weir: consumption is paused by an operator, nothing is claimed until it is resumed")
		q.emit(Event{Type: EventConsumptionPaused})
	} else {
		q.log.Info("weir: consumption is resumed")
		q.emit(Event{Type: EventConsumptionResumed})
	}
}

// warnings are what checks found doubtful: the last ones, and which have been logged.
type warnings struct {
	mu     sync.Mutex // guards what follows
	now    []string
	logged map[string]bool
}

// maxWarnings bounds what is remembered as logged.
const maxWarnings = 100

func (w *warnings) note(q *Queue, warned []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = warned
	for _, text := range warned {
		if w.logged[text] || len(w.logged) >= maxWarnings {
			continue
		}
		if w.logged == nil {
			w.logged = map[string]bool{}
		}
		w.logged[text] = true
		q.log.Warn("weir: doubtful, but usable", "warning", text)
	}
}

func (w *warnings) last() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.now)
}

// inspect is a check, with warnings where the engine has them.
func (q *Queue) inspect(ctx context.Context) ([]string, error) {
	if inspector, ok := q.engine.(durable.Inspector); ok {
		return inspector.Inspect(ctx)
	}
	return nil, q.engine.Check(ctx)
}
