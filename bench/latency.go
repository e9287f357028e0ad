package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

// startLatency sends jobs at times that were fixed before, whatever happens to the ones before (an open loop): each has
// a goroutine of its own, as in a server. Latency is from the time at which a job should have been sent to
// the call of its handler; so a sender that is late, or blocked, is in the figures (no coordinated omission).
func startLatency(ctx context.Context, t *task) (*outcome, error) {
	q, err := openQueue(t)
	if err != nil {
		return nil, err
	}
	// The first second warms connections and the rate that a queue adapts to; it is not counted.
	warm := t.Load.Rate * int(min(time.Second, t.Load.For/4)) / int(time.Second)
	n := warm + int(t.Load.For.Seconds()*float64(t.Load.Rate))
	took := make([]time.Duration, n)
	lag := make([]time.Duration, n)
	handled := newCountdown(n)
	period := time.Second / time.Duration(t.Load.Rate)
	var start time.Time // before the first job is sent
	err = q.consume(ctx, t.Load.Workers, func(p []byte) {
		i := binary.LittleEndian.Uint64(p)
		took[i] = time.Since(start) - time.Duration(i)*period
		handled.hit()
	})
	if err != nil {
		return nil, err
	}
	m, err := newMeter(ctx, t)
	if err != nil {
		return nil, err
	}
	var failed atomic.Pointer[error]
	runtime.LockOSThread()
	wake := newPacemaker()
	start = time.Now().Add(500 * time.Millisecond) // idle workers have gone to sleep by then
	for i := range n {
		payload := make([]byte, max(t.Load.Payload, 8))
		binary.LittleEndian.PutUint64(payload, uint64(i))
		due := start.Add(time.Duration(i) * period)
		wake.until(due)
		lag[i] = time.Since(due)
		go func() {
			if err := q.submit(ctx, payload); err != nil {
				failed.Store(&err)
			}
		}()
	}
	runtime.UnlockOSThread()
	waiting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = handled.wait(waiting)
	if cause := failed.Load(); cause != nil {
		return nil, fmt.Errorf("submit: %w", *cause)
	}
	if err != nil {
		return nil, err
	}
	o, err := m.stop(ctx, n)
	if err != nil {
		return nil, err
	}
	distribution(o, took[warm:])
	o.set("sender lag p99 ms", milliseconds(quantile(slices.Sorted(slices.Values(lag[warm:])), 0.99)))
	return o, nil
}

// quantiles are those that are kept, for the picture.
var quantiles = []float64{0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 1}

// distribution describes times.
func distribution(o *outcome, all []time.Duration) {
	slices.Sort(all)
	o.set("p50 ms", milliseconds(quantile(all, 0.5)))
	o.set("p99 ms", milliseconds(quantile(all, 0.99)))
	o.set("p99.9 ms", milliseconds(quantile(all, 0.999)))
	for _, q := range quantiles {
		o.Series = append(o.Series, point{Name: "latency", X: q, Y: milliseconds(quantile(all, q))})
	}
}

// quantile is the smallest value that is not exceeded by that share of all, which are sorted.
func quantile(all []time.Duration, q float64) time.Duration {
	return all[max(0, min(len(all)-1, int(q*float64(len(all))+0.999999)-1))]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
