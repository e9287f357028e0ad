package durabletest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

// An engine is measured by what it says it can do (durable.Capabilities). A promise that needs what it
// lacks is not made; that the engine refuses what it was asked for then is.

func fifo(c durable.Capabilities) bool         { return c.FIFO }
func returnsFirst(c durable.Capabilities) bool { return c.ReturnsFirst }
func delay(c durable.Capabilities) bool        { return c.Delay }
func retention(c durable.Capabilities) bool    { return c.Retention }
func priority(c durable.Capabilities) bool     { return c.Priority }

// group are promises that all need the same.
type group struct {
	needs               func(durable.Capabilities) bool
	promises, operators []promise
}

// groups are those of the capabilities that have a file of their own.
func groups() []group {
	return []group{
		{func(c durable.Capabilities) bool { return c.Expiry }, expiryPromises(), expiryOperatorPromises()},
		{func(c durable.Capabilities) bool { return c.Unique }, uniquePromises(), uniqueOperatorPromises()},
		{func(c durable.Capabilities) bool { return c.Expiry && c.Unique }, expiryUniquePromises(), nil},
		{func(c durable.Capabilities) bool { return c.Cancel }, nil, cancelPromises()},
		{func(c durable.Capabilities) bool { return c.Cancel && c.Unique }, nil, cancelUniquePromises()},
		{func(c durable.Capabilities) bool { return c.Results }, nil, resultPromises()},
		{func(c durable.Capabilities) bool { return c.Follow && c.Results }, followPromises(), followOperatorPromises()},
		{func(c durable.Capabilities) bool { return c.Follow && c.Cancel }, nil, followCancelPromises()},
		{func(c durable.Capabilities) bool { return c.Follow && c.Unique }, nil, followUniquePromises()},
		{func(c durable.Capabilities) bool { return c.Follow && c.Expiry }, followExpiryPromises(), nil},
		{func(c durable.Capabilities) bool { return c.Limits }, nil, limitPromises()},
		{func(c durable.Capabilities) bool { return c.Limits && c.Cancel }, nil, slices.Concat(limitCancelPromises(), keyRateCancelPromises())},
		{func(c durable.Capabilities) bool { return c.Limits && c.Expiry }, nil, limitExpiryPromises()},
	}
}

// condition is what a promise needs; nil: nothing.
func condition(name string) func(durable.Capabilities) bool {
	for _, g := range groups() {
		for _, p := range slices.Concat(g.promises, g.operators) {
			if p.name == name {
				return g.needs
			}
		}
	}
	return needs[name]
}

// needs names the other promises that not every engine makes.
var needs = map[string]func(durable.Capabilities) bool{
	"jobs are claimed in the order of appending": fifo,

	"a released job is the next, and nothing is charged":                               returnsFirst,
	"jobs that are released together come next, in their order":                        returnsFirst,
	"what a leaving consumer returns is at the head, in its order":                     returnsFirst,
	"claims whose answer was lost are returned uncharged":                              returnsFirst,
	"a delayed job is not claimed before its time":                                     delay,
	"many jobs due at once are all claimed, the earliest first":                        delay,
	"a retry comes back after its delay with one attempt more":                         delay,
	"a snooze comes back after its delay without an attempt":                           delay,
	"a delay is whole milliseconds, and none is due at once":                           delay,
	"an ID is taken while its record is kept":                                          retention,
	"records of completed jobs are bounded":                                            retention,
	"a settle with a retention sent twice is applied once":                             retention,
	"only completed jobs are kept":                                                     retention,
	"a completed job with a retention is found, without its payload, until it is over": retention,

	"a higher priority is claimed first, and one priority in the order of appending":  priority,
	"a higher priority overtakes what waits already":                                  priority,
	"a released job comes back to its place among all priorities":                     priority,
	"what a leaving consumer returns keeps its place among all priorities":            priority,
	"a retry, a snooze and a delay keep the priority":                                 priority,
	"what a dead consumer held keeps its priority":                                    priority,
	"with ageing, a job is overtaken only by what comes soon after it":                priority,
	"with ageing, higher priorities that keep coming starve nobody":                   priority,
	"a priority out of bounds is refused by name":                                     priority,
	"a record tells the priority, and a page of what waits is in the order of claims": priority,
	"a redriven job comes behind all others of its priority":                          priority,
}

