package durabletest_test

import (
	"testing"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
)

// A wrapper that nobody asked to do anything is the engine it wraps.
func TestWrappersKeepTheContract(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(durable.Engine) durable.Engine{
		"Gate":   func(e durable.Engine) durable.Engine { return durabletest.NewGate(e) },
		"Faulty": func(e durable.Engine) durable.Engine { return durabletest.NewFaulty(e, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := func(_ testing.TB, limits durabletest.Limits) func() durable.Engine {
				m := openMemory(limits)
				return func() durable.Engine { return wrap(m) }
			}
			durabletest.Run(t, open, &durabletest.Options{Bubble: true})
			durabletest.RunOperator(t, open, &durabletest.Options{Bubble: true})
		})
	}
}
