package local

import (
	"slices"
	"weak"
)

// more is what few tickets have. The ticket's mu guards it.
type more struct {
	duplicate        string // the ID of the job that it is a duplicate of
	result, progress []byte
	next             chan struct{} // closed by the next report, or the end; nil: not asked for

	// A ticket that shares what becomes of another one keeps that alive, and is not kept alive by it. Whoever marks the first
	// holds its mu while he brings the twins where it is, so they see its states in their order. A twin has none of its own.
	first *Promise
	twins []weak.Pointer[Promise]
}

// extend makes room for what few tickets have. mu is held.
func (t *Ticket) extend() *more {
	if t.more == nil {
		t.more = &more{}
	}
	return t.more
}

// Duplicate is the ID of the job that this one would have been a duplicate of, and whose fate it shares: it was not stored
// itself. Empty: it is none, as far as is known. It does not block.
func (t *Ticket) Duplicate() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.more == nil {
		return ""
	}
	return t.more.duplicate
}

// Result is what the handler has left (Delivery.SetResult), once the job has completed; nil before, and if there is nothing. The
// caller must not change it. It does not block.
func (t *Ticket) Result() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.more == nil || t.State() != Completed {
		return nil
	}
	return t.more.result
}

// Progress is what the handler has reported last (Delivery.Progress), nil if nothing, and a channel that closes with its
// next report or with the end of the ticket. The caller must not change the report. It does not block.
func (t *Ticket) Progress() (report []byte, next <-chan struct{}) {
	defer t.look()
	defer t.keep()
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.extend()
	if m.next == nil {
		m.next = make(chan struct{})
	}
	if s := t.status.Or(isWatched); State(s & stateMask).Ended() {
		closeOpen(m.next)
	}
	return m.progress, m.next
}

// MarkDuplicate notes of which job this one is a duplicate.
func (p *Promise) MarkDuplicate(of string) {
	p.ticket.mu.Lock()
	defer p.ticket.mu.Unlock()
	p.ticket.extend().duplicate = of
}

// Complete is End as Completed, with what the handler has left.
func (p *Promise) Complete(result []byte) bool {
	if result != nil {
		p.ticket.leave(result)
	}
	return p.End(Completed, nil)
}

// leave notes what the handler leaves, if it completes.
func (t *Ticket) leave(result []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.State().Ended() {
		t.extend().result = result
	}
}

// MarkProgress notes what the handler reports.
func (p *Promise) MarkProgress(report []byte) { p.ticket.report(report) }

func (t *Ticket) report(report []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.State().Ended() {
		return
	}
	m := t.extend()
	m.progress = report
	if m.next != nil {
		closeOpen(m.next)
		m.next = nil
	}
	for _, w := range m.twins {
		if twin := w.Value(); twin != nil {
			twin.MarkProgress(report)
		}
	}
}

// announce closes what hangs on the end, and brings the twins of t where it is. Its mu is held.
func (m *more) announce(t *Ticket, ended bool) {
	if ended {
		closeOpen(m.next)
	}
	for _, w := range m.twins {
		if twin := w.Value(); twin != nil {
			twin.catchUp(t)
		}
	}
	if ended { // not when it has ended since: then some were brought to what was before
		m.twins = nil
	}
}

// join makes p share what becomes of first, of which it may be where it is already. It reports false, and does nothing, if
// more than most do already.
func (p *Promise) join(first *Promise, most int) bool {
	t := &first.ticket
	t.mu.Lock()
	if m := t.more; m != nil && m.first != nil {
		t.mu.Unlock()
		return p.join(m.first, most)
	}
	defer t.mu.Unlock()
	if first == p {
		return true
	}
	m := t.extend()
	if len(m.twins) == cap(m.twins) {
		m.twins = slices.DeleteFunc(m.twins, func(w weak.Pointer[Promise]) bool { return w.Value() == nil })
	}
	if len(m.twins) >= most {
		return false
	}
	p.ticket.status.And(^uint32(unanswered))
	p.ticket.mu.Lock()
	p.ticket.extend().first = first
	p.ticket.mu.Unlock()
	m.twins = append(m.twins, weak.Make(p))
	t.status.Or(isWatched | p.ticket.status.Load()&isLookedAt) // whoever moves the first one before that is seen by what follows, and after it sees us
	if m.progress != nil {
		p.MarkProgress(m.progress)
	}
	p.catchUp(t)
	return true
}

// StandsIn reports whether p is one that Registry.Join has made.
func (p *Promise) StandsIn() bool { return p.ticket.id == "" }

// reach brings p to the state of another promise of the same life, if that is further on, and has not ended.
func (p *Promise) reach(s State) {
	switch {
	case s.Ended() || s <= p.ticket.State():
	case s == Processing:
		p.MarkStarted()
	default:
		p.MarkEnqueued()
	}
}

// part ends that p shares what becomes of first, if it is accepted still. others: some do.
func (p *Promise) part(first *Promise) (parted, others bool) {
	t := &first.ticket
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.ticket.State() != Accepted {
		return false, true
	}
	m := t.more
	m.twins = slices.DeleteFunc(m.twins, func(w weak.Pointer[Promise]) bool { twin := w.Value(); return twin == nil || twin == p })
	return true, len(m.twins) > 0
}

// sharesWith is the one that t shares with in the end; nil: none.
func (t *Ticket) sharesWith() (first *Promise) {
	for {
		t.mu.Lock()
		m := t.more
		if m == nil || m.first == nil {
			t.mu.Unlock()
			return first
		}
		first = m.first
		t.mu.Unlock()
		t = &first.ticket
	}
}

// catchUp brings p where first is, whose mu is held.
func (p *Promise) catchUp(first *Ticket) {
	s := first.status.Load()
	p.ticket.status.Or(s &^ (1<<replicas - 1))
	switch state := State(s & stateMask); {
	case state == Completed && first.more != nil:
		p.Complete(first.more.result)
	case state == Completed:
		p.Complete(nil)
	case state.Ended():
		p.End(state, first.err.Cause)
	default:
		p.ticket.set(func(State) State { return state }, s&(wasEnqueued|wasStarted))
	}
}
