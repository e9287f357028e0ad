package durable

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Lookup tells all that is known of one job. It does not block.
func (m *Memory) Lookup(ctx context.Context, r LookupRequest) (Record, error) {
	if err := m.ready(ctx, "lookup"); err != nil {
		return Record{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(time.Now())
	j := m.jobs[r.ID]
	if j == nil {
		return Record{}, fmt.Errorf("durable: %s lookup: %w: %q", m.opts.Name, ErrNoJob, r.ID)
	}
	record := j.told()
	if r.Payload {
		record.Payload = bytes.Clone(j.payload)
	}
	return record, nil
}

// told is all that is known of a job but its payload.
func (j *memoryJob) told() Record {
	r := j.record()
	r.Headers, r.Result, r.Progress = bytes.Clone(j.headers), bytes.Clone(j.result), bytes.Clone(j.progress)
	return r
}

// record is what an operator sees.
func (j *memoryJob) record() Record {
	r := Record{
		ID: j.id, Kind: j.kind, State: j.state, Since: j.since, Reason: j.reason,
		Attempts: j.attempts, Crashes: j.crashes, Deliveries: j.deliveries,
		MaxAttempts: j.maxAttempts, Timeout: j.timeout, Retention: j.retention, Size: j.size, Consumer: j.consumer, Priority: j.priority,
		Life: j.life(), LimitKey: j.limitKey, Expires: j.expires, Cancelling: j.cancelling,
	}
	if j.unique != nil {
		r.UniqueKey = j.unique.Key
	}
	switch j.state {
	case StateScheduled, StateCompleted, StateCancelled, StateExpired:
		r.Due = j.due
	case StateProcessing:
		r.Consumer = j.owner.id
	case StatePending, StateDead, StateCorrupt:
	}
	return r
}

// Jobs shows one page of the jobs in one state. It does not block.
func (m *Memory) Jobs(ctx context.Context, r JobsRequest) (JobPage, error) {
	if err := m.ready(ctx, "jobs"); err != nil {
		return JobPage{}, err
	}
	n, err := limit(r.Limit)
	if err == nil {
		err = r.State.valid()
	}
	if err == nil {
		err = r.Filter.valid(r.State)
	}
	if err != nil {
		return JobPage{}, m.misuse("jobs", err.Error())
	}
	at, err := strconv.Atoi(cmp.Or(r.Cursor, "0"))
	if err != nil || at < 0 {
		return JobPage{}, m.misuse("jobs", fmt.Sprintf("%q is no cursor of this engine", r.Cursor))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.forget(now)
	all := m.in(r.State)
	var page JobPage
	for looks := 0; at < len(all) && len(page.Jobs) < n && looks < pageLooks; looks++ {
		if record := all[at].record(); r.Filter.matches(&record, now) {
			page.Jobs = append(page.Jobs, record)
		}
		at++
	}
	if at < len(all) {
		page.Cursor = strconv.Itoa(at)
	}
	return page, nil
}

// in lists the jobs in a state, in the order in which they are shown.
func (m *Memory) in(s State) []*memoryJob {
	byDue := func(s *schedule) []*memoryJob {
		all := slices.Clone(s.heap)
		slices.SortFunc(all, func(a, b *memoryJob) int {
			return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.order, b.order))
		})
		return all
	}
	switch s {
	case StatePending:
		return m.pending.all()
	case StateScheduled:
		return byDue(&m.scheduled)
	case StateCompleted:
		return byDue(&m.completed)
	case StateDead:
		return m.dead.all()
	case StateProcessing:
		var all []*memoryJob
		members := make([]*memoryMember, 0, len(m.members))
		for _, c := range m.members {
			members = append(members, c)
		}
		slices.SortFunc(members, func(a, b *memoryMember) int { return cmp.Compare(a.id, b.id) })
		for _, c := range members {
			held := c.newest(len(c.held))
			slices.Reverse(held)
			all = append(all, held...)
		}
		return all
	case StateCorrupt: // nothing ever is: jobs get in here by append only
	case StateCancelled, StateExpired: // they are among the completed
	}
	return nil
}

// matches tells whether a filter means a record.
func (f *Filter) matches(r *Record, now time.Time) bool {
	return (len(f.Kinds) == 0 || slices.Contains(f.Kinds, r.Kind)) &&
		strings.Contains(r.Reason, f.Reason) &&
		(f.OlderThan <= 0 || !r.Since.IsZero() && now.Sub(r.Since) >= f.OlderThan)
}

// Redrive sends dead jobs back to the queue, behind all others. It does not block.
func (m *Memory) Redrive(ctx context.Context, s Selection) (Handled, error) {
	return m.handle(ctx, "redrive", s, func(j *memoryJob) handling {
		if j.unique != nil {
			if _, taken := m.keys.holder(j.unique.Key, j, time.Now()); taken {
				return passed
			}
		}
		if m.backlog() >= m.opts.MaxBacklog {
			return full
		}
		m.keys.giveAgain(j)
		j.attempts, j.crashes = 0, 0
		m.note(j, Notice{What: NoticeRequeued})
		m.last(j)
		m.counters.redriven++
		return acted
	})
}

// Discard deletes dead jobs for good. It does not block.
func (m *Memory) Discard(ctx context.Context, s Selection) (Handled, error) {
	return m.handle(ctx, "discard", s, func(j *memoryJob) handling {
		m.note(j, Notice{What: NoticeGone})
		m.remove(j)
		m.counters.discarded++
		return acted
	})
}

// handling is what was done with a dead job.
type handling byte

const (
	acted  handling = iota // what was asked
	passed                 // nothing: it may not come back
	full                   // nothing: there is no room
)

// handle acts on dead jobs.
func (m *Memory) handle(ctx context.Context, op string, s Selection, act func(*memoryJob) handling) (Handled, error) {
	if err := m.ready(ctx, op); err != nil {
		return Handled{}, err
	}
	n, err := limit(s.Limit)
	if err == nil {
		err = s.valid()
	}
	if err != nil {
		return Handled{}, m.misuse(op, err.Error())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.act("")
	if len(s.IDs) > 0 {
		return m.handleIDs(s.IDs, act), nil
	}
	now := time.Now()
	rank, before := 0, now
	if at, end, ok := strings.Cut(s.Cursor, "-"); ok {
		rank, _ = strconv.Atoi(at)
		if ns, err := strconv.ParseInt(end, 10, 64); err == nil {
			before = time.Unix(0, ns)
		}
	}
	var h Handled
	kept := 0
	m.dead.filter(func(i int, j *memoryJob) bool {
		record := j.record()
		switch {
		case i < rank, i >= rank+pageLooks, len(h.IDs) == n, h.Full, j.since.After(before):
			return true
		case !s.Filter.matches(&record, now):
			kept++
			return true
		}
		switch act(j) {
		case passed:
			kept++
			return true
		case full:
			h.Full = true
			return true
		case acted:
		}
		h.IDs = append(h.IDs, j.id)
		return false
	})
	rank += kept
	if rank < m.dead.len() && !m.dead.buf[m.dead.at(rank)].since.After(before) {
		h.Cursor = fmt.Sprintf("%d-%d", rank, before.UnixNano())
	}
	return h, nil
}

func (m *Memory) handleIDs(ids []string, act func(*memoryJob) handling) Handled {
	var h Handled
	gone := make(map[*memoryJob]bool)
	for _, id := range ids {
		did := passed
		if j := m.jobs[id]; j != nil && j.state == StateDead {
			did = act(j)
			gone[j] = did == acted
		}
		switch did {
		case acted:
			h.IDs = append(h.IDs, id)
		case passed:
			h.Missed = append(h.Missed, id)
		case full:
			h.Full = true
		}
	}
	m.dead.filter(func(_ int, j *memoryJob) bool { return !gone[j] })
	return h
}

// Pause stops what sides names until Resume. It does not block.
func (m *Memory) Pause(ctx context.Context, sides Side, by string) error {
	if by == "" {
		return m.misuse("pause", "it is not said who pauses")
	}
	return m.pause(ctx, "pause", sides, Pause{Active: true, By: by[:min(len(by), maxBy)], Since: time.Now()})
}

// Resume lets what sides names go on. It does not block.
func (m *Memory) Resume(ctx context.Context, sides Side) error {
	return m.pause(ctx, "resume", sides, Pause{})
}

func (m *Memory) pause(ctx context.Context, op string, sides Side, to Pause) error {
	if err := m.ready(ctx, op); err != nil {
		return err
	}
	if err := sides.valid(); err != nil {
		return m.misuse(op, err.Error())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, side := range [...]Side{Intake, Consumption} {
		if sides&side != 0 && m.pauses[i].Active != to.Active {
			m.pauses[i] = to
		}
	}
	m.rouse()
	return nil
}

var _ Operator = (*Memory)(nil)
