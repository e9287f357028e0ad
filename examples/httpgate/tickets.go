package main

import (
	"sync"

	"github.com/seed-9dec4fca/weir/bridge"
)

// remembered is how many tickets an instance keeps for GET /jobs/ID. The one too many pushes the
// oldest out, whatever its state: its job goes on, and its status is 404 from then on. The
// queue itself does not keep a ticket alive, so this is all the memory there is.
const remembered = 1 << 14

// tickets is a map with a bound. It is safe for concurrent use.
type tickets struct {
	mu   sync.Mutex // guards what follows
	by   map[string]*bridge.Ticket
	ring []string // in the order of arrival, from next on
	next int
}

func newTickets(most int) *tickets {
	return &tickets{by: map[string]*bridge.Ticket{}, ring: make([]string, most)}
}

func (t *tickets) add(ticket *bridge.Ticket) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if oldest := t.ring[t.next]; oldest != "" {
		delete(t.by, oldest)
	}
	t.ring[t.next] = ticket.ID()
	t.by[ticket.ID()] = ticket
	t.next = (t.next + 1) % len(t.ring)
}

func (t *tickets) find(id string) *bridge.Ticket {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.by[id]
}
