package durable

import (
	"errors"
	"strings"
)

// Classes of engine errors: what is known about the effect of the call. Test with
// errors.Is. An error of no class counts as in doubt.
var (
	// ErrNotExecuted: nothing happened and nothing will; try again.
	ErrNotExecuted = errors.New("durable: not executed")
	// ErrInDoubt: it may have happened, or may still happen; ask again with the same number.
	ErrInDoubt = errors.New("durable: outcome unknown")
	// ErrNoSender: the store has no record of this identity. Nothing happened this time. If
	// the number was sent once only, it never will; else its outcome stays unknown.
	ErrNoSender = errors.New("durable: the store does not know this sender")
	// ErrOutdated: a later number of this identity has been applied. Nothing happened.
	ErrOutdated = errors.New("durable: number is outdated")
	// ErrFenced: this consumer has lost its lease for good. Nothing happened.
	ErrFenced = errors.New("durable: consumer is fenced")
	// ErrLeaseExpired: the lease is over but was not acted upon: renew, then ask again with
	// the same number. Nothing happened.
	ErrLeaseExpired = errors.New("durable: lease has expired")
	// ErrOutOfMemory: the store refuses what would make it grow. Nothing happened. Matches
	// ErrNotExecuted too.
	ErrOutOfMemory = &classed{"durable: the store is out of memory", ErrNotExecuted}
	// ErrBadKey: a key of the queue holds a value of another type, or may not be touched;
	// the message names it. Nothing happened. Matches ErrNotExecuted too.
	ErrBadKey = &classed{"durable: a key of the queue is unusable", ErrNotExecuted}
	// ErrPaused: an operator has stopped the intake. It is no engine's error, for an append then
	// answers Appended.Paused, but that of whoever hands the news on.
	ErrPaused = errors.New("durable: intake is paused")
	// ErrNoJob: there is no job with this ID.
	ErrNoJob = errors.New("durable: no such job")
	// ErrNoOperator: this engine is not made for operators' calls. Matches ErrNotExecuted too.
	ErrNoOperator = &classed{"durable: the engine offers no operator calls", ErrNotExecuted}
	// ErrUnsupported: the engine lacks a capability that was asked for (Capabilities); the message
	// names it. Matches ErrNotExecuted too.
	ErrUnsupported = &classed{"durable: the engine cannot do that", ErrNotExecuted}
	// ErrUnconfirmed: a purge was not confirmed by the queue's name. Matches ErrNotExecuted too.
	ErrUnconfirmed = &classed{"durable: purge is not confirmed", ErrNotExecuted}
)

// classed is a sentinel that belongs to a wider class.
type classed struct {
	text  string
	class error
}

func (e *classed) Error() string { return e.text }
func (e *classed) Unwrap() error { return e.class }

// CheckError says why a store cannot be used, all reasons at once.
type CheckError struct {
	Queue    string
	Problems []string // each names what is wrong and what to change
}

func (e *CheckError) Error() string {
	return "durable: " + e.Queue + " cannot be used: " + strings.Join(e.Problems, "; ")
}
