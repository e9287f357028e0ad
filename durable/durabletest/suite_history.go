package durabletest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

const (
	historyIDs      = 24 // few, so that each is used again and again
	historyCrashes  = 3
	historyAttempts = 3
	historyLease    = 40 * time.Millisecond // of who may be lost
)

func historyPromises() []promise {
	return []promise{
		{"histories of appends, claims and settles are linearizable", Limits{MaxCrashes: historyCrashes}, checkHistory},
	}
}

// checkHistory lets producers, consumers, some of which are lost, and a sweeper work at once on few IDs, with requests that
// are lost, repeated and late, and then looks for an explanation of what they were told.
func checkHistory(q *queue) {
	seed := uint64(time.Now().UnixNano())
	h := &history{}
	faulty := func(n uint64) durable.Engine {
		return NewFaulty(q.another(), Seeded(seed+n, 0.4,
			Fault{Action: Lose}, Fault{Action: Repeat}, Fault{Action: Postpone, Delay: 3 * time.Millisecond}, Fault{Action: Refuse}))
	}
	var engines []durable.Engine
	var mortals []*historian
	var all, lasting sync.WaitGroup
	over, end := context.WithCancel(q.ctx)
	defer end()
	for n := range uint64(2) {
		engines = append(engines, faulty(n), faulty(n+10))
		a := &historian{queue: q, h: h, rng: rand.New(rand.NewPCG(seed, n))}
		producing, working := engines[len(engines)-2], engines[len(engines)-1]
		lasting.Go(func() { a.produce(producing) })
		b := &historian{queue: q, h: h, rng: rand.New(rand.NewPCG(seed, n+10))}
		all.Go(func() { b.work(over, working) })
		c := &historian{queue: q, h: h, rng: rand.New(rand.NewPCG(seed, n+20)), mortal: true}
		mortals = append(mortals, c)
		lasting.Go(func() {
			for range 4 {
				c.live(q.engine)
			}
		})
	}
	all.Go(func() {
		for over.Err() == nil {
			if _, err := q.engine.Sweep(q.ctx); err != nil {
				q.Errorf("sweep: %v", err)
				return
			}
			_ = pause(over, 5*time.Millisecond)
		}
	})
	lasting.Wait()
	// What was lost comes back, and runs, while those who have lost it say what they make of it.
	for _, c := range mortals {
		all.Go(func() { c.haunt(over) })
	}
	for q.ctx.Err() == nil {
		s, err := q.engine.Stats(q.ctx)
		if err != nil || s.Pending+s.Scheduled+s.Processing == 0 {
			break
		}
		_ = pause(q.ctx, between)
	}
	end()
	all.Wait()
	for _, e := range engines {
		e.(*Faulty).Settled()
	}
	if q.Failed() {
		return
	}
	q.places("at the end", durable.Stats{Dead: q.stats().Dead})
	last := &historian{queue: q, h: h, rng: rand.New(rand.NewPCG(seed, 99))}
	last.append(q.producer().Producer, 1, historyJobs(historyIDs)) // those that are not dead are gone
	if !h.tells(func(a told) bool { return a.code == durable.CodeStale }) || !h.tells(func(a told) bool { return a.deliveries > 1 }) {
		q.Errorf("seed %d: no claim was repeated, or none was stale: the histories show little", seed)
	}
	if wrong := h.unexplained(historyCrashes); len(wrong) > 0 {
		q.Errorf("seed %d: the histories of %d jobs have no explanation; the first is that of %s", seed, len(wrong), wrong[0])
	}
}

func historyJobs(n int) []*durable.Job {
	all := make([]*durable.Job, n)
	for i := range all {
		all[i] = job(fmt.Sprint("h", i))
	}
	return all
}

// historian asks, and notes what it is told. It belongs to one goroutine, which need not be the test's.
type historian struct {
	*queue
	h      *history
	rng    *rand.Rand
	mortal bool
	past   []durable.Ref // claims that are over
	lost   []*holder
}

// ask asks under the same number until there is an answer, or one that is an error for good.
func (a *historian) ask(what string, call func() error) bool {
	for {
		err := call()
		switch {
		case err == nil:
			return true
		case a.mortal && (errors.Is(err, durable.ErrFenced) || errors.Is(err, durable.ErrLeaseExpired)):
			return false
		case a.ctx.Err() != nil, !errors.Is(err, durable.ErrInDoubt) && !errors.Is(err, durable.ErrNotExecuted):
			a.Errorf("%s: %v", what, err)
			return false
		}
	}
}

func (a *historian) produce(e durable.Engine) {
	var p durable.Producer
	if !a.ask("open producer", func() (err error) { p, err = e.OpenProducer(a.ctx); return err }) {
		return
	}
	for n := range uint64(60) {
		batch := historyJobs(historyIDs)
		a.rng.Shuffle(len(batch), func(i, k int) { batch[i], batch[k] = batch[k], batch[i] })
		if !a.append(p, n+1, batch[:1+a.rng.IntN(3)]) {
			return
		}
		_ = pause(a.ctx, time.Duration(a.rng.IntN(4))*time.Millisecond)
	}
}

func (a *historian) append(p durable.Producer, n uint64, jobs []*durable.Job) bool {
	begin := a.h.begin()
	var got durable.Appended
	if !a.ask("append", func() (err error) { got, err = p.Append(a.ctx, n, jobs); return err }) {
		return false
	}
	if got.Taken != len(jobs) {
		a.Errorf("append of %d jobs, with room: %+v", len(jobs), got)
		return false
	}
	deeds, answers := make([]deed, len(jobs)), make([]told, len(jobs))
	for i, j := range jobs {
		deeds[i] = deed{id: j.ID, what: deedAppend}
	}
	for _, r := range got.Refused {
		answers[r.Pos].duplicate = r.Code == durable.RefusedDuplicate
	}
	a.h.note(begin, deeds, answers)
	return true
}

