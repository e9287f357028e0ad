package durable

import (
	"context"
	"slices"
	"time"
)

// memoryProducer is an identity that appends to a Memory.
type memoryProducer struct {
	m  *Memory
	id string
}

func (p *memoryProducer) ID() string { return p.id }

func (p *memoryProducer) Append(ctx context.Context, n uint64, jobs []*Job) (Appended, error) {
	m := p.m
	if err := m.ready(ctx, "append"); err != nil {
		return Appended{}, err
	}
	if n == 0 {
		return Appended{}, m.misuse("append", "numbers start at 1")
	}
	if err := checkJobs(m.opts.Name, jobs, m.capabilities()); err != nil {
		return Appended{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.sender(p.id)
	if err != nil {
		return Appended{}, m.because("append", err)
	}
	known, err := s.append.known(n)
	if err != nil {
		return Appended{}, m.because("append", err)
	}
	if !known {
		a := m.store(p.id, n, jobs)
		a.Gap = n > s.append.n+1
		s.append.n, s.append.answer = n, a
	}
	return m.appended(&s.append.answer), nil
}

// store appends the prefix of jobs for which there is room, under the number n of a sender.
func (m *Memory) store(sender string, n uint64, jobs []*Job) Appended {
	now := time.Now()
	m.forget(now)
	var a Appended
	for pos, job := range jobs {
		if code, holder := m.refuses(job, now); code != 0 {
			a.Refused = append(a.Refused, Refusal{Pos: pos, Code: code, Holder: holder})
			a.Taken++
			m.counters.duplicate++
			continue
		}
		if m.pauses[0].Active || m.backlog() >= m.opts.MaxBacklog {
			break
		}
		j := newMemoryJob(job, now)
		j.sender, j.number, j.pos = sender, n, pos
		m.jobs[j.id] = j
		m.keys.give(j, now)
		if job.Delay > 0 {
			m.later(j, now.Add(job.Delay))
		} else {
			m.last(j)
		}
		a.Taken++
		m.counters.appended++
	}
	return a
}

// refuses tells why a job is not to be stored, for good, and who has its key if that is it; 0: no reason.
func (m *Memory) refuses(j *Job, now time.Time) (code RefusalCode, holder string) {
	switch {
	case j.ID == "" || len(j.ID) > MaxIDBytes:
		return RefusedBadID, ""
	case m.jobs[j.ID] != nil:
		return RefusedDuplicate, ""
	case j.Unique == nil:
		return 0, ""
	}
	if holder, taken := m.keys.holder(j.Unique.Key, nil, now); taken {
		return RefusedUnique, holder
	}
	return 0, ""
}

// appended is the caller's copy of a remembered answer.
func (m *Memory) appended(answer *Appended) Appended {
	a := *answer
	a.Refused = slices.Clone(a.Refused)
	a.Backlog = m.backlog()
	a.Paused = m.pauses[0].Active
	return a
}

func (m *Memory) backlog() int64 { return int64(m.pending.len() + m.scheduled.len()) }

func (p *memoryProducer) Close(ctx context.Context, n uint64) (Appended, error) {
	m := p.m
	if err := m.ready(ctx, "close"); err != nil {
		return Appended{}, err
	}
	if n == 0 {
		return Appended{}, m.misuse("close", "numbers start at 1")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.sender(p.id)
	if err != nil {
		return Appended{}, m.because("close", err)
	}
	known, err := s.append.known(n)
	if err != nil {
		return Appended{}, m.because("close", err)
	}
	if !known {
		if s.append.n != n-1 { // n-1 was never executed
			s.append.answer = Appended{Gap: n > s.append.n+2}
		}
		s.append.n = n
	}
	return m.appended(&s.append.answer), nil
}
