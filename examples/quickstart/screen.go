package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
)

// screen is where the program speaks. On a terminal the progress is one line that
// changes, elsewhere a line a second.
type screen struct {
	out  io.Writer
	live bool
	err  error // the first of writing
}

func newScreen(out io.Writer) *screen {
	s := &screen{out: out}
	if file, ok := out.(*os.File); ok {
		info, err := file.Stat()
		s.live = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return s
}

func (s *screen) say(format string, args ...any) {
	if _, err := fmt.Fprintf(s.out, format, args...); err != nil && s.err == nil {
		s.err = err
	}
}

// progress is the goroutine that follows the run; stop ends it.
type progress struct {
	done chan struct{}
	wg   sync.WaitGroup
}

func (s *screen) follow(q *bridge.Queue, sites []*site) *progress {
	p := &progress{done: make(chan struct{})}
	every, form := time.Second, "%s\n"
	if s.live {
		every, form = 100*time.Millisecond, "\r\x1b[K%s"
	}
	begun := time.Now()
	p.wg.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				s.say(form, now(time.Since(begun), q, sites))
			case <-p.done:
				s.say(form, now(time.Since(begun), q, sites))
				if s.live {
					s.say("\n")
				}
				return
			}
		}
	})
	return p
}

func (p *progress) stop() {
	close(p.done)
	p.wg.Wait()
}

// now is one line of progress, from counts that cost nothing to read.
func now(since time.Duration, q *bridge.Queue, sites []*site) string {
	var submitted, accepted, refused int64
	for _, s := range sites {
		submitted += s.submitted.Load()
		accepted += s.accepted.Load()
		refused += s.rejections() + s.dropped.Load()
	}
	c := q.Counters()
	return fmt.Sprintf("%5.1fs  submitted %d  accepted %d  rejected or dropped %d  enqueued %d  completed %d  pressure %3.0f %%",
		since.Seconds(), submitted, accepted, refused, c.Enqueued, c.Completed, 100*q.Pressure())
}
