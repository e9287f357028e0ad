// Package policy says what to do when there is no room, and what to do when a
// handler fails. It decides; the mechanism is elsewhere (package local).
//
// # Vocabulary
//
//	Policy     what one call to submit wants when the front is full: wait, be
//	           refused, drop the new job, or drop the oldest
//	Snapshot   what a policy of your own decides from
//	Rejection  the error of a refused call: the caller still owns the job
//	Reason     why it was refused; every reason has its own counter
//	Stage      where it was refused: by the front in memory, or for the durable side
//	Marks      two fill levels between which nothing changes
//	Retry      the delays between the runs of a failing handler
//
// A Policy is a plain value that is made at the call and costs no allocation:
//
//	t, err := welcome.Submit(ctx, email, policy.Wait(50*time.Millisecond))
//
// # Choosing one
//
//	Wait          the caller can slow down: a batch importer, a consumer of another queue
//	Reject        the caller can say no: an HTTP handler that answers 503 with Retry-After
//	DropIncoming  the newest is worth least: samples, traces
//	DropOldest    the oldest is worth least: positions, prices, cache refreshes
//	CoDel         an answer that comes late is worth nothing: refuse while jobs stay too long
//	Ramp          many callers that can back off: refuse some before all must be
//	Func          it depends
//
// CoDel and Ramp are each a page on Func, and decide what is refused early; what happens to
// the other calls is up to the policy they are given:
//
//	var inTime = policy.CoDel(0, policy.Wait(20*time.Millisecond))
//
// A rejection is never a guess by the caller: errors.Is with ErrFull, ErrClosed,
// ErrTooLarge, ErrInvalid and ErrUnusable tells the class, errors.AsType the rest.
//
// The package starts no goroutine, and keeps no state but the count of a Ramp.
package policy
