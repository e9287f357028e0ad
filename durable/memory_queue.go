package durable

import "time"

// ring is a double-ended queue. The zero value is empty.
type ring[T any] struct {
	buf  []T // its length is zero or a power of two
	from int // of the head
	n    int
}

func (r *ring[T]) len() int { return r.n }

func (r *ring[T]) at(i int) int { return (r.from + i) & (len(r.buf) - 1) }

func (r *ring[T]) head() T { return r.buf[r.from] }

func (r *ring[T]) pushHead(v T) {
	r.resize()
	r.from = r.at(len(r.buf) - 1)
	r.buf[r.from] = v
	r.n++
}

func (r *ring[T]) pushTail(v T) {
	r.resize()
	r.buf[r.at(r.n)] = v
	r.n++
}

func (r *ring[T]) popHead() T {
	var zero T
	v := r.buf[r.from]
	r.buf[r.from] = zero
	r.from = r.at(1)
	r.n--
	r.resize()
	return v
}

// all lists what is in the queue, head first.
func (r *ring[T]) all() []T {
	all := make([]T, r.n)
	for i := range all {
		all[i] = r.buf[r.at(i)]
	}
	return all
}

// filter keeps that of which keep says so; it is asked from the head on.
func (r *ring[T]) filter(keep func(i int, v T) bool) {
	for i := range r.n {
		if v := r.popHead(); keep(i, v) {
			r.pushTail(v)
		}
	}
}

// resize leaves room for one more and no more than three quarters empty.
func (r *ring[T]) resize() {
	size := len(r.buf)
	switch {
	case r.n == size:
		size = max(16, 2*size)
	case size > 16 && r.n < size/4:
		size /= 2
	default:
		return
	}
	buf := make([]T, size)
	for i := range r.n {
		buf[i] = r.buf[r.at(i)]
	}
	r.buf, r.from = buf, 0
}

// schedule keeps jobs by the time they are due, in order of arrival among equals: a
// binary heap. The zero value is empty.
type schedule struct {
	heap    []*memoryJob
	arrived uint64
}

func (s *schedule) len() int { return len(s.heap) }

// next is when the first job is due; there must be one.
func (s *schedule) next() time.Time { return s.heap[0].due }

func (s *schedule) due(now time.Time) bool {
	return len(s.heap) > 0 && !s.heap[0].due.After(now)
}

func (s *schedule) less(a, b *memoryJob) bool {
	if a.due.Equal(b.due) {
		return a.order < b.order
	}
	return a.due.Before(b.due)
}

// push adds a job and reports whether it is the first one now.
func (s *schedule) push(j *memoryJob, due time.Time) bool {
	s.arrived++
	j.due, j.order = due, s.arrived
	s.heap = append(s.heap, j)
	return s.up(j, len(s.heap)-1) == 0
}

// pop takes the first job out; there must be one.
func (s *schedule) pop() *memoryJob {
	first := s.heap[0]
	s.remove(first)
	return first
}

// remove takes a job out, wherever it is.
func (s *schedule) remove(j *memoryJob) {
	end := len(s.heap) - 1
	last := s.heap[end]
	s.heap[end] = nil
	s.heap = s.heap[:end]
	if last != j {
		s.down(last, s.up(last, j.index))
	}
}

// up puts a job at i, or higher where it belongs, and tells where.
func (s *schedule) up(j *memoryJob, i int) int {
	for i > 0 {
		parent := (i - 1) / 2
		if !s.less(j, s.heap[parent]) {
			break
		}
		s.put(s.heap[parent], i)
		i = parent
	}
	s.put(j, i)
	return i
}

// down puts a job at i, or lower where it belongs.
func (s *schedule) down(j *memoryJob, i int) {
	for {
		child := 2*i + 1
		if child >= len(s.heap) {
			break
		}
		if child+1 < len(s.heap) && s.less(s.heap[child+1], s.heap[child]) {
			child++
		}
		if !s.less(s.heap[child], j) {
			break
		}
		s.put(s.heap[child], i)
		i = child
	}
	s.put(j, i)
}

func (s *schedule) put(j *memoryJob, i int) {
	s.heap[i] = j
	j.index = i
}
