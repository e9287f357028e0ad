package main

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

// contestant is one side of a row that needs no server. run does it n times, inside laps.
type contestant struct {
	name string
	run  func(n int, l *laps) error
}

// laps adds up time and allocations of what is to be measured, and leaves out what is around it.
type laps struct {
	took   time.Duration
	cpu    time.Duration
	allocs uint64
	bytes  uint64
}

func (l *laps) time(f func() error) error {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, began := processCPU(), time.Now()
	err := f()
	l.took += time.Since(began)
	l.cpu += processCPU() - cpu
	runtime.ReadMemStats(&after)
	l.allocs += after.Mallocs - before.Mallocs
	l.bytes += after.TotalAlloc - before.TotalAlloc
	return err
}

func sidesOf(all []contestant) (sides []side) {
	for _, c := range all {
		sides = append(sides, side{name: c.name})
	}
	return sides
}

// among is a scenario that runs one of them.
func among(all func() []contestant) scenario {
	return func(_ context.Context, t *task) (*outcome, error) {
		for _, c := range all() {
			if c.name != t.Side {
				continue
			}
			var l laps
			if err := c.run(t.Load.Jobs, &l); err != nil {
				return nil, err
			}
			return l.outcome(t.Load.Jobs), nil
		}
		return nil, fmt.Errorf("nobody is called %q", t.Side)
	}
}

func (l *laps) outcome(jobs int) *outcome {
	n := float64(jobs)
	o := &outcome{Jobs: jobs, Seconds: l.took.Seconds()}
	o.set("jobs/s", n/l.took.Seconds())
	o.set("ns", float64(l.took.Nanoseconds())/n)
	o.set("CPU ns", float64(l.cpu.Nanoseconds())/n)
	o.set("allocs", float64(l.allocs)/n)
	o.set("alloc bytes", float64(l.bytes)/n)
	return o
}
