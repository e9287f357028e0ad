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

// shipper takes accepted jobs from the front and makes them durable, in order and in
// group commits: whatever has come while the last request was under way goes into the next,
// and nothing waits for company. It is one goroutine, started by the first Submit and ended
// by Shutdown; the fields belong to it.
//
// hand[:request] is the request under way. Once it was sent and not answered (doubts > 0),
// it is asked again under the same number with the same content until there is an answer;
// jobs whose time is up meanwhile end uncertain but stay part of it.
type shipper struct {
	q    *Queue
	ctx  context.Context // ended by Shutdown
	stop context.CancelFunc
	done chan struct{}

	// closing is set by Shutdown before stop: the context of the last exchange.
	closing context.Context
	// returned and uncertain are read by Shutdown after done.
	returned, uncertain []Returned

	producer durable.Producer // nil: an identity must be opened first
	n        uint64           // number of the request
	doubts   int              // times it was sent without an answer
	request  int
	hand     []*job
	unclear  []*job                  // duplicates of what the store has yet to be asked about; see duplicate.go
	perhaps  map[*job]*local.Promise // of these, what they share the end of if that is of the job that has the ID now
	next     time.Duration           // when the first job in hand runs out of time

	store, room *pacer
	paused      *pacer             // while an operator has paused the intake
	slots       []local.Slot[*job] // reused
	wires       []*durable.Job     // reused
	ages        bool               // some of them say how long they may still wait
}

// startShipper starts the shipper, once; never after Shutdown.
func (q *Queue) startShipper() {
	q.shipOnce.Do(func() {
		s := &shipper{
			q: q, n: 1, done: make(chan struct{}),
			store: q.storePacer("append"),
			room:  newPacer(q.log, "append", time.Millisecond, 100*time.Millisecond),

			paused:  newPacer(q.log, "append", 50*time.Millisecond, 500*time.Millisecond),
			perhaps: make(map[*job]*local.Promise),
		}
		s.ctx, s.stop = context.WithCancel(context.Background())
		q.ship = s
		go s.run()
	})
}

func (s *shipper) run() {
	defer close(s.done)
	for s.load() {
		s.cancelWanted()
		if wait := s.send(); wait > 0 && !s.empty() {
			s.pause(min(wait, max(s.next-s.q.now(), 0)))
		}
	}
	s.finish()
}

// empty tells that there is nothing to do but to take more.
func (s *shipper) empty() bool { return len(s.hand)+len(s.unclear) == 0 }

// pause is a sleep that Queue.Cancel cuts short.
func (s *shipper) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.q.cancels.some:
	case <-s.ctx.Done():
	}
}

// load fills the hand, unless its request is in doubt, and blocks while it is empty.
// It returns false when the shipper is to end.
func (s *shipper) load() bool {
	s.expire()
	slots := s.slots[:0]
	switch {
	case s.ctx.Err() != nil:
		return false
	case s.doubts > 0 || len(s.hand) >= maxBatch:
	case !s.empty() && (s.store.waiting() || s.room.waiting() || s.paused.waiting()):
		// There is no hurry, and what stays in the front can still be evicted.
	case !s.empty():
		slots = s.q.front.TryTake(slots, maxBatch-len(s.hand), maxBatchBytes)
	default:
		var err error
		if slots, err = s.q.front.Take(s.ctx, slots, maxBatch, maxBatchBytes); err != nil {
			return false
		}
	}
	for _, slot := range slots {
		slot.Job.slot = slot
		s.hand = append(s.hand, slot.Job)
	}
	clear(slots)
	s.slots = slots[:0]
	s.expire()
	return true
}

// expire ends the jobs in hand whose time is up, and notes when the next one's is.
func (s *shipper) expire() {
	now := s.q.now()
	s.next = now + time.Hour
	kept, open := s.hand[:0], 0
	for i, j := range s.hand {
		asked := s.doubts > 0 && i < s.request
		expires := s.q.expires(j)
		switch {
		case j.over:
		case expires > 0 && expires <= now && !asked:
			s.end(j, local.Expired, nil)
		case j.persist <= now && asked:
			s.end(j, local.Uncertain, durable.ErrInDoubt)
		case j.persist <= now:
			s.end(j, local.Abandoned, durable.ErrNotExecuted)
		default:
			s.next = min(s.next, j.persist)
			switch {
			case asked:
				open++
			case expires > 0:
				s.next = min(s.next, expires)
			}
		}
		if !j.over || asked {
			kept = append(kept, j)
		}
	}
	clear(s.hand[len(kept):])
	s.hand = kept
	s.expireUnclear(now)
	s.release()
	if s.doubts > 0 && open == 0 {
		// Nobody waits for the answer any more, so the number is given up, and the identity with it.
		s.forget()
	}
}

