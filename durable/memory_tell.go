package durable

import (
	"bytes"
	"context"
	"fmt"
	"time"
)

// Cancel ends a job that waits, and asks for the end of one that is claimed. It does not block.
func (m *Memory) Cancel(ctx context.Context, r CancelRequest) (Cancelled, error) {
	if err := m.ready(ctx, "cancel"); err != nil {
		return Cancelled{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.act("")
	j := m.jobs[r.ID]
	if j != nil && (r.Life == "" || r.Life == j.life()) {
		switch j.state {
		case StatePending, StateScheduled:
			m.pick(j)
			m.cancel(j, time.Now())
			return Cancelled{}, nil
		case StateProcessing:
			j.cancelling = true
			return Cancelled{Running: true, Consumer: j.owner.id}, nil
		case StateDead, StateCorrupt, StateCompleted, StateCancelled, StateExpired:
		}
	}
	return Cancelled{}, fmt.Errorf("durable: %s cancel: %w: %q", m.opts.Name, ErrNoJob, r.ID)
}

// Tell reports on claims. It does not block.
func (c *memoryConsumer) Tell(ctx context.Context, tellings []Telling) error {
	m := c.m
	if err := m.ready(ctx, "tell"); err != nil {
		return err
	}
	if err := checkTellings(m.opts.Name, tellings); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.act(c.id)
	for _, t := range tellings {
		j := m.jobs[t.ID]
		if j == nil || j.token == "" || j.token != t.Token {
			continue
		}
		if t.Started {
			m.note(j, Notice{What: NoticeStarted})
		}
		if t.Progress != nil {
			j.progress = bytes.Clone(t.Progress)
			m.note(j, Notice{What: NoticeProgress, Data: t.Progress})
		}
	}
	return nil
}

// Cancels tells which of this consumer's claims are to be cancelled. It does not block.
func (c *memoryConsumer) Cancels(ctx context.Context) ([]Ref, error) {
	m := c.m
	if err := m.ready(ctx, "cancels"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var refs []Ref
	if member := m.members[c.id]; member != nil {
		for _, j := range member.held {
			if j.cancelling {
				refs = append(refs, Ref{ID: j.id, Token: j.token})
			}
		}
	}
	return refs, nil
}

var _ Teller = (*memoryConsumer)(nil)
