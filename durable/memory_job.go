package durable

import (
	"bytes"
	"time"
)

// memoryJob is a job wherever it is: exactly one of pending, scheduled, held, dead, completed.
type memoryJob struct {
	id, kind         string
	payload, headers []byte
	maxAttempts      int
	timeout          time.Duration
	retention        time.Duration
	priority         int
	place            int64 // in the line: when it came, in ns, earlier by its priority

	attempts, crashes, deliveries int

	fence  int64
	token  string        // of the claim; empty unless held
	owner  *memoryMember // who holds it
	due    time.Time     // while scheduled
	order  uint64        // among those due at the same time
	reason string        // of the last failure

	state State
	since time.Time // claimed, died or completed
	size  int64     // of the payload

	consumer, completedBy string // who has completed it, under which token
}

func newMemoryJob(j *Job) *memoryJob {
	return &memoryJob{
		id:          j.ID,
		kind:        j.Kind,
		payload:     bytes.Clone(j.Payload),
		headers:     bytes.Clone(j.Headers),
		maxAttempts: j.MaxAttempts,
		timeout:     j.Timeout,
		retention:   j.Retention.Truncate(millisecond),
		size:        int64(len(j.Payload)),
		priority:    j.Priority,
	}
}

// claim is a copy for the consumer.
func (j *memoryJob) claim() *Claim {
	return &Claim{
		ID: j.id, Token: j.token,
		Kind:        j.kind,
		Payload:     bytes.Clone(j.payload),
		Headers:     bytes.Clone(j.headers),
		Attempts:    j.attempts,
		Crashes:     j.crashes,
		Deliveries:  j.deliveries,
		Fence:       j.fence,
		MaxAttempts: j.maxAttempts,
		Timeout:     j.timeout,
	}
}

// The moves. Each leaves a job in exactly one place.

// last makes a job the last of the queue, as its priority goes.
func (m *Memory) last(j *memoryJob) {
	j.state, j.since = StatePending, time.Time{}
	m.pending.pushTail(j, time.Now())
	m.rouse()
}

// first makes a job the next of the queue, as its priority goes.
func (m *Memory) first(j *memoryJob) {
	j.state, j.since = StatePending, time.Time{}
	m.pending.pushHead(j)
	m.rouse()
}

// later puts a job where it is not claimed before due.
func (m *Memory) later(j *memoryJob, due time.Time) {
	j.state, j.since = StateScheduled, time.Time{}
	if m.scheduled.push(j, due) {
		m.rouse()
	}
}

// bury makes a job a dead letter; the caller trims.
func (m *Memory) bury(j *memoryJob, reason string) {
	j.reason = reason
	j.state, j.since = StateDead, time.Now()
	m.counters.dead++
	m.dead.pushTail(j)
}

// trim discards the oldest dead letters beyond the bound, and says how many.
func (m *Memory) trim() int {
	trimmed := 0
	for int64(m.dead.len()) > m.opts.MaxDead {
		delete(m.jobs, m.dead.popHead().id)
		trimmed++
	}
	m.counters.trimmed += int64(trimmed)
	return trimmed
}

// take ends a claim; the caller puts the job elsewhere.
func (m *Memory) take(c *memoryMember, j *memoryJob) {
	delete(c.held, j.id)
	if j.crashes > 0 {
		c.suspects--
	}
	m.held--
	j.owner, j.token = nil, ""
}

// giveBack ends a claim that nobody is charged for.
func (m *Memory) giveBack(c *memoryMember, j *memoryJob) {
	m.take(c, j)
	m.counters.returned++
	m.first(j)
}

// rouse tells those who wait in Await to look again.
func (m *Memory) rouse() {
	if m.wake != nil {
		close(m.wake)
		m.wake = nil
	}
}
