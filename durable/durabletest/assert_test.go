package durabletest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// saying runs an assertion and returns what it failed with; "" if it did not.
func saying(t *testing.T, assert func(t testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t, ctx: t.Context()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		assert(r)
	}()
	<-done
	return strings.Join(r.failures, "\n")
}

// promise is a job "a" that the test itself takes from state to state.
func promise(steps ...func(p *local.Promise)) *local.Ticket {
	p := new(local.Promise)
	p.Init("a")
	for _, step := range steps {
		step(p)
	}
	return p.Ticket()
}

func TestAssertionsOnTickets(t *testing.T) {
	t.Parallel()
	why := errors.New("no account")
	var (
		enqueued  = (*local.Promise).MarkEnqueued
		started   = (*local.Promise).MarkStarted
		again     = (*local.Promise).MarkRequeued
		completed = func(p *local.Promise) { p.End(local.Completed, nil) }
		dead      = func(p *local.Promise) { p.End(local.Dead, why) }
		evicted   = func(p *local.Promise) { p.End(local.Evicted, nil) }
	)
	type steps = []func(*local.Promise)
	for _, c := range []struct {
		name   string
		steps  steps
		assert func(testing.TB, *local.Ticket)
		says   string // "": nothing
	}{
		{"accepted, and it is", nil, accepted, ""},
		{"accepted, and it is enqueued", steps{enqueued}, accepted, "job a is enqueued, want one that is accepted and no more"},
		{"accepted, and it runs", steps{started}, accepted, "job a has been started, want one that is accepted and no more"},
		{"accepted, and it was evicted", steps{evicted}, accepted, "job a has ended: local: job a ended as evicted, want one that is accepted and no more"},
		{"accepted, and it has completed", steps{started, completed}, accepted, "job a has completed, want one that is accepted and no more"},

		{"enqueued, and it is", steps{enqueued}, enqueuedIs, ""},
		{"enqueued, and a retry waits", steps{started, again}, enqueuedIs, ""},
		{"enqueued, and it is dead meanwhile", steps{started, dead}, enqueuedIs, ""},
		{"enqueued, and it never will be", steps{evicted}, enqueuedIs, "job a was never enqueued: local: job a ended as evicted"},
		{"enqueued, and it takes too long", nil, enqueuedIs, "job a is not enqueued: 24h0m0s have passed; it is accepted"},

		{"completed, and it is", steps{completed}, completedIs, ""},
		{"completed, and it is dead", steps{dead}, completedIs, "job a did not complete: local: job a ended as dead: no account"},
		{"completed, and it takes too long", steps{started}, completedIs, "job a has not ended: 24h0m0s have passed; it has been started"},

		{"ended as dead for a reason, and it is", steps{dead}, endedAs(local.ErrDead, why), ""},
		{"ended somehow, and it is", steps{dead}, endedAs(), ""},
		{"ended as dead, and it completed", steps{completed}, endedAs(local.ErrDead, why), `job a has completed, want an end that matches ["local: dead" "no account"]`},
		{"ended as dead, and it was evicted", steps{evicted}, endedAs(local.ErrDead), `the end of job a does not match "local: dead": local: job a ended as evicted`},
		{"ended as dead, for another reason", steps{dead}, endedAs(local.ErrDead, context.Canceled), `the end of job a does not match "context canceled": local: job a ended as dead: no account`},
		{"ended, and it takes too long", steps{enqueued}, endedAs(), "job a has not ended: 24h0m0s have passed; it is enqueued"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ticket := promise(c.steps...)
				says(t, saying(t, func(t testing.TB) { c.assert(t, ticket) }), c.says)
			})
		})
	}
}

func accepted(t testing.TB, ticket *local.Ticket)    { t.Helper(); durabletest.Accepted(t, ticket) }
func enqueuedIs(t testing.TB, ticket *local.Ticket)  { t.Helper(); durabletest.Enqueued(t, ticket) }
func completedIs(t testing.TB, ticket *local.Ticket) { t.Helper(); durabletest.Completed(t, ticket) }

func endedAs(want ...error) func(testing.TB, *local.Ticket) {
	return func(t testing.TB, ticket *local.Ticket) { t.Helper(); durabletest.Ended(t, ticket, want...) }
}

