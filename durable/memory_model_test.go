package durable_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/seed-9dec4fca/weir/durable"
)

// model is what a queue must do, told apart from how any engine does it: a job is
// somewhere, and an answer is right or wrong. It knows the order of jobs that never lost a
// worker exactly; of those that have (suspects) it knows only not before when they may come.
type model struct {
	maxBacklog, maxCrashes int
	// exact: time moves only by advance, so that the model knows what is due. Otherwise the
	// order of delayed jobs is not checked, and slack is allowed for.
	exact bool
	slack time.Duration

	jobs   map[string]*modelJob
	queue  [][]*modelJob // what is pending, without suspects, head first; a group comes in any order
	later  []*modelJob   // what waits for its time, without suspects
	fence  int64
	lives  int
	tokens map[durable.Ref]bool
}

type modelJob struct {
	id, payload                   string
	attempts, crashes, deliveries int
	due                           time.Time // not to be claimed before
	expires                       time.Time // nor from then on, if it is not zero
	cancelling                    bool      // it is held, and to be cancelled
	holder                        *modelConsumer
	token                         string
	dead                          bool
}

type modelConsumer struct {
	durable.Consumer
	registered, expired bool
	held                []*modelJob // as the engine must see it

	known    []durable.Ref // as the client sees it
	past     []durable.Ref // all it was ever told of
	last     durable.ClaimRequest
	given    []durable.Ref // by the last claim
	ended    []string      // by the last claim: those that have expired
	settles  uint64
	outcomes []durable.Outcome
	codes    []durable.Code
}

func newModel() *model {
	return &model{jobs: make(map[string]*modelJob), tokens: make(map[durable.Ref]bool)}
}

// count tells how many jobs are free, held and dead.
func (m *model) count() (free, held, dead int64) {
	for _, j := range m.jobs {
		switch {
		case j.dead:
			dead++
		case j.holder != nil:
			held++
		default:
			free++
		}
	}
	return free, held, dead
}

// append is the answer to an append that is executed now.
func (m *model) append(jobs []*durable.Job, now time.Time) durable.Appended {
	var a durable.Appended
	for pos, job := range jobs {
		if m.jobs[job.ID] != nil {
			a.Refused = append(a.Refused, durable.Refusal{Pos: pos, Code: durable.RefusedDuplicate})
			a.Taken++
			continue
		}
		if free, _, _ := m.count(); free >= int64(m.maxBacklog) {
			break
		}
		j := &modelJob{id: job.ID, payload: string(job.Payload)}
		if job.Expiry > 0 {
			j.expires = now.Add(job.Expiry)
		}
		m.jobs[j.id] = j
		if job.Delay > 0 {
			m.wait(j, now.Add(job.Delay))
		} else {
			m.queue = append(m.queue, []*modelJob{j})
		}
		a.Taken++
	}
	return a
}

// wait puts a job where it may not be claimed before due.
func (m *model) wait(j *modelJob, due time.Time) {
	j.due = due
	if j.crashes == 0 {
		m.later = append(m.later, j)
	}
}

// free ends the claims of jobs, which come next, in whatever order, but for those that are to be cancelled.
func (m *model) free(jobs []*modelJob) {
	var next []*modelJob
	for _, j := range jobs {
		m.take(j)
		if j.cancelling {
			delete(m.jobs, j.id)
		} else {
			next = append(next, j)
		}
	}
	m.first(next...)
}

// late tells whether no run of a job may begin any more.
func (j *modelJob) late(now time.Time) bool { return !j.expires.IsZero() && !j.expires.After(now) }

// forget ends a job that waits.
func (m *model) forget(j *modelJob) {
	delete(m.jobs, j.id)
	is := func(k *modelJob) bool { return k == j }
	m.later = slices.DeleteFunc(slices.Clone(m.later), is)
	for i, group := range m.queue {
		m.queue[i] = slices.DeleteFunc(slices.Clone(group), is)
	}
}

// cancel is the answer to a cancel that is executed now; nil: there is no such job.
func (m *model) cancel(id string) *durable.Cancelled {
	j := m.jobs[id]
	switch {
	case j == nil || j.dead:
		return nil
	case j.holder != nil:
		j.cancelling = true
		return &durable.Cancelled{Running: true, Consumer: j.holder.ID()}
	}
	m.forget(j)
	return &durable.Cancelled{}
}

