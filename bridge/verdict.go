package bridge

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-9dec4fca/weir/local"
)

// Causes with which a handler's context ends; read them with context.Cause.
var (
	// ErrLeaseLost: this process could not renew its lease, so the job may be running
	// elsewhere already. Whatever the handler returns, its claim is no longer its own.
	ErrLeaseLost = errors.New("bridge: lease lost")
	// ErrStopping: Run was asked to stop and the grace time is over. The job goes back to the
	// queue and no attempt is charged, unless the handler returns nil. It is local.ErrStopping.
	ErrStopping = local.ErrStopping
	// ErrTimeout: the handler has used up its own timeout. It counts as a failed run, unless the
	// handler returns nil within a second.
	ErrTimeout = errors.New("bridge: handler timed out")
	// ErrCancelled: Queue.Cancel was called for the job. If the handler returns nil it has completed, and with Permanent it is
	// dead; else it ends cancelled, and is not retried. It is local.ErrCancelled.
	ErrCancelled = local.ErrCancelled
)

// Other errors of this package.
var (
	// ErrDuplicate: a job with this ID, or with this unique key, is in the store already, but there is nothing to wait for:
	// it is dead, or quarantined, or has ended since.
	ErrDuplicate = errors.New("bridge: a job with this ID or key is already there")
	// ErrNotFollowed: the job is a duplicate of one that this process does not know, and the engine tells nobody what becomes of
	// other processes' jobs.
	ErrNotFollowed = errors.New("bridge: the engine does not tell what becomes of the first job")
	// ErrEnded: the job that is to be cancelled has ended already.
	ErrEnded = errors.New("bridge: the job has ended already")
	// ErrRunning: Run was called while another Run of the same queue is going on. It is local.ErrRunning.
	ErrRunning = local.ErrRunning
	// ErrNoHandler: Run was called before any kind had a handler. It is local.ErrNoHandler.
	ErrNoHandler = local.ErrNoHandler
	// ErrHandlerSet: Handle was called a second time for one kind. It is local.ErrHandlerSet.
	ErrHandlerSet = local.ErrHandlerSet
	// ErrStuck: Run ended while handlers that ignore their contexts were still running.
	// Their claims were given up. It is local.ErrStuck.
	ErrStuck = local.ErrStuck
	// ErrGone: the job's record was removed from the store while the job was running.
	ErrGone = errors.New("bridge: job was removed from the store")
	// ErrUnsettled: the store could not be told how a run ended; it will run again.
	ErrUnsettled = errors.New("bridge: outcome not recorded")
)

// Permanent marks an error of a handler as final: the job goes dead at once, whatever is
// left of its attempts. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Snooze is what a handler returns to have its job run again after d, without a
// failure being charged. d is cut to whole milliseconds and is at least one.
func Snooze(d time.Duration) error { return &snoozeError{max(d, time.Millisecond)} }

type snoozeError struct{ delay time.Duration }

func (e *snoozeError) Error() string { return fmt.Sprintf("bridge: snooze for %v", e.delay) }

// PanicError is the failure of a handler that panicked or ended its goroutine with
// runtime.Goexit.
type PanicError = local.PanicError

// because is an error of a class, with its cause; the cause alone where it says the class itself, as a handler's does that
// returns the cause of its context.
func because(class, cause error) error {
	if errors.Is(cause, class) {
		return cause
	}
	return fmt.Errorf("%w: %w", class, cause)
}
