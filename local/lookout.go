package local

import "sync"

// Lookout is told when somebody looks at a ticket for the first time: asks for Started, Done, Wait or Progress. That the job is
// durable is known without it. As long as nobody looks at a ticket, nobody needs to find out what others make of its job.
//
// It holds on to those open tickets of which somebody has a channel: he need not hold the ticket itself while he waits.
type Lookout struct {
	// Looked is called by whoever looks, once for each ticket, before he waits, with its era (Promise.SetOrigin). It must not
	// block. Nil: nobody needs to know.
	Looked func(t *Ticket, era uint32)

	mu   sync.Mutex
	kept map[*Ticket]struct{}
}

// keep has the lookout hold on to t until it ends, as somebody has a channel of it.
func (t *Ticket) keep() {
	l := t.lookout
	if l == nil || t.status.Or(isKept)&isKept != 0 {
		return
	}
	l.mu.Lock()
	if l.kept == nil {
		l.kept = map[*Ticket]struct{}{}
	}
	l.kept[t] = struct{}{}
	l.mu.Unlock()
	if t.State().Ended() { // who ended it before has not seen that it is kept
		t.letGo()
	}
}

// letGo ends keep.
func (t *Ticket) letGo() {
	t.lookout.mu.Lock()
	defer t.lookout.mu.Unlock()
	delete(t.lookout.kept, t)
}

// look tells the lookout, the first time.
func (t *Ticket) look() {
	if t.lookout == nil || t.lookout.Looked == nil || t.status.Load()&isLookedAt != 0 {
		return
	}
	// The flag is set first: whoever enqueues the job at this instant sees it, or Looked sees that it is enqueued.
	if before := t.status.Or(isLookedAt); before&isLookedAt != 0 || State(before&stateMask).Ended() {
		return
	}
	if first := t.sharesWith(); first != nil {
		first.ticket.status.Or(isLookedAt)
	}
	t.lookout.Looked(t, t.era.Load())
}

// LookedAt reports whether somebody has looked.
func (p *Promise) LookedAt() bool { return p.ticket.status.Load()&isLookedAt != 0 }

func (t *Ticket) lookedAtOpen() bool {
	s := t.status.Load()
	return s&isLookedAt != 0 && !State(s&stateMask).Ended()
}

// InitFor is Init, with a lookout.
func (p *Promise) InitFor(l *Lookout, id string) {
	p.ticket.lookout = l
	p.Init(id)
}

// SetOrigin keeps two numbers for the owner of p: under which of his arrangements the job was stored, and which of the jobs
// it is that have had, or will have, its ID. Zero: not known.
func (p *Promise) SetOrigin(era uint32, life uint64) {
	p.ticket.era.Store(era)
	p.ticket.number.Store(int64(life)) //nolint:gosec // its bits
}

// IsOf reports whether p is of that life of its ID. One that Registry.Join has made, and of which that is not known, is from then on.
func (p *Promise) IsOf(life uint64) bool {
	its := &p.ticket.number
	if p.StandsIn() {
		its.CompareAndSwap(0, int64(life)) //nolint:gosec // its bits
	}
	return uint64(its.Load()) == life //nolint:gosec // its bits
}

// Origin is what was set last.
func (p *Promise) Origin() (era uint32, life uint64) {
	return p.ticket.era.Load(), uint64(p.ticket.number.Load()) //nolint:gosec // its bits
}
