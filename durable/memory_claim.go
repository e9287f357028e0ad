package durable

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// memoryMember is a consumer in the registry: there from its open until nothing is held
// under it any more.
type memoryMember struct {
	id       string
	order    uint64
	expiry   time.Time
	fenced   bool
	leaving  bool // gave itself up: nobody is charged
	held     map[string]*memoryJob
	suspects int  // held jobs with crashes > 0
	blamed   bool // when it was fenced it held a suspect, which alone is charged
}

func (c *memoryMember) alive(now time.Time) bool { return !c.fenced && c.expiry.After(now) }

// fence ends the lease for good.
func (c *memoryMember) fence() {
	c.fenced = true
	c.blamed = c.suspects > 0
}

// blames says whether the loss of the consumer is charged to a job.
func (c *memoryMember) blames(j *memoryJob) bool {
	return !c.leaving && (!c.blamed || j.crashes > 0)
}

// newest lists up to limit held jobs, the last claimed first: pushed to the head in this
// order they keep theirs.
func (c *memoryMember) newest(limit int) []*memoryJob {
	all := make([]*memoryJob, 0, len(c.held))
	for _, j := range c.held {
		all = append(all, j)
	}
	slices.SortFunc(all, func(a, b *memoryJob) int { return cmp.Compare(b.fence, a.fence) })
	return all[:min(limit, len(all))]
}

// memoryConsumer is an identity that claims from a Memory.
type memoryConsumer struct {
	m  *Memory
	id string
}

func (c *memoryConsumer) ID() string { return c.id }

