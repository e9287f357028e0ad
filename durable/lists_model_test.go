package durable_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

// The list engine answers as the model does too, as far as real time lets the model know
// what is due. It does as many runs as there is time for, or as -rapid.checks asks for.
func TestListAnswersAsTheModel(t *testing.T) {
	t.Parallel()
	onBoth(t, answersAsTheModel)
}

func answersAsTheModel(t *testing.T, of maker) {
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Addr(t)})
	defer func() { _ = rdb.Close() }()
	store, err := durable.NewRedis(rdb, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	name := redistest.Name(t)
	end := time.Now().Add(5 * time.Second)
	flag.Visit(func(f *flag.Flag) {
		if f.Name == "rapid.checks" {
			end = end.Add(time.Hour)
		}
	})
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		if time.Now().After(end) {
			return
		}
		runs++
		m := newMachine(t.Context(), of(store, fmt.Sprint(name, "-", runs), &durable.ListOptions{MaxBacklog: 8, MaxCrashes: 3}))
		m.model.slack = 5 * time.Millisecond
		m.delays = []time.Duration{0, 0, time.Millisecond, 5 * time.Millisecond, 40 * time.Millisecond}
		m.times = []time.Duration{time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond}
		m.advance = func(d time.Duration) {
			timer := time.NewTimer(d)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-t.Context().Done():
			}
		}
		m.run(rt, 2)
	})
	t.Logf("%d runs", runs)
}
