package cron

import (
	"context"
	"errors"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// fired is what became of a batch of ticks of one schedule.
type fired struct {
	e      *schedule
	events []Event // of those that are dealt with, in their order
	last   time.Time
	err    error // why the next one is not; nil: all are
	again  time.Duration
	closed bool // the queue takes no more, ever
}

// sent is a tick that was submitted.
type sent struct {
	ticket *bridge.Ticket
	err    error
}

// duplicate tells, by what waiting until it is enqueued has come to, whether another job has the tick: whatever becomes, or has become,
// of that one.
func (s sent) duplicate(err error) bool {
	return s.ticket != nil && s.ticket.Duplicate() != "" && (err == nil || final(err))
}

// fire submits ticks and waits until they are enqueued, or cannot be now, or ctx ends.
func (e *schedule) fire(ctx context.Context, ticks []time.Time) fired {
	f := fired{e: e}
	all := make([]sent, 0, len(ticks))
	for _, tick := range ticks {
		ticket, err := e.submit(ctx, ID(e.name, tick))
		all = append(all, sent{ticket, err})
		if err != nil && !final(err) {
			break // the others come after it
		}
	}
	for i, s := range all {
		event := Event{Type: EventFired, Schedule: e.name, Tick: ticks[i], Err: s.err}
		if s.err == nil {
			event.Err = s.ticket.WaitEnqueued(ctx)
		}
		switch {
		case s.duplicate(event.Err):
			event.Type, event.Err = EventDuplicate, nil
		case event.Err == nil:
		case final(event.Err):
			event.Type = EventFailed
		default:
			f.err = event.Err
			f.closed = errors.Is(event.Err, policy.ErrClosed)
			if rejection, ok := errors.AsType[*policy.Rejection](event.Err); ok {
				f.again = rejection.RetryAfter
			}
			return f
		}
		f.events, f.last = append(f.events, event), ticks[i]
	}
	return f
}

// final tells whether submitting again would come to the same.
func final(err error) bool {
	return errors.Is(err, policy.ErrInvalid) || errors.Is(err, policy.ErrTooLarge) ||
		errors.Is(err, local.ErrRefused) || errors.Is(err, local.ErrCancelled) || errors.Is(err, local.ErrExpired)
}