func (c *memoryConsumer) Claim(ctx context.Context, r ClaimRequest) (Claimed, error) {
	m := c.m
	if err := m.ready(ctx, "claim"); err != nil {
		return Claimed{}, err
	}
	if r.N == 0 {
		return Claimed{}, m.misuse("claim", "numbers start at 1")
	}
	if r.Slots < 1 {
		return Claimed{}, m.misuse("claim", "Slots must be at least 1")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.act(c.id)
	now := time.Now()
	member := m.members[c.id]
	if member == nil || member.fenced {
		return Claimed{}, m.because("claim", ErrFenced)
	}
	if !member.alive(now) {
		return Claimed{}, m.because("claim", ErrLeaseExpired)
	}
	s, err := m.sender(c.id)
	if err != nil {
		return Claimed{}, m.because("claim", err)
	}
	known, err := s.claim.known(r.N)
	if err != nil {
		return Claimed{}, m.because("claim", err)
	}
	if known {
		return m.claimedAgain(member, s.claim.answer, now, r.N), nil
	}
	gap := r.N > s.claim.n+1
	answer := m.claim(member, &r, now)
	answer.Gap = gap
	s.claim.n, s.claim.answer = r.N, Claimed{Status: answer.Status, Gap: gap, Expired: slices.Clone(answer.Expired)}
	return answer, nil
}

func claimToken(consumer string, n uint64) string {
	return consumer + ":" + strconv.FormatUint(n, 10)
}

// claimedAgain answers from the jobs, not from memory: what has been settled since is not
// to be started again.
func (m *Memory) claimedAgain(c *memoryMember, answer Claimed, now time.Time, n uint64) Claimed {
	answer.NextDue = m.nextDue(now)
	if answer.Status == ClaimLimited {
		answer.NextDue = m.limits.wait(m.held, now)
	}
	answer.Expired = slices.Clone(answer.Expired)
	if answer.Status != ClaimJobs {
		return answer
	}
	token := claimToken(c.id, n)
	for _, j := range slices.Backward(c.newest(len(c.held))) {
		if j.token == token {
			answer.Jobs = append(answer.Jobs, m.claimOf(j))
		}
	}
	if len(answer.Jobs) == 0 {
		answer.Status = ClaimMore
	}
	return answer
}

func (m *Memory) claim(c *memoryMember, r *ClaimRequest, now time.Time) Claimed {
	if m.pauses[1].Active {
		return Claimed{Status: ClaimPaused, NextDue: m.nextDue(now)}
	}
	if len(c.held) > r.Held && r.Named == nil {
		return Claimed{Status: ClaimReconcile, NextDue: m.nextDue(now)}
	}
	if r.Named != nil {
		m.reconcile(c, r.Named)
	}
	m.promote(now)
	token := claimToken(c.id, r.N)
	var answer Claimed
	bytes, deferred := 0, 0
	for looked := 0; len(answer.Jobs) < r.Slots && m.pending.len() > 0; looked++ {
		if looked == r.Slots+memorySurplus {
			answer.Status = ClaimMore
			break
		}
		j := m.pending.head()
		if j.expired(now) {
			m.pick(j)
			m.expire(j, now)
			answer.Expired = append(answer.Expired, j.id)
			continue
		}
		if j.crashes > 0 && c.suspects > 0 {
			m.pending.popHead()
			m.counters.deferred++
			deferred++
			delay := time.Duration(deferred)*memoryDeferDelay + rand.N(memoryDeferDelay)
			m.later(j, now.Add(min(delay, memoryMaxDeferDelay)))
			continue
		}
		if m.limits.wait(m.held, now) > 0 {
			answer.Status = ClaimLimited
			break
		}
		if m.limited(j, now) {
			continue
		}
		if len(answer.Jobs) > 0 && bytes+len(j.payload) > r.MaxBytes {
			break
		}
		bytes += len(j.payload)
		m.pending.popHead()
		m.give(c, j, token, now)
		answer.Jobs = append(answer.Jobs, m.claimOf(j))
	}
	switch {
	case len(answer.Jobs) > 0:
		answer.Status = ClaimJobs
		answer.Drained = len(answer.Jobs) < r.Slots && m.pending.len() == 0 && !m.scheduled.due(now)
	case answer.Status == 0:
		answer.Status = ClaimEmpty
		if m.scheduled.due(now) {
			answer.Status = ClaimMore
		}
	}
	answer.NextDue = m.nextDue(now)
	if answer.Status == ClaimLimited {
		answer.NextDue = m.limits.wait(m.held, now)
	}
	return answer
}

// reconcile returns what the consumer does not know of.
func (m *Memory) reconcile(c *memoryMember, named []Ref) {
	known := make(map[Ref]bool, len(named))
	for _, ref := range named {
		known[ref] = true
	}
	for _, j := range c.newest(len(c.held)) {
		if !known[Ref{ID: j.id, Token: j.token}] {
			m.giveBack(c, j)
		}
	}
}

// promote makes due jobs pending, a bounded number of them.
func (m *Memory) promote(now time.Time) {
	for range memoryStep {
		if !m.scheduled.due(now) {
			return
		}
		j := m.scheduled.pop()
		if m.waits(j) {
			m.first(j)
		} else {
			m.last(j)
		}
	}
}

// claimOf is what the consumer gets.
func (m *Memory) claimOf(j *memoryJob) *Claim {
	claim := j.claim()
	claim.Followed = len(m.listeners(j)) > 0
	return claim
}

// give makes a job a claim.
func (m *Memory) give(c *memoryMember, j *memoryJob, token string, now time.Time) {
	m.fence = max(m.fence+1, now.UnixMilli())
	j.token, j.owner, j.fence = token, c, m.fence
	j.state, j.since = StateProcessing, now
	j.deliveries++
	c.held[j.id] = j
	if j.crashes > 0 {
		c.suspects++
	}
	m.held++
	m.counted(j, true, now)
	m.counters.claimed++
}

// nextDue is how long until the next scheduled job is due; negative when there is none.
func (m *Memory) nextDue(now time.Time) time.Duration {
	if m.scheduled.len() == 0 {
		return -1
	}
	return max(0, m.scheduled.next().Sub(now))
}

// Await waits for a job to be pending or due, for ctx, or for Park.
func (c *memoryConsumer) Await(ctx context.Context) error {
	m := c.m
	if err := m.ready(ctx, "await"); err != nil {
		return err
	}
	end := time.Now().Add(Park)
	for {
		now := time.Now()
		m.mu.Lock()
		if m.pending.len() > 0 || m.scheduled.due(now) || !end.After(now) {
			m.mu.Unlock()
			return nil
		}
		wait := end.Sub(now)
		if due := m.nextDue(now); due >= 0 {
			wait = min(wait, due)
		}
		if m.wake == nil {
			m.wake = make(chan struct{})
		}
		wake := m.wake
		m.mu.Unlock()

		timer := time.NewTimer(wait)
		select {
		case <-wake:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return m.ready(ctx, "await")
		}
		timer.Stop()
	}
}

func (c *memoryConsumer) Renew(ctx context.Context, lease time.Duration) error {
	m := c.m
	if err := m.ready(ctx, "renew"); err != nil {
		return err
	}
	if lease <= 0 {
		return m.misuse("renew", "the lease must be positive")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	member := m.members[c.id]
	if member == nil || member.fenced {
		return m.because("renew", ErrFenced)
	}
	now := time.Now()
	member.expiry = now.Add(lease)
	if s := m.senders[c.id]; s != nil && !s.over(now) {
		s.seen = now
	}
	return nil
}

func (c *memoryConsumer) Leave(ctx context.Context) (bool, error) {
	m := c.m
	if err := m.ready(ctx, "leave"); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.act(c.id)
	member := m.members[c.id]
	if member == nil {
		return false, nil
	}
	member.leaving = true
	member.fence()
	for _, j := range member.newest(memoryStep) {
		m.giveBack(member, j)
	}
	if len(member.held) > 0 {
		return true, nil
	}
	delete(m.members, c.id)
	return false, nil
}
