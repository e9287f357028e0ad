package durabletest_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
)

// recorder is a test whose failure is noted, not reported.
type recorder struct {
	testing.TB
	ctx context.Context

	mu       sync.Mutex
	failures []string
	cleanups []func()
}

func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Helper()                  {}
func (r *recorder) Cleanup(f func())         { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// failing runs the suite on an engine, each promise in a bubble of its own, and returns
// what failed by the name of the promise.
func failing(t *testing.T, open durabletest.Open) map[string][]string {
	t.Helper()
	failed := make(map[string][]string)
	durabletest.RunEach(open, func(name string, run func(testing.TB)) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			r := &recorder{TB: t, ctx: ctx}
			done := make(chan struct{})
			go func() {
				defer close(done)
				run(r)
			}()
			<-done
			cancel()
			for len(r.cleanups) > 0 {
				last := len(r.cleanups) - 1
				f := r.cleanups[last]
				r.cleanups = r.cleanups[:last]
				f()
			}
			if len(r.failures) > 0 {
				failed[name] = r.failures
			}
		})
	})
	return failed
}

func openMemory(limits durabletest.Limits) *durable.Memory {
	return durable.NewMemory(&durable.MemoryOptions{
		MaxBacklog: limits.MaxBacklog,
		MaxCrashes: limits.MaxCrashes,
		MaxDead:    limits.MaxDead,

		MaxCompleted: limits.MaxCompleted,
		Ageing:       limits.Ageing,
	})
}
