package bridge

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/local"
)

// following is how this process learns what others make of the jobs it has submitted, for tickets that somebody looks at. Whoever
// runs the job notes what becomes of it, for a follower in the store, because that has adopted the identity of the producer.
//
//	arrange  opens the follower and adopts     the shipper before an append, or one of the others
//	ask      asks what jobs are now            one, while there is something to ask
//	news     reads what was noted              one, while an open ticket is looked at
//
// An arrangement is numbered: a ticket whose job was stored under the one that still holds is told of without being asked for. When one
// ends (the store has lost it, notices are gone, another identity appends) all open tickets that are looked at are asked for; and each of
// the others when somebody looks at it.
//
// Nobody who only fires and forgets pays for it: a producer of whose last 2,048 tickets nobody has looked at one, nor holds one of
// a sample, nor has looked at any for ten minutes, is adopted no more, until the next look.
type following struct {
	q       *Queue
	engine  durable.FollowEngine // nil: it tells nobody
	lookout local.Lookout        // without Looked likewise
	seed    maphash.Seed
	ctx     context.Context // ended by Shutdown
	stop    context.CancelFunc

	era      atomic.Uint32                 // number of the arrangement, or of what comes after it
	covered  atomic.Uint32                 // the same while it holds; 0: none does
	unlooked atomic.Int64                  // jobs enqueued since the last look
	lastLook atomic.Int64                  // when that was, on the clock of now(); 0: never
	reading  atomic.Bool                   // news is under way
	asking   atomic.Bool                   // ask is
	covering atomic.Bool                   // what the shipper has begun to arrange is under way
	sample   []weak.Pointer[local.Promise] // of tickets that nobody has looked at, oldest first; the shipper's
	hasty    time.Duration                 // not before that does it wait for turn again; the shipper's

	// turn is held by whoever arranges, asks or tells, until he has made something of the answer: so news of a job comes after
	// the answer that says which job it is.
	turn  chan struct{}
	again time.Duration // not before that does the shipper try to arrange; turn guards it, and tries
	tries *pacer

	mu       sync.Mutex // guards what follows
	follower durable.Follower
	producer string                    // the identity that appends; empty: none yet
	wanted   bool                      // its jobs are to be told of
	adopted  map[string]bool           // by the follower
	sessions map[string]*session       // of Run, by identity
	left     []*session                // those that have ended, and may not have told yet how all their jobs did
	gone     []string                  // those of sessions that have ended, still adopted
	called   time.Duration             // when the follower was last answered
	asks     map[string]*local.Promise // what the store is asked for, and of whom it is known that he has completed; nil: of nobody
	endings  []ending                  // that news will bring to their tickets
}

const (
	// readAfter is after how many jobs that nobody looks at their notices are read all the same, before the store drops some:
	// their tickets may be looked at yet.
	readAfter = durable.MaxNotices * 3 / 4
	// restAfter is after how many it is asked whether anybody holds one of the tickets, as far as the registry does not do so
	// itself, going by one in sampleEvery.
	restAfter, sampleEvery = 2048, 64
	// lookAgain is how long it is expected that whoever has looked at one looks at another.
	lookAgain = 10 * time.Minute
	// coverWithin is for how long an append waits while somebody asks, who may ask in vain.
	coverWithin = time.Second
	// hastyFor is for how long none does after one has in vain.
	hastyFor = 30 * time.Second
	// askAllEvery is how often all tickets that are looked at are asked for, whatever is noted: a producer's record in the
	// store may be over before its jobs are.
	askAllEvery = time.Hour
)

func (f *following) init(q *Queue) {
	f.q = q
	f.ctx, f.stop = context.WithCancel(context.Background())
	f.sessions = map[string]*session{}
	f.seed = maphash.MakeSeed()
	engine, ok := q.engine.(durable.FollowEngine)
	if !ok || !q.info.Capabilities.Follow {
		return
	}
	f.engine, f.lookout.Looked = engine, f.looked
	f.turn, f.wanted = make(chan struct{}, 1), true
	f.adopted, f.asks = map[string]bool{}, map[string]*local.Promise{}
	f.tries = newPacer(q.log, "follow jobs", 100*time.Millisecond, 30*time.Second)
}

// life is the number of a life of an ID, as a ticket keeps it. Of what engines add to the producer and the number of the append
// nothing is needed: an ID is stored once by each.
func (f *following) life(text string) uint64 {
	sender, rest, _ := strings.Cut(text, ":")
	number, _, _ := strings.Cut(rest, ":")
	var h maphash.Hash
	h.SetSeed(f.seed)
	_, _ = h.WriteString(sender)
	_ = h.WriteByte(':')
	_, _ = h.WriteString(number)
	return h.Sum64() | 1 // never 0
}

