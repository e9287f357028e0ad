package local

import (
	"errors"
	"fmt"
)

// State is where a job is, as its ticket knows it.
type State uint32

// States. The first three are passed through, some more than once; the others are ends:
// a ticket reaches exactly one of them, once.
const (
	Accepted   State = iota // holds a slot of the front; in this process's memory only
	Enqueued                // durable; also while a retry waits
	Processing              // its handler is running
	Completed               // its handler succeeded, and that is confirmed
	Dropped                 // discarded on arrival by DropIncoming
	Evicted                 // displaced by DropOldest
	Refused                 // the durable side said no, for good
	Abandoned               // could not be made durable, and certainly never will be
	Uncertain               // sent, but unanswered in time: it may still run
	Dead                    // failed for good; kept for the operator
	Cancelled               // its cancellation was asked for
	Expired                 // waited longer than it was worth
	Detached                // no longer watched by this process; the job goes on
)

// Ended reports whether s is an end.
func (s State) Ended() bool { return s >= Completed }

// isFate reports whether s is an end of a job that is, or was, durable, and so that of all tickets that share it.
func (s State) isFate() bool {
	switch s {
	case Completed, Dead, Cancelled, Expired:
		return true
	default:
		return false
	}
}

// String is the name in lower case.
func (s State) String() string {
	switch s {
	case Accepted:
		return "accepted"
	case Enqueued:
		return "enqueued"
	case Processing:
		return "processing"
	case Completed:
		return "completed"
	case Dropped:
		return "dropped"
	case Evicted:
		return "evicted"
	case Refused:
		return "refused"
	case Abandoned:
		return "abandoned"
	case Uncertain:
		return "uncertain"
	case Dead:
		return "dead"
	case Cancelled:
		return "cancelled"
	case Expired:
		return "expired"
	case Detached:
		return "detached"
	}
	return fmt.Sprintf("state(%d)", uint32(s))
}

// One error for each end but Completed. Test an EndError with errors.Is.
var (
	ErrDropped   = errors.New("local: dropped on arrival")
	ErrEvicted   = errors.New("local: evicted by a later job")
	ErrRefused   = errors.New("local: refused by the durable side")
	ErrAbandoned = errors.New("local: abandoned, not durable and never will be")
	ErrUncertain = errors.New("local: uncertain whether it is durable")
	ErrDead      = errors.New("local: dead")
	ErrCancelled = errors.New("local: cancelled")
	ErrExpired   = errors.New("local: expired")
	ErrDetached  = errors.New("local: no longer watched")
)

// EndError tells how a job ended other than completed. errors.Is matches the error of
// its state, and its cause.
type EndError struct {
	ID    string
	State State
	Cause error // nil if the state says all
}

// Error names the job, the end and the cause.
func (e *EndError) Error() string {
	text := "local: job " + e.ID + " ended as " + e.State.String()
	if e.Cause != nil && !e.Is(e.Cause) { // else the state has said it
		text += ": " + e.Cause.Error()
	}
	return text
}

// Is matches the error of the state.
func (e *EndError) Is(target error) bool {
	switch e.State {
	case Dropped:
		return target == ErrDropped
	case Evicted:
		return target == ErrEvicted
	case Refused:
		return target == ErrRefused
	case Abandoned:
		return target == ErrAbandoned
	case Uncertain:
		return target == ErrUncertain
	case Dead:
		return target == ErrDead
	case Cancelled:
		return target == ErrCancelled
	case Expired:
		return target == ErrExpired
	case Detached:
		return target == ErrDetached
	}
	return false
}

// Unwrap returns Cause.
func (e *EndError) Unwrap() error { return e.Cause }
