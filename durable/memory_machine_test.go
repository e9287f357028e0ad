package durable_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/seed-9dec4fca/weir/durable"
)

// Whatever is asked in whatever order, lost, repeated and overtaken, Memory answers as the
// model does.
func TestMemoryAnswersAsTheModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var failure any
		synctest.Test(t, func(t *testing.T) {
			defer func() { failure = recover() }()
			m := newMachine(t.Context(), durable.NewMemory(&durable.MemoryOptions{MaxBacklog: 8, MaxCrashes: 3}))
			m.model.exact = true
			m.advance = time.Sleep
			m.delays = []time.Duration{0, 0, time.Millisecond, 50 * time.Millisecond, 2 * time.Second}
			m.times = []time.Duration{time.Millisecond, 49 * time.Millisecond, time.Second}
			m.expiries = []time.Duration{0, 0, 0, time.Millisecond, 60 * time.Millisecond, 3 * time.Second}
			m.cancels = true
			m.run(rt, 6)
		})
		// What rapid panics with, it must see in its own goroutine; and it tells a failure from
		// a run that has no data left by the line, too.
		if fmt.Sprintf("%T", failure) == "rapid.invalidData" {
			panic(failure)
		}
		if failure != nil {
			panic(failure)
		}
	})
}

// machine drives an engine, of a queue with MaxBacklog 8 and MaxCrashes 3, and its model.
type machine struct {
	ctx     context.Context
	engine  durable.Engine
	model   *model
	advance func(time.Duration)
	delays  []time.Duration // of jobs and outcomes
	times   []time.Duration // that pass

	expiries []time.Duration // of jobs; none: they have none
	cancels  bool            // jobs are cancelled, too

	producers []*modelProducer
	consumers []*modelConsumer
}

type modelProducer struct {
	durable.Producer
	n      uint64
	batch  []*durable.Job
	answer durable.Appended
	closed bool
}

const (
	modelIDs   = 20
	modelLease = 1000 * time.Hour
)

func newMachine(ctx context.Context, engine durable.Engine) *machine {
	m := &machine{ctx: ctx, engine: engine, model: newModel()}
	m.model.maxBacklog, m.model.maxCrashes = 8, 3
	return m
}

// run does some rounds of about thirty steps each, and then sees that every job can end.
func (m *machine) run(t *rapid.T, rounds int) {
	for range rounds {
		steps := map[string]func(*rapid.T){
			"":                 m.counts,
			"advance":          m.wait,
			"append":           m.append,
			"append again":     m.appendAgain,
			"append outdated":  m.appendOutdated,
			"close producer":   m.closeProducer,
			"claim":            func(t *rapid.T) { m.claim(t, false) },
			"claim, lost":      func(t *rapid.T) { m.claim(t, true) },
			"claim again":      m.claimAgain,
			"claim outdated":   m.claimOutdated,
			"reconcile":        m.reconcile,
			"settle":           m.settle,
			"settle some more": m.settle,
			"settle again":     m.settleAgain,
			"renew":            m.renew,
			"let lease end":    m.expire,
			"sweep":            m.sweep,
			"leave":            m.leave,
		}
		if m.cancels {
			steps["cancel"], steps["cancels"] = m.cancel, m.asked
		}
		t.Repeat(steps)
	}
	m.drain(t)
}

func (m *machine) counts(t *rapid.T) {
	free, held, dead := m.model.count()
	registered := int64(0)
	for _, c := range m.consumers {
		if c.registered {
			registered++
		}
	}
	s, err := m.engine.Stats(m.ctx)
	mustBe(t, "stats", err, nil)
	if s.Pending+s.Scheduled != free || s.Processing != held || s.Dead != dead || s.Consumers != registered || s.Corrupt != 0 {
		t.Fatalf("stats are %+v, want %d free, %d held, %d dead, %d consumers", s, free, held, dead, registered)
	}
}

func (m *machine) wait(t *rapid.T) {
	m.advance(rapid.SampledFrom(m.times).Draw(t, "time"))
}

