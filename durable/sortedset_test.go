package durable_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

func TestSortedSetConformance(t *testing.T) {
	t.Parallel()
	conforms(t, redistest.Addr(t))
}

func TestSortedSetConformanceOnAnOlderServer(t *testing.T) {
	t.Parallel()
	conforms(t, without(t, sinceFive...).Addr())
}

func conforms(t *testing.T, addr string) {
	open := func(t testing.TB, limits durabletest.Limits) func() durable.Engine {
		name := redistest.Name(t)
		return func() durable.Engine {
			rdb := redis.NewClient(&redis.Options{Addr: addr})
			t.Cleanup(func() { _ = rdb.Close() })
			store, err := durable.NewRedis(rdb, nil)
			if err != nil {
				t.Fatal(err)
			}
			return store.SortedSet(name, &durable.SortedSetOptions{
				MaxBacklog: limits.MaxBacklog, MaxCrashes: limits.MaxCrashes, MaxDead: limits.MaxDead,
				MaxCompleted: limits.MaxCompleted, Ageing: limits.Ageing,
			})
		}
	}
	durabletest.Run(t, open, nil)
	durabletest.RunOperator(t, open, nil)
}
