package durable_test

import (
	"testing"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	durabletest.Run(t, openMemory, &durabletest.Options{Bubble: true})
	durabletest.RunOperator(t, openMemory, &durabletest.Options{Bubble: true})
}

func openMemory(_ testing.TB, limits durabletest.Limits) func() durable.Engine {
	m := durable.NewMemory(&durable.MemoryOptions{
		MaxBacklog: limits.MaxBacklog,
		MaxCrashes: limits.MaxCrashes,
		MaxDead:    limits.MaxDead,

		MaxCompleted: limits.MaxCompleted,
		Ageing:       limits.Ageing,
	})
	return func() durable.Engine { return m }
}
