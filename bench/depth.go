package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"
)

// sample notes depth and memory over time, and how much memory has grown from the second quarter to the last.
func (tr *trial) sample(ctx context.Context, d time.Duration) error {
	tick := time.NewTicker(overloadSample)
	defer tick.Stop()
	began := time.Now()
	var second, last, redisSecond, redisLast []float64
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			tr.o.set("memory growth", mean(last)/mean(second))
			tr.o.set("Redis memory growth", mean(redisLast)/mean(redisSecond))
			tr.o.set("resident MB", mean(last)/1e6)
			return nil
		}
		at := time.Since(began)
		stored, err := tr.engine.Stats(ctx)
		if err != nil {
			continue // at the end, or the next one will tell
		}
		used, err := usedMemory(ctx, tr.rdb)
		if err != nil {
			continue
		}
		resident := residentBytes()
		switch {
		case at > d*3/4:
			last, redisLast = append(last, resident), append(redisLast, used)
		case at > d/4 && at < d/2:
			second, redisSecond = append(second, resident), append(redisSecond, used)
		}
		x := at.Seconds()
		tr.o.Series = append(tr.o.Series,
			point{Name: "front", X: x, Y: float64(tr.w.q.Front().Length)},
			point{Name: "backlog", X: x, Y: float64(stored.Pending)},
			point{Name: "resident MB", X: x, Y: resident / 1e6})
	}
}

func mean(all []float64) float64 {
	var sum float64
	for _, x := range all {
		sum += x
	}
	return sum / float64(max(len(all), 1))
}

// residentBytes is the memory of this process that is in RAM; what the runtime has from the system where that
// is not known.
func residentBytes() float64 {
	var size, resident float64
	if statm, err := os.ReadFile("/proc/self/statm"); err == nil {
		if _, err := fmt.Sscan(string(statm), &size, &resident); err == nil {
			return resident * float64(os.Getpagesize())
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.Sys - m.HeapReleased)
}