func (m *machine) append(t *rapid.T) {
	p := m.producer(t)
	p.n++
	p.batch = nil
	for range rapid.IntRange(0, 4).Draw(t, "jobs") {
		m.model.lives++
		id := fmt.Sprint("job", rapid.IntRange(1, modelIDs).Draw(t, "id"))
		p.batch = append(p.batch, &durable.Job{
			ID:      id,
			Payload: fmt.Appendf(nil, "%s life %d", id, m.model.lives),
			Delay:   rapid.SampledFrom(m.delays).Draw(t, "delay"),
		})
		if len(m.expiries) > 0 {
			p.batch[len(p.batch)-1].Expiry = rapid.SampledFrom(m.expiries).Draw(t, "expiry")
		}
	}
	p.answer = m.model.append(p.batch, time.Now())
	m.appendAgain(t)
}

func (m *machine) producer(t *rapid.T) *modelProducer {
	at := rapid.IntRange(0, 1).Draw(t, "producer")
	for len(m.producers) <= at || m.producers[at].closed {
		p, err := m.engine.OpenProducer(m.ctx)
		mustBe(t, "open", err, nil)
		m.producers = slices.Insert(m.producers, min(at, len(m.producers)), &modelProducer{Producer: p})
	}
	return m.producers[at]
}

func (m *machine) sender(t *rapid.T) *modelProducer {
	if len(m.producers) == 0 {
		t.Skip("no producer")
	}
	return one(t, "producer", m.producers)
}

// appendAgain also sends again what was sent before a close, which is outdated then.
func (m *machine) appendAgain(t *rapid.T) {
	for _, p := range m.producers {
		if p.n == 0 {
			continue
		}
		a, err := p.Append(m.ctx, p.n, p.batch)
		if p.closed {
			mustBe(t, "append after close", err, durable.ErrOutdated)
			continue
		}
		mustBe(t, "append", err, nil)
		p.check(t, a)
	}
}

func (p *modelProducer) check(t *rapid.T, a durable.Appended) {
	if a.Taken != p.answer.Taken || !slices.Equal(a.Refused, p.answer.Refused) || a.Gap {
		t.Fatalf("append %d of %s: %+v, want %+v", p.n, p.ID(), a, p.answer)
	}
}

func (m *machine) appendOutdated(t *rapid.T) {
	p := m.sender(t)
	if p.n < 2 {
		t.Skip("nothing is outdated")
	}
	_, err := p.Append(m.ctx, p.n-1, []*durable.Job{{ID: "outdated"}})
	mustBe(t, "append", err, durable.ErrOutdated)
}

func (m *machine) closeProducer(t *rapid.T) {
	p := m.sender(t)
	if p.closed {
		t.Skip("closed")
	}
	p.closed = true
	if rapid.Bool().Draw(t, "with an append that never comes") {
		p.n++
		p.batch = []*durable.Job{{ID: "never"}}
		p.answer = durable.Appended{}
	}
	for range 2 {
		a, err := p.Close(m.ctx, p.n+1)
		mustBe(t, "close", err, nil)
		p.check(t, a)
	}
}

func (m *machine) consumer(t *rapid.T) *modelConsumer {
	var live []*modelConsumer
	for _, c := range m.consumers {
		if c.registered {
			live = append(live, c)
		}
	}
	if len(live) < 3 {
		c, err := m.engine.OpenConsumer(m.ctx, modelLease)
		mustBe(t, "open", err, nil)
		m.consumers = append(m.consumers, &modelConsumer{Consumer: c, registered: true})
		live = append(live, m.consumers[len(m.consumers)-1])
	}
	return one(t, "consumer", live)
}

// one draws by number, which reads better in the log of a failure than all that it holds.
func one[T any](t *rapid.T, label string, all []T) T {
	return all[rapid.IntRange(0, len(all)-1).Draw(t, label)]
}

// anyone may also be a consumer that is fenced.
func (m *machine) anyone(t *rapid.T) *modelConsumer {
	if len(m.consumers) == 0 {
		t.Skip("no consumer")
	}
	return one(t, "consumer", m.consumers[max(0, len(m.consumers)-6):])
}

func (m *machine) claim(t *rapid.T, lost bool) {
	c := m.consumer(t)
	r := durable.ClaimRequest{N: c.last.N + 1, Slots: rapid.IntRange(1, 4).Draw(t, "slots"), MaxBytes: 1 << 20, Held: len(c.known)}
	m.ask(t, c, r, lost)
}

