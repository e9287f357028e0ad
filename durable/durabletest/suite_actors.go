package durabletest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

const (
	patience = 30 * time.Second      // for whatever must happen
	between  = 10 * time.Millisecond // two looks at something
	long     = 10 * time.Minute      // a lease that does not end
	brief    = time.Millisecond      // one that does
	plenty   = 1 << 20               // bytes of a claim
)

// queue is what one promise is checked on. Its methods end the test when a call fails, so
// they are for the test's own goroutine.
type queue struct {
	testing.TB
	ctx    context.Context
	handle func() durable.Engine
	engine durable.Engine // the first handle
}

func newQueue(t testing.TB, handle func() durable.Engine) *queue {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	q := &queue{TB: t, ctx: ctx, handle: handle}
	q.engine = q.another()
	return q
}

// another opens one more handle.
func (q *queue) another() durable.Engine {
	e := q.handle()
	q.Cleanup(func() {
		if err := e.Close(); err != nil {
			q.Errorf("close: %v", err)
		}
	})
	return e
}

// pause waits for time to pass.
func (q *queue) pause(d time.Duration) {
	q.Helper()
	if err := pause(q.ctx, d); err != nil {
		q.Fatalf("waiting for %v: %v", d, err)
	}
}

// until looks again and again until done, which names what it waits for.
func (q *queue) until(what string, done func() bool) {
	q.Helper()
	for !done() {
		if pause(q.ctx, between) != nil {
			q.Fatalf("not in %v: %s", patience, what)
		}
	}
}

func (q *queue) stats() durable.Stats {
	q.Helper()
	s, err := q.engine.Stats(q.ctx)
	if err != nil {
		q.Fatalf("stats: %v", err)
	}
	s.Counters = nil
	return s
}

// places checks where the jobs are. Arriving ones count as pending.
func (q *queue) places(when string, want durable.Stats) {
	q.Helper()
	got := q.stats()
	got.Consumers = want.Consumers
	if fmt.Sprint(got) != fmt.Sprint(want) {
		q.Errorf("%s: stats are %+v, want %+v", when, got, want)
	}
}

func (q *queue) sweep() durable.Swept {
	q.Helper()
	s, err := q.engine.Sweep(q.ctx)
	if err != nil {
		q.Fatalf("sweep: %v", err)
	}
	return s
}

// sweepAll sweeps until so many consumers were fenced and nothing is left to do.
func (q *queue) sweepAll(fenced int) durable.Swept {
	q.Helper()
	var all durable.Swept
	q.until(fmt.Sprintf("%d consumers fenced", fenced), func() bool {
		s := q.sweep()
		all.Fenced += s.Fenced
		all.Returned += s.Returned
		all.Dead += s.Dead
		all.Ended += s.Ended
		all.Trimmed += s.Trimmed
		return all.Fenced >= fenced && !s.More
	})
	return all
}

// job is a job with little to it.
func job(id string) *durable.Job {
	return &durable.Job{ID: id, Kind: "kind", Payload: []byte("payload of " + id)}
}

// jobs are so many, named by their number.
func jobs(n int) []*durable.Job {
	all := make([]*durable.Job, n)
	for i := range all {
		all[i] = job(fmt.Sprintf("job-%04d", i))
	}
	return all
}

// store appends jobs of which none is refused.
func (q *queue) store(jobs ...*durable.Job) {
	q.Helper()
	q.producer().store(jobs...)
}

// sender is a producer that counts.
type sender struct {
	q *queue
	durable.Producer
	n uint64
}

func (q *queue) producer() *sender {
	q.Helper()
	return q.producerOn(q.engine)
}

func (q *queue) producerOn(e durable.Engine) *sender {
	q.Helper()
	p, err := e.OpenProducer(q.ctx)
	if err != nil {
		q.Fatalf("open producer: %v", err)
	}
	return &sender{q: q, Producer: p}
}

// send appends under the next number.
func (s *sender) send(jobs ...*durable.Job) durable.Appended {
	s.q.Helper()
	s.n++
	return s.sendAs(s.n, jobs...)
}

func (s *sender) sendAs(n uint64, jobs ...*durable.Job) durable.Appended {
	s.q.Helper()
	a, err := s.Append(s.q.ctx, n, jobs)
	if err != nil {
		s.q.Fatalf("append %d: %v", n, err)
	}
	return a
}

func (s *sender) store(jobs ...*durable.Job) {
	s.q.Helper()
	for len(jobs) > 0 {
		a := s.send(jobs...)
		if a.Taken == 0 || len(a.Refused) > 0 {
			s.q.Fatalf("append of %d jobs: %+v", len(jobs), a)
		}
		jobs = jobs[a.Taken:]
	}
}

// worker is a consumer that counts, and knows what it holds.
type worker struct {
	q *queue
	durable.Consumer
	claims, settles uint64
	held            map[durable.Ref]bool
	expired         []string // what its claims have ended
}

func (q *queue) worker() *worker {
	q.Helper()
	return q.workerOn(q.engine)
}

func (q *queue) workerOn(e durable.Engine) *worker {
	q.Helper()
	c, err := e.OpenConsumer(q.ctx, long)
	if err != nil {
		q.Fatalf("open consumer: %v", err)
	}
	return &worker{q: q, Consumer: c, held: make(map[durable.Ref]bool)}
}

// request is that for the next claim.
func (w *worker) request(slots int) durable.ClaimRequest {
	w.claims++
	return durable.ClaimRequest{N: w.claims, Slots: slots, MaxBytes: plenty, Held: len(w.held)}
}

