package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// Queue is one durable queue behind a bounded front. It is safe for concurrent use.
type Queue struct {
	engine  durable.Engine
	info    durable.Info
	opts    Options
	log     *slog.Logger
	hooked  bool // somebody listens to events
	front   *local.Front[*job]
	watched *local.Registry

	following following
	ids       idSource
	start     time.Time // origin of now()
	tally     tally
	stuck     atomic.Int64 // handlers that are given up and still running
	backlog   atomic.Int64 // as the store last told
	learnt    atomic.Int64 // when, on the clock of now()
	learning  atomic.Bool  // the store is being asked
	dues      dues

	unusable  atomic.Pointer[error] // nil: usable as far as is known
	checked   atomic.Bool           // the store has passed a check once
	lastCheck atomic.Int64          // on the clock of now(); 0: never
	asking    atomic.Bool           // a check that a refused call has asked for is under way
	warnings  warnings
	intake    intake
	claims    atomic.Bool // consumption is paused, as far as is known

	shipOnce sync.Once
	ship     *shipper
	sent     underWay
	calls    exchanges
	cancels  cancels
	expiries expiries
	shared   atomic.Bool // some ticket shares what becomes of another one's job

	handlers sync.Map                // *handling by kind
	handled  atomic.Bool             // there is one
	session  atomic.Pointer[session] // of Run, while it claims

	mu      sync.Mutex // guards what follows
	running *run
	down    *shutdown
}

// Open makes a queue on engine, which from now on belongs to it: Shutdown closes it. Open
// does not block and starts nothing; the store is looked at by Check, by Run, or when the
// first job is shipped.
func Open(engine durable.Engine, opts *Options) (*Queue, error) {
	if v := reflect.ValueOf(engine); engine == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("bridge: engine is nil")
	}
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	info, err := engine.Info()
	if err != nil {
		return nil, fmt.Errorf("bridge: open: %w", err)
	}
	q := &Queue{
		engine: engine, info: info, opts: o, start: time.Now(),
		log:     o.Logger.With("queue", info.Name),
		hooked:  opts != nil && opts.OnEvent != nil,
		watched: local.NewRegistry(o.MaxWatched),
	}
	q.ids.init()
	q.calls.init()
	q.dues.init()
	q.cancels.init()
	q.expiries.q = q
	q.following.init(q)
	q.front, err = local.NewFront(&local.FrontOptions[*job]{
		Capacity: o.Capacity, Bytes: o.CapacityBytes, Policy: o.Policy,
		Evicted: q.evicted, Backlog: q.freshBacklogShare,
	})
	if err != nil {
		return nil, fmt.Errorf("bridge: open: %w", err)
	}
	return q, nil
}

// NewID returns an ID that no other queue or process makes.
func (q *Queue) NewID() string { return q.ids.new() }

// Check asks the store whether it can be used: version, eviction policy, permissions. The
// error matches policy.ErrUnusable and holds a *durable.CheckError that names everything
// that is wrong; until a later check passes, Submit is refused with it. Any other error
// means that the store did not answer. Check blocks until it does, or ctx ends.
func (q *Queue) Check(ctx context.Context) error {
	warned, err := call(ctx, q, callTimeout, q.inspect)
	q.warnings.note(q, warned)
	failed, isCheck := errors.AsType[*durable.CheckError](err)
	switch {
	case err == nil:
		q.checked.Store(true)
		if q.unusable.Swap(nil) != nil {
			q.log.Info("weir: the store can be used again")
			q.emit(Event{Type: EventUsable})
		}
	case isCheck:
		cause := fmt.Errorf("%w: %w", policy.ErrUnusable, failed)
		if q.unusable.Swap(&cause) == nil {
			q.log.Error("weir: the store cannot be used, submitting is refused until it can", "error", failed)
			q.emit(Event{Type: EventUnusable, Err: cause})
		}
		err = cause
	default:
		err = fmt.Errorf("bridge: check: %w", err)
	}
	q.lastCheck.Store(int64(q.now()))
	return err
}

// recheck is Check for the loops: it asks again when the last answer is old, and tells
// whether work may go on. A store that does not answer is no reason not to, once it has
// passed a check.
func (q *Queue) recheck(ctx context.Context) error {
	due := time.Duration(q.lastCheck.Load()) + checkEvery
	cause := q.unusable.Load()
	switch {
	case q.checked.Load() && cause == nil && q.now() < due:
		return nil
	case q.checked.Load() && cause == nil:
		if err := q.Check(ctx); errors.Is(err, policy.ErrUnusable) {
			return err
		}
		return nil
	default:
		return q.Check(ctx)
	}
}

