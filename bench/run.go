package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/internal/redisproc"
)

// runner measures rows and prints what comes out.
type runner struct {
	out, progress io.Writer
	rounds        int
	quick         bool
	length        time.Duration // that a measurement should take, where that can be chosen
	profiles      string        // folder for profiles; empty: none
	dir           string        // where servers keep their files
	server        *redisproc.Server
	redis         string // its version
	done, all     int
	began         time.Time
}

// row measures one row: a server for it alone, then the sides in turns.
func (r *runner) row(ctx context.Context, w *row) (*measured, error) {
	r.done++
	if w.redis != nil {
		if err := r.startServer(w.redis); err != nil {
			return nil, err
		}
		defer func() {
			_ = r.server.Stop()
			_ = os.RemoveAll(r.server.Dir())
			r.server = nil
		}()
	}
	rounds := r.rounds
	if w.rounds > 0 {
		rounds = min(rounds, w.rounds)
	}
	if r.quick && w.family == "latency" {
		rounds = min(rounds, 2) // they take as long as they take
	}
	sides := r.sides(w)
	jobs, err := r.warm(ctx, w, sides)
	if err != nil {
		return nil, err
	}
	m := newMeasured()
	for round := range rounds {
		for i := range sides {
			s := &sides[i]
			s.load.Jobs = jobs[i]
			o, err := r.once(ctx, w, s, round)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", w.name, s.name, err)
			}
			r.say("%s %s %d/%d %s: %s %s\n", r.stage(), w.name, round+1, rounds, s.name, number(o.Metrics[w.metric]), w.metric)
			m.add(s.name, o)
			if !w.fixed {
				jobs[i] = r.enough(w, s, o)
			}
		}
	}
	m.on = r.conditions()
	return m, nil
}

// stage is how far it has come.
func (r *runner) stage() string {
	return fmt.Sprintf("[%d/%d %v]", r.done, r.all, time.Since(r.began).Round(time.Second))
}

func (r *runner) say(format string, a ...any) { _, _ = fmt.Fprintf(r.progress, format, a...) }

// sides is those of the row, smaller for -quick.
func (r *runner) sides(w *row) (sides []side) {
	for _, s := range w.sides {
		if r.quick {
			s.load.Jobs /= 10
			s.load.For /= 5
			if w.family == "overload" {
				s.load.For /= 4
			}
			if s.load.Backlog > 100_000 {
				continue
			}
		}
		sides = append(sides, s)
	}
	return sides
}

// warm finds out how many jobs make a measurement long enough, on each side. What it measures is not kept.
func (r *runner) warm(ctx context.Context, w *row, sides []side) ([]int, error) {
	jobs := make([]int, len(sides))
	for i := range sides {
		s := &sides[i]
		if w.fixed {
			jobs[i] = s.load.Jobs
			continue
		}
		if s.load.Backlog > 10_000 && i > 0 { // filling it again takes longer than it is worth
			jobs[i] = jobs[i-1]
			continue
		}
		r.say("%s %s warming up %s\n", r.stage(), w.name, s.name)
		s.load.Jobs = 1000
		for range 3 {
			o, err := r.once(ctx, w, s, -1)
			if err != nil {
				return nil, fmt.Errorf("%s, %s, warming up: %w", w.name, s.name, err)
			}
			s.load.Jobs = r.enough(w, s, o)
			if o.Seconds > r.lengthOf(w).Seconds()/4 {
				break
			}
		}
		jobs[i] = s.load.Jobs
	}
	return jobs, nil
}

// lengthOf is shorter where nothing but this process takes part: it varies less.
func (r *runner) lengthOf(w *row) time.Duration {
	if w.redis == nil {
		return r.length / 4
	}
	return r.length
}

// enough is how many jobs take as long as a measurement should, at the rate of the last one.
func (r *runner) enough(w *row, s *side, o *outcome) int {
	const most, mostBytes = 5_000_000, 1 << 29
	n := int(float64(o.Jobs) / o.Seconds * r.lengthOf(w).Seconds())
	n = min(n, most, o.Jobs*20)
	if s.load.Payload > 0 {
		n = min(n, mostBytes/s.load.Payload)
	}
	return max(n, 500)
}

// once measures a side once, on an empty server.
func (r *runner) once(ctx context.Context, w *row, s *side, round int) (*outcome, error) {
	t := &task{Row: w.name, Side: s.implementation(), Load: s.load}
	if r.server != nil {
		t.Addr = r.server.Addr()
		if err := r.empty(ctx); err != nil {
			return nil, err
		}
	}
	if r.profiles != "" && round == 0 {
		t.Profile = filepath.Join(r.profiles, strings.ReplaceAll(w.name+"-"+s.name, " ", "-"))
	}
	return measure(ctx, t)
}

// serverConfig says what servers are like.
const serverConfig = "started for each row, on loopback TCP, nothing on disk unless the row says appendfsync, and the log is not rewritten meanwhile; " +
	"emptied before each measurement"

func (r *runner) startServer(args []string) error {
	dir, err := os.MkdirTemp(r.dir, "bench")
	if err != nil {
		return err
	}
	// A rewrite of the log in the middle of somebody's round would be luck.
	args = append([]string{"--auto-aof-rewrite-percentage", "0"}, args...)
	r.server, err = redisproc.Start(dir, args...)
	return err
}

// empty removes everything from the server, which is ours alone, and its statistics.
func (r *runner) empty(ctx context.Context) error {
	c := redis.NewClient(&redis.Options{Addr: r.server.Addr(), PoolSize: 1, ReadTimeout: time.Minute})
	defer c.Close() //nolint:errcheck // nothing of it is kept
	info, err := c.Info(ctx, "server").Result()
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, "redis_version:"); ok {
			r.redis = strings.TrimSpace(v)
		}
	}
	return errors.Join(err,
		c.FlushAll(ctx).Err(), //nolint:forbidigo // started by this program for this row
		c.ConfigResetStat(ctx).Err(),
		c.Do(ctx, "MEMORY", "PURGE").Err())
}

// conditions is what is measured on, now.
func (r *runner) conditions() conditions {
	c := conditions{
		date: time.Now().UTC().Format(time.DateOnly), golang: strings.TrimPrefix(runtime.Version(), "go"), redis: r.redis,
		machine: fmt.Sprintf("%d × %s", runtime.NumCPU(), processor()), versions: strings.Join(versions(), "; "),
	}
	if out, err := exec.Command("git", "describe", "--always", "--dirty", "--exclude=*").Output(); err == nil {
		c.commit = strings.TrimSpace(string(out))
	}
	return c
}

func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	return runtime.GOARCH
}

// versions is the modules that take part, as they were built in.
func versions() (all []string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	takes := map[string]bool{}
	for _, i := range implementations() {
		takes[i.module] = true
	}
	for _, p := range pools {
		takes[p.module] = true
	}
	for _, d := range info.Deps {
		if takes[d.Path] && d.Replace == nil {
			all = append(all, d.Path+" "+d.Version)
		}
	}
	return all
}