// produces notes a new identity that appends.
func (f *following) produces(id string) {
	if f.engine == nil {
		return
	}
	f.mu.Lock()
	f.producer = id
	f.mu.Unlock()
	f.end() // the store may have lost the record of the one before, by which its jobs are told of
}

// consumes notes an identity that claims; leaves takes it back.
func (f *following) consumes(s *session) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sessions[s.consumer.ID()] = s
}

func (f *following) leaves(s *session) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := s.consumer.ID()
	delete(f.sessions, id)
	f.left = slices.DeleteFunc(append(f.left, s), func(s *session) bool { return s.heldCount() == 0 })
	if f.adopted[id] {
		f.gone = append(f.gone, id)
	}
}

// number gives each of the jobs of a request the numbers by which it is known, before that is sent.
func (f *following) number(era uint32, producer string, n uint64, jobs []*job) {
	life := f.life(producer + ":" + strconv.FormatUint(n, 10))
	for _, j := range jobs {
		j.SetOrigin(era, life)
	}
}

// cover is called by the shipper before it makes a request, and has what is stored from now on told of from the beginning, if that
// can be arranged within a limit. It returns the number of the arrangement. What takes longer goes on meanwhile, and is not waited for
// again: a job that is asked for when it is stored may not live long.
func (f *following) cover(ctx context.Context, limit time.Duration) uint32 {
	if f.engine == nil {
		return 0
	}
	f.rest()
	if _, _, todo := f.next(false); todo == nothing || f.covering.Load() {
		return f.era.Load()
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if !f.takeSoon(ctx) { // these jobs are asked for when somebody looks
		return f.era.Load()
	}
	arranged := make(chan struct{})
	if f.q.now() < f.again {
		<-f.turn
		return f.era.Load()
	}
	f.covering.Store(true)
	if !f.q.calls.begin(func() { f.tryArrange(); f.covering.Store(false); <-f.turn; close(arranged) }) {
		<-f.turn // nothing is appended any more
		return f.era.Load()
	}
	select {
	case <-arranged:
	case <-ctx.Done():
	}
	return f.era.Load()
}

// takeSoon takes turn, if whoever has it is done with it soon. Where that was not so it is not waited for again for a while.
func (f *following) takeSoon(limited context.Context) bool {
	select {
	case f.turn <- struct{}{}:
		return true
	default:
		if f.q.now() < f.hasty {
			return false
		}
	}
	ctx, cancel := context.WithTimeout(limited, coverWithin)
	defer cancel()
	select {
	case f.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		if limited.Err() == nil {
			f.hasty = f.q.now() + hastyFor
		}
		return false
	}
}

// tryArrange is arrange, of which it is no use to try it again at once where it has failed. turn is held.
func (f *following) tryArrange() {
	if _, err := f.arrange(f.ctx, false); err == nil {
		f.tries.ok()
	} else if f.ctx.Err() == nil {
		f.again = f.q.now() + f.tries.fail(err)
	}
}

// rest gives up the arrangement when nobody looks at anything any more. A look that comes meanwhile sees that it is given up, or its
// ticket is seen here.
func (f *following) rest() {
	n := f.unlooked.Load()
	if n >= readAfter && f.covered.Load() != 0 {
		f.read()
	}
	last := time.Duration(f.lastLook.Load())
	if n < restAfter || last > 0 && f.q.now()-last < lookAgain || f.heldOnTo() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.wanted {
		return
	}
	covered := f.covered.Swap(0)
	f.wanted = len(f.q.watched.LookedAt(1)) > 0
	if f.wanted {
		f.covered.Store(covered)
	}
}

// heldOnTo tells whether anybody holds a ticket of the sample: after the next garbage collection it is known.
func (f *following) heldOnTo() bool {
	old := len(f.sample) - restAfter/2/sampleEvery // the registry holds the others itself
	for i, w := range f.sample[:max(old, 0)] {
		if p := w.Value(); p != nil {
			f.sample = f.sample[i:]
			return true
		}
	}
	f.sample = f.sample[max(old, 0):]
	return false
}

// stored is told by the shipper of jobs that are enqueued, and watched, now.
func (f *following) stored(p *local.Promise) {
	if f.engine == nil {
		return
	}
	if p.LookedAt() {
		era, _ := p.Origin()
		f.looked(p.Ticket(), era)
	} else if n := f.unlooked.Add(1); n%sampleEvery == 0 && f.covered.Load() != 0 {
		f.sample = append(f.sample, weak.Make(p))
	}
}

// step is what arrange has to do next.
type step uint8

const (
	nothing step = iota
	open
	adopt
	disown
)

// next is the next step towards what is wanted; asked: a follower is wanted whatever else is. When nothing is left to be done,
// the arrangement holds.
func (f *following) next(asked bool) (durable.Follower, string, step) {
	f.mu.Lock()
	defer f.mu.Unlock()
	produces := f.wanted && f.producer != ""
	switch {
	case f.follower == nil && (asked || produces):
		return nil, "", open
	case f.follower == nil:
	case produces && (!f.adopted[f.producer] || f.q.now()-f.called > durable.FollowFor/2):
		return f.follower, f.producer, adopt // or show the store that the follower lives
	case !f.wanted && f.adopted[f.producer]:
		return f.follower, f.producer, disown
	case len(f.gone) > 0:
		return f.follower, f.gone[0], disown
	case asked || produces:
		for id := range f.sessions {
			if !f.adopted[id] {
				return f.follower, id, adopt
			}
		}
	}
	if f.follower != nil && f.covered.Load() == 0 && (f.producer == "" || f.adopted[f.producer]) {
		f.covered.Store(f.era.Add(1))
	}
	return f.follower, "", nothing
}

// arrange opens a follower and has it adopt whom it should. turn is held.
func (f *following) arrange(ctx context.Context, asked bool) (durable.Follower, error) {
	fresh := false
	for {
		follower, sender, todo := f.next(asked)
		switch todo {
		case nothing:
			return follower, nil
		case open:
			opened, err := call(ctx, f.q, callTimeout, f.engine.OpenFollower)
			if err != nil {
				return nil, err
			}
			fresh = true
			f.mu.Lock()
			f.follower, f.called = opened, f.q.now()
			f.mu.Unlock()
			continue
		}
		_, err := call(ctx, f.q, callTimeout, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, follower.Adopt(ctx, sender, todo == adopt)
		})
		switch {
		case err == nil:
			f.did(sender, todo == adopt)
		case !errors.Is(err, durable.ErrNoSender):
			return nil, err
		case fresh || todo == disown: // the store does not know the sender: that one finds out by itself
			f.did(sender, todo == adopt)
		default:
			f.lost(follower)
		}
	}
}

