package bridge

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/local"
)

// execution is one claim on its way through a worker to the store.
type execution struct {
	r      *run
	s      *session
	claim  *durable.Claim
	how    *handling
	ticket *local.Promise // nil: not submitted here, or nobody holds it
	work   work
	ctx    context.Context // work, or one that ends with the timeout too
	raw    Delivery[[]byte]
	// fate is decided once, by whoever ends the claim: run, the handler's return, or giveUp.
	fate atomic.Uint32
	// deaf says whether the handler is counted as one that ignores the end of its context.
	deaf atomic.Uint32

	// What the handler leaves, and what the store has not been told of its run yet: its last report, and that it began.
	result atomic.Pointer[result]
	untold atomic.Pointer[[]byte]
	begun  atomic.Bool

	// How it ended, on its way to the store; set once, by whoever decided its fate.
	outcome durable.Outcome
	event   EventType // what to report when the store has applied it
	err     error     // the handler's
}

// Fates of an execution.
const (
	undecided = iota
	returned
	givenUp
)

// Values of deaf.
const (
	hears = iota
	ignores
	gone // it has returned, and is not counted any more
)

// run calls the handler of a claim, on a worker.
func (e *execution) run() {
	r, q, c := e.r, e.r.q, e.claim
	if e.work.Err() != nil {
		e.conclude(EventReleased, durable.Outcome{Verdict: durable.Release}, context.Cause(&e.work))
		return
	}
	defer e.work.over()
	if e.how == nil {
		e.conclude(EventUnhandled, durable.Outcome{Verdict: durable.Snooze, Delay: r.opts.UnknownDelay}, nil)
		return
	}
	headers, err := decodeHeaders(c.Headers)
	if err != nil {
		e.conclude(EventDead, durable.Outcome{Verdict: durable.Dead}, err)
		return
	}

	limit := e.how.timeout
	if c.Timeout > 0 {
		limit = c.Timeout
	}
	limit = min(limit, longest)
	e.ctx = &e.work
	if limit > 0 {
		var cancel context.CancelFunc
		e.ctx, cancel = context.WithTimeoutCause(&e.work, limit, ErrTimeout)
		defer cancel()
		defer time.AfterFunc(limit+stopWait, func() { e.giveUp(ErrTimeout) }).Stop()
	}
	if e.fate.Load() != undecided {
		e.heard()
		return
	}
	q.count(EventStarted)
	if e.ticket != nil {
		e.ticket.MarkStarted()
	}
	if c.Followed && e.s.untold != nil {
		e.begun.Store(true)
		e.s.signal()
	}
	q.tell(Event{Type: EventStarted, ID: c.ID, Kind: c.Kind, Deliveries: c.Deliveries})
	e.raw = Delivery[[]byte]{
		ID: c.ID, Kind: c.Kind, Value: c.Payload, Headers: headers, Attempt: c.Attempts + 1,
		MaxAttempts: e.maxAttempts(), Deliveries: c.Deliveries, Fence: c.Fence, Reporter: e,
	}
	e.call()
}

func (e *execution) maxAttempts() int {
	if e.claim.MaxAttempts > 0 {
		return e.claim.MaxAttempts
	}
	return e.how.retry.MaxAttempts
}

// call runs the handler and decides how the claim ends, also when the handler panics or
// leaves by runtime.Goexit; both end here.
func (e *execution) call() {
	var err error
	returned := false
	defer func() {
		if !returned {
			err = local.Panicked(recover())
		}
		e.finish(err)
	}()
	err = e.how.run(e.ctx, &e.raw)
	returned = true
}

// finish takes the handler's verdict, unless its claim was given up meanwhile.
func (e *execution) finish(err error) {
	e.heard()
	if !e.fate.CompareAndSwap(undecided, returned) {
		return
	}
	cause := context.Cause(e.ctx)
	snooze, snoozed := errors.AsType[*snoozeError](err)
	_, permanent := errors.AsType[*permanentError](err)
	switch {
	case err == nil:
		o := durable.Outcome{Verdict: durable.Done}
		if r := e.result.Load(); r != nil {
			o.Result, o.Retention = r.bytes, r.retention
		}
		e.settle(EventCompleted, o, nil)
	case permanent:
		e.settle(EventDead, durable.Outcome{Verdict: durable.Dead}, err)
	case errors.Is(cause, ErrCancelled): // whatever it wanted: the store ends it
		e.settle(EventReleased, durable.Outcome{Verdict: durable.Release}, because(cause, err))
	case snoozed:
		e.settle(EventSnoozed, durable.Outcome{Verdict: durable.Snooze, Delay: snooze.delay}, nil)
	case errors.Is(cause, ErrStopping), errors.Is(cause, ErrLeaseLost):
		// It failed because it was told to end: nobody's fault.
		e.settle(EventReleased, durable.Outcome{Verdict: durable.Release}, because(cause, err))
	case errors.Is(cause, ErrTimeout):
		e.retry(because(ErrTimeout, err))
	default:
		e.retry(err)
	}
}

func (e *execution) retry(err error) {
	failed := e.claim.Attempts + 1
	e.settle(EventRetried, durable.Outcome{
		Verdict: durable.Retry, Delay: e.how.retry.Delay(failed), MaxAttempts: e.maxAttempts(),
	}, err)
}

// giveUp ends the claim of a handler that ignores the end of its context: the token
// is void from then on. The worker stays taken until the handler returns.
func (e *execution) giveUp(cause error) {
	if !e.fate.CompareAndSwap(undecided, givenUp) {
		return
	}
	e.countStuck(cause)
	if errors.Is(cause, ErrTimeout) {
		e.retry(cause)
	} else {
		e.settle(EventReleased, durable.Outcome{Verdict: durable.Release}, cause)
	}
}

// countStuck counts the handler until it returns, and tells of it once.
func (e *execution) countStuck(cause error) {
	q := e.r.q
	q.stuck.Add(1) // before finish can take it back
	if !e.deaf.CompareAndSwap(hears, ignores) {
		q.stuck.Add(-1)
		return
	}
	q.log.Error("weir: handler ignores the end of its context, its claim is given up", "id", e.claim.ID, "kind", e.claim.Kind, "cause", cause)
	q.emit(Event{Type: EventStuck, ID: e.claim.ID, Kind: e.claim.Kind, Deliveries: e.claim.Deliveries, Err: cause})
}

// heard takes back that the handler is stuck, if it was counted.
func (e *execution) heard() {
	if e.deaf.Swap(gone) == ignores {
		e.r.q.stuck.Add(-1)
	}
}

// conclude ends a claim whose handler is not called.
func (e *execution) conclude(event EventType, o durable.Outcome, err error) {
	e.heard()
	if e.fate.CompareAndSwap(undecided, returned) {
		e.settle(event, o, err)
	}
}

// settle hands the outcome to the settler. The caller has decided the fate.
func (e *execution) settle(event EventType, o durable.Outcome, err error) {
	e.ended(event, o, err)
	e.r.settler.add(e)
}

func (e *execution) ended(event EventType, o durable.Outcome, err error) {
	o.Ref = e.ref()
	if err != nil {
		o.Reason = reason(err)
	}
	e.outcome, e.event, e.err = o, event, err
}

func (e *execution) ref() durable.Ref { return durable.Ref{ID: e.claim.ID, Token: e.claim.Token} }

const maxReason = 4 << 10

// reason is the text that is kept with the job in the store.
func reason(err error) string {
	text := err.Error()
	return text[:min(len(text), maxReason)]
}
