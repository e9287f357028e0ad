package durable

import (
	"time"
)

// retainHeaders is how many bytes of headers the record of a completed job may keep.
const retainHeaders = 4 << 10

// complete ends a job that is in no place any more: it is gone, or its record is kept for its retention.
func (m *Memory) complete(j *memoryJob, consumer, token string, now time.Time) {
	if j.retention <= 0 {
		delete(m.jobs, j.id)
		return
	}
	j.state, j.since, j.payload = StateCompleted, now, nil
	j.consumer, j.completedBy = consumer, token
	if len(j.headers) > retainHeaders {
		j.headers = nil
	}
	m.completed.push(j, now.Add(j.retention))
	m.forget(now)
	for int64(m.completed.len()) > m.opts.MaxCompleted {
		delete(m.jobs, m.completed.pop().id)
		m.counters.completedTrimmed++
	}
}

// forget drops the records that are over their time.
func (m *Memory) forget(now time.Time) {
	for m.completed.due(now) {
		delete(m.jobs, m.completed.pop().id)
	}
}
