package policy

import (
	"context"
	"errors"
	"strconv"
	"time"
)

// Classes of rejections. Test with errors.Is.
var (
	// ErrFull: there was no room, or none in time. Trying again later may succeed.
	ErrFull = errors.New("policy: full")
	// ErrClosed: nothing is accepted any more.
	ErrClosed = errors.New("policy: closed")
	// ErrTooLarge: the job is larger than the bounds and will never fit.
	ErrTooLarge = errors.New("policy: too large")
	// ErrInvalid: the call makes no sense; a programming error.
	ErrInvalid = errors.New("policy: invalid")
	// ErrUnusable: the durable side cannot be used until somebody mends it.
	ErrUnusable = errors.New("policy: unusable")
)

// Rejection is the error of a call that was refused. The caller still owns the job;
// nothing of it will run. Find it with errors.AsType[*policy.Rejection]. It may be shared
// between callers: do not change it.
//
// errors.Is matches ErrFull for ReasonFull, ReasonTimeout, ReasonPredicted and
// ReasonShed, and for the others the sentinel of the same name. A wait that was ended by
// the context's deadline, and not by its own limit, matches context.DeadlineExceeded too.
// ReasonCancelled matches context.Canceled, and not ErrFull. Cause is matched as well.
type Rejection struct { //nolint:errname // the name of the thing itself, as in the documentation
	Reason Reason
	Stage  Stage
	// Depth is how many slots were held, of Capacity.
	Depth, Capacity int
	// Bytes is their payload, of ByteCapacity; 0 when not bounded by bytes.
	Bytes, ByteCapacity int64
	// Waited is how long the call had waited for room.
	Waited time.Duration
	// RetryAfter estimates when there may be room, from the measured drain rate, with a
	// little jitter. 0 means unknown, or that trying again is of no use.
	RetryAfter time.Duration
	// Cause is what the caller of the front or the context said, or nil.
	Cause error
}

// Error names the reason, the stage, and the numbers that are known.
func (r *Rejection) Error() string {
	b := make([]byte, 0, 160)
	b = append(b, "policy: refused by the "...)
	b = append(b, r.Stage.String()...)
	b = append(b, " stage: "...)
	b = append(b, r.Reason.String()...)
	b = append(b, ", "...)
	b = strconv.AppendInt(b, int64(r.Depth), 10)
	b = append(b, '/')
	b = strconv.AppendInt(b, int64(r.Capacity), 10)
	b = append(b, " jobs"...)
	if r.ByteCapacity > 0 {
		b = append(b, ", "...)
		b = strconv.AppendInt(b, r.Bytes, 10)
		b = append(b, '/')
		b = strconv.AppendInt(b, r.ByteCapacity, 10)
		b = append(b, " bytes"...)
	}
	if r.Waited > 0 {
		b = append(b, ", waited "...)
		b = append(b, r.Waited.String()...)
	}
	if r.RetryAfter > 0 {
		b = append(b, ", retry after "...)
		b = append(b, r.RetryAfter.String()...)
	}
	if r.Cause != nil {
		b = append(b, ": "...)
		b = append(b, r.Cause.Error()...)
	}
	return string(b)
}

// Is matches the sentinels; see Rejection.
func (r *Rejection) Is(target error) bool {
	switch r.Reason {
	case ReasonFull, ReasonTimeout, ReasonPredicted, ReasonShed:
		return target == ErrFull
	case ReasonCancelled:
		return target == context.Canceled
	case ReasonClosed:
		return target == ErrClosed
	case ReasonTooLarge:
		return target == ErrTooLarge
	case ReasonInvalid:
		return target == ErrInvalid
	case ReasonUnusable:
		return target == ErrUnusable
	}
	return false
}

// Unwrap returns Cause.
func (r *Rejection) Unwrap() error { return r.Cause }
