package local

// queue is slots in the order in which they came: a ring that doubles when it is full. A front
// never has more in it than its capacity. The zero value is an empty one.
type queue[T any] struct {
	head int // the first one's place
	n    int
	ring []Slot[T] // as long as a power of two, or empty
}

// push returns the place of a new one at the end, which is zero and to be filled in.
func (q *queue[T]) push() *Slot[T] {
	if q.n == len(q.ring) {
		q.grow()
	}
	q.n++
	return &q.ring[(q.head+q.n-1)&(len(q.ring)-1)]
}

// grow doubles the ring, and puts the first one first.
func (q *queue[T]) grow() {
	ring := make([]Slot[T], max(2*len(q.ring), 16))
	copied := copy(ring, q.ring[q.head:])
	copy(ring[copied:], q.ring[:q.head])
	q.ring, q.head = ring, 0
}

// first is the oldest one, of at least one.
func (q *queue[T]) first() *Slot[T] { return &q.ring[q.head] }

// drop removes the oldest one, of at least one.
func (q *queue[T]) drop() {
	q.ring[q.head] = Slot[T]{} // keep nothing alive
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
}

// remove takes out those that match, in their order, and appends them to out.
func (q *queue[T]) remove(out []Slot[T], match func(T) bool) []Slot[T] {
	kept := 0
	at := func(i int) *Slot[T] { return &q.ring[(q.head+i)&(len(q.ring)-1)] }
	for i := range q.n {
		if s := at(i); match(s.Job) {
			out = append(out, *s)
		} else {
			*at(kept) = *s
			kept++
		}
	}
	for i := kept; i < q.n; i++ {
		*at(i) = Slot[T]{}
	}
	q.n = kept
	return out
}

// putBack puts one before the oldest one.
func (q *queue[T]) putBack(s Slot[T]) {
	if q.n == len(q.ring) {
		q.grow()
	}
	q.head = (q.head - 1) & (len(q.ring) - 1)
	q.ring[q.head] = s
	q.n++
}
