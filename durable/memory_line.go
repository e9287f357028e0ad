package durable

import (
	"slices"
	"time"
)

// line is what waits, in the order in which it is claimed: a ring for each priority. The zero value is empty.
type line struct {
	step  time.Duration // how much earlier a job counts as arrived for each level of its priority
	lanes []*priorityLane
	n     int
}

// priorityLane are the jobs of one priority. What was removed from its middle leaves a hole, a nil; the head is none.
type priorityLane struct {
	priority int
	ring[*memoryJob]
	first int64 // the spot of the head
	holes int
}

func (p *priorityLane) pushHead(j *memoryJob) {
	p.first--
	j.spot = p.first
	p.ring.pushHead(j)
}

func (p *priorityLane) pushTail(j *memoryJob) {
	j.spot = p.first + int64(p.n)
	p.ring.pushTail(j)
}

func (p *priorityLane) popHead() *memoryJob {
	j := p.ring.popHead()
	p.first++
	for p.n > 0 && p.head() == nil {
		p.ring.popHead()
		p.first++
		p.holes--
	}
	return j
}

func (p *priorityLane) remove(j *memoryJob) {
	if j.spot == p.first {
		p.popHead()
		return
	}
	p.buf[p.at(int(j.spot-p.first))] = nil
	if p.holes++; p.holes > 16 && p.holes > p.n/2 {
		p.filter(func(_ int, j *memoryJob) bool { return j != nil })
		for i := range p.n {
			p.buf[p.at(i)].spot = p.first + int64(i)
		}
		p.holes = 0
	}
}

func (l *line) len() int { return l.n }

// lane is that of a priority. They are in order, the highest priority first, and stay when they are empty.
func (l *line) lane(priority int) *priorityLane {
	i, found := slices.BinarySearchFunc(l.lanes, priority, func(p *priorityLane, priority int) int {
		return priority - p.priority
	})
	if !found {
		l.lanes = slices.Insert(l.lanes, i, &priorityLane{priority: priority})
	}
	return l.lanes[i]
}

// pushTail adds a job that arrives now.
func (l *line) pushTail(j *memoryJob, now time.Time) {
	j.place = now.UnixNano() - int64(j.priority)*int64(l.step)
	l.lane(j.priority).pushTail(j)
	l.n++
}

// pushHead returns a job to its place, before what waits with its priority.
func (l *line) pushHead(j *memoryJob) {
	l.lane(j.priority).pushHead(j)
	l.n++
}

// next is the lane of the first job; there must be one.
func (l *line) next() *priorityLane {
	var first *priorityLane
	for _, p := range l.lanes {
		if p.len() > 0 && (first == nil || p.head().place < first.head().place) {
			first = p
		}
	}
	return first
}

// head is the first job; there must be one.
func (l *line) head() *memoryJob { return l.next().head() }

func (l *line) popHead() *memoryJob {
	l.n--
	return l.next().popHead()
}

// remove takes a job out, wherever it is.
func (l *line) remove(j *memoryJob) {
	l.n--
	l.lane(j.priority).remove(j)
}

// all lists what waits, the first one first.
func (l *line) all() []*memoryJob {
	copied := line{lanes: make([]*priorityLane, len(l.lanes)), n: l.n}
	for i, p := range l.lanes {
		copied.lanes[i] = &priorityLane{priority: p.priority, ring: ring[*memoryJob]{buf: slices.Clone(p.buf), from: p.from, n: p.n}}
	}
	all := make([]*memoryJob, 0, l.n)
	for copied.n > 0 {
		all = append(all, copied.popHead())
	}
	return all
}