func (m *machine) ask(t *rapid.T, c *modelConsumer, r durable.ClaimRequest, lost bool) {
	a, err := c.Claim(m.ctx, r)
	mustBe(t, "claim", err, c.usable())
	if err != nil {
		return
	}
	if a.Gap {
		t.Fatalf("claim %d: gap", r.N)
	}
	c.last = r
	m.model.claimed(t, c, &r, &a, time.Now())
	if !lost {
		c.learn(c.given)
	}
}

func (c *modelConsumer) learn(refs []durable.Ref) {
	for _, ref := range refs {
		if !slices.Contains(c.known, ref) {
			c.known = append(c.known, ref)
		}
		if !slices.Contains(c.past, ref) {
			c.past = append(c.past, ref)
		}
	}
}

func (m *machine) reconcile(t *rapid.T) {
	c := m.consumer(t)
	named := append([]durable.Ref{}, c.known...)
	m.ask(t, c, durable.ClaimRequest{N: c.last.N + 1, Slots: 2, MaxBytes: 1 << 20, Held: len(named), Named: named}, false)
}

func (m *machine) claimAgain(t *rapid.T) {
	c := m.anyone(t)
	if c.last.N == 0 {
		t.Skip("no claim yet")
	}
	a, err := c.Claim(m.ctx, c.last)
	mustBe(t, "claim again", err, c.usable())
	if err != nil {
		return
	}
	var want, got []durable.Ref
	for _, ref := range c.given {
		if j := m.model.jobs[ref.ID]; j != nil && j.token == ref.Token {
			want = append(want, ref)
		}
	}
	for _, j := range a.Jobs {
		got = append(got, durable.Ref{ID: j.ID, Token: j.Token})
		if j.Deliveries != m.model.jobs[j.ID].deliveries {
			t.Fatalf("claim again: %+v", j)
		}
	}
	if !slices.Equal(a.Expired, c.ended) {
		t.Fatalf("claim again: expired %q, want %q", a.Expired, c.ended)
	}
	if !slices.Equal(got, want) || (a.Status == durable.ClaimJobs) != (len(got) > 0) {
		t.Fatalf("claim again: %q with %v, want %v", a.Status, got, want)
	}
	c.learn(got)
}

func (m *machine) claimOutdated(t *rapid.T) {
	c := m.anyone(t)
	if c.last.N < 2 {
		t.Skip("nothing is outdated")
	}
	want := c.usable()
	if want == nil {
		want = durable.ErrOutdated
	}
	_, err := c.Claim(m.ctx, durable.ClaimRequest{N: c.last.N - 1, Slots: 1})
	mustBe(t, "claim outdated", err, want)
}

func (m *machine) settle(t *rapid.T) {
	c := m.anyone(t)
	if len(c.past) == 0 {
		t.Skip("nothing to settle")
	}
	c.outcomes = nil
	for range rapid.IntRange(0, 3).Draw(t, "outcomes") {
		from := c.past
		if len(c.known) > 0 && rapid.IntRange(0, 3).Draw(t, "known") > 0 {
			from = c.known
		}
		c.outcomes = append(c.outcomes, durable.Outcome{
			Ref: rapid.SampledFrom(from).Draw(t, "ref"),
			Verdict: rapid.SampledFrom([]durable.Verdict{
				durable.Done, durable.Done, durable.Retry, durable.Snooze, durable.Release, durable.Dead,
			}).Draw(t, "verdict"),
			Delay:       rapid.SampledFrom(m.delays).Draw(t, "delay"),
			MaxAttempts: 3,
		})
	}
	c.settles++
	c.codes = m.model.settle(c.outcomes, time.Now())
	c.forget(c.outcomes)
	m.ended(t, c)
}

func (m *machine) settleAgain(t *rapid.T) {
	c := m.anyone(t)
	if c.settles == 0 {
		t.Skip("no settle yet")
	}
	m.ended(t, c)
	if c.settles > 1 {
		_, err := c.Settle(m.ctx, c.settles-1, c.outcomes)
		mustBe(t, "settle outdated", err, durable.ErrOutdated)
	}
}

// ended sends the last settle and checks its answer.
func (m *machine) ended(t *rapid.T, c *modelConsumer) {
	s, err := c.Settle(m.ctx, c.settles, c.outcomes)
	mustBe(t, "settle", err, nil)
	if !slices.Equal(s.Codes, c.codes) || s.Gap {
		t.Fatalf("settle %d of %s: %c, want %c", c.settles, c.ID(), s.Codes, c.codes)
	}
}