// expire checks what a claim says that it has ended, and ends it.
func (m *model) expire(t *rapid.T, c *modelConsumer, expired []string, now time.Time) {
	for _, id := range expired {
		j := m.jobs[id]
		if j == nil || j.dead || j.holder != nil || !j.late(now) || slices.Contains(m.later, j) {
			t.Fatalf("%s is expired, but is %+v", id, j)
		}
		m.forget(j)
	}
	c.ended = expired
}

// first puts jobs at the head of the queue.
func (m *model) first(jobs ...*modelJob) {
	var group []*modelJob
	for _, j := range jobs {
		j.due = time.Time{}
		if j.crashes == 0 {
			group = append(group, j)
		}
	}
	m.queue = slices.Insert(m.queue, 0, group)
}

// take ends a claim.
func (m *model) take(j *modelJob) {
	j.holder.held = slices.DeleteFunc(slices.Clone(j.holder.held), func(h *modelJob) bool { return h == j })
	j.holder, j.token = nil, ""
}

// promote moves what is due to the end of the queue, the earliest first.
func (m *model) promote(now time.Time) {
	due := func(j *modelJob) bool { return !j.due.After(now.Add(m.slack)) }
	var ready []*modelJob
	for _, j := range m.later {
		if due(j) {
			ready = append(ready, j)
		}
	}
	m.later = slices.DeleteFunc(m.later, due)
	slices.SortFunc(ready, func(a, b *modelJob) int { return a.due.Compare(b.due) })
	for i, j := range ready {
		if i > 0 && j.due.Equal(ready[i-1].due) {
			last := len(m.queue) - 1
			m.queue[last] = append(m.queue[last], j)
		} else {
			m.queue = append(m.queue, []*modelJob{j})
		}
	}
}

// claimed checks the answer to a claim with a live lease and a new number.
func (m *model) claimed(t *rapid.T, c *modelConsumer, r *durable.ClaimRequest, a *durable.Claimed, now time.Time) {
	c.given, c.ended = nil, nil
	if len(c.held) > r.Held && r.Named == nil {
		if a.Status != durable.ClaimReconcile || len(a.Jobs)+len(a.Expired) > 0 {
			t.Fatalf("claim with %d held of %d: %q, want reconcile", r.Held, len(c.held), a.Status)
		}
		return
	}
	if r.Named != nil {
		var unknown []*modelJob
		for _, j := range c.held {
			if !slices.Contains(r.Named, durable.Ref{ID: j.id, Token: j.token}) {
				unknown = append(unknown, j)
			}
		}
		m.free(unknown)
	}
	m.promote(now)
	m.expire(t, c, a.Expired, now)
	if len(a.Jobs) > r.Slots || (len(a.Jobs) > 0) != (a.Status == durable.ClaimJobs) || a.Status == durable.ClaimReconcile {
		t.Fatalf("claim with %d slots: %q with %d jobs", r.Slots, a.Status, len(a.Jobs))
	}
	for _, claim := range a.Jobs {
		m.hand(t, c, claim, now)
	}
	if m.exact && len(a.Jobs) < r.Slots && a.Status != durable.ClaimMore && len(slices.Concat(m.queue...)) > 0 {
		t.Fatalf("claim with %d slots: %d jobs, and %s is still there", r.Slots, len(a.Jobs), slices.Concat(m.queue...)[0].id)
	}
}

// hand checks one claim, and makes it.
func (m *model) hand(t *rapid.T, c *modelConsumer, claim *durable.Claim, now time.Time) {
	j := m.jobs[claim.ID]
	ref := durable.Ref{ID: claim.ID, Token: claim.Token}
	switch {
	case j == nil || j.dead || j.holder != nil:
		t.Fatalf("%s is given, but is %+v", claim.ID, j)
	case j.late(now.Add(-m.slack)):
		t.Fatalf("%s is given %v too late", claim.ID, now.Sub(j.expires))
	case now.Add(m.slack).Before(j.due):
		t.Fatalf("%s is given %v too early", claim.ID, j.due.Sub(now))
	case m.tokens[ref] || claim.Fence <= m.fence:
		t.Fatalf("%s is given under token %q and fence %d, after %d", claim.ID, claim.Token, claim.Fence, m.fence)
	}
	if j.crashes > 0 {
		if slices.ContainsFunc(c.held, func(h *modelJob) bool { return h.crashes > 0 }) {
			t.Fatalf("%s is given to %s, which holds a suspect", claim.ID, c.ID())
		}
	} else {
		m.next(t, j)
	}
	j.deliveries++
	got := fmt.Sprint(string(claim.Payload), claim.Attempts, claim.Crashes, claim.Deliveries)
	if want := fmt.Sprint(j.payload, j.attempts, j.crashes, j.deliveries); got != want {
		t.Fatalf("%s is given as %s, want %s", claim.ID, got, want)
	}
	m.tokens[ref], m.fence = true, claim.Fence
	j.holder, j.token = c, claim.Token
	c.held = append(c.held, j)
	c.given = append(c.given, ref)
}

