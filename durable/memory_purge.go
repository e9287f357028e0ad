package durable

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Purge deletes jobs by their state, at most 500 a step. It does not block.
func (m *Memory) Purge(ctx context.Context, r PurgeRequest) (Purged, error) {
	if err := m.ready(ctx, "purge"); err != nil {
		return Purged{}, err
	}
	asked, err := r.states()
	if err != nil {
		return Purged{}, m.misuse("purge", err.Error())
	}
	if err := r.confirmed(m.opts.Name); err != nil {
		return Purged{}, m.because("purge", err)
	}
	left, err := purgeCursor(r.Cursor, asked)
	if err != nil {
		return Purged{}, m.misuse("purge", err.Error())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.act("")
	p := Purged{Deleted: make(map[State]int)}
	budget, more := purgeStep, false
	words := make([]string, len(left))
	for i, s := range purgeOrder {
		there := m.size(s)
		if left[i] < 0 {
			left[i] = int64(there)
		}
		n := min(budget, int(left[i]), there)
		if n > 0 {
			for _, j := range m.in(s)[:n] {
				m.purge(j)
			}
			p.Deleted[s] = n
		}
		budget -= n
		left[i] = min(left[i]-int64(n), int64(there-n))
		more = more || left[i] > 0
		words[i] = strconv.FormatInt(left[i], 10)
	}
	if more {
		p.Cursor = strings.Join(words, ",")
	}
	m.counters.purged += int64(p.Total())
	return p, nil
}

func (m *Memory) size(s State) int {
	switch s {
	case StatePending:
		return m.pending.len()
	case StateScheduled:
		return m.scheduled.len()
	case StateDead:
		return m.dead.len()
	case StateCompleted:
		return m.completed.len()
	case StateProcessing:
		return int(m.held)
	case StateCorrupt, StateCancelled, StateExpired:
	}
	return 0
}

// purge deletes the job that is the first of its state, as in has listed it; of claims, any.
func (m *Memory) purge(j *memoryJob) {
	switch j.state {
	case StatePending, StateScheduled:
		m.pick(j)
	case StateDead:
		m.dead.popHead()
	case StateCompleted, StateCancelled, StateExpired:
		m.completed.pop()
		m.remove(j)
		return
	case StateProcessing:
		m.take(j.owner, j)
	case StateCorrupt:
		panic(fmt.Sprintf("durable: job %q in a Memory is corrupt", j.id))
	}
	m.note(j, Notice{What: NoticeGone})
	m.remove(j)
}
