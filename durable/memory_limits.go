package durable

import (
	"cmp"
	"context"
	"slices"
	"time"
)

const (
	// Who is held up by claims, not by time, looks again after so long at the latest: of the queue, and of a key, where the end
	// of a claim lets the next one go at once, and those behind it have so much more time each, up to a bound.
	memoryLimitPause   = 100 * time.Millisecond
	memoryKeyPause     = time.Second
	memoryMaxKeyPauses = 60
	memoryLongestTurn  = 365 * 24 * time.Hour // that a job is said to be due in, as one of many with its key
)

// memoryLimits are the limits of a queue, and what they are judged by.
type memoryLimits struct {
	set  Limits
	by   LimitsBy
	next time.Time // of the queue: what its Rate goes by
	keys map[string]*memoryLimitKey
	size int // beyond so many keys, those that are over are looked for
}

// memoryLimitKey is what is known of one Job.LimitKey.
type memoryLimitKey struct {
	claims  map[*memoryJob]bool
	waiting []*memoryJob // because of it, the next one first: scheduled, or pending again and not claimed yet
	next    time.Time    // what its Rate goes by
}

// interval is from one to the next.
func (r *Rate) interval() time.Duration {
	per := r.Per
	if per == 0 {
		per = time.Second
	}
	return per / time.Duration(r.Count)
}

// wait is how long it is until the next is allowed, where next is when it would be without a burst.
func (r *Rate) wait(next, now time.Time) time.Duration {
	if r.Count == 0 {
		return 0
	}
	return max(0, next.Add(-time.Duration(max(r.Burst, 1)-1)*r.interval()).Sub(now))
}

// take is when the one after one that comes now would be allowed without a burst. What one that has waited for its turn is late
// by is made up for, up to the time from one to the next, or what a burst has, which is more.
func (r *Rate) take(next, now time.Time, waited bool) time.Time {
	if r.Count == 0 {
		return next
	}
	if waited && r.Burst <= 1 {
		now = now.Add(-r.interval())
	}
	if next.Before(now) {
		next = now
	}
	return next.Add(r.interval())
}

// wait is how long the queue must not be claimed from.
func (l *memoryLimits) wait(held int64, now time.Time) time.Duration {
	wait := l.set.Rate.wait(l.next, now)
	if l.set.Concurrency > 0 && held >= int64(l.set.Concurrency) {
		wait = max(wait, memoryLimitPause)
	}
	return wait
}

// full tells whether a key has as many claims as it may have.
func (l *memoryLimits) full(k *memoryLimitKey) bool {
	return l.set.KeyConcurrency > 0 && len(k.claims) >= l.set.KeyConcurrency
}

// place is that of a job among those that wait, or would be.
func (k *memoryLimitKey) place(j *memoryJob) (at int, waits bool) {
	at, _ = slices.BinarySearchFunc(k.waiting, j.place, func(other *memoryJob, place int64) int { return cmp.Compare(other.place, place) })
	for ; at < len(k.waiting) && k.waiting[at].place == j.place; at++ {
		if k.waiting[at] == j {
			return at, true
		}
	}
	return at, false
}

// key is that of a job; nil if it has none.
func (l *memoryLimits) key(j *memoryJob, now time.Time) *memoryLimitKey {
	if j.limitKey == "" {
		return nil
	}
	k := l.keys[j.limitKey]
	if k == nil {
		l.trim(now)
		k = &memoryLimitKey{claims: make(map[*memoryJob]bool)}
		l.keys[j.limitKey] = k
	}
	return k
}

// trim drops the keys that are over, when there may be as many of them as of the others.
func (l *memoryLimits) trim(now time.Time) {
	if len(l.keys) < l.size {
		return
	}
	for key, k := range l.keys {
		if len(k.claims) == 0 && len(k.waiting) == 0 && !k.next.After(now) {
			delete(l.keys, key)
		}
	}
	l.size = max(100, 2*len(l.keys))
}

