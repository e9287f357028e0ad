package main

import (
	"context"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"time"
)

// footprint is what a process holds and must give back.
type footprint struct{ goroutines, files int }

func measure() footprint {
	f := footprint{goroutines: runtime.NumGoroutine()}
	if names, err := os.ReadDir("/proc/self/fd"); err == nil { // elsewhere descriptors are not counted
		f.files = len(names)
	}
	return f
}

func (f footprint) exceeds(o footprint) bool { return f.goroutines > o.goroutines || f.files > o.files }

// warmUp makes the runtime open what it keeps: its poller.
func warmUp() {
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		_ = l.Close()
	}
}

// watchHeap notes the largest heap until ctx ends; the function it returns tells it.
func watchHeap(ctx context.Context) func() uint64 {
	var most atomic.Uint64
	look := func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most.Store(max(most.Load(), m.HeapAlloc))
	}
	go func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			look()
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return most.Load
}
