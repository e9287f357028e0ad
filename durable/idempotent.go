package durable

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// IdempotentOptions configure an Idempotent. The zero value of each field means its default;
// negative values are refused by name. Everybody who uses a name should set the same.
type IdempotentOptions struct {
	// Prefix is what every marker's key begins with, literally. On a cluster it needs a hash
	// tag. Default "{<name>}:once:".
	Prefix string
	// Window is for how long after an effect another run of its key is none; default 24 h. It must be longer than
	// an old delivery may take to come back: retries, and dead letters that are redriven.
	Window time.Duration
	// Hold is how long one run may take: for so long other jobs of the same key are kept out, and a tenth before
	// the context of the run ends with ErrHoldOver. Default 15 min.
	Hold time.Duration
}

const (
	defaultWindow = 24 * time.Hour
	defaultHold   = 15 * time.Minute

	// MaxResultBytes is the largest result that is kept with a marker.
	MaxResultBytes = 64 << 10

	maxFence = 1 << 53 // beyond, Lua's numbers have gaps
)

// How the end of a run is told: again and again within RedisOptions.Timeout, while the run's context lasts.
const (
	markTry   = 2 * time.Second
	markPause = 50 * time.Millisecond
	markRest  = time.Second
)

// Errors of Do and DoResult, besides the classes that all calls have.
var (
	// ErrStaleFence: a run with a larger fencing number has begun. Was this one's effect had before it was
	// overtaken, Do says so; else it was not run. The claim is lost as a rule; where it is not, the next one has a
	// larger number.
	ErrStaleFence = errors.New("durable: a later claim has begun")
	// ErrInProgress: another job, or another call under the same claim, is at it. The effect was not run; come back
	// later. Matches ErrNotExecuted too.
	ErrInProgress = &classed{"durable: another run is in progress", ErrNotExecuted}
	// ErrUnmarked: the effect was had, but it is not certain that the marker says so. Another run would repeat it:
	// what can complete without one should.
	ErrUnmarked = errors.New("durable: the effect is not marked as done")
	// ErrHoldOver is the cause with which the context of a run ends that takes longer than its Hold.
	ErrHoldOver = errors.New("durable: the run takes longer than its Hold")
	// ErrResultTooLarge: the result has more than MaxResultBytes. The effect is marked as done, without it.
	ErrResultTooLarge = errors.New("durable: the result is too large to be kept")
)

func (o *IdempotentOptions) validate() error {
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"Window", o.Window},
		{"Hold", o.Hold},
	} {
		switch {
		case f.value < 0:
			return fmt.Errorf("durable: IdempotentOptions.%s is %v, must not be negative", f.name, f.value)
		case f.value > 0 && f.value < millisecond:
			return fmt.Errorf("durable: IdempotentOptions.%s is %v, less than a millisecond", f.name, f.value)
		}
	}
	if len(o.Prefix) > maxPrefixBytes {
		return fmt.Errorf("durable: IdempotentOptions.Prefix has %d bytes, at most %d are possible", len(o.Prefix), maxPrefixBytes)
	}
	return nil
}

// Idempotent has effects once: it keeps a marker in Redis for each key, and runs nothing whose marker says that it
// is done, or under way elsewhere. Make one with Redis.Idempotent; several with the same prefix are the same. It is
// safe for concurrent use and starts no goroutine.
//
// A marker is absent, running (by a job, with a fencing number), failed, or done. It is done for the Window, by the clock
// of Redis, and then absent. A run that has not ended is taken over by a claim of the same job with a larger number, as
// that is given out only when the earlier claim is over, and by other jobs when its Hold is. Once taken over it changes
// nothing any more. A run that failed can be repeated at once, though not with a smaller number.
//
// That is at most once for effects of processes that live. One that dies between its effect and the marker leaves
// nothing that tells whether the effect was had: the next claim repeats it. Where that must not be, the effect and what
// remembers it belong into one transaction; see docs/idempotency.md.
type Idempotent struct {
	redis *Redis
	name  string
	opts  IdempotentOptions
	bad   error // of name and options
}

