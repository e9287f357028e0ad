package durable

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"
)

func (c *memoryConsumer) Settle(ctx context.Context, n uint64, outcomes []Outcome) (Settled, error) {
	m := c.m
	if err := m.ready(ctx, "settle"); err != nil {
		return Settled{}, err
	}
	if n == 0 {
		return Settled{}, m.misuse("settle", "numbers start at 1")
	}
	for i := range outcomes {
		switch outcomes[i].Verdict {
		case Done, Retry, Snooze, Dead, Release:
		default:
			return Settled{}, m.misuse("settle", fmt.Sprintf("outcome %d has the unknown verdict %q", i, outcomes[i].Verdict))
		}
	}
	if err := checkOutcomes(m.opts.Name, outcomes, m.capabilities()); err != nil {
		return Settled{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.act(c.id)
	s, err := m.sender(c.id)
	if err != nil {
		return Settled{}, m.because("settle", err)
	}
	known, err := s.settle.known(n)
	if err != nil {
		return Settled{}, m.because("settle", err)
	}
	if !known {
		now := time.Now()
		answer := Settled{Codes: make([]Code, len(outcomes)), Gap: n > s.settle.n+1}
		for i := range outcomes {
			answer.Codes[i] = m.settle(&outcomes[i], now)
		}
		for i, o := range slices.Backward(outcomes) { // so that the first one ends at the head
			if o.Verdict == Release && answer.Codes[i] == CodeOK {
				m.first(m.jobs[o.ID])
			}
		}
		answer.Trimmed = m.trim()
		s.settle.n, s.settle.answer = n, answer
	}
	answer := s.settle.answer
	answer.Codes = slices.Clone(answer.Codes)
	return answer, nil
}

// settle applies one outcome, if its token is the job's.
func (m *Memory) settle(o *Outcome, now time.Time) Code {
	j := m.jobs[o.ID]
	if j == nil {
		return CodeGone
	}
	if j.state == StateCompleted && o.Verdict == Done && j.completedBy == o.Token {
		return CodeOK // as recorded already
	}
	if j.token == "" || j.token != o.Token {
		return CodeStale
	}
	consumer, token := j.owner.id, j.token
	m.take(j.owner, j)
	if j.cancelling && o.Verdict != Done && o.Verdict != Dead {
		if o.Verdict == Retry {
			j.attempts++
			j.reason = o.Reason
		}
		m.cancel(j, now)
		return CodeCancelled
	}
	switch o.Verdict {
	case Done:
		m.counters.completed++
		j.consumer, j.completedBy, j.result = consumer, token, bytes.Clone(o.Result)
		if o.Retention > 0 {
			j.retention = o.Retention.Truncate(millisecond)
		}
		m.note(j, j.completed())
		m.keys.complete(j, now)
		m.end(j, StateCompleted, now)
	case Retry:
		j.attempts++
		if j.attempts >= o.MaxAttempts {
			m.bury(j, o.Reason)
			return CodeDead
		}
		j.reason = o.Reason
		m.counters.retried++
		m.note(j, Notice{What: NoticeRequeued})
		m.later(j, now.Add(o.Delay))
	case Snooze:
		m.counters.snoozed++
		m.note(j, Notice{What: NoticeRequeued})
		m.later(j, now.Add(o.Delay))
	case Dead:
		m.bury(j, o.Reason)
	case Release:
		m.counters.released++ // and pushed when all are settled
		m.note(j, Notice{What: NoticeRequeued})
	}
	return CodeOK
}

// completed is the notice of a job that has completed, with its result where that is short.
func (j *memoryJob) completed() Notice {
	n := Notice{What: NoticeCompleted}
	if len(j.result) <= MaxNoticed {
		n.Data = j.result
	} else {
		n.Kept = j.retention > 0
	}
	return n
}