// send makes one exchange with the store and returns how long to wait before the next.
func (s *shipper) send() time.Duration {
	if s.empty() {
		return 0
	}
	checking, cancel := context.WithTimeout(s.ctx, s.limit())
	defer cancel()
	if err := s.q.recheck(checking); err != nil {
		return s.store.fail(err)
	}
	if len(s.unclear) > 0 {
		if err := s.resolve(checking); err != nil {
			return s.store.fail(err)
		}
	}
	if len(s.hand) == 0 {
		return 0
	}
	if s.producer == nil {
		producer, err := call(s.ctx, s.q, s.limit(), s.q.engine.OpenProducer)
		if err != nil {
			return s.store.fail(err)
		}
		s.producer, s.n = producer, 1
		s.q.following.produces(producer.ID())
	}
	var taker *session
	slots := 0
	if s.doubts == 0 {
		era := s.q.following.cover(s.ctx, s.limit()/2) // it may take long: before anybody's turn is, and before jobs say how long they may wait
		taker, slots = s.taker()
		s.compose(slots, era)
	} else if s.ages {
		s.age()
	}
	answer, begin, err := s.append(taker, slots)
	defer begin()
	switch {
	case err == nil:
		return s.answered(answer)
	case errors.Is(err, durable.ErrNoSender) || errors.Is(err, durable.ErrOutdated):
		// The store has lost our identity. Sent once, nothing happened and the batch goes out
		// again under a new one; sent before, it may be stored, and even completed.
		if s.doubts > 0 {
			for _, j := range s.hand[:s.request] {
				s.end(j, local.Uncertain, err)
			}
		}
		s.forget()
	case !errors.Is(err, durable.ErrNotExecuted):
		s.doubts++
	}
	return s.store.fail(err)
}

// append sends the request. If a session of this process takes some it lets it have what nothing waits before, in the
// same exchange: begin, which must follow when the answer was taken, starts these jobs.
func (s *shipper) append(taker *session, slots int) (answer durable.Appended, begin func(), err error) {
	producer, n, wires := s.producer, s.n, s.wires // an exchange may outlive the wait for it
	if taker != nil {
		return taker.take(s, producer.(durable.DirectProducer), n, wires, slots)
	}
	answer, err = call(s.ctx, s.q, s.limit(), func(ctx context.Context) (durable.Appended, error) {
		return producer.Append(ctx, n, wires)
	})
	return answer, func() {}, err
}

// taker is a session that takes so many jobs of the next request, if there is one; see Queue.taker.
func (s *shipper) taker() (taker *session, slots int) {
	if _, direct := s.producer.(durable.DirectProducer); !direct {
		return nil, 0
	}
	return s.q.taker(min(len(s.hand), fewTaken))
}

// limit bounds an exchange, so that no job in hand learns late that its time is up.
func (s *shipper) limit() time.Duration {
	return min(callTimeout, max(s.next-s.q.now(), time.Millisecond))
}

// compose makes the request: a prefix of the hand, within the bounds of a batch, and of what is taken at once if that
// is not little: what waits in the store then is more work for it than what waits here.
func (s *shipper) compose(taken int, era uint32) {
	most := maxBatch
	if taken >= fewTaken {
		most = min(most, taken)
	}
	clear(s.wires)
	s.wires, s.request, s.ages = s.wires[:0], 0, false
	var bytes int64
	named := false
	for _, j := range s.hand {
		bytes += j.size
		if s.request == most || s.request > 0 && bytes > maxBatchBytes {
			break
		}
		request := s.q.request(j)
		s.ages = s.ages || request != &j.wire.Job
		named = named || j.named
		s.wires = append(s.wires, request)
		s.request++
	}
	s.q.following.number(era, s.producer.ID(), s.n, s.hand[:s.request])
	s.q.sent.set(s.hand[:s.request])
	if named { // what ends before the answer is here may be what a job is a duplicate of
		s.q.watched.Keep()
	}
}

// age makes the jobs of a request that is sent again as old as they are. Its number decides what becomes of it, not that.
func (s *shipper) age() {
	wires := slices.Clone(s.wires) // the exchange before may still read it
	for i, j := range s.hand[:s.request] {
		if !j.over {
			wires[i] = s.q.request(j)
		}
	}
	s.wires = wires
}

// answered takes the store's answer to the request.
func (s *shipper) answered(answer durable.Appended) time.Duration {
	s.store.ok()
	s.take(answer)
	s.q.sent.set(nil)
	s.q.watched.LetGo()
	s.n++
	s.doubts = 0
	full := answer.Taken < s.request
	s.request = 0
	if answer.Paused {
		s.q.noteIntake(durable.Pause{Active: true})
		return s.paused.pause()
	}
	s.q.noteIntake(durable.Pause{})
	s.paused.ok()
	if full {
		return s.room.pause()
	}
	s.room.ok()
	return 0
}

