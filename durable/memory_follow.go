package durable

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"
)

// memoryFollower is what the store knows of one follower.
type memoryFollower struct {
	seen  time.Time     // its last call
	steps ring[noted]   // oldest at the head
	gap   bool          // some are gone
	wake  chan struct{} // closed when there is news; nil when it does not wait
}

// noted are the notices of one step.
type noted struct {
	step    uint64
	notices []Notice
}

func (f *memoryFollower) over(now time.Time) bool { return now.Sub(f.seen) >= FollowFor }

func (f *memoryFollower) tell(step uint64, n Notice) {
	if f.steps.n == 0 || f.steps.buf[f.steps.at(f.steps.n-1)].step != step {
		f.steps.pushTail(noted{step: step})
	}
	last := &f.steps.buf[f.steps.at(f.steps.n-1)]
	last.notices = append(last.notices, n)
	if f.steps.len() > MaxNotices {
		f.steps.popHead()
		f.gap = true
	}
	if f.wake != nil {
		close(f.wake)
		f.wake = nil
	}
}

// act begins a step of somebody, in which something may be noted; the caller holds mu.
func (m *Memory) act(sender string) {
	m.step++
	m.actor = ""
	if s := m.senders[sender]; s != nil {
		m.actor = s.follow
	}
}

// listeners are those who are to be told of a job, but for the one whose consumer does the present step.
func (m *Memory) listeners(j *memoryJob) []*memoryFollower {
	if len(m.followers) == 0 {
		return nil
	}
	var listeners []*memoryFollower
	add := func(id string) {
		f := m.followers[id]
		if f != nil && id != m.actor && !f.over(time.Now()) && !slices.Contains(listeners, f) {
			listeners = append(listeners, f)
		}
	}
	if s := m.senders[j.sender]; s != nil {
		add(s.follow)
	}
	for _, id := range j.followers {
		add(id)
	}
	return listeners
}

// note tells those who follow a job what happens to it.
func (m *Memory) note(j *memoryJob, n Notice) {
	for _, f := range m.listeners(j) {
		n.ID, n.Life = j.id, j.life()
		n.Data = bytes.Clone(n.Data)
		f.tell(m.step, n)
	}
}

// memoryFollow is an identity that follows jobs of a Memory.
type memoryFollow struct {
	m  *Memory
	id string
}

// OpenFollower obtains an identity for following. It does not block.
func (m *Memory) OpenFollower(ctx context.Context) (Follower, error) {
	if err := m.ready(ctx, "open"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for id, f := range m.followers {
		if f.over(now) {
			delete(m.followers, id)
		}
	}
	id := m.identity()
	m.followers[id] = &memoryFollower{seen: now}
	return &memoryFollow{m: m, id: id}, nil
}

// follower finds the record of a follower and notes that it asked.
func (m *Memory) follower(id string) (*memoryFollower, error) {
	now := time.Now()
	f := m.followers[id]
	if f == nil || f.over(now) {
		return nil, ErrNoSender
	}
	f.seen = now
	return f, nil
}

func (f *memoryFollow) ID() string { return f.id }

func (f *memoryFollow) Adopt(ctx context.Context, sender string, adopted bool) error {
	m := f.m
	if err := m.ready(ctx, "adopt"); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.senders[sender]
	if _, err := m.follower(f.id); err != nil || s == nil || s.over(time.Now()) {
		return m.because("adopt", ErrNoSender)
	}
	if adopted {
		s.follow = f.id
	} else if s.follow == f.id {
		s.follow = ""
	}
	return nil
}

func (f *memoryFollow) Follow(ctx context.Context, ids []string) ([]Record, error) {
	m := f.m
	if err := m.ready(ctx, "follow"); err != nil {
		return nil, err
	}
	if len(ids) > MaxPage {
		return nil, m.misuse("follow", fmt.Sprintf("%d IDs, at most %d are possible", len(ids), MaxPage))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.act("")
	if _, err := m.follower(f.id); err != nil {
		return nil, m.because("follow", err)
	}
	now := time.Now()
	m.forget(now)
	records := make([]Record, len(ids))
	for i, id := range ids {
		records[i].ID = id
		if j := m.jobs[id]; j != nil {
			records[i] = m.follow(j, f.id, now)
		}
	}
	return records, nil
}

// follow makes somebody follow a job, and tells what that is now.
func (m *Memory) follow(j *memoryJob, id string, now time.Time) Record {
	if !slices.Contains(j.followers, id) {
		j.followers = append(slices.DeleteFunc(j.followers, func(id string) bool { return m.followers[id] == nil }), id)
	}
	if (j.state != StatePending && j.state != StateScheduled) || !j.expired(now) {
		return j.told()
	}
	m.pick(j)
	m.expire(j, now)
	r := j.told()
	r.State = StateExpired // also of one that is gone
	return r
}

// Await waits for news, for ctx, or for Park.
func (f *memoryFollow) Await(ctx context.Context) (News, error) {
	m := f.m
	if err := m.ready(ctx, "await"); err != nil {
		return News{}, err
	}
	timer := time.NewTimer(Park)
	defer timer.Stop()
	for over := false; ; {
		m.mu.Lock()
		record, err := m.follower(f.id)
		if err != nil {
			m.mu.Unlock()
			return News{}, m.because("await", err)
		}
		if record.steps.len() > 0 || record.gap || over {
			news := record.take()
			m.mu.Unlock()
			return news, nil
		}
		if record.wake == nil {
			record.wake = make(chan struct{})
		}
		wake := record.wake
		m.mu.Unlock()

		select {
		case <-wake:
		case <-timer.C:
			over = true
		case <-ctx.Done():
			return News{}, m.ready(ctx, "await")
		}
	}
}

// take is all that there is to tell.
func (f *memoryFollower) take() News {
	news := News{Gap: f.gap}
	for f.steps.len() > 0 {
		news.Notices = append(news.Notices, f.steps.popHead().notices...)
	}
	f.gap = false
	return news
}

func (f *memoryFollow) Close(ctx context.Context) error {
	m := f.m
	if err := m.ready(ctx, "close"); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if record := m.followers[f.id]; record != nil && record.wake != nil {
		close(record.wake)
		record.wake = nil
	}
	delete(m.followers, f.id)
	return nil
}

var _ FollowEngine = (*Memory)(nil)
