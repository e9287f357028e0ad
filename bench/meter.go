package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// trips counts exchanges with the server: a command by itself, or a pipeline, is one.
type trips struct{ n atomic.Int64 }

func (t *trips) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (t *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		t.n.Add(1)
		return next(ctx, cmd)
	}
}

func (t *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		t.n.Add(1)
		return next(ctx, cmds)
	}
}

// meter measures from its making to stop: the clock, this process, and the server if there is one.
type meter struct {
	rdb     *redis.Client // nil: no server
	trips   *trips
	profile string
	began   reading
}

// reading is all counters at one moment.
type reading struct {
	at       time.Time
	cpu      time.Duration // of this process
	mallocs  uint64
	bytes    uint64
	server   float64 // seconds of CPU of the server
	commands float64 // executed by it, those inside scripts as well
	trips    int64
}

func newMeter(ctx context.Context, t *task) (*meter, error) {
	m := &meter{trips: t.trips, profile: t.Profile}
	if t.Addr != "" {
		m.rdb = redis.NewClient(&redis.Options{Addr: t.Addr, PoolSize: 1})
	}
	if err := m.startProfile(); err != nil {
		return nil, err
	}
	runtime.GC() // what went before is nobody's cost
	var err error
	m.began, err = m.read(ctx)
	return m, err
}

func (m *meter) read(ctx context.Context) (r reading, err error) {
	if m.rdb != nil {
		info, err := m.rdb.Info(ctx, "cpu", "commandstats").Result()
		if err != nil {
			return r, err
		}
		r.server, r.commands = parseInfo(info)
		r.trips = m.trips.n.Load()
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	r.mallocs, r.bytes = mem.Mallocs, mem.TotalAlloc
	r.cpu = processCPU()
	r.at = time.Now()
	return r, nil
}

// parseInfo adds up CPU time and the calls of all commands but INFO, which is ours.
func parseInfo(info string) (cpu, calls float64) {
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		var x float64
		switch {
		case name == "used_cpu_user" || name == "used_cpu_sys":
			_, _ = fmt.Sscan(value, &x)
			cpu += x
		case strings.HasPrefix(name, "cmdstat_") && name != "cmdstat_info":
			_, _ = fmt.Sscanf(value, "calls=%g", &x)
			calls += x
		}
	}
	return cpu, calls
}

func processCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// stop measures what has happened since, per job.
func (m *meter) stop(ctx context.Context, jobs int) (*outcome, error) {
	at, cpu := time.Now(), processCPU()
	now, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.stopProfile(); err != nil {
		return nil, err
	}
	n, was := float64(jobs), m.began
	o := &outcome{Jobs: jobs, Seconds: at.Sub(was.at).Seconds()}
	o.set("jobs/s", n/o.Seconds)
	o.set("ns", o.Seconds*1e9/n)
	o.set("go µs/job", (cpu-was.cpu).Seconds()*1e6/n)
	o.set("allocs", float64(now.mallocs-was.mallocs)/n)
	o.set("alloc bytes", float64(now.bytes-was.bytes)/n)
	if m.rdb != nil {
		o.set("server µs/job", (now.server-was.server)*1e6/n)
		o.set("commands", (now.commands-was.commands)/n)
		o.set("round trips", float64(now.trips-was.trips)/n)
		return o, m.rdb.Close()
	}
	return o, nil
}

// startProfile begins profiles of CPU and allocations, if they were asked for.
func (m *meter) startProfile() error {
	if m.profile == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(m.profile), 0o750); err != nil {
		return err
	}
	f, err := os.Create(m.profile + ".cpu.prof")
	if err != nil {
		return err
	}
	return pprof.StartCPUProfile(f)
}

func (m *meter) stopProfile() error {
	if m.profile == "" {
		return nil
	}
	pprof.StopCPUProfile()
	f, err := os.Create(m.profile + ".allocs.prof")
	if err != nil {
		return err
	}
	defer f.Close()
	return pprof.Lookup("allocs").WriteTo(f, 0)
}