// next checks that nothing stands before a job in the queue, and takes it out.
func (m *model) next(t *rapid.T, j *modelJob) {
	first := true
	for i, group := range m.queue {
		if at := slices.Index(group, j); at >= 0 {
			if m.exact && !first {
				t.Fatalf("%s is given before its turn", j.id)
			}
			m.queue[i] = slices.Delete(slices.Clone(group), at, at+1)
			return
		}
		first = first && len(group) == 0
	}
	t.Fatalf("%s is given, but is not in the queue", j.id)
}

// settle is the codes of outcomes that are applied now.
func (m *model) settle(outcomes []durable.Outcome, now time.Time) []durable.Code {
	var codes []durable.Code
	var released []*modelJob
	for _, o := range outcomes {
		code := m.end(o, now)
		if o.Verdict == durable.Release && code == durable.CodeOK {
			released = append(released, m.jobs[o.ID])
		}
		codes = append(codes, code)
	}
	for _, j := range slices.Backward(released) {
		m.first(j)
	}
	return codes
}

// end is the code of one outcome.
func (m *model) end(o durable.Outcome, now time.Time) durable.Code {
	j := m.jobs[o.ID]
	if j == nil {
		return durable.CodeGone
	}
	if j.holder == nil || j.token != o.Token {
		return durable.CodeStale
	}
	m.take(j)
	if j.cancelling && o.Verdict != durable.Done && o.Verdict != durable.Dead {
		delete(m.jobs, j.id)
		return durable.CodeCancelled
	}
	j.cancelling = false
	switch o.Verdict {
	case durable.Release: // the caller puts them back, all at once
	case durable.Done:
		delete(m.jobs, j.id)
	case durable.Dead:
		j.dead = true
	case durable.Retry:
		if j.attempts++; j.attempts >= o.MaxAttempts {
			j.dead = true
			return durable.CodeDead
		}
		m.wait(j, now.Add(o.Delay))
	default:
		m.wait(j, now.Add(o.Delay))
	}
	return durable.CodeOK
}

// sweep is what a sweep does with consumers whose lease is over.
func (m *model) sweep(consumers []*modelConsumer, now time.Time) durable.Swept {
	var (
		s        durable.Swept
		innocent []*modelJob
	)
	for _, c := range consumers {
		if c.registered && c.expired {
			innocent = append(innocent, m.lose(c, now, &s)...)
		}
	}
	m.free(innocent)
	return s
}

// lose charges the loss of a consumer, and gives those of its jobs that are not charged.
func (m *model) lose(c *modelConsumer, now time.Time, s *durable.Swept) (innocent []*modelJob) {
	c.registered = false
	s.Fenced++
	suspect := func(j *modelJob) bool { return j.crashes > 0 }
	blamed := slices.ContainsFunc(c.held, suspect)
	for _, j := range c.held {
		if blamed && !suspect(j) {
			innocent = append(innocent, j)
			if j.cancelling {
				s.Ended++
			} else {
				s.Returned++
			}
			continue
		}
		m.take(j)
		if j.cancelling {
			delete(m.jobs, j.id)
			s.Ended++
			continue
		}
		if j.crashes++; j.crashes >= m.maxCrashes {
			j.dead = true
			s.Dead++
			continue
		}
		s.Returned++
		m.wait(j, now)
	}
	return innocent
}

// usable is the error that a claim must get, if any.
func (c *modelConsumer) usable() error {
	switch {
	case !c.registered:
		return durable.ErrFenced
	case c.expired:
		return durable.ErrLeaseExpired
	}
	return nil
}

// forget takes what has been settled out of what the client holds.
func (c *modelConsumer) forget(outcomes []durable.Outcome) {
	c.known = slices.DeleteFunc(c.known, func(ref durable.Ref) bool {
		return slices.ContainsFunc(outcomes, func(o durable.Outcome) bool { return o.Ref == ref })
	})
}

func mustBe(t *rapid.T, what string, got, want error) {
	if !errors.Is(got, want) || (want == nil && got != nil) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}
