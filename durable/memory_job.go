package durable

import (
	"bytes"
	"slices"
	"strconv"
	"time"
)

// memoryJob is a job wherever it is: exactly one of pending, scheduled, held, dead, completed (and then completed, cancelled or expired).
type memoryJob struct {
	id, kind         string
	payload, headers []byte
	maxAttempts      int
	timeout          time.Duration
	retention        time.Duration
	priority         int
	expires          time.Time // no run begins after that; zero: never
	unique           *Unique   // not to be changed
	limitKey         string
	sender           string // who has appended it, under which number, and where in that
	number           uint64
	pos              int

	place int64 // in the line: when it came, in ns, earlier by its priority
	spot  int64 // in its lane
	index int   // in its schedule

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

	cancelling bool // it is claimed, and to be cancelled
	progress   []byte
	followers  []string // who is to be told of it, besides the one that has adopted the sender

	consumer, completedBy string // who has completed it, under which token
	result                []byte
}

func newMemoryJob(j *Job, now time.Time) *memoryJob {
	stored := &memoryJob{
		id:          j.ID,
		kind:        j.Kind,
		payload:     bytes.Clone(j.Payload),
		headers:     bytes.Clone(j.Headers),
		maxAttempts: j.MaxAttempts,
		timeout:     j.Timeout,
		retention:   j.Retention.Truncate(millisecond),
		size:        int64(len(j.Payload)),
		priority:    j.Priority,
		limitKey:    j.LimitKey,
	}
	if j.Expiry > 0 {
		stored.expires = now.Add(j.Expiry.Truncate(millisecond))
	}
	if j.Unique != nil {
		unique := *j.Unique
		unique.States = slices.Clone(unique.States)
		stored.unique = &unique
	}
	return stored
}

// expired tells whether it is too late to run the job.
func (j *memoryJob) expired(now time.Time) bool { return !j.expires.IsZero() && !j.expires.After(now) }

// life tells the job from others with its ID.
func (j *memoryJob) life() string {
	return j.sender + ":" + strconv.FormatUint(j.number, 10) + ":" + strconv.Itoa(j.pos)
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
		Life:        j.life(),
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
	j.cancelling = false
	j.state, j.since = StateDead, time.Now()
	m.counters.dead++
	m.note(j, Notice{What: NoticeDead, Reason: reason})
	m.dead.pushTail(j)
}

// trim discards the oldest dead letters beyond the bound, and says how many.
func (m *Memory) trim() int {
	trimmed := 0
	for int64(m.dead.len()) > m.opts.MaxDead {
		m.remove(m.dead.popHead())
		trimmed++
	}
	m.counters.trimmed += int64(trimmed)
	return trimmed
}

// take ends a claim; the caller puts the job elsewhere.
func (m *Memory) take(c *memoryMember, j *memoryJob) {
	delete(c.held, j.id)
	m.counted(j, false, time.Now())
	if j.crashes > 0 {
		c.suspects--
	}
	m.held--
	j.owner, j.token = nil, ""
}

// giveBack ends a claim that nobody is charged for, and tells where the job is now.
func (m *Memory) giveBack(c *memoryMember, j *memoryJob) State {
	m.take(c, j)
	if j.cancelling {
		m.cancel(j, time.Now())
		return StateCancelled
	}
	m.counters.returned++
	m.note(j, Notice{What: NoticeRequeued})
	m.first(j)
	return StatePending
}

// pick takes a job that waits out of its place, for good.
func (m *Memory) pick(j *memoryJob) {
	if j.state == StatePending {
		m.pending.remove(j)
	} else {
		m.scheduled.remove(j)
	}
	m.unlimit(j)
	m.nextOf(j, time.Now())
}

// remove forgets a job that is in no place any more.
func (m *Memory) remove(j *memoryJob) {
	delete(m.jobs, j.id)
	m.keys.free(j, time.Now())
}

// rouse tells those who wait in Await to look again.
func (m *Memory) rouse() {
	if m.wake != nil {
		close(m.wake)
		m.wake = nil
	}
}