func (w *worker) ask(r durable.ClaimRequest) durable.Claimed {
	w.q.Helper()
	answer, err := w.Claim(w.q.ctx, r)
	if err != nil {
		w.q.Fatalf("claim %d: %v", r.N, err)
	}
	if (answer.Status == durable.ClaimJobs) != (len(answer.Jobs) > 0) {
		w.q.Fatalf("claim %d: status %q with %d jobs", r.N, answer.Status, len(answer.Jobs))
	}
	for _, j := range answer.Jobs {
		w.held[ref(j)] = true
	}
	for _, id := range answer.Expired {
		if !slices.Contains(w.expired, id) {
			w.expired = append(w.expired, id)
		}
	}
	return answer
}

// only is the one claim that an answer must have.
func (w *worker) only(answer durable.Claimed) *durable.Claim {
	w.q.Helper()
	if len(answer.Jobs) != 1 {
		w.q.Fatalf("claim: %q with %q, want one job", answer.Status, ids(answer.Jobs))
	}
	return answer.Jobs[0]
}

// claim asks once, under the next number.
func (w *worker) claim(slots int) durable.Claimed {
	w.q.Helper()
	return w.ask(w.request(slots))
}

// refused checks that a claim has the error, with nothing taken.
func (w *worker) refused(r durable.ClaimRequest, want error) {
	w.q.Helper()
	if answer, err := w.Claim(w.q.ctx, r); !errors.Is(err, want) {
		w.q.Errorf("claim %d: %+v, %v; want %v", r.N, answer, err, want)
	}
}

// take claims until it has so many, and waits for them as a bridge does.
func (w *worker) take(n int) []*durable.Claim {
	w.q.Helper()
	var all []*durable.Claim
	for len(all) < n {
		answer := w.claim(n - len(all))
		all = append(all, answer.Jobs...)
		switch answer.Status {
		case durable.ClaimLimited:
			w.q.pause(max(between, min(answer.NextDue, durable.Park)))
		case durable.ClaimEmpty:
			if err := w.Await(w.q.ctx); err != nil && w.q.ctx.Err() != nil {
				w.q.Fatalf("waiting for %d jobs, have %d: %v", n, len(all), err)
			}
		}
	}
	return all
}

// one takes the one job that must be next.
func (w *worker) one(id string) *durable.Claim {
	w.q.Helper()
	c := w.take(1)[0]
	if c.ID != id {
		w.q.Fatalf("claimed %q, want %q", c.ID, id)
	}
	return c
}

// none checks that there is nothing to claim.
func (w *worker) none(when string) durable.Claimed {
	w.q.Helper()
	for {
		answer := w.claim(100)
		switch answer.Status {
		case durable.ClaimMore:
			continue
		case durable.ClaimEmpty:
		default:
			w.q.Errorf("%s: claim: %q with %d jobs, want nothing", when, answer.Status, len(answer.Jobs))
		}
		return answer
	}
}

// settle settles under the next number.
func (w *worker) settle(outcomes ...durable.Outcome) durable.Settled {
	w.q.Helper()
	w.settles++
	return w.settleAs(w.settles, outcomes...)
}

func (w *worker) settleAs(n uint64, outcomes ...durable.Outcome) durable.Settled {
	w.q.Helper()
	answer, err := w.Settle(w.q.ctx, n, outcomes)
	if err != nil {
		w.q.Fatalf("settle %d: %v", n, err)
	}
	if len(answer.Codes) != len(outcomes) {
		w.q.Fatalf("settle %d: %d codes for %d outcomes", n, len(answer.Codes), len(outcomes))
	}
	for _, o := range outcomes {
		delete(w.held, o.Ref)
	}
	return answer
}

// settled checks that the outcomes get these codes.
func (w *worker) settled(codes string, outcomes ...durable.Outcome) {
	w.q.Helper()
	if got := codesOf(w.settle(outcomes...)); got != codes {
		w.q.Errorf("settle: codes %q, want %q", got, codes)
	}
}

func codesOf(s durable.Settled) string {
	text := make([]byte, len(s.Codes))
	for i, c := range s.Codes {
		text[i] = byte(c)
	}
	return string(text)
}

// done completes claims.
func (w *worker) done(claims ...*durable.Claim) {
	w.q.Helper()
	for _, c := range claims {
		w.settled("O", outcome(c, durable.Done))
	}
}

// expire ends the lease, but nobody acts upon it.
func (w *worker) expire() {
	w.q.Helper()
	if err := w.Renew(w.q.ctx, brief); err != nil {
		w.q.Fatalf("renew: %v", err)
	}
	w.q.pause(20 * brief)
}

// lose ends the lease, and sweeps.
func (w *worker) lose() durable.Swept {
	w.q.Helper()
	w.expire()
	return w.q.sweepAll(1)
}

func ref(c *durable.Claim) durable.Ref { return durable.Ref{ID: c.ID, Token: c.Token} }

// outcome is a verdict on a claim, without delay and with many attempts left.
func outcome(c *durable.Claim, v durable.Verdict) durable.Outcome {
	return durable.Outcome{Ref: ref(c), Verdict: v, MaxAttempts: 100, Reason: "because"}
}

func ids(claims []*durable.Claim) []string {
	all := make([]string, len(claims))
	for i, c := range claims {
		all[i] = c.ID
	}
	return all
}

// ordered checks that claims are of these jobs, in this order.
func (q *queue) ordered(when string, claims []*durable.Claim, want []*durable.Job) {
	q.Helper()
	names := make([]string, len(want))
	for i, j := range want {
		names[i] = j.ID
	}
	if got := ids(claims); !slices.Equal(got, names) {
		q.Errorf("%s: claimed %q, want %q", when, got, names)
	}
}