// cancel asks by ID, half of the time for a job of another life.
func (m *machine) cancel(t *rapid.T) {
	operator := m.engine.(durable.Operator)
	id := fmt.Sprint("job", rapid.IntRange(1, modelIDs).Draw(t, "id"))
	if rapid.Bool().Draw(t, "another life") {
		_, err := operator.Cancel(m.ctx, durable.CancelRequest{ID: id, Life: "another"})
		mustBe(t, "cancel of another life", err, durable.ErrNoJob)
		return
	}
	got, err := operator.Cancel(m.ctx, durable.CancelRequest{ID: id})
	want := m.model.cancel(id)
	if want == nil {
		mustBe(t, "cancel", err, durable.ErrNoJob)
		return
	}
	mustBe(t, "cancel", err, nil)
	if got != *want {
		t.Fatalf("cancel of %s: %+v, want %+v", id, got, *want)
	}
}

// asked checks what a consumer is told of cancels.
func (m *machine) asked(t *rapid.T) {
	c := m.anyone(t)
	got, err := c.Consumer.(durable.Teller).Cancels(m.ctx)
	mustBe(t, "cancels", err, nil)
	var want []durable.Ref
	for _, j := range c.held {
		if j.cancelling {
			want = append(want, durable.Ref{ID: j.id, Token: j.token})
		}
	}
	byID := func(a, b durable.Ref) int { return strings.Compare(a.ID, b.ID) }
	slices.SortFunc(got, byID)
	slices.SortFunc(want, byID)
	if !slices.Equal(got, want) {
		t.Fatalf("to be cancelled are %v, want %v", got, want)
	}
}

func (m *machine) renew(t *rapid.T) {
	c := m.anyone(t)
	if c.registered {
		c.expired = false
		mustBe(t, "renew", c.Renew(m.ctx, modelLease), nil)
		return
	}
	mustBe(t, "renew", c.Renew(m.ctx, modelLease), durable.ErrFenced)
}

func (m *machine) expire(t *rapid.T) {
	c := m.consumer(t)
	mustBe(t, "renew", c.Renew(m.ctx, time.Millisecond), nil)
	c.expired = true
	m.advance(20 * time.Millisecond)
}

func (m *machine) sweep(t *rapid.T) {
	want := m.model.sweep(m.consumers, time.Now())
	got, err := m.engine.Sweep(m.ctx)
	mustBe(t, "sweep", err, nil)
	if got != want {
		t.Fatalf("sweep: %+v, want %+v", got, want)
	}
}

func (m *machine) leave(t *rapid.T) {
	c := m.anyone(t)
	more, err := c.Leave(m.ctx)
	mustBe(t, "leave", err, nil)
	if more {
		t.Fatalf("leave of %d claims is not done at once", len(c.held))
	}
	if c.registered {
		c.registered = false
		m.model.free(c.held)
	}
}

// drain makes every consumer leave, and sees that all that is left can be completed.
func (m *machine) drain(t *rapid.T) {
	for _, c := range m.consumers {
		_, err := c.Leave(m.ctx)
		mustBe(t, "leave", err, nil)
		if c.registered {
			c.registered = false
			m.model.free(c.held)
		}
	}
	own, err := m.engine.OpenConsumer(m.ctx, modelLease)
	mustBe(t, "open", err, nil)
	c := &modelConsumer{Consumer: own, registered: true}
	m.consumers = append(m.consumers, c)
	for range 20 * modelIDs {
		if free, _, _ := m.model.count(); free == 0 {
			m.counts(t)
			return
		}
		r := durable.ClaimRequest{N: c.last.N + 1, Slots: 5, MaxBytes: 1 << 20, Held: len(c.known)}
		m.ask(t, c, r, false)
		c.outcomes = nil
		for _, ref := range c.given {
			c.outcomes = append(c.outcomes, durable.Outcome{Ref: ref, Verdict: durable.Done})
		}
		c.codes = m.model.settle(c.outcomes, time.Now())
		c.forget(c.outcomes)
		c.settles++
		m.ended(t, c)
		m.advance(slices.Max(m.times) / 2)
	}
	free, _, _ := m.model.count()
	t.Fatalf("%d jobs do not come out any more", free)
}
