package bridge

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

const (
	// tellAfter is how long a run may take without being told of, and what has come together goes in one exchange.
	tellAfter = 25 * time.Millisecond
	// tellEvery is the time between two tellings of what handlers report.
	tellEvery = 100 * time.Millisecond
	// cancelsEvery is how often a consumer asks which of its runs are to be cancelled, while some have been going on for as long: so one
	// is told within twice that time, and the exchange.
	cancelsEvery = 400 * time.Millisecond
)

// result is what a handler leaves.
type result struct {
	bytes     []byte
	retention time.Duration
}

// SetResult is Delivery.SetResult.
func (e *execution) SetResult(bytes []byte, retention time.Duration) error {
	q := e.r.q
	switch {
	case !q.info.Capabilities.Results:
		return fmt.Errorf("bridge: SetResult: %w", durable.ErrUnsupported)
	case len(bytes) > q.opts.MaxPayload:
		return fmt.Errorf("bridge: SetResult: the result has %d bytes, more than Options.MaxPayload = %d", len(bytes), q.opts.MaxPayload)
	}
	if err := storable("retention", retention); err != nil {
		return fmt.Errorf("bridge: SetResult: %w", err)
	}
	if bytes == nil {
		bytes = []byte{}
	}
	e.result.Store(&result{bytes, retention})
	return nil
}

// Progress is Delivery.Progress.
func (e *execution) Progress(report []byte) error {
	switch {
	case !e.r.q.info.Capabilities.Results:
		return fmt.Errorf("bridge: Progress: %w", durable.ErrUnsupported)
	case len(report) > durable.MaxNoticed:
		return fmt.Errorf("bridge: Progress: the report has %d bytes, more than durable.MaxNoticed = %d", len(report), durable.MaxNoticed)
	}
	if report == nil {
		report = []byte{}
	}
	if e.ticket != nil {
		e.ticket.MarkProgress(report)
	}
	e.untold.Store(&report)
	e.s.signal()
	return nil
}

// signal has the session's teller look at what there is to tell.
func (s *session) signal() {
	select {
	case s.untold <- struct{}{}:
	default:
	}
}

// tell tells the store what handlers report, and asks it which runs are to be cancelled, until the session ends.
func (s *session) tell(teller durable.Teller) {
	p := s.r.q.storePacer("tell")
	var asked <-chan time.Time
	if s.r.q.info.Capabilities.Cancel {
		ticker := time.NewTicker(cancelsEvery)
		defer ticker.Stop()
		asked = ticker.C
	}
	long := map[*execution]bool{} // what ran at the last look
	for {
		select {
		case <-s.untold:
			sleep(s.keeping, tellAfter)
			if err := s.tellAll(teller); err != nil {
				s.signal()
				sleep(s.keeping, p.fail(err))
			} else {
				p.ok()
				sleep(s.keeping, tellEvery-tellAfter)
			}
		case <-asked:
			some := false
			running := make(map[*execution]bool, len(long))
			s.r.crew.each(func(e *execution) {
				if e.s == s {
					running[e], some = true, some || long[e]
				}
			})
			long = running
			if some {
				s.cancels(teller)
			}
		case <-s.keeping.Done():
			return
		}
	}
}

// tellAll tells the latest reports, in one exchange.
func (s *session) tellAll(teller durable.Teller) error {
	var told []*execution
	var tellings []durable.Telling
	s.mu.Lock()
	for e := range s.held {
		if len(tellings) == maxBatch {
			s.signal() // there may be more
			break
		}
		started, report := e.begun.Swap(false), e.untold.Swap(nil)
		if !started && report == nil {
			continue
		}
		telling := durable.Telling{Ref: e.ref(), Started: started}
		if report != nil {
			telling.Progress = *report
		}
		told, tellings = append(told, e), append(tellings, telling)
	}
	s.mu.Unlock()
	if len(tellings) == 0 {
		return nil
	}
	_, err := call(s.keeping, s.r.q, callTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, teller.Tell(ctx, tellings)
	})
	if err != nil { // then later, unless there is news
		for i, e := range told {
			if tellings[i].Started {
				e.begun.Store(true)
			}
			if report := tellings[i].Progress; report != nil {
				e.untold.CompareAndSwap(nil, &report)
			}
		}
	}
	return err
}

// cancels ends the contexts of the runs that are to be cancelled. That it fails is for those to say who lose by it: it is asked again.
func (s *session) cancels(teller durable.Teller) {
	refs, err := call(s.keeping, s.r.q, callTimeout, func(ctx context.Context) ([]durable.Ref, error) {
		return teller.Cancels(ctx)
	})
	if err != nil {
		s.r.q.log.Debug("weir: could not ask for cancellations", "error", err)
	}
	for _, ref := range refs {
		for _, e := range s.r.q.runsOf(ref.ID) {
			if e.claim.Token == ref.Token {
				e.work.cancel(ErrCancelled)
			}
		}
	}
}