// onceScripts are the scripts of a marker; lua/once_<verb>.lua says what each does.
var onceScripts = struct{ begin, end *script }{loadScript("once_begin"), loadScript("once_end")}

// Idempotent makes a handle of the markers of that name, which may be that of a queue. Nil options mean the defaults. It
// does not touch the network; a bad name or option is reported by every call. It uses the connections of the queues of r:
// where there is none, Close of r closes them.
func (r *Redis) Idempotent(name string, opts *IdempotentOptions) *Idempotent {
	o := &Idempotent{redis: r, name: name}
	if opts != nil {
		o.opts = *opts
	}
	if o.bad = validateName(name); o.bad == nil {
		o.bad = o.opts.validate()
	}
	o.opts.Prefix = cmp.Or(o.opts.Prefix, "{"+name+"}:once:")
	o.opts.Window = cmp.Or(o.opts.Window, defaultWindow)
	o.opts.Hold = cmp.Or(o.opts.Hold, defaultHold)
	if o.bad == nil && r.cluster && !hasHashTag(o.opts.Prefix) {
		o.bad = fmt.Errorf("durable: IdempotentOptions.Prefix %q has no hash tag in braces, which a cluster needs", o.opts.Prefix)
	}
	return o
}

// Effect names what is to be had once, and who is about to.
type Effect struct {
	// Job is the ID of the job that runs: Delivery.ID. Required, at most 1,024 bytes.
	Job string
	// Fence is the fencing number of its claim: Delivery.Fence. Required. Numbers of several queues are not compared with
	// each other to any good: give each queue an Idempotent of its own, unless they share keys on purpose.
	Fence int64
	// Key is what the effect is had once for; at most 1,024 bytes. "": the job.
	Key string
}

func (e *Effect) validate() error {
	switch {
	case e.Job == "":
		return errors.New("Effect.Job is empty")
	case len(e.Job) > MaxIDBytes:
		return fmt.Errorf("Effect.Job has %d bytes, more than %d", len(e.Job), MaxIDBytes)
	case len(e.Key) > MaxIDBytes:
		return fmt.Errorf("Effect.Key has %d bytes, more than %d", len(e.Key), MaxIDBytes)
	case e.Fence <= 0 || e.Fence > maxFence:
		return fmt.Errorf("Effect.Fence is %d, not from 1 to 2^53", e.Fence)
	}
	return nil
}

// Do calls fn, unless its effect was had within the window, and notes that it was when fn returns nil; ran tells
// whether it was called. fn runs on this goroutine, with a context that ends when ctx or the Hold does; pass it on. Its
// error is returned as it is and frees the key, so it must mean that the effect may be tried again; a panic does the same.
//
// false, nil: it was had before. false and an error, and nothing was called: ErrInProgress, ErrStaleFence, ErrBadKey
// (the key holds something else), or another class of engine errors, when Redis was not reached. True and an error of Do:
// ErrStaleFence or ErrUnmarked; fn had returned nil. The marking is tried for RedisOptions.Timeout, and once when ctx has ended.
func (o *Idempotent) Do(ctx context.Context, e Effect, fn func(ctx context.Context) error) (ran bool, err error) {
	var run func(ctx context.Context) ([]byte, error)
	if fn != nil {
		run = func(ctx context.Context) ([]byte, error) { return nil, fn(ctx) }
	}
	_, ran, err = o.DoResult(ctx, e, run)
	return ran, err
}

