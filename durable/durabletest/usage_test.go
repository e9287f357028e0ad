// Tests as the author of a program with a queue would write them: no Redis, and no sleeping. The
// documentation of this package and docs/testing.md show parts of this file; TestDocumentation
// sees to it that they do.
package durabletest_test

import (
	"context"
	"errors"
	"os"
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

type Email struct{ To string }

var errNoSuchUser = errors.New("no such user")

// open opens a queue with one kind on an engine, until the test ends.
func open(t *testing.T, engine durable.Engine, opts *bridge.Options) (*bridge.Queue, *bridge.Kind[Email]) {
	t.Helper()
	queue, err := bridge.Open(engine, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := queue.Shutdown(ctx); err != nil { // ends Run too
			t.Error(err)
		}
	})
	return queue, bridge.NewKind[Email](queue, "welcome", nil)
}

// submit expects a job to be accepted.
func submit(t *testing.T, welcome *bridge.Kind[Email], to string) *bridge.Ticket {
	t.Helper()
	ticket, err := welcome.TrySubmit(Email{To: to})
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

func TestAcceptedButNotEnqueued(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := durabletest.NewGate(durable.NewMemory(nil))
		_, welcome := open(t, gate, nil)
		gate.Hold(durabletest.OpAppend)
		ticket := submit(t, welcome, "ann")
		durabletest.Accepted(t, ticket) // in this process only; a crash loses it
		gate.Release(durabletest.OpAppend)
		durabletest.Enqueued(t, ticket) // the store has it
	})
}

func TestRejected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := durabletest.NewGate(durable.NewMemory(nil))
		_, welcome := open(t, gate, &bridge.Options{Capacity: 1})
		gate.Hold(durabletest.OpAppend)
		first := submit(t, welcome, "ann") // has the only slot
		_, err := welcome.TrySubmit(Email{To: "bob"})
		durabletest.Rejected(t, err, policy.ErrFull) // bob's job is still the caller's
		gate.Release(durabletest.OpAppend)
		durabletest.Enqueued(t, first)
	})
}

func TestEvicted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := durabletest.NewGate(durable.NewMemory(nil))
		_, welcome := open(t, gate, &bridge.Options{Capacity: 2, Policy: policy.DropOldest()})
		gate.Hold(durabletest.OpAppend)
		submit(t, welcome, "ann")
		synctest.Wait() // ann's job is being sent: it is too late to evict it
		bob := submit(t, welcome, "bob")
		eve, err := welcome.Submit(t.Context(), Email{To: "eve"}, policy.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		durabletest.Ended(t, bob, local.ErrEvicted)
		durabletest.Accepted(t, eve)
		gate.Release(durabletest.OpAppend)
	})
}

func TestRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		queue, welcome := open(t, durable.NewMemory(nil), nil)
		_ = welcome.Handle(func(_ context.Context, d *bridge.Delivery[Email]) error {
			if d.Attempt == 1 {
				return errors.New("mail server is busy")
			}
			return nil
		})
		go func() { _ = queue.Run(t.Context(), nil) }()
		durabletest.Completed(t, submit(t, welcome, "ann")) // the delay between the runs costs no time in a bubble
		durabletest.Counted(t, queue.Counters(), bridge.Counters{Enqueued: 1, Started: 2, Retried: 1, Completed: 1})
	})
}

func TestDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := durable.NewMemory(nil)
		queue, welcome := open(t, memory, nil)
		_ = welcome.Handle(func(context.Context, *bridge.Delivery[Email]) error {
			return bridge.Permanent(errNoSuchUser)
		})
		go func() { _ = queue.Run(t.Context(), nil) }()
		durabletest.Ended(t, submit(t, welcome, "ann"), local.ErrDead, errNoSuchUser)
		durabletest.Stored(t, memory, durable.Stats{Dead: 1}) // kept for an operator
	})
}

// Every line of code that the documentation shows is a line of this file.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	lines := func(name string) map[string]bool {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]bool{}
		for line := range strings.Lines(string(text)) {
			out[strings.TrimSpace(line)] = true
		}
		return out
	}
	tested := lines("usage_test.go")
	shown := 0
	for line := range lines("doc.go") {
		if code, ok := strings.CutPrefix(line, "//\t"); ok {
			shown++
			if !tested[strings.TrimSpace(code)] {
				t.Errorf("doc.go shows %q, which no test runs", code)
			}
		}
	}
	page, err := os.ReadFile("../../docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(page), "```go\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		for line := range strings.Lines(block) {
			shown++
			if !tested[strings.TrimSpace(line)] {
				t.Errorf("docs/testing.md shows %q, which no test runs", line)
			}
		}
	}
	if shown < 50 {
		t.Errorf("only %d lines of code are shown", shown)
	}
}
