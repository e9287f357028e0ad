package bridge

import (
	"context"
	"log/slog"
	"time"

	"github.com/seed-9dec4fca/weir/policy"
)

// logEvery bounds the log lines of one failing loop.
const logEvery = 10 * time.Second

// pacer keeps one loop from spinning while its store is away: exponential back-off
// with jitter and without an end, reset at once by a success, and a bounded number of log
// lines. It belongs to one goroutine at a time.
type pacer struct {
	log      *slog.Logger
	what     string
	delays   policy.Retry
	tries    int // in a row without success
	failures int // of these, failures
	silent   int // of these, since the last line
	lastLog  time.Time
}

func newPacer(log *slog.Logger, what string, initial, most time.Duration) *pacer {
	return &pacer{log: log, what: what, delays: policy.Retry{Initial: initial, Max: most}}
}

// storePacer is for a loop whose store does not answer as it should.
func (q *Queue) storePacer(what string) *pacer {
	return newPacer(q.log, what, 50*time.Millisecond, 2*time.Second)
}

// fail notes a failure and returns how long to wait before the next try.
func (p *pacer) fail(err error) time.Duration {
	p.failures++
	wait := p.pause()
	if now := time.Now(); p.failures == 1 || now.Sub(p.lastLog) >= logEvery {
		p.log.Warn("weir: "+p.what+" failed, will try again", "error", err, "failures", p.failures, "unlogged", p.silent, "wait", wait)
		p.lastLog, p.silent = now, 0
	} else {
		p.silent++
	}
	return wait
}

// pause is fail for what is no failure: it waits longer each time and logs nothing.
func (p *pacer) pause() time.Duration {
	p.tries++
	return p.delays.Delay(p.tries)
}

// waiting tells whether the last try was no success.
func (p *pacer) waiting() bool { return p.tries > 0 }

// ok notes a success.
func (p *pacer) ok() {
	p.tries = 0
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