// holder is a consumer of a historian.
type holder struct {
	durable.Consumer
	claims, settles uint64
	held            []durable.Ref
	ever            []durable.Ref // held
	reconcile       bool
}

func (a *historian) open(e durable.Engine, lease time.Duration) (*holder, bool) {
	c := &holder{}
	ok := a.ask("open consumer", func() (err error) { c.Consumer, err = e.OpenConsumer(a.ctx, lease); return err })
	return c, ok
}

// work claims and settles until it is over and nothing is held.
func (a *historian) work(over context.Context, e durable.Engine) {
	c, ok := a.open(e, long)
	for ok && (over.Err() == nil || len(c.held) > 0) {
		if over.Err() == nil && len(c.held) < 4 {
			ok = a.claim(c, 1+a.rng.IntN(3))
		}
		_ = pause(over, time.Duration(a.rng.IntN(3))*time.Millisecond)
		ok = ok && a.settle(c, 1+a.rng.IntN(4))
	}
}

// live claims, renews for a while, is silent beyond its lease, and says then what it makes of what it had.
func (a *historian) live(e durable.Engine) {
	c, ok := a.open(e, historyLease)
	if !ok {
		return
	}
	for range 1 + a.rng.IntN(3) {
		if !a.claim(c, 1+a.rng.IntN(3)) || !a.ask("renew", func() error { return c.Renew(a.ctx, historyLease) }) {
			break
		}
		_ = pause(a.ctx, time.Duration(a.rng.IntN(15))*time.Millisecond)
		if !a.settle(c, a.rng.IntN(2)) {
			break
		}
	}
	_ = pause(a.ctx, historyLease*time.Duration(a.rng.IntN(4))/2)
	a.lost = append(a.lost, c)
	for len(c.held) > 1 && a.settle(c, 2) {
	}
}

// haunt settles all that the lost have ever held, again and again.
func (a *historian) haunt(over context.Context) {
	for over.Err() == nil {
		for _, c := range a.lost {
			c.held = append(c.held[:0], c.ever...)
			if !a.settle(c, len(c.held)) {
				return
			}
		}
		_ = pause(over, 3*time.Millisecond)
	}
}

func (a *historian) claim(c *holder, slots int) bool {
	begin := a.h.begin()
	c.claims++
	r := durable.ClaimRequest{N: c.claims, Slots: slots, MaxBytes: plenty, Held: len(c.held)}
	if c.reconcile {
		r.Named = append([]durable.Ref{}, c.held...)
	}
	var got durable.Claimed
	if !a.ask("claim", func() (err error) { got, err = c.Claim(a.ctx, r); return err }) {
		return false
	}
	c.reconcile = got.Status == durable.ClaimReconcile
	deeds, answers := make([]deed, len(got.Jobs)), make([]told, len(got.Jobs))
	for i, j := range got.Jobs {
		deeds[i] = deed{id: j.ID, what: deedClaim}
		answers[i] = told{token: j.Token, mortal: a.mortal, deliveries: j.Deliveries, attempts: j.Attempts, crashes: j.Crashes}
		c.held, c.ever = append(c.held, ref(j)), append(c.ever, ref(j))
	}
	a.h.note(begin, deeds, answers)
	return true
}

// settle ends up to n claims somehow, and now and then one that is over.
func (a *historian) settle(c *holder, n int) bool {
	a.rng.Shuffle(len(c.held), func(i, k int) { c.held[i], c.held[k] = c.held[k], c.held[i] })
	refs := append([]durable.Ref{}, c.held[:min(n, len(c.held))]...)
	c.held = c.held[len(refs):]
	if len(a.past) > 0 && a.rng.IntN(2) == 0 {
		refs = append(refs, a.past[a.rng.IntN(len(a.past))])
	}
	if len(refs) == 0 {
		return true
	}
	a.past = append(a.past, refs...)
	verdicts := []durable.Verdict{durable.Done, durable.Done, durable.Done, durable.Retry, durable.Snooze, durable.Release, durable.Dead}
	outcomes, deeds := make([]durable.Outcome, len(refs)), make([]deed, len(refs))
	for i, r := range refs {
		v := verdicts[a.rng.IntN(len(verdicts))]
		if v == durable.Dead && a.rng.IntN(4) > 0 { // an ID that is dead is dead for the rest of the history
			v = durable.Done
		}
		outcomes[i] = durable.Outcome{Ref: r, Verdict: v, MaxAttempts: historyAttempts, Reason: "because"}
		deeds[i] = deed{id: r.ID, what: deedSettle, token: r.Token, verdict: v, most: historyAttempts}
	}
	begin := a.h.begin()
	c.settles++
	var got durable.Settled
	if !a.ask("settle", func() (err error) { got, err = c.Settle(a.ctx, c.settles, outcomes); return err }) {
		return false
	}
	if len(got.Codes) != len(refs) {
		a.Errorf("settle: %d codes for %d outcomes", len(got.Codes), len(refs))
		return false
	}
	answers := make([]told, len(refs))
	for i, code := range got.Codes {
		answers[i].code = code
	}
	a.h.note(begin, deeds, answers)
	return true
}
