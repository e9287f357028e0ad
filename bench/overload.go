package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/policy"
)

// The overload row finds out what the queue can do with callers that wait, then has ten times as many calls
// come, at times that were fixed before, under one policy. Handlers use the CPU, on the same cores as
// those who offer: what refusing costs is missing elsewhere.
const (
	overloadWork    = 100 * time.Microsecond // of CPU for each job, about
	overloadWorkers = 16
	overloadBacklog = 10_000
	overloadTimes   = 10
	overloadTick    = time.Millisecond
	overloadSample  = 100 * time.Millisecond
)

// policies are those that are tried. They are made once, as CoDel and Ramp should be.
var policies = []struct {
	name   string
	policy policy.Policy
	blocks bool
}{
	{"reject", policy.Reject(), false},
	{"wait 20ms", policy.Wait(20 * time.Millisecond), true},
	{"drop-incoming", policy.DropIncoming(), false},
	{"drop-oldest", policy.DropOldest(), false},
	{"codel", policy.CoDel(20*time.Millisecond, policy.Reject()), false},
	{"ramp", policy.Ramp(0.5, 1, policy.Reject()), false},
}

func overloadSides(d time.Duration) (sides []side) {
	for _, p := range policies {
		sides = append(sides, side{name: p.name, on: weir, load: load{Policy: p.name, For: d, Workers: overloadWorkers, Payload: small}})
	}
	return sides
}

// trial is one policy under overload.
type trial struct {
	w       *weirQueue
	rdb     *redis.Client
	policy  policy.Policy
	blocks  bool
	o       *outcome
	calls   sync.WaitGroup
	payload []byte
}

func overload(ctx context.Context, t *task) (*outcome, error) {
	e, err := engineOf(t.Side)
	if err != nil {
		return nil, err
	}
	store, err := e.store(&env{addr: t.Addr, load: t.Load, trips: t.trips})
	if err != nil {
		return nil, err
	}
	w, err := newWeir(e.on(store, "bench", overloadBacklog))
	if err != nil {
		return nil, err
	}
	tr := &trial{w: w, rdb: redis.NewClient(&redis.Options{Addr: t.Addr, PoolSize: 1}), o: &outcome{}, payload: randomPayload(t.Load.Payload)}
	defer tr.rdb.Close() //nolint:errcheck // nothing of it is kept
	for _, p := range policies {
		if p.name == t.Load.Policy {
			tr.policy, tr.blocks = p.policy, p.blocks
		}
	}
	spin := calibrate()
	if err := w.consume(ctx, t.Load.Workers, func([]byte) { work(spin) }); err != nil {
		return nil, err
	}
	quiet := min(t.Load.For/4, 5*time.Second)
	before, err := tr.capacity(ctx, quiet)
	if err != nil {
		return nil, err
	}
	under, err := tr.offer(ctx, before.rate*overloadTimes, t.Load.For)
	if err != nil {
		return nil, err
	}
	after, err := tr.capacity(ctx, quiet)
	if err != nil {
		return nil, err
	}
	capacity := (before.rate + after.rate) / 2
	tr.o.Jobs, tr.o.Seconds = int(under.jobs), t.Load.For.Seconds()
	tr.o.set("jobs/s", under.rate)
	tr.o.set("goodput", under.rate/capacity)
	tr.o.set("offered", under.offered/capacity)
	// What a job costs when nothing is refused is known from before and after; the rest went into those that were.
	extra := 1 - (before.cpuPerJob()+after.cpuPerJob())/2*float64(under.jobs)/under.cpu.Seconds()
	tr.o.set("extra CPU", extra)
	share := max(extra, 0)
	if !tr.blocks && under.thread > 0 {
		// Calls that do not block are made by one thread, whose time is known.
		share = under.thread.Seconds() * float64(under.refused) / float64(under.called) / under.cpu.Seconds()
	}
	tr.o.set("rejected CPU", share)
	return tr.o, nil
}

// stretch is what was done in a stretch of time.
type stretch struct {
	jobs            uint64
	rate, offered   float64
	cpu, thread     time.Duration
	called, refused int64
}

func (s *stretch) cpuPerJob() float64 { return s.cpu.Seconds() / float64(s.jobs) }

// capacity keeps the queue full by callers that wait, and measures once it is.
func (tr *trial) capacity(ctx context.Context, d time.Duration) (*stretch, error) {
	var over atomic.Bool
	for range producers {
		tr.calls.Go(func() {
			for !over.Load() {
				if err := tr.w.submit(ctx, tr.payload); err != nil {
					return // a queue that is shut down, or the context
				}
			}
		})
	}
	defer tr.calls.Wait()
	defer over.Store(true)
	if err := pause(ctx, d/2); err != nil {
		return nil, err
	}
	s := tr.begin()
	err := pause(ctx, d)
	s.end(tr)
	return &s.stretch, err
}

// running is a stretch that has not ended.
type running struct {
	stretch
	began time.Time
	done  uint64
	used  time.Duration
}

func (tr *trial) begin() *running {
	return &running{began: time.Now(), done: tr.w.q.Counters().Completed, used: processCPU()}
}

func (r *running) end(tr *trial) {
	took := time.Since(r.began).Seconds()
	r.jobs = tr.w.q.Counters().Completed - r.done
	r.cpu = processCPU() - r.used
	r.rate = float64(r.jobs) / took
	r.offered = float64(r.called) / took
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// offer makes calls at that rate, whatever becomes of them.
func (tr *trial) offer(ctx context.Context, rate float64, d time.Duration) (*stretch, error) {
	sampling, stop := context.WithCancel(ctx)
	sampled := make(chan error, 1)
	go func() { sampled <- tr.sample(sampling, d) }()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	wake := newPacemaker()
	s := tr.begin()
	thread := threadCPU()
	var refused atomic.Int64
	for at := s.began; at.Before(s.began.Add(d)) && ctx.Err() == nil; at = at.Add(overloadTick) {
		wake.until(at)
		for due := int64(time.Since(s.began).Seconds() * rate); s.called < due; s.called++ {
			if tr.blocks {
				tr.calls.Go(func() { tr.call(ctx, &refused) })
			} else {
				tr.call(ctx, &refused)
			}
		}
	}
	s.thread = threadCPU() - thread
	s.end(tr)
	stop()
	tr.calls.Wait()
	s.refused = refused.Load()
	return &s.stretch, errors.Join(<-sampled, ctx.Err())
}

func (tr *trial) call(ctx context.Context, refused *atomic.Int64) {
	t, err := tr.w.kind.Submit(ctx, tr.payload, tr.policy)
	if err != nil || t.Err() != nil { // t.Err: dropped
		refused.Add(1)
	}
}

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
		pending, err := tr.rdb.LLen(ctx, "{bench}:pending").Result()
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
			point{Name: "backlog", X: x, Y: float64(pending)},
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

// sink keeps work from being optimised away.
var sink atomic.Uint64

// work uses the CPU for n steps.
func work(n int) {
	x := uint64(88172645463325252)
	for range n {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	sink.Store(x)
}

// calibrate returns the steps that take overloadWork.
func calibrate() int {
	const n = 2_000_000
	best := time.Hour
	for range 5 {
		began := time.Now()
		work(n)
		best = min(best, time.Since(began))
	}
	return int(float64(n) * float64(overloadWork) / float64(best))
}
