package cron

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// exchanged is the answer to one exchange of notes.
type exchanged struct {
	wrote        map[string]time.Time // nil: they are written
	read         map[string]*schedule
	known        map[string]time.Time // nil: they are not read
	base, learnt time.Time            // zero: it is not known
	err          error
}

// exchange begins to talk to the notes, if there is anything to say.
func (r *run) exchange() {
	old := time.Since(r.learnt) >= lookEvery
	if r.s.notes == nil || r.asking || time.Now().Before(r.notBefore) || !old && len(r.dirty) == 0 && len(r.unread) == 0 {
		return
	}
	x := exchanged{wrote: r.dirty, read: r.unread}
	r.asking, r.dirty, r.unread = true, map[string]time.Time{}, map[string]*schedule{}
	ctx, notes := r.ctx, r.s.notes
	go func() { r.exchanges <- x.do(ctx, notes, old) }()
}

// do writes, asks for the time and reads; what does not work does not keep the rest from being done.
func (x exchanged) do(ctx context.Context, notes Notes, old bool) exchanged {
	ctx, cancel := context.WithTimeout(ctx, exchangeWithin)
	defer cancel()
	if len(x.wrote) > 0 {
		if x.err = notes.Note(ctx, x.wrote); x.err == nil {
			x.wrote = nil
		}
	}
	if !old && len(x.read) == 0 {
		return x
	}
	sent := time.Now()
	now, err := notes.Now(ctx)
	if err != nil {
		x.err = errors.Join(x.err, err)
		return x
	}
	x.learnt = time.Now()
	x.base = now.Round(0).Add(x.learnt.Sub(sent) / 2)
	if len(x.read) > 0 {
		known, err := notes.Last(ctx, slices.Collect(maps.Keys(x.read)))
		if err != nil {
			x.err = errors.Join(x.err, err)
			return x
		}
		x.known = known
	}
	return x
}

// learn takes up the answer.
func (r *run) learn(x exchanged) {
	r.asking = false
	for name, tick := range x.wrote {
		if r.dirty[name].Before(tick) {
			r.dirty[name] = tick
		}
	}
	if !x.learnt.IsZero() {
		r.base, r.learnt = x.base, x.learnt
		r.compare()
	}
	for name, e := range x.read {
		if x.known != nil {
			r.place(e, x.known[name])
		} else if r.unread[name] == nil { // else it was removed and added again
			r.unread[name] = e
		}
	}
	if x.err == nil {
		r.retries = 0
		return
	}
	if r.ctx.Err() == nil {
		r.s.log.Warn("cron: notes could not be exchanged, trying again", "error", x.err)
	}
	r.notBefore = time.Now().Add(backOff(r.retries))
	r.retries++
}

// place has a schedule go on from where all instances are.
func (r *run) place(e *schedule, note time.Time) {
	switch {
	case e.cursor.IsZero() && note.IsZero(): // it has never been seen: it begins now, and that is worth a note
		r.deal(e, r.now())
	case note.After(e.cursor):
		e.moveTo(note)
	}
	e.read = r.now()
	r.wait(e)
}

// compare says, once, when this machine's clock and the shared one differ.
func (r *run) compare() {
	by := r.learnt.Round(0).Sub(r.base)
	odd := by.Abs() > oddClock
	if odd && !r.odd {
		r.s.log.Warn("cron: this machine's clock differs from the store's, which is what ticks go by", "ahead", by)
	}
	r.odd = odd
}
