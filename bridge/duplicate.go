package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/local"
)

// A job whose ID or key another one has is not stored. Its ticket follows the other one's: in this process by the registry, else
// the store is asked what the other one is. Until that is answered the job keeps its slot, and its ticket is accepted.

// refused takes the store's no to a job.
func (s *shipper) refused(j *job, r durable.Refusal) {
	q, first := s.q, r.Holder
	switch {
	case j.over:
		return
	case r.Code == durable.RefusedDuplicate:
		first = j.id()
	case r.Code != durable.RefusedUnique:
		s.end(j, local.Refused, durable.ErrBadKey)
		return
	}
	j.MarkDuplicate(first)
	j.SetOrigin(0, 0) // which life of the ID it shares, the store has to say
	q.shared.Store(true)
	switch p := q.watched.First(first); {
	case p == nil || !follows(p.Ticket().State()):
		q.watched.Join(first, &j.Promise) // before the store is asked: whatever happens after its answer must find the ticket
		s.unclear = append(s.unclear, j)
	case q.following.engine != nil && !q.following.has(p, first): // it may have ended, and another job have the ID
		s.perhaps[j] = p
		s.unclear = append(s.unclear, j)
	default:
		q.count(EventDuplicate)
		q.watched.Share(p, &j.Promise)
		s.duplicate(j)
	}
}

// join has a job share what becomes of the one that it was taken for a duplicate of; or, as the store says that another job has
// the ID now, of that one, for which the store is to be asked again: false.
func (s *shipper) join(j *job, first durable.Record) bool {
	p, q := s.perhaps[j], s.q
	if p == nil {
		return true
	}
	delete(s.perhaps, j)
	if first.State == "" || p.IsOf(q.following.life(first.Life)) {
		q.watched.Share(p, &j.Promise)
		return true
	}
	q.watched.Join(j.Ticket().Duplicate(), &j.Promise)
	return false
}

// follows tells whether the state of a ticket is that of a stored job, and worth following.
func follows(s local.State) bool {
	switch s {
	case local.Enqueued, local.Processing, local.Completed, local.Dead, local.Cancelled, local.Expired:
		return true
	default:
		return false
	}
}

// duplicate tells of a duplicate, which has been counted, and lets go of it.
func (s *shipper) duplicate(j *job) {
	s.q.following.stored(&j.Promise)
	s.q.tell(Event{Type: EventDuplicate, ID: j.id(), Kind: j.kind, Of: j.Ticket().Duplicate()})
	s.free(j)
}

// resolve asks the store about those whose first one is not known here.
func (s *shipper) resolve(ctx context.Context) error {
	ids := make([]string, len(s.unclear))
	for i, j := range s.unclear {
		ids[i] = j.Ticket().Duplicate()
	}
	ctx, cancel := context.WithTimeout(ctx, s.limit())
	defer cancel()
	done := 0
	var again []*job
	err := s.q.look(ctx, ids, func(first durable.Record, followed bool) {
		if j := s.unclear[done]; s.join(j, first) {
			s.resolved(j, first, followed)
		} else {
			again = append(again, j)
		}
		done++
	})
	s.unclear = slices.Replace(s.unclear, 0, done, again...)
	s.release()
	return err
}

// resolved takes up what the first one is.
func (s *shipper) resolved(j *job, first durable.Record, followed bool) {
	q, id := s.q, j.Ticket().Duplicate()
	switch first.State {
	case "", durable.StateDead, durable.StateCorrupt:
		if q.watched.Leave(id, &j.Promise) {
			is := "has ended since"
			if first.State != "" {
				is = "is " + string(first.State)
			}
			cause := fmt.Errorf("%w: %q, which %s", ErrDuplicate, id, is)
			s.end(j, local.Refused, cause)
			return
		}
	default:
	}
	q.count(EventDuplicate)
	if p := q.watched.Find(id); p != nil { // j shares what becomes of it
		if first.Life == "" && !followed || p.IsOf(q.following.life(first.Life)) {
			q.bring(p, id, first)
		}
		if !followed && !p.Claimed() && !q.following.holds(id, 0, false) {
			q.finish(p, id, local.Detached, ErrNotFollowed)
		}
	}
	s.duplicate(j)
}

// giveUp ends those that the store could not be asked about.
func (s *shipper) giveUp(jobs []*job, cause error) {
	for _, j := range jobs {
		s.q.count(EventDuplicate)
		s.join(j, durable.Record{})
		if s.q.watched.Leave(j.Ticket().Duplicate(), &j.Promise) { // else more is known meanwhile
			j.End(local.Detached, cause)
		}
		s.duplicate(j)
	}
}

// expireUnclear gives up those that the store has not been asked about in time, and notes when the next one's is over.
func (s *shipper) expireUnclear(now time.Duration) {
	late := 0 // they are in the order of admission
	for late < len(s.unclear) && s.unclear[late].persist <= now {
		late++
	}
	s.giveUp(s.unclear[:late], durable.ErrInDoubt)
	s.unclear = slices.Delete(s.unclear, 0, late)
	if len(s.unclear) > 0 {
		s.next = min(s.next, s.unclear[0].persist)
	}
}

// lookups is how many jobs one look asks for where each is an exchange of its own.
const lookups = 16

// look has take called with what jobs are now, in their order: with the first of them at least where there is no error. followed: this process
// is told what becomes of them from now on. Where there is no such job its State is empty.
func (q *Queue) look(ctx context.Context, ids []string, take func(record durable.Record, followed bool)) error {
	if q.following.engine != nil {
		return q.following.join(ctx, ids[:min(len(ids), maxBatch)], func(r durable.Record) { take(r, true) })
	}
	for _, id := range ids[:min(len(ids), lookups)] {
		info, err := q.Operator().Lookup(ctx, id)
		switch {
		case errors.Is(err, durable.ErrNoJob):
			info.Record = durable.Record{ID: id}
		case errors.Is(err, durable.ErrNoOperator):
			info.Record = durable.Record{ID: id, State: durable.StatePending} // or what else it may be
		case err != nil:
			return err
		}
		take(info.Record, false)
	}
	return nil
}
