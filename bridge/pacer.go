package bridge

import (
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// logEvery bounds the log lines of one failing loop.
const logEvery = 10 * time.Second

// pacer keeps one loop from spinning while its store is away: exponential back-off
// with jitter and without an end, reset at once by a success, and a bounded number of log
// lines. It belongs to one goroutine.
type pacer struct {
	log      *slog.Logger
	what     string
	interval *backoff.ExponentialBackOff
	failures int // in a row
	silent   int // of these, since the last line
	lastLog  time.Time
}

func newPacer(log *slog.Logger, what string, initial, most time.Duration) *pacer {
	return &pacer{log: log, what: what, interval: backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(initial),
		backoff.WithMaxInterval(most),
		backoff.WithMaxElapsedTime(0), // the library's default gives up for good after 15 minutes
	)}
}

// storePacer is for a loop whose store does not answer as it should.
func (q *Queue) storePacer(what string) *pacer {
	return newPacer(q.log, what, 50*time.Millisecond, 2*time.Second)
}

// fail notes a failure and returns how long to wait before the next try.
func (p *pacer) fail(err error) time.Duration {
	p.failures++
	wait := p.interval.NextBackOff()
	if now := time.Now(); p.failures == 1 || now.Sub(p.lastLog) >= logEvery {
		p.log.Warn("weir: "+p.what+" failed, will try again", "error", err, "failures", p.failures, "unlogged", p.silent, "wait", wait)
		p.lastLog, p.silent = now, 0
	} else {
		p.silent++
	}
	return wait
}

// pause is fail for what is no failure: it waits longer each time and logs nothing.
func (p *pacer) pause() time.Duration { return p.interval.NextBackOff() }

// ok notes a success.
func (p *pacer) ok() {
	p.interval.Reset()
	if p.failures > 0 {
		p.log.Info("weir: "+p.what+" works again", "failures", p.failures)
		p.failures, p.silent = 0, 0
	}
}

// sleep waits for d or until ctx ends, and tells whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
