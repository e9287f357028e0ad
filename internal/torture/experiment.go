package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// experiment is one row of the table of TORTURE.md.
type experiment struct {
	name  string // E01
	about string // fault and load
	ci    bool   // runs before every change, in the quick form
	alone bool   // needs the processor: nothing runs beside it
	each  bool   // of those, on every engine
	run   func(*lab)

	// not says why it does not apply to an engine, by the engine's name.
	not map[string]string
}

// String is the line of -list.
func (e *experiment) String() string {
	mark := " "
	if e.ci {
		mark = "•"
	}
	return fmt.Sprintf("%s %s %s", e.name, mark, e.about)
}

// notOn is the line of an experiment that does not apply to an engine.
func (e *experiment) notOn(engine string) string {
	return fmt.Sprintf("%s n/a %s: %s", e.name, engine, e.not[engine])
}

// ciParallel is how many experiments of -ci run side by side: they mostly wait.
const ciParallel = 4

// experimentLimit bounds one experiment, against a mistake in itself.
const (
	quickLimit = 3 * time.Minute
	longLimit  = 2 * time.Hour
)

// runAll runs experiments, prints a line for each, and returns how many failed.
func runAll(ctx context.Context, chosen []*experiment, s settings, out, errs io.Writer) (failed int) {
	var mu sync.Mutex // guards failed and both writers
	errs = &lockedWriter{mu: &mu, w: errs}
	one := func(e *experiment) {
		if ctx.Err() != nil {
			return
		}
		line, ok := e.notOn(s.engine), true
		if e.not[s.engine] == "" {
			line, ok = e.conduct(ctx, s, errs)
		}
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintln(out, line)
		if !ok {
			failed++
		}
	}
	var beside sync.WaitGroup
	places := make(chan struct{}, max(s.parallel, 1))
	for _, e := range chosen {
		if !e.alone {
			places <- struct{}{}
			beside.Go(func() {
				defer func() { <-places }()
				one(e)
			})
		}
	}
	beside.Wait()
	for _, e := range chosen {
		if e.alone {
			one(e)
		}
	}
	return failed
}

// lockedWriter lets several experiments tell of their progress.
type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(p)
}

// conduct runs one experiment in a laboratory of its own.
func (e *experiment) conduct(ctx context.Context, s settings, errs io.Writer) (line string, ok bool) {
	dir, err := os.MkdirTemp("", "torture-"+e.name+"-")
	if err != nil {
		return e.name + " FAILED " + err.Error(), false
	}
	limit := longLimit
	if s.quick {
		limit = quickLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	l := newLab(ctx, e.name, dir, s, errs)
	func() {
		defer l.close()
		defer func() {
			if r := recover(); r != nil {
				l.aborted(r)
			}
		}()
		e.run(l)
	}()
	l.figure("took", l.elapsed().Round(100*time.Millisecond))
	if len(l.breaches) == 0 && !s.keep {
		_ = os.RemoveAll(dir)
		return fmt.Sprintf("%s ok %s", e.name, strings.Join(l.figures, " ")), true
	}
	verdict := "ok"
	if len(l.breaches) > 0 {
		verdict = "FAILED " + strings.Join(l.breaches, "; ") + " |"
	}
	return fmt.Sprintf("%s %s %s seed=%d kept=%s", e.name, verdict, strings.Join(l.figures, " "), s.seed, dir), len(l.breaches) == 0
}

// abort is what a step panics with that cannot go on.
type abort struct{ err error }

func (l *lab) aborted(r any) {
	a, ok := r.(abort)
	switch {
	case !ok:
		l.breach("panic: %v\n%s", r, debug.Stack())
	case errors.Is(l.ctx.Err(), context.DeadlineExceeded):
		l.breach("the experiment did not end: %v", a.err)
	default:
		l.breach("%v", a.err)
	}
}

// stream gives random numbers that depend on the seed, the experiment and a name only.
func stream(seed uint64, words ...string) *rand.Rand {
	h := fnv.New64a()
	for _, w := range words {
		_, _ = io.WriteString(h, w+"\x00")
	}
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}