// DoResult is Do for an fn with a result, which is kept with the marker and returned to those who come later. One
// that is longer than MaxResultBytes is returned to this caller only, with ErrResultTooLarge.
func (o *Idempotent) DoResult(ctx context.Context, e Effect, fn func(ctx context.Context) ([]byte, error)) (result []byte, ran bool, err error) {
	if fn == nil {
		return nil, false, o.failed("begin", ErrNotExecuted, errors.New("the function is nil"))
	}
	if err := cmp.Or(o.bad, e.validate()); err != nil {
		return nil, false, o.failed("begin", ErrNotExecuted, err)
	}
	r := &run{o: o, effect: e, id: rand.Text()}
	began := time.Now() // before the store's hold can begin
	code, answer, err := r.exec(ctx, onceScripts.begin, o.opts.Hold.Milliseconds())
	switch {
	case err != nil:
		return nil, false, err
	case code == "DONE":
		return []byte(answer.text()), false, nil
	case code == "BUSY":
		return nil, false, o.failed("begin", ErrInProgress, nil)
	case code == "STALE":
		return nil, false, o.failed("begin", ErrStaleFence, nil)
	case code != "BEGUN":
		return nil, false, o.failed("begin", ErrInDoubt, fmt.Errorf("unknown answer %q", code))
	}

	returned := false
	defer func() {
		if !returned { // a panic, or Goexit
			_ = r.fail(ctx)
		}
	}()
	held, cancel := context.WithDeadlineCause(ctx, began.Add(o.opts.Hold-o.opts.Hold/10), ErrHoldOver)
	defer cancel()
	result, err = fn(held)
	returned = true
	if err != nil {
		_ = r.fail(ctx) // if it is not told the next claim takes over, as after a crash
		return result, true, err
	}
	return result, true, r.done(ctx, result)
}

// run is one call of Do.
type run struct {
	o      *Idempotent
	effect Effect
	id     string
}

// fail frees the key. It is told once.
func (r *run) fail(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTry)
	defer cancel()
	_, _, err := r.exec(ctx, onceScripts.end, "failed", "")
	return err
}

// done marks the effect as had.
func (r *run) done(ctx context.Context, result []byte) error {
	var tooLarge error
	if len(result) > MaxResultBytes {
		tooLarge = r.o.failed("end", ErrResultTooLarge, fmt.Errorf("%d bytes, more than %d", len(result), MaxResultBytes))
		result = nil
	}
	by := time.Now().Add(r.o.redis.opts.Timeout)
	for pause := markPause; ; pause = min(2*pause, markRest) {
		try, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTry)
		code, _, err := r.exec(try, onceScripts.end, "done", result)
		cancel()
		switch {
		case err == nil && code == replyOK:
			return tooLarge
		case err == nil && code == "LOST":
			return r.o.failed("end", ErrStaleFence, nil)
		case err == nil:
			err = r.o.failed("end", ErrInDoubt, fmt.Errorf("unknown answer %q", code))
		}
		if isBadKey(err) || time.Now().Add(pause).After(by) || !rest(ctx, pause) {
			return fmt.Errorf("%w: %w", ErrUnmarked, err)
		}
	}
}

// rest waits; false: ctx has ended.
func rest(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// exec executes a script on the marker and takes the code off its answer.
func (r *run) exec(ctx context.Context, s *script, args ...any) (code string, answer reply, err error) {
	o := r.o
	if ctx.Err() != nil {
		return "", nil, o.failed(s.verb, ErrNotExecuted, context.Cause(ctx))
	}
	ctx, cancel := context.WithTimeout(ctx, o.redis.opts.Timeout)
	defer cancel()
	if err := o.redis.commands.enter(ctx); err != nil {
		return "", nil, o.failed(s.verb, ErrNotExecuted, err)
	}
	defer o.redis.commands.leave()
	key := o.opts.Prefix + cmp.Or(r.effect.Key, r.effect.Job)
	args = append([]any{s.verb, r.id, r.effect.Job, r.effect.Fence, o.opts.Window.Milliseconds()}, args...)
	got, err := s.run([]string{key}, args, func(words []any) (any, error) {
		cmd := once{redis.NewCmd(ctx, words...)}
		err := cmd.send(ctx, o.redis.use())
		return cmd.Val(), err
	})
	if err != nil {
		return "", nil, o.failed(s.verb, class(err), err)
	}
	code, answer, err = decodeReply(got)
	if err == nil {
		err = answer.refusal(code)
	}
	if err != nil {
		return "", nil, o.failed(s.verb, err, nil)
	}
	return code, answer, nil
}

// failed composes an error of a class; cause may be nil.
func (o *Idempotent) failed(op string, class, cause error) error {
	if cause == nil {
		return fmt.Errorf("%w: %s of an effect of %s", class, op, o.name)
	}
	return fmt.Errorf("%w: %s of an effect of %s: %w", class, op, o.name, cause)
}