// says expects an assertion to have said that, and nothing else.
func says(t *testing.T, got, want string) {
	t.Helper()
	if want != "" {
		want = "durabletest: " + want
	}
	if got != want {
		t.Errorf("said\n\t%q, want\n\t%q", got, want)
	}
}

func TestAssertionsWaitForWhatIsStillToCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := new(local.Promise)
		p.Init("a")
		begun := time.Now()
		time.AfterFunc(time.Hour, p.MarkEnqueued)
		time.AfterFunc(3*time.Hour, func() { p.End(local.Completed, nil) })
		durabletest.Enqueued(t, p.Ticket())
		if waited := time.Since(begun); waited != time.Hour {
			t.Errorf("waited %v for the store", waited)
		}
		durabletest.Completed(t, p.Ticket())
		if waited := time.Since(begun); waited != 3*time.Hour {
			t.Errorf("waited %v for the end", waited)
		}
	})
}

func TestAssertionsOnTasksOfAPool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool, err := local.NewPool(&local.PoolOptions{Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		var tickets [2]*local.Ticket
		for i := range tickets {
			if tickets[i], err = pool.TrySubmit(func(context.Context) error { <-release; return nil }); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		durabletest.Accepted(t, tickets[1])
		says(t, saying(t, func(t testing.TB) { durabletest.Accepted(t, tickets[0]) }),
			"job task-1 has been started, want one that is accepted and no more")
		says(t, saying(t, func(t testing.TB) { durabletest.Enqueued(t, tickets[1]) }),
			"job task-2 was never enqueued: local: the job of a pool is never durable")
		close(release)
		durabletest.Completed(t, tickets[1])
		if _, err := pool.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAssertionsOnRejections(t *testing.T) {
	t.Parallel()
	full := &policy.Rejection{Reason: policy.ReasonFull}
	for name, c := range map[string]struct {
		err, want error
		says      string
	}{
		"it is":                    {full, policy.ErrFull, ""},
		"it was accepted":          {nil, policy.ErrFull, `the job was accepted, want a rejection that matches "` + policy.ErrFull.Error() + `"`},
		"it was for another cause": {full, policy.ErrClosed, `the rejection "` + full.Error() + `" does not match "` + policy.ErrClosed.Error() + `"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			says(t, saying(t, func(t testing.TB) { durabletest.Rejected(t, c.err, c.want) }), c.says)
		})
	}
}

func TestAssertionsOnCounters(t *testing.T) {
	t.Parallel()
	counters := bridge.Counters{Enqueued: 3, Completed: 2, Retried: 1, LastClaim: time.Now()}
	for name, c := range map[string]struct {
		assert func(testing.TB)
		says   string
	}{
		"they are, whatever the time": {func(t testing.TB) {
			durabletest.Counted(t, counters, bridge.Counters{Enqueued: 3, Completed: 2, Retried: 1})
		}, ""},
		"some differ, named or not": {func(t testing.TB) {
			durabletest.Counted(t, counters, bridge.Counters{Enqueued: 3, Completed: 3})
		}, "counted Completed 2, want 3; Retried 1, want 0"},
		"what is no struct": {func(t testing.TB) { durabletest.Counted(t, 1, 1) }, "int is not a struct of counters"},
		"the store holds that": {func(t testing.TB) {
			durabletest.Stored(t, sized{sizes: durable.Stats{Pending: 2, Dead: 1, Consumers: 1}}, durable.Stats{Pending: 2, Dead: 1})
		}, ""},
		"the store holds something else": {func(t testing.TB) {
			durabletest.Stored(t, sized{sizes: durable.Stats{Pending: 2, Dead: 1}}, durable.Stats{Pending: 1, Scheduled: 1})
		}, "stored Pending 2, want 1; Scheduled 0, want 1; Dead 1, want 0"},
		"the store does not answer": {func(t testing.TB) {
			durabletest.Stored(t, sized{err: durable.ErrNotExecuted}, durable.Stats{})
		}, durable.ErrNotExecuted.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			says(t, saying(t, c.assert), c.says)
		})
	}
}

// sized is an engine that knows its sizes only.
type sized struct {
	durable.Engine
	sizes durable.Stats
	err   error
}

func (s sized) Stats(context.Context) (durable.Stats, error) { return s.sizes, s.err }
