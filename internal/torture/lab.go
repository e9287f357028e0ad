package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/internal/redisproc"
)

// lab is what an experiment works with: a directory, servers, proxies, child processes and a
// ledger of the faults. Everything ends with it. Its methods panic with abort when a step fails
// that is no promise of the library; breach notes a broken promise and goes on.
type lab struct {
	name  string
	dir   string
	set   settings
	ctx   context.Context
	errs  io.Writer
	start time.Time
	book  *ledger // the conductor's own: kills, freezes, cuts

	mu       sync.Mutex // guards what follows
	closers  []func()
	children []*child
	servers  int
	figures  []string
	breaches []string
}

func newLab(ctx context.Context, name, dir string, s settings, errs io.Writer) *lab {
	l := &lab{name: name, dir: dir, set: s, ctx: ctx, errs: errs, start: time.Now()}
	book, err := openLedger(filepath.Join(dir, "conductor.ledger"), conductor)
	if err != nil {
		panic(err) // the directory was made a moment ago
	}
	l.book = book
	watched, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { watchStalls(watched, book) })
	l.later(func() { stop(); watching.Wait() })
	return l
}

// close ends everything that was started, the last first.
func (l *lab) close() {
	l.mu.Lock()
	closers := l.closers
	l.closers = nil
	l.mu.Unlock()
	for _, f := range slices.Backward(closers) {
		f()
	}
	l.book.close()
}

func (l *lab) later(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closers = append(l.closers, f)
}

func (l *lab) elapsed() time.Duration { return time.Since(l.start) }

// say tells of progress.
func (l *lab) say(format string, args ...any) {
	_, _ = fmt.Fprintf(l.errs, "%s %6.1fs %s\n", l.name, l.elapsed().Seconds(), fmt.Sprintf(format, args...))
}

// figure adds to the line of the experiment.
func (l *lab) figure(name string, value any) {
	if d, ok := value.(time.Duration); ok && d > time.Second {
		value = d.Round(10 * time.Millisecond)
	} else if ok {
		value = d.Round(10 * time.Microsecond)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.figures = append(l.figures, fmt.Sprintf("%s=%v", name, value))
}

// maxBreaches are shown; one broken promise tends to be broken often.
const maxBreaches = 8

// breach notes that a promise was broken.
func (l *lab) breach(format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ⏎ ")
	l.say("BREACH %s", text)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.breaches) < maxBreaches {
		l.breaches = append(l.breaches, text)
	}
}

// require notes a breach unless ok.
func (l *lab) require(ok bool, format string, args ...any) {
	if !ok {
		l.breach(format, args...)
	}
}

// must ends the experiment when a step of its own fails.
func (l *lab) must(err error) {
	if err != nil {
		panic(abort{err})
	}
}

// pick chooses between the quick and the long form.
func pick[T any](l *lab, quick, long T) T {
	if l.set.quick {
		return quick
	}
	return long
}

// pause lets the load go on for a while.
func (l *lab) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.ctx.Done():
		panic(abort{context.Cause(l.ctx)})
	}
}

// within waits until ok, and tells whether it came to that.
func (l *lab) within(limit time.Duration, ok func() bool) bool {
	deadline := time.Now().Add(limit)
	for {
		if ok() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		l.pause(5 * time.Millisecond)
	}
}

// server starts a Redis server in a directory of its own.
func (l *lab) server(args ...string) *redisproc.Server {
	l.mu.Lock()
	l.servers++
	dir := filepath.Join(l.dir, fmt.Sprintf("redis-%d", l.servers))
	l.mu.Unlock()
	l.must(os.Mkdir(dir, 0o700))
	return l.serverIn(dir, args...)
}

// serverIn starts a Redis server on the files of a directory.
func (l *lab) serverIn(dir string, args ...string) *redisproc.Server {
	s, err := redisproc.Start(dir, args...)
	l.must(err)
	l.later(func() {
		if err := s.Stop(); err != nil {
			l.breach("%v", err)
		}
	})
	return s
}

// proxy starts a proxy to an address.
func (l *lab) proxy(addr string) *redisproc.Proxy {
	p, err := redisproc.NewProxy(addr)
	l.must(err)
	l.later(p.Close)
	return p
}

// dial makes a client for looking and for faults; it is patient and retries.
func (l *lab) dial(addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: 20, ReadTimeout: 30 * time.Second})
	l.later(func() { _ = c.Close() })
	return c
}

// do runs a command that must succeed.
func (l *lab) do(rdb redis.UniversalClient, words ...any) any {
	v, err := rdb.Do(l.ctx, words...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		panic(abort{fmt.Errorf("%v: %w", words, err)})
	}
	return v
}