// did notes that a sender was adopted, or not any more. Of a session nothing was noted until then: what it told the store, and nobody
// here knows of, for the answer was given up, is asked for.
func (f *following) did(sender string, adopted bool) {
	f.mu.Lock()
	f.called = f.q.now()
	if f.adopted[sender] = adopted; !adopted {
		delete(f.adopted, sender)
	}
	sessions := len(f.gone)
	f.gone = slices.DeleteFunc(f.gone, func(id string) bool { return id == sender && !adopted })
	left := len(f.gone) < sessions
	f.mu.Unlock()
	if left {
		f.askAll()
	}
}

// lost takes up that the store does not know the follower any more.
func (f *following) lost(follower durable.Follower) {
	f.mu.Lock()
	is := f.follower == follower
	if is {
		f.follower = nil
		clear(f.adopted)
		f.gone = nil
	}
	f.mu.Unlock()
	if is {
		f.end()
	}
}

// doubt takes up that the store has lost writes: who has adopted whom may be among them.
func (f *following) doubt() {
	if f.engine == nil {
		return
	}
	f.mu.Lock()
	clear(f.adopted)
	f.mu.Unlock()
	f.end()
}

// end ends the arrangement.
func (f *following) end() {
	f.covered.Store(0)
	f.askAll()
}

// close ends all of it: nothing is noted for this process any more.
func (f *following) close(ctx context.Context) {
	f.stop()
	f.mu.Lock()
	follower := f.follower
	for _, e := range f.endings {
		if e.state == local.Detached {
			e.cause = ErrShutdown
		}
		f.q.apply(e)
	}
	f.mu.Unlock()
	if follower == nil {
		return
	}
	limit := stopWait
	if by, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(by)/2)
	}
	_, err := call(ctx, f.q, limit, func(ctx context.Context) (struct{}, error) { return struct{}{}, follower.Close(ctx) })
	if err != nil {
		f.q.log.Debug("weir: the follower was not closed in order, the store will forget it", "error", err)
	}
}
