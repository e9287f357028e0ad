package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/pprof/profile"
	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/policy"
)

// The overload rows find out what the queue can do with callers that wait, then have ten times as many calls
// come, at times that were fixed before, under one policy. Handlers wait for something, as most do; or they use the CPU, all
// of it, and share it with those who offer: then whatever a call costs, made or refused, is missing elsewhere.
const (
	overloadWait    = time.Millisecond       // of each job
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

func overloadSides(d time.Duration, compute bool) (sides []side) {
	for _, p := range policies {
		sides = append(sides, side{name: p.name, on: weir, load: load{Policy: p.name, Compute: compute, For: d, Workers: overloadWorkers, Payload: small}})
	}
	return sides
}

// trial is one policy under overload.
type trial struct {
	w       *weirQueue
	engine  durable.Engine
	rdb     *redis.Client
	policy  policy.Policy
	blocks  bool
	o       *outcome
	calls   sync.WaitGroup
	payload []byte
}

// stretches is how often it goes back and forth between what can be done and too much: a machine drifts.
const stretches = 3

func overload(ctx context.Context, t *task) (*outcome, error) {
	tr, err := newTrial(ctx, t)
	if err != nil {
		return nil, err
	}
	defer tr.rdb.Close() //nolint:errcheck // nothing of it is kept
	quiet := min(t.Load.For/12, 3*time.Second)
	if _, err := tr.capacity(ctx, quiet); err != nil { // until it is full
		return nil, err
	}
	sampling, stop := context.WithCancel(ctx)
	sampled := make(chan error, 1)
	go func() { sampled <- tr.sample(sampling, t.Load.For+(stretches+1)*quiet) }()
	before, err := tr.capacity(ctx, quiet)
	var goodput, offered, refused, rates []float64
	for range stretches {
		if err != nil {
			break
		}
		var under, after *stretch
		if under, err = tr.offer(ctx, before.rate*overloadTimes, t.Load.For/stretches, t.Profile); err != nil {
			break
		}
		if after, err = tr.capacity(ctx, quiet); err != nil {
			break
		}
		can := (before.rate + after.rate) / 2
		goodput, offered = append(goodput, under.rate/can), append(offered, under.offered/can)
		rates, refused = append(rates, under.rate), append(refused, under.refused)
		tr.o.Jobs += int(under.jobs)
		before = after
	}
	stop()
	if err := errors.Join(err, <-sampled); err != nil {
		return nil, err
	}
	tr.o.Seconds = t.Load.For.Seconds()
	tr.o.set("jobs/s", spreadOf(rates).median)
	tr.o.set("goodput", spreadOf(goodput).median)
	tr.o.set("offered", spreadOf(offered).median)
	tr.o.set("rejected CPU", spreadOf(refused).median)
	return tr.o, nil
}

// newTrial opens a queue whose bounds are small, with handlers that compute.
func newTrial(ctx context.Context, t *task) (*trial, error) {
	e, err := engineOf(t.Side)
	if err != nil {
		return nil, err
	}
	store, err := e.store(&env{addr: t.Addr, load: t.Load, trips: t.trips})
	if err != nil {
		return nil, err
	}
	queue := e.on(store, "bench", overloadBacklog)
	w, err := newWeir(queue)
	if err != nil {
		return nil, err
	}
	tr := &trial{w: w, engine: queue, rdb: redis.NewClient(&redis.Options{Addr: t.Addr, PoolSize: 1}), o: &outcome{}, payload: randomPayload(t.Load.Payload)}
	for _, p := range policies {
		if p.name == t.Load.Policy {
			tr.policy, tr.blocks = p.policy, p.blocks
		}
	}
	handler := func([]byte) { time.Sleep(overloadWait) } //nolint:forbidigo // it is the work
	if t.Load.Compute {
		spin := calibrate()
		handler = func([]byte) { work(spin) }
	}
	return tr, w.consume(ctx, t.Load.Workers, handler)
}

// stretch is what was done in a stretch of time.
type stretch struct {
	jobs          uint64
	rate, offered float64
	called        int64
	refused       float64 // share of all CPUs in calls that came to nothing

	began time.Time
	done  uint64
}

func (tr *trial) begin() *stretch {
	return &stretch{began: time.Now(), done: tr.w.q.Counters().Completed}
}

func (s *stretch) end(tr *trial) {
	took := time.Since(s.began).Seconds()
	s.jobs = tr.w.q.Counters().Completed - s.done
	s.rate = float64(s.jobs) / took
	s.offered = float64(s.called) / took
}

// capacity keeps the queue full by callers that wait.
func (tr *trial) capacity(ctx context.Context, d time.Duration) (*stretch, error) {
	var over atomic.Bool
	for range producers {
		tr.calls.Go(func() {
			for !over.Load() {
				if err := tr.w.submit(ctx, tr.payload); err != nil {
					return // the context
				}
			}
		})
	}
	defer tr.calls.Wait()
	defer over.Store(true)
	if err := pause(ctx, d/4); err != nil { // what was before has its effects
		return nil, err
	}
	s := tr.begin()
	err := pause(ctx, d)
	s.end(tr)
	return s, err
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
func (tr *trial) offer(ctx context.Context, rate float64, d time.Duration, keep string) (*stretch, error) {
	var profiled bytes.Buffer
	if err := pprof.StartCPUProfile(&profiled); err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	wake := newPacemaker()
	s := tr.begin()
	// If this thread cannot make that many calls it makes what it can; the figure "offered" tells.
	most := int64(rate*overloadTick.Seconds()*10) + 1
	for at := s.began; time.Since(s.began) < d && ctx.Err() == nil; at = at.Add(overloadTick) {
		wake.until(at)
		due := min(int64(time.Since(s.began).Seconds()*rate), s.called+most)
		for ; s.called < due; s.called++ {
			if tr.blocks {
				tr.calls.Go(func() { tr.call(ctx) })
			} else {
				tr.call(ctx)
			}
		}
	}
	s.end(tr)
	pprof.StopCPUProfile()
	tr.calls.Wait()
	if keep != "" {
		if err := os.WriteFile(keep+".cpu.prof", profiled.Bytes(), 0o600); err != nil {
			return nil, err
		}
	}
	used, err := timeIn(&profiled, "(*trial).call")
	share := used.Seconds() / d.Seconds() / float64(runtime.NumCPU())
	// Of the calls, one for each completed job was good for something. It costs more than one that is refused, so this
	// is rather too much.
	s.refused = share * max(0, 1-float64(s.jobs)/float64(max(s.called, 1)))
	return s, errors.Join(err, ctx.Err())
}

// call is one call. What it returns is the caller's business; here nobody looks.
func (tr *trial) call(ctx context.Context) { _, _ = tr.w.kind.Submit(ctx, tr.payload, tr.policy) }

// timeIn is the CPU time that a profile has of a function, and of what that calls.
func timeIn(r io.Reader, function string) (time.Duration, error) {
	p, err := profile.Parse(r)
	if err != nil {
		return 0, err
	}
	var in int64
	for _, s := range p.Sample {
		if slices.ContainsFunc(s.Location, func(l *profile.Location) bool {
			return slices.ContainsFunc(l.Line, func(l profile.Line) bool { return strings.HasSuffix(l.Function.Name, function) })
		}) {
			in += s.Value[1] // samples, nanoseconds
		}
	}
	return time.Duration(in), nil
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
