package local

import (
	"fmt"
	"sync"
	"weak"
)

// youngest is how many of the newest promises a Registry holds itself, at most. They are
// most of those that are watched for a short time only, as where jobs are done as fast
// as they come.
const youngest = 1024

// Registry finds the promises of durable jobs by ID, so that their tickets can be told
// what becomes of them. It watches a bounded number at most, and does not keep alive what nobody
// else holds, the newest 1,024 excepted. All methods are safe for concurrent use and none blocks.
//
// An ID is used again: Promise.Origin says of which life of it a promise is. A stand-in, which Join makes, is of none until it is learned
// which (Promise.IsOf). Of two promises for the same life one shares what becomes of the other, always, for whoever tells finds one
// only:
//
//	stand-in     Join makes it where nothing is watched; Leave takes it away with the last who shares it, if nothing is known of it
//	sent         the store has not answered: not watched, but Claim watches it if a worker here has it already
//	watched      a stand-in of that life, or of none yet, shares with it. Any other promise with the ID is of a life that is over
//	claimed      a worker here will tell of it, from Claim to Unclaim or Forget, or several, if the lease of one was lost
//	passed       claimed, and another life of the ID is watched in its place: the worker is about to tell its end
//	forgotten    it has ended. Until LetGo First finds it nevertheless, for the answer of the store may be older than that
type Registry struct {
	max  int
	full error // why the one too many is detached

	mu sync.Mutex
	// young are the newest ones, none of which is in old: a weak pointer costs more than all
	// else about watching, and nearly all are forgotten before it would be of use. Once there
	// are too many, or no place is left, all of them become old.
	young  map[string]*Promise
	old    map[string]weak.Pointer[Promise]
	ended  map[string]*Promise // what was forgotten since Keep; nil: it is not kept
	passed map[*Promise]string // and its ID; in whose place another one is, and whose end a worker of this process is about to tell
	// swept is a pointer to nothing that is held. It is nil again after the next garbage
	// collection: before that, another sweep would find nothing more that has died.
	swept weak.Pointer[sentinel]
}

// sentinel is too large to share a block of memory with something that lives.
type sentinel struct{ _ [64]byte }

// NewRegistry makes a registry for that many tickets; less than 1 means none.
func NewRegistry(most int) *Registry {
	return &Registry{
		max:   most,
		full:  fmt.Errorf("local: %d tickets are watched already, as many as may be", max(most, 0)),
		young: make(map[string]*Promise),
		old:   make(map[string]weak.Pointer[Promise]),

		passed: make(map[*Promise]string),
	}
}

// Watch makes p, whose job is stored, findable by its ID. If as many are watched as may be, p ends as Detached. If a stand-in is
// watched under the same ID it shares with p. Any other that is watched there is of a life that is over, and not watched any more: if
// no worker here is about to tell how it ended, it is returned, and that is for the caller to learn. One that has ended is not watched.
func (r *Registry) Watch(p *Promise) (superseded *Promise) {
	if p.ticket.State().Ended() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	superseded, room := r.put(p)
	if !room {
		p.End(Detached, r.full)
	}
	return superseded
}

// put makes p findable by its ID, and reports whether there is room. mu is held.
func (r *Registry) put(p *Promise) (superseded *Promise, room bool) {
	id := p.ticket.id
	older := r.find(id)
	if older == p {
		return nil, true
	}
	r.remove(id)
	switch _, life := p.Origin(); {
	case older == nil || older.ticket.State().Ended():
	case older.StandsIn() && older.IsOf(life):
		p.reach(older.ticket.State())
		older.join(p, r.max)
	case older.Claimed(): // its job has ended, or the ID were not free
		r.passed[older] = id
	default:
		superseded = older
	}
	return superseded, r.watch(id, p)
}

// Join has p share what becomes of the job with that ID, which may not be its own. If a promise is watched under it, p is where
// that one is from now on, until and at its end. Else one is made that is nobody else's, and lives as long as somebody shares it. If as
// many share one as may be watched, p ends as Detached.
func (r *Registry) Join(id string, p *Promise) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.find(id)
	if first == nil || first.ticket.State().Ended() && !first.ticket.State().isFate() {
		r.remove(id)
		if first = new(Promise); !r.watch(id, first) {
			first.End(Detached, r.full)
		}
	}
	r.share(first, p)
}

// Share has p share what becomes of first, as Join does where that is watched. It may have ended.
func (r *Registry) Share(first, p *Promise) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.share(first, p)
}

// share is Share while mu is held.
func (r *Registry) share(first, p *Promise) {
	if !p.join(first, r.max) {
		p.End(Detached, r.full)
	}
}

// Keep has what is forgotten from now on be found by First nevertheless, as far as it may be watched at all; again, it begins anew. For
// the time between a question to the store and what is made of its answer.
func (r *Registry) Keep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = make(map[string]*Promise)
}

// LetGo ends Keep.
func (r *Registry) LetGo() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = nil
}

// watch makes p findable by an ID that nobody is found by, and reports whether there is room. mu is held.
func (r *Registry) watch(id string, p *Promise) bool {
	if !r.room() {
		return false
	}
	r.young[id] = p
	return true
}

