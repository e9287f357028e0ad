package durable

import (
	"time"
)

// retainHeaders is how many bytes of headers the record of an ended job may keep.
const retainHeaders = 4 << 10

// cancel ends a job that is in no place any more, as somebody has asked for.
func (m *Memory) cancel(j *memoryJob, now time.Time) {
	m.counters.cancelled++
	m.note(j, Notice{What: NoticeCancelled})
	m.end(j, StateCancelled, now)
}

// expire ends a job that is in no place any more: it is too late to run it.
func (m *Memory) expire(j *memoryJob, now time.Time) {
	m.counters.expired++
	m.note(j, Notice{What: NoticeExpired})
	m.end(j, StateExpired, now)
}

// end ends a job that is in no place any more: it is gone, or its record is kept for its retention.
func (m *Memory) end(j *memoryJob, as State, now time.Time) {
	j.cancelling = false
	if j.retention <= 0 {
		m.remove(j)
		return
	}
	m.keys.free(j, now)
	j.state, j.since, j.payload = as, now, nil
	if len(j.headers) > retainHeaders {
		j.headers = nil
	}
	m.completed.push(j, now.Add(j.retention))
	m.forget(now)
	for int64(m.completed.len()) > m.opts.MaxCompleted {
		m.remove(m.completed.pop())
		m.counters.completedTrimmed++
	}
}

// forget drops the records that are over their time.
func (m *Memory) forget(now time.Time) {
	for m.completed.due(now) {
		m.remove(m.completed.pop())
	}
}