// askAgain has a store that failed its check looked at again, in the background: a queue
// that only submits has no loop that would. There is one such check at a time, none
// without a call that is to be refused, and none after Shutdown, which it reports as false.
func (q *Queue) askAgain() bool {
	q.mu.Lock() // Shutdown waits for what has begun before it
	defer q.mu.Unlock()
	if q.down != nil {
		return false
	}
	if q.now() < time.Duration(q.lastCheck.Load())+askAgainAfter || !q.asking.CompareAndSwap(false, true) {
		return true
	}
	q.calls.begin(func() {
		defer q.asking.Store(false)
		if err := q.Check(context.Background()); err != nil {
			q.log.Debug("weir: the store still cannot be used", "error", err)
		}
	})
	return true
}

// Pressure is how full the queue is, from 0 to 1: the largest of jobs and bytes in the
// front and of the backlog in the store, as seen within the last seconds; 1 while an operator has paused the intake. It does
// not block.
func (q *Queue) Pressure() float64 { return q.front.Pressure() }

func (q *Queue) backlogShare() float64 {
	if q.intake.paused() != nil {
		return 1
	}
	if q.info.MaxBacklog <= 0 {
		return 0
	}
	return min(1, float64(q.backlog.Load())/float64(q.info.MaxBacklog))
}

// backlogAge is how old what is known of the backlog may be, if it is not nothing. A producer
// that slows down by it appends little, and would never learn that it can go on.
const backlogAge = time.Second

// freshBacklogShare is backlogShare for those who decide by it: it has the store asked, in the
// background, one at a time, when the last answer is old.
func (q *Queue) freshBacklogShare() float64 {
	share := q.backlogShare()
	if share == 0 || q.now()-time.Duration(q.learnt.Load()) < backlogAge || !q.learning.CompareAndSwap(false, true) {
		return share
	}
	begun := q.calls.begin(func() {
		defer q.learning.Store(false)
		if err := q.learnBacklog(context.Background()); err != nil {
			q.log.Debug("weir: could not learn the backlog", "error", err)
		}
	})
	if !begun {
		q.learning.Store(false)
	}
	return share
}

// learnBacklog asks the store.
func (q *Queue) learnBacklog(ctx context.Context) error {
	_, err := q.Stats(ctx)
	q.learnt.Store(int64(q.now())) // also if it does not answer
	return err
}

func (q *Queue) noteBacklog(n int64) {
	q.backlog.Store(n)
	q.learnt.Store(int64(q.now()))
}

// Stats is the state of a queue as this process sees it.
type Stats struct {
	Front    local.FrontStats
	Counters Counters
	Stuck    int           // handlers that were given up and are still running
	Warnings []string      // of the last check: what is doubtful in the store, but usable
	Durable  durable.Stats // of all processes; read from the store; paused sides among it
}

// Front returns the state of the front. It does not block.
func (q *Queue) Front() local.FrontStats { return q.front.Stats() }

// Counters returns what this process has counted. It does not block.
func (q *Queue) Counters() Counters { return q.tally.read() }

// Stats reads the store, and blocks until it answers or ctx ends. With an error, what this
// process knows by itself is valid nevertheless. After Shutdown the error matches
// policy.ErrClosed.
func (q *Queue) Stats(ctx context.Context) (Stats, error) {
	s, err := call(ctx, q, callTimeout, q.engine.Stats)
	if err != nil {
		err = fmt.Errorf("bridge: stats: %w", err)
	} else {
		if s.Pending != durable.Unknown {
			q.noteBacklog(s.Pending + s.Scheduled)
		}
		q.noteIntake(s.Intake)
	}
	return Stats{
		Front: q.front.Stats(), Counters: q.Counters(), Stuck: int(q.stuck.Load()), Warnings: q.warnings.last(), Durable: s,
	}, err
}

// Flush waits until every job accepted before the call is enqueued or has ended, or
// until ctx ends. It does not wait for any job to be run.
func (q *Queue) Flush(ctx context.Context) error {
	select {
	case <-q.front.Barrier():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("bridge: flush: %w", context.Cause(ctx))
	}
}

// now is the monotonic clock of the queue.
func (q *Queue) now() time.Duration { return time.Since(q.start) }
