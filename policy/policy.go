package policy

import (
	"errors"
	"fmt"
	"time"
)

// Policy is what a call wants when there is no room. It is a small value: made at the
// call, without allocation, and safe to keep and share. The zero value stands for the
// queue's default.
//
// Whatever the policy, a job that fits while nobody waits is accepted at once, except
// under Shed; and a job is never accepted before callers that already wait, except that
// DropOldest takes the place of the jobs it displaces.
type Policy struct {
	kind   Kind
	max    time.Duration
	decide func(Snapshot) Policy
	ready  *ready // of a Func that this package has made; nil: none
}

// ready tells what a ready-made Func is.
type ready struct {
	text string
	err  error // why it cannot be used
}

// Kind tells policies apart.
type Kind uint8

// Kinds of policies.
const (
	KindDefault      Kind = iota // the zero Policy
	KindWait                     // Wait
	KindReject                   // Reject
	KindDropIncoming             // DropIncoming
	KindDropOldest               // DropOldest
	KindShed                     // Shed
	KindFunc                     // Func
)

// Wait waits in the order of arrival until there is room, at most that long and never past
// the context's deadline; Wait(0) is bounded by the context's deadline alone. There is no
// unbounded wait: without any deadline the call is refused with ErrInvalid, whether or
// not there is room, and so it is with a negative maximum.
//
// A wait that cannot succeed in time, at the rate at which room is made now, is refused at
// once (ReasonPredicted).
func Wait(atMost time.Duration) Policy { return Policy{kind: KindWait, max: atMost} }

// Reject refuses at once with ErrFull.
func Reject() Policy { return Policy{kind: KindReject} }

// DropIncoming discards the new job: no error, and its ticket has ended as dropped.
func DropIncoming() Policy { return Policy{kind: KindDropIncoming} }

// DropOldest discards as many of the oldest accepted jobs as the new one needs; their
// tickets end as evicted. What the bridge has taken to make it durable, at most one batch of
// 256 jobs, cannot be evicted. If the new job would not fit even so, nothing is discarded
// and the call is refused with ErrFull.
func DropOldest() Policy { return Policy{kind: KindDropOldest} }

// Shed refuses at once with ErrFull (ReasonShed) although there may be room. It is what a
// Func returns to refuse early.
func Shed() Policy { return Policy{kind: KindShed} }

// Func decides by itself. It is asked once per call, before the front is looked at for
// room, and returns a plan: one of the policies above, or the zero Policy for the queue's
// default. If there is room by then and nobody waits the job is accepted (unless the plan
// is Shed), else the plan is done.
//
// decide runs in the goroutine of the caller, possibly many at a time, and holds no lock. It
// should be a pure and quick function of the snapshot. A nil decide, or one that returns
// another Func, makes the call fail with ErrInvalid.
func Func(decide func(Snapshot) Policy) Policy { return Policy{kind: KindFunc, decide: decide} }

// IsZero reports whether p is the zero value, the queue's default.
func (p Policy) IsZero() bool { return p.kind == KindDefault }

// Kind tells which constructor made p.
func (p Policy) Kind() Kind { return p.kind }

// Max is the argument of Wait, and 0 for every other policy.
func (p Policy) Max() time.Duration { return p.max }

// Validate reports what is wrong with p by itself: a negative Wait, a Func of nil, CoDel and
// Ramp with arguments that make no sense.
func (p Policy) Validate() error {
	switch {
	case p.ready != nil && p.ready.err != nil:
		return p.ready.err
	case p.max < 0:
		return fmt.Errorf("policy: Wait: negative: %v", p.max)
	case p.kind == KindFunc && p.decide == nil:
		return errors.New("policy: Func: decide is nil")
	}
	return nil
}

// Plan asks a Func for its decision; every other policy is its own plan. The plan is a
// plain policy, never a Func, and valid unless there is an error.
func (p Policy) Plan(s Snapshot) (Policy, error) {
	if err := p.Validate(); err != nil || p.kind != KindFunc {
		return p, err
	}
	plan := p.decide(s)
	if plan.kind == KindFunc {
		return Policy{}, errors.New("policy: Func: decide returned another Func")
	}
	return plan, plan.Validate()
}

// plan is what p, whose decision is part of another one's, comes to.
func (p Policy) plan(s Snapshot) Policy {
	if p.kind == KindFunc {
		return p.decide(s)
	}
	return p
}

// String is for logs: "wait(50ms)", "reject", "codel(5ms, wait)", "default".
func (p Policy) String() string {
	if p.ready != nil {
		return p.ready.text
	}
	if p.kind == KindWait && p.max != 0 {
		return "wait(" + p.max.String() + ")"
	}
	return p.kind.String()
}

// String is the name of the constructor in lower case, with hyphens.
func (k Kind) String() string {
	switch k {
	case KindDefault:
		return "default"
	case KindWait:
		return "wait"
	case KindReject:
		return "reject"
	case KindDropIncoming:
		return "drop-incoming"
	case KindDropOldest:
		return "drop-oldest"
	case KindShed:
		return "shed"
	case KindFunc:
		return "func"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}
