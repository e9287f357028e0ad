package local

import (
	"errors"
	"fmt"
	"sync"
	"weak"
)

// Registry finds the promises of durable jobs by ID, so that their tickets can be told
// what becomes of them. It does not keep alive what nobody else holds, and watches a bounded
// number at most. All methods are safe for concurrent use and none blocks.
type Registry struct {
	max  int
	full error // why the one too many is detached

	mu      sync.Mutex
	watched map[string]weak.Pointer[Promise]
	// swept is a pointer to nothing that is held. It is nil again after the next garbage
	// collection: before that, another sweep would find nothing more that has died.
	swept weak.Pointer[sentinel]
}

// sentinel is too large to share a block of memory with something that lives.
type sentinel struct{ _ [64]byte }

// errSuperseded is why the older of two tickets of the same ID is detached.
var errSuperseded = errors.New("local: another job with the same ID is watched now")

// NewRegistry makes a registry for that many tickets; less than 1 means none.
func NewRegistry(most int) *Registry {
	return &Registry{
		max:     most,
		full:    fmt.Errorf("local: %d tickets are watched already, as many as may be", max(most, 0)),
		watched: make(map[string]weak.Pointer[Promise]),
	}
}

// Watch makes p findable by its ID. If as many are watched as may be, p ends as Detached;
// if another one is watched under the same ID, that one does. One that has ended is not
// watched.
func (r *Registry) Watch(p *Promise) {
	if p.ticket.State().Ended() {
		return
	}
	id := p.ticket.id
	r.mu.Lock()
	defer r.mu.Unlock()
	older, found := r.watched[id]
	if found {
		if q := older.Value(); q != nil && q != p {
			q.End(Detached, errSuperseded)
		}
	} else if len(r.watched) >= r.max && !r.sweep() {
		p.End(Detached, r.full)
		return
	}
	r.watched[id] = weak.Make(p)
}

// sweep forgets what has died or ended, and reports whether there is room then. It goes
// through everything at most once per garbage collection, which costs more than that. mu is held.
func (r *Registry) sweep() bool {
	if r.swept.Value() != nil {
		return false
	}
	for id, w := range r.watched {
		if p := w.Value(); p == nil || p.ticket.State().Ended() {
			delete(r.watched, id)
		}
	}
	r.swept = weak.Make(new(sentinel))
	return len(r.watched) < r.max
}

// Find returns the promise that is watched under that ID, nil if none is or nobody holds
// it any more.
func (r *Registry) Find(id string) *Promise {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, found := r.watched[id]
	if !found {
		return nil
	}
	p := w.Value()
	if p == nil {
		delete(r.watched, id)
	}
	return p
}

// Forget stops watching p, if it is p that is watched under that ID.
func (r *Registry) Forget(id string, p *Promise) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w, found := r.watched[id]; found && w.Value() == p {
		delete(r.watched, id)
	}
}

// DetachAll ends every watched ticket that is still open as Detached, for that cause, and
// forgets all. What is watched later is watched as ever.
func (r *Registry) DetachAll(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.watched {
		if p := w.Value(); p != nil {
			p.End(Detached, cause)
		}
	}
	clear(r.watched)
}