// take ends or marks the jobs an answer speaks of and removes them from the hand.
func (s *shipper) take(answer durable.Appended) {
	q := s.q
	q.noteBacklog(answer.Backlog)
	if answer.Gap {
		q.lostWrites("append")
	}
	refused := answer.Refused
	for i, j := range s.hand[:answer.Taken] {
		if len(refused) > 0 && refused[0].Pos == i {
			s.refused(j, refused[0])
			refused = refused[1:]
			continue
		}
		if !j.over {
			q.count(EventEnqueued)
			short := answer.Replicas < q.info.Replicas
			if short {
				q.count(EventUnreplicated)
			}
			if q.info.Replicas > 0 {
				j.MarkReplicated(answer.Replicas)
			} else {
				j.MarkEnqueued()
			}
			q.superseded(q.watched.Watch(&j.Promise), j.id()) // not earlier: one too many ends detached, and is durable, then
			q.following.stored(&j.Promise)
			q.tell(Event{Type: EventEnqueued, ID: j.id(), Kind: j.kind})
			if short {
				q.tell(Event{Type: EventUnreplicated, ID: j.id(), Kind: j.kind})
			}
			if delay := s.wires[i].Delay; delay > 0 {
				q.dues.note(delay)
			}
			if left := s.wires[i].Expiry; left > 0 && q.following.engine != nil {
				q.expiries.keep(&j.Promise, left)
			}
			s.free(j)
		}
	}
	s.release()
	n := copy(s.hand, s.hand[answer.Taken:])
	clear(s.hand[n:])
	s.hand = s.hand[:n]
}

// end ends a job that will not be reported enqueued; release gives its slot back.
func (s *shipper) end(j *job, state local.State, cause error) {
	if j.over {
		return
	}
	event := map[local.State]EventType{
		local.Refused: EventRefused, local.Abandoned: EventAbandoned, local.Uncertain: EventUncertain,
		local.Cancelled: EventCancelled, local.Expired: EventExpired,
	}[state]
	s.q.endUnstored(j, event, state, cause)
	s.free(j)
}

// free notes the slot of a job that has left memory; release gives all of them back at once.
func (s *shipper) free(j *job) {
	j.over, j.wire = true, nil
	s.slots = append(s.slots, j.slot)
	j.slot = local.Slot[*job]{}
}

func (s *shipper) release() {
	if len(s.slots) > 0 {
		s.q.front.Release(s.slots...)
		clear(s.slots)
		s.slots = s.slots[:0]
	}
}

// forget gives up the identity, and with it the number under way; what is over leaves the hand.
func (s *shipper) forget() {
	s.release()
	s.q.sent.set(nil)
	s.q.watched.LetGo()
	s.producer, s.n, s.doubts, s.request = nil, 1, 0, 0
	kept := s.hand[:0]
	for _, j := range s.hand {
		if !j.over {
			kept = append(kept, j)
		}
	}
	clear(s.hand[len(kept):])
	s.hand = kept
}

// finish settles what a request in doubt has done, and hands everything else back.
func (s *shipper) finish() {
	if s.doubts > 0 {
		answer, err := s.close()
		if err == nil {
			s.take(answer)
		} else {
			for _, j := range s.hand[:s.request] {
				s.uncertain = append(s.uncertain, s.giveBack(j, local.Uncertain, err)...)
			}
		}
		s.forget()
	}
	if len(s.unclear) > 0 {
		err := s.resolve(s.closing)
		s.giveUp(s.unclear, errors.Join(ErrShutdown, err))
	}
	for _, j := range s.hand {
		s.returned = append(s.returned, s.giveBack(j, local.Abandoned, ErrShutdown)...)
	}
	for _, slot := range s.q.front.Drain() {
		slot.Job.slot = slot
		s.returned = append(s.returned, s.giveBack(slot.Job, local.Abandoned, ErrShutdown)...)
	}
	s.release()
}

// close asks, until it is answered, what became of the request in doubt, and makes sure
// that nothing of it happens later.
func (s *shipper) close() (durable.Appended, error) {
	producer, n := s.producer, s.n+1
	for {
		answer, err := call(s.closing, s.q, callTimeout, func(ctx context.Context) (durable.Appended, error) {
			return producer.Close(ctx, n)
		})
		if err == nil || errors.Is(err, durable.ErrNoSender) || errors.Is(err, durable.ErrOutdated) {
			return answer, err
		}
		if !sleep(s.closing, s.store.fail(err)) {
			return answer, because(durable.ErrInDoubt, err)
		}
	}
}

// giveBack ends a job and returns it in the form for its owner; nothing if it has ended.
func (s *shipper) giveBack(j *job, state local.State, cause error) []Returned {
	if j.over {
		return nil
	}
	headers, _ := decodeHeaders(j.wire.Headers) // encoded by us
	back := Returned{
		ID: j.id(), Kind: j.kind, Payload: j.wire.Payload, Headers: headers, Delay: j.wire.Delay,
		NotBefore: j.wire.notBefore, Expiry: j.wire.Expiry, LimitKey: j.wire.LimitKey, MaxAttempts: j.wire.MaxAttempts, Timeout: j.wire.Timeout, Retention: j.wire.Retention,
		Priority: j.wire.Priority, Err: cause,
	}
	if j.wire.Unique != nil {
		back.Unique = *j.wire.Unique
	}
	s.end(j, state, cause)
	return []Returned{back}
}

// lostWrites reports that the store has lost what it had answered.
func (q *Queue) lostWrites(what string) {
	q.log.Error("weir: the store has lost writes it had answered", "found by", what)
	q.emit(Event{Type: EventGap, Err: fmt.Errorf("bridge: found by %s", what)})
	q.following.doubt()
}