// room makes room for a young one, and reports whether there is. mu is held.
func (r *Registry) room() bool {
	if len(r.young)+len(r.old) >= r.max {
		r.age()
		if !r.sweep() {
			return false
		}
	}
	if len(r.young) >= youngest {
		r.age()
	}
	return true
}

// remove stops watching what is watched under that ID, and returns it if it is alive. mu is held.
func (r *Registry) remove(id string) *Promise {
	if p, found := r.young[id]; found {
		delete(r.young, id)
		return p
	}
	w, found := r.old[id]
	if !found {
		return nil
	}
	delete(r.old, id)
	return w.Value()
}

// age makes the young ones old, but for those that have ended. mu is held.
func (r *Registry) age() {
	for id, p := range r.young {
		if !p.ticket.State().Ended() {
			r.old[id] = weak.Make(p)
		}
	}
	clear(r.young)
}

// sweep forgets what has died or ended, and reports whether there is room then. It goes
// through everything at most once per garbage collection, which costs more than that. All are
// old. mu is held.
func (r *Registry) sweep() bool {
	if r.swept.Value() == nil {
		for id, w := range r.old {
			if p := w.Value(); p == nil || p.ticket.State().Ended() {
				delete(r.old, id)
			}
		}
		r.swept = weak.Make(new(sentinel))
	}
	return len(r.old) < r.max
}

// find is Find while mu is held.
func (r *Registry) find(id string) *Promise {
	if p, found := r.young[id]; found {
		return p
	}
	w, found := r.old[id]
	if !found {
		return nil
	}
	p := w.Value()
	if p == nil {
		delete(r.old, id)
	}
	return p
}

// Find returns the promise that is watched under that ID, nil if none is or nobody holds
// it any more.
func (r *Registry) Find(id string) *Promise {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.find(id)
}

// Passed is Find for a claimed promise of that life, in whose place another one is.
func (r *Registry) Passed(id string, life uint64) *Promise {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p, is := range r.passed {
		if _, its := p.Origin(); is == id && its == life {
			return p
		}
	}
	return nil
}

// First is Find, but finds also what has ended since Keep.
func (r *Registry) First(id string) *Promise {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.find(id); p != nil {
		return p
	}
	return r.ended[id]
}

// Forget stops watching p, if it is p that is watched under that ID.
func (r *Registry) Forget(id string, p *Promise) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.passed, p)
	if r.find(id) != p {
		return
	}
	r.remove(id)
	if r.ended != nil && len(r.ended) < r.max && p.ticket.State().Ended() {
		r.ended[id] = p
	}
}

// Leave takes back a Join of p, which is to end by itself: the others that share the same go on. It reports false, and does nothing,
// if more is known meanwhile of what it shares than that it is accepted, or a worker of this process has that: then what becomes of
// it is what becomes of p.
func (r *Registry) Leave(id string, p *Promise) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := p.ticket.sharesWith()
	if first == nil || first.Claimed() {
		return false
	}
	left, others := p.part(first)
	if left && !others && first.ticket.id == "" && r.find(id) == first {
		r.remove(id)
	}
	return left
}

// Claim finds the promise of that life of the ID, which a worker of this process has claimed, and notes that it has the job, until
// Unclaim or an end. That may be the one of a job that was sent (not nil) and that the store has not answered: it is watched from then on, if
// there is room, and superseded is what Watch returns. It returns nil if nobody here wants to know of that life.
func (r *Registry) Claim(id string, life uint64, sent *Promise) (p, superseded *Promise) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p = r.find(id)
	if sent != nil && !sent.ticket.State().Ended() && sent.IsOf(life) {
		superseded, _ = r.put(sent)
		p = sent
	}
	if p == nil || p.ticket.State().Ended() || !p.IsOf(life) {
		return nil, superseded
	}
	p.ticket.status.Add(1 << claims)
	return p, superseded
}

// Unclaim takes a Claim back: that worker does not have the job of p any more, which may not have ended. unsure: no other worker of this
// process has it, and the store has told meanwhile of what others made of it, so that it may be elsewhere than p says. superseded: none
// has it, and another life of the ID is watched.
func (r *Registry) Unclaim(p *Promise) (unsure, superseded bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.ticket.status.Add(^uint32(1<<claims - 1)); p.Claimed() {
		return false, false
	}
	unsure = p.ticket.status.And(^uint32(heardNews))&heardNews != 0
	_, superseded = r.passed[p]
	delete(r.passed, p)
	return unsure, superseded
}

// LookedAt gives the IDs of watched tickets that are open and that somebody has looked at, so many at most, in no order. It
// goes through all.
func (r *Registry) LookedAt(most int) (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, p := range r.young {
		if len(ids) < most && p.ticket.lookedAtOpen() {
			ids = append(ids, id)
		}
	}
	for id, w := range r.old {
		if p := w.Value(); len(ids) < most && p != nil && p.ticket.lookedAtOpen() {
			ids = append(ids, id)
		}
	}
	return ids
}

// DetachAll ends every watched ticket that is still open as Detached, for that cause, and
// forgets all. What is watched later is watched as ever.
func (r *Registry) DetachAll(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.young {
		p.End(Detached, cause)
	}
	for _, w := range r.old {
		if p := w.Value(); p != nil {
			p.End(Detached, cause)
		}
	}
	for p := range r.passed {
		p.End(Detached, cause)
	}
	clear(r.passed)
	clear(r.young)
	clear(r.old)
}
