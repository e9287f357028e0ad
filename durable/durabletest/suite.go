package durabletest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

// Limits are the bounds that a promise needs of its queue. Zero means the engine's
// default.
type Limits struct {
	MaxBacklog int64
	MaxCrashes int
	MaxDead    int64
	// MaxCompleted is for RunOperator.
	MaxCompleted int64
	// Ageing is for engines with Capabilities.Priority: a job is overtaken by one whose priority is higher by one if
	// that comes at most so much later.
	Ageing time.Duration
}

// Open makes a queue for one subtest, empty, with these limits, and shared with nobody.
// What it returns opens handles of that queue: what another process would have, or the
// same engine again where there is but one process. The suite asks for one or more and
// closes each; what else is to be cleaned up is Open's business, with t.Cleanup. Open and
// handle end the test when they fail.
type Open func(t testing.TB, limits Limits) (handle func() durable.Engine)

// Options say how to run the suite. The zero value of each field means its default.
type Options struct {
	// Bubble runs each subtest in a bubble of testing/synctest: for engines without sockets,
	// for which time then costs nothing. Default: in real time, some seconds in all.
	Bubble bool
}

// Run checks every promise of the contract in durable.Engine, one parallel subtest for
// each, named after it. Nil options mean the defaults. None is skipped; those that need what the engine
// says it lacks (durable.Capabilities) are not made, and that it refuses what it lacks is checked instead.
func Run(t *testing.T, open Open, opts *Options) {
	t.Helper()
	runAll(t, promises(), open, opts)
}

// RunOperator checks every promise of the contract in durable.Operator, as Run does: for engines that have
// it. What Open returns must be one.
func RunOperator(t *testing.T, open Open, opts *Options) {
	t.Helper()
	runAll(t, operatorPromises(), open, opts)
}

func runAll(t *testing.T, promises []promise, open Open, opts *Options) {
	t.Helper()
	if opts == nil {
		opts = &Options{}
	}
	for _, p := range made(t, promises, open) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			if opts.Bubble {
				synctest.Test(t, func(t *testing.T) { p.run(t, open) })
				return
			}
			p.run(t, open)
		})
	}
}

// promise is one sentence of the contract, with what it takes to see it kept.
type promise struct {
	name   string
	limits Limits
	check  func(q *queue)
}

func (p *promise) run(t testing.TB, open Open) {
	t.Helper()
	p.check(newQueue(t, open(t, p.limits)))
}

func promises() []promise {
	all := slices.Concat(
		queuePromises(),
		capabilityPromises(),
		appendPromises(),
		closePromises(),
		claimPromises(),
		priorityPromises(),
		reconcilePromises(),
		awaitPromises(),
		verdictPromises(),
		tokenPromises(),
		leasePromises(),
		crashPromises(),
		historyPromises(),
	)
	for _, g := range groups() {
		all = append(all, g.promises...)
	}
	return all
}

func operatorPromises() []promise {
	all := slices.Concat(
		lookupPromises(),
		retentionPromises(),
		pagePromises(),
		operatorPriorityPromises(),
		deadPromises(),
		pausePromises(),
		purgePromises(),
	)
	for _, g := range groups() {
		all = append(all, g.operators...)
	}
	return all
}