// capabilityPromises are those about capabilities themselves. Each looks at the ones that are lacking.
func capabilityPromises() []promise {
	refuses := func(q *queue, what string, lacking bool, j *durable.Job) {
		q.Helper()
		if !lacking {
			return
		}
		if a, err := q.producer().Append(q.ctx, 1, []*durable.Job{j}); !errors.Is(err, durable.ErrUnsupported) {
			q.Errorf("an append with a %s: %+v, %v; want ErrUnsupported", what, a, err)
		}
		q.places("after it", durable.Stats{})
	}
	return []promise{
		{"capabilities are declared, and what is lacking is refused by name", Limits{}, func(q *queue) {
			c := q.capabilities()
			if c == (durable.Capabilities{}) {
				q.Fatalf("info declares no capability at all")
			}
			late, kept, urgent := job("late"), job("kept"), job("urgent")
			late.Delay, kept.Retention, urgent.Priority = time.Hour, time.Hour, 1
			passing, single, limited := job("passing"), job("single"), job("limited")
			passing.Expiry, single.Unique, limited.LimitKey = time.Hour, &durable.Unique{Key: "k"}, "k"
			refuses(q, "delay", !c.Delay, late)
			refuses(q, "retention", !c.Retention, kept)
			refuses(q, "priority", !c.Priority, urgent)
			refuses(q, "expiry", !c.Expiry, passing)
			refuses(q, "unique key", !c.Unique, single)
			refuses(q, "limit key", !c.Limits, limited)
			refusesCalls(q, c)
		}},
	}
}

// refusesCalls checks that the calls of capabilities that are lacking are refused.
func refusesCalls(q *queue, c durable.Capabilities) {
	q.Helper()
	refused := func(what string, lacking bool, call func() error) {
		q.Helper()
		if !lacking {
			return
		}
		if err := call(); !errors.Is(err, durable.ErrUnsupported) {
			q.Errorf("%s: %v; want ErrUnsupported", what, err)
		}
	}
	q.store(job("a"))
	w := q.worker()
	claim := w.one("a")
	refused("a result", !c.Results, func() error {
		o := outcome(claim, durable.Done)
		o.Result = []byte("result")
		_, err := w.Settle(q.ctx, 1, []durable.Outcome{o})
		return err
	})
	if t, ok := w.Consumer.(durable.Teller); ok {
		refused("progress", !c.Results, func() error {
			return t.Tell(q.ctx, []durable.Telling{{Ref: ref(claim), Progress: []byte("half")}})
		})
		refused("asking for cancels", !c.Cancel, func() error {
			_, err := t.Cancels(q.ctx)
			return err
		})
	} else if c.Cancel || c.Results || c.Follow {
		q.Errorf("%T is no durable.Teller", w.Consumer)
	}
	if e, ok := q.engine.(durable.FollowEngine); ok {
		refused("following", !c.Follow, func() error {
			_, err := e.OpenFollower(q.ctx)
			return err
		})
	} else if c.Follow {
		q.Errorf("%T is no durable.FollowEngine", q.engine)
	}
	if o, ok := q.engine.(durable.Operator); ok {
		refused("cancelling", !c.Cancel, func() error {
			_, err := o.Cancel(q.ctx, durable.CancelRequest{ID: "a"})
			return err
		})
		refused("limits", !c.Limits, func() error {
			return o.SetLimits(q.ctx, durable.Limits{Concurrency: 1}, "ann")
		})
	}
	w.done(claim)
}

// capabilities are what the engine says it can do.
func (q *queue) capabilities() durable.Capabilities {
	q.Helper()
	info, err := q.engine.Info()
	if err != nil {
		q.Fatalf("info: %v", err)
	}
	return info.Capabilities
}

// made are those of the promises that the engine makes.
func made(t testing.TB, promises []promise, open Open) []promise {
	t.Helper()
	e := open(t, Limits{})()
	info, err := e.Info()
	if err != nil {
		t.Fatalf("info: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	var kept []promise
	for _, p := range promises {
		if can := condition(p.name); can == nil || can(info.Capabilities) {
			kept = append(kept, p)
		}
	}
	return kept
}