// limited has a job that comes next wait for others with its key, if it must: for the end of a claim, for the rate, and while there is
// one for those that wait already.
func (m *Memory) limited(j *memoryJob, now time.Time) bool {
	k := m.limits.key(j, now)
	if k == nil {
		return false
	}
	at, waits := k.place(j)
	rate, full := &m.limits.set.KeyRate, m.limits.full(k)
	wait := rate.wait(k.next, now)
	if !full && wait == 0 && (rate.Count == 0 || len(k.waiting) == 0 || at == 0 && waits) {
		return false
	}
	m.pending.popHead()
	m.counters.limited++
	if full {
		wait = memoryKeyPause + time.Duration(min(at, memoryMaxKeyPauses))*memoryKeyPause
	} else {
		wait += time.Duration(min(float64(at)*float64(rate.interval()), float64(memoryLongestTurn)))
	}
	if !waits {
		k.waiting = slices.Insert(k.waiting, at, j)
	}
	m.later(j, now.Add(wait))
	m.hasten(k, now)
	return true
}

// hasten has the first that waits for a key be there when that allows it: the times of the others are estimates.
func (m *Memory) hasten(k *memoryLimitKey, now time.Time) {
	if m.limits.set.KeyRate.Count == 0 || len(k.waiting) == 0 || m.limits.full(k) {
		return
	}
	turn := now.Add(m.limits.set.KeyRate.wait(k.next, now))
	if first := k.waiting[0]; first.state == StateScheduled && first.due.After(turn) {
		m.scheduled.remove(first)
		m.later(first, turn)
	}
}

// counted notes a claim, or its end, which lets the next with its key go.
func (m *Memory) counted(j *memoryJob, claimed bool, now time.Time) {
	l := &m.limits
	k := l.key(j, now)
	if claimed {
		l.next = l.set.Rate.take(l.next, now, false)
	}
	switch {
	case k == nil:
	case claimed:
		k.claims[j] = true
		k.next = l.set.KeyRate.take(k.next, now, m.unlimit(j))
		m.hasten(k, now)
	default:
		delete(k.claims, j)
		m.nextOf(j, now)
	}
}

// nextOf lets the next with the key of a job go, if it may: the job's claim has ended, or it will never be claimed.
func (m *Memory) nextOf(j *memoryJob, now time.Time) {
	k := m.limits.keys[j.limitKey]
	if k == nil || m.limits.full(k) {
		return
	}
	if m.limits.set.KeyRate.Count > 0 {
		m.hasten(k, now)
	} else if i := slices.IndexFunc(k.waiting, func(j *memoryJob) bool { return j.state == StateScheduled }); i >= 0 {
		m.hurry(k.waiting[i])
	}
}

// hurry has a job that waits for its key come next.
func (m *Memory) hurry(j *memoryJob) {
	m.scheduled.remove(j)
	m.first(j)
}

// waits tells whether a job waits for its key.
func (m *Memory) waits(j *memoryJob) bool {
	k := m.limits.keys[j.limitKey]
	if k == nil {
		return false
	}
	_, waits := k.place(j)
	return waits
}

// unlimit forgets that a job waits for its key, and tells whether it did.
func (m *Memory) unlimit(j *memoryJob) bool {
	k := m.limits.keys[j.limitKey]
	if k == nil {
		return false
	}
	at, waits := k.place(j)
	if waits {
		k.waiting = slices.Delete(k.waiting, at, at+1)
	}
	return waits
}

// SetLimits sets the limits of the queue. It does not block.
func (m *Memory) SetLimits(ctx context.Context, l Limits, by string) error {
	if err := m.ready(ctx, "limits"); err != nil {
		return err
	}
	if by == "" {
		return m.misuse("limits", "it is not said who sets them")
	}
	if err := l.valid(); err != nil {
		return m.misuse("limits", err.Error())
	}
	l.Rate.Per, l.KeyRate.Per = l.Rate.Per.Truncate(millisecond), l.KeyRate.Per.Truncate(millisecond)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limits.set, m.limits.by = l, LimitsBy{}
	if l != (Limits{}) {
		m.limits.by = LimitsBy{Active: true, By: by[:min(len(by), maxBy)], Since: time.Now()}
	}
	for _, k := range m.limits.keys { // they may go now; or will be made to wait as the new ones say
		waiting := k.waiting
		k.waiting = nil
		for _, j := range slices.Backward(waiting) {
			if j.state == StateScheduled {
				m.hurry(j)
			}
		}
	}
	m.rouse()
	return nil
}
