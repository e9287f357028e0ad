package durable

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"
)

// MemoryOptions bound a Memory. The zero value of each field means its default;
// negative values are refused by Memory.Info and every other call.
type MemoryOptions struct {
	Name       string // as in logs and errors; default "memory"
	MaxBacklog int64  // pending plus scheduled, beyond which nothing is appended; default 100,000
	MaxCrashes int    // claims that may end with their consumer before a job is dead; default 5
	MaxDead    int64  // dead letters kept, the oldest go first; default 10,000
	// MaxCompleted is how many records of completed jobs are kept (Job.Retention); those that would be
	// forgotten next go first; default 10,000.
	MaxCompleted int64
	// Ageing keeps low priorities from starving, as in SortedSetOptions; default 8,784 hours.
	Ageing time.Duration
}

const (
	memoryName      = "memory"
	memorySenderTTL = 24 * time.Hour // of the record of an identity that asks nothing
	memoryStep      = 250            // entries that one sweep or leave returns, or one claim promotes
	memorySurplus   = 64             // entries that a claim looks at besides those it takes
	memorySweeps    = 8              // consumers that one sweep looks at

	// A job that lost its worker comes back after one to twenty of these, at random.
	memoryCrashDelay = 100 * time.Millisecond
	// A suspect met by a consumer that holds one already comes back after one or two of these,
	// and one more for each that was met before it by the same claim.
	memoryDeferDelay    = 10 * time.Millisecond
	memoryMaxDeferDelay = 2 * time.Second

	reasonWorkerLost = "worker lost"
)

// Memory is a queue in this process's memory: an Engine with the contract of the
// list and the sorted-set engine, for tests, for trying things out, and for work that may be lost with the
// process. The Memory is the store: a second handle of the queue is the same *Memory.
//
// It starts no goroutine, takes time from package time only, and never blocks except in
// Consumer.Await. Make one with NewMemory.
type Memory struct {
	opts MemoryOptions
	bad  error // of the options

	mu        sync.Mutex // guards all below; held for a bounded number of entries
	nonce     string
	opened    uint64
	senders   map[string]*memorySender
	followers map[string]*memoryFollower
	members   map[string]*memoryMember // the registry of consumers
	jobs      map[string]*memoryJob
	keys      memoryKeys // of Unique
	limits    memoryLimits
	pending   line
	scheduled schedule
	dead      ring[*memoryJob] // oldest at the head
	completed schedule         // records of all that have ended, by when they are forgotten; some may be over their time
	pauses    [2]Pause         // of intake, of consumption
	held      int64            // claims of all members
	fence     int64
	step      uint64 // the present one, of those in which something may be noted
	actor     string // the follower whose consumer does it
	counters  memoryCounters
	wake      chan struct{} // closed when there may be something new to claim; nil when nobody waits
}

type memoryCounters struct {
	appended, duplicate, claimed, completed, retried, snoozed, released int64
	returned, crashed, dead, trimmed, deferred                          int64
	redriven, discarded, purged, completedTrimmed                       int64
	expired, cancelled, limited                                         int64
}

// NewMemory makes an empty queue. Nil means the defaults. Bad options are told by Info
// and refused by every call.
func NewMemory(opts *MemoryOptions) *Memory {
	m := &Memory{
		nonce:     strconv.FormatUint(uint64(rand.Uint32()), 36),
		senders:   make(map[string]*memorySender),
		followers: make(map[string]*memoryFollower),
		members:   make(map[string]*memoryMember),
		jobs:      make(map[string]*memoryJob),
		keys:      memoryKeys{all: make(map[string]*memoryKey)},
		limits:    memoryLimits{keys: make(map[string]*memoryLimitKey)},
	}
	if opts != nil {
		m.opts = *opts
	}
	m.bad = m.opts.validate()
	o := &m.opts
	if o.Name == "" {
		o.Name = memoryName
	}
	if o.MaxBacklog == 0 {
		o.MaxBacklog = defaultMaxBacklog
	}
	if o.MaxCrashes == 0 {
		o.MaxCrashes = defaultMaxCrashes
	}
	if o.MaxDead == 0 {
		o.MaxDead = defaultMaxDead
	}
	if o.MaxCompleted == 0 {
		o.MaxCompleted = defaultMaxCompleted
	}
	step, err := ageing("MemoryOptions", o.Ageing)
	if m.bad == nil {
		m.bad = err
	}
	m.pending.step = step
	return m
}

func (o *MemoryOptions) validate() error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"MaxBacklog", o.MaxBacklog},
		{"MaxCrashes", int64(o.MaxCrashes)},
		{"MaxDead", o.MaxDead},
		{"MaxCompleted", o.MaxCompleted},
	} {
		if f.value < 0 {
			return fmt.Errorf("durable: MemoryOptions.%s is %d, must not be negative", f.name, f.value)
		}
	}
	return nil
}

// Info tells the name and the bound, and the error of bad options by name.
func (m *Memory) Info() (Info, error) {
	return Info{Name: m.opts.Name, MaxBacklog: m.opts.MaxBacklog, Capabilities: m.capabilities()}, m.bad
}

func (m *Memory) capabilities() Capabilities {
	return Capabilities{
		FIFO: true, ReturnsFirst: true, Delay: true, Retention: true, Priority: true,
		Expiry: true, Unique: true, Limits: true, Cancel: true, Results: true, Follow: true,
	}
}

// Check finds nothing wrong, but bad options. It does not block.
func (m *Memory) Check(ctx context.Context) error {
	if m.bad != nil {
		return &CheckError{Queue: m.opts.Name, Problems: []string{m.bad.Error()}}
	}
	return m.ready(ctx, "check")
}

// Close does nothing: what the queue holds stays, and later calls are served.
func (m *Memory) Close() error { return nil }

// ready says whether a call may be executed; it is all that ctx is asked for.
func (m *Memory) ready(ctx context.Context, op string) error {
	err := m.bad
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("durable: %s %s: %w: %w", m.opts.Name, op, ErrNotExecuted, err)
	}
	return nil
}

// misuse is the answer to a request that no store could execute.
func (m *Memory) misuse(op, what string) error {
	return fmt.Errorf("durable: %s %s: %w: %s", m.opts.Name, op, ErrNotExecuted, what)
}

// because names the operation beside the class of an error.
func (m *Memory) because(op string, class error) error {
	return fmt.Errorf("durable: %s %s: %w", m.opts.Name, op, class)
}

// OpenProducer obtains an identity for appending. It does not block.
func (m *Memory) OpenProducer(ctx context.Context) (Producer, error) {
	if err := m.ready(ctx, "open"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return &memoryProducer{m: m, id: m.open()}, nil
}

// OpenConsumer obtains an identity for claiming, with a lease that ends that long from
// now. It does not block.
func (m *Memory) OpenConsumer(ctx context.Context, lease time.Duration) (Consumer, error) {
	if err := m.ready(ctx, "open"); err != nil {
		return nil, err
	}
	if lease <= 0 {
		return nil, m.misuse("open", "the lease must be positive")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	id := m.open()
	m.members[id] = &memoryMember{
		id:     id,
		order:  m.opened,
		expiry: time.Now().Add(lease),
		held:   make(map[string]*memoryJob),
	}
	return &memoryConsumer{m: m, id: id}, nil
}

// open makes an identity and its record, and drops the records that are over.
func (m *Memory) open() string {
	now := time.Now()
	for id, s := range m.senders {
		if s.over(now) {
			delete(m.senders, id)
		}
	}
	id := m.identity()
	m.senders[id] = &memorySender{seen: now}
	return id
}

// identity is one that was never used before.
func (m *Memory) identity() string {
	m.opened++
	return strconv.FormatUint(m.opened, 10) + "-" + m.nonce
}

// memorySender is the record of one identity: the last number of each kind, with its
// answer.
type memorySender struct {
	seen   time.Time // the last request
	follow string    // the follower that has adopted it
	append remembered[Appended]
	claim  remembered[Claimed] // its status, its gap and what it has expired; the jobs tell the rest
	settle remembered[Settled]
}

func (s *memorySender) over(now time.Time) bool { return now.Sub(s.seen) >= memorySenderTTL }

// sender finds the record of an identity and notes that it asked.
func (m *Memory) sender(id string) (*memorySender, error) {
	now := time.Now()
	s := m.senders[id]
	if s == nil || s.over(now) {
		return nil, ErrNoSender
	}
	s.seen = now
	return s, nil
}

// remembered is the last number of one kind of request, with its answer.
type remembered[A any] struct {
	n      uint64
	answer A
}

// known reports whether n has been answered already. ErrOutdated: so has a later one.
func (r *remembered[A]) known(n uint64) (bool, error) {
	if n < r.n {
		return false, ErrOutdated
	}
	return n == r.n && n > 0, nil
}

// Sweep returns what consumers without a lease still hold to the head of the queue; those
// that are charged with a crash come back later, or are dead. It does not block.
func (m *Memory) Sweep(ctx context.Context) (Swept, error) {
	if err := m.ready(ctx, "sweep"); err != nil {
		return Swept{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.act("")
	now := time.Now()
	var lost []*memoryMember
	for _, c := range m.members {
		if !c.alive(now) {
			lost = append(lost, c)
		}
	}
	slices.SortFunc(lost, func(a, b *memoryMember) int {
		if a.expiry.Equal(b.expiry) {
			return int(a.order) - int(b.order)
		}
		return a.expiry.Compare(b.expiry)
	})
	var swept Swept
	budget := memoryStep
	for i, c := range lost {
		if i == memorySweeps || budget == 0 {
			swept.More = true
			break
		}
		if !c.fenced {
			c.fence()
			swept.Fenced++
		}
		for _, j := range c.newest(budget) {
			budget--
			switch m.lose(c, j, now) {
			case StateCancelled:
				swept.Ended++
			case StateDead:
				swept.Dead++
			default:
				swept.Returned++
			}
		}
		if len(c.held) > 0 {
			swept.More = true
		} else {
			delete(m.members, c.id)
		}
	}
	swept.Trimmed = m.trim()
	m.forget(now)
	return swept, nil
}

// lose ends the claim of a lost consumer, charges the job with that unless it is innocent, and tells where it is now.
func (m *Memory) lose(c *memoryMember, j *memoryJob, now time.Time) State {
	if !c.blames(j) {
		return m.giveBack(c, j)
	}
	m.counters.crashed++
	m.take(c, j)
	j.crashes++
	switch {
	case j.cancelling:
		m.cancel(j, now)
		return StateCancelled
	case j.crashes >= m.opts.MaxCrashes:
		m.bury(j, reasonWorkerLost)
	default:
		m.note(j, Notice{What: NoticeRequeued})
		m.later(j, now.Add(memoryCrashDelay+rand.N(19*memoryCrashDelay)))
	}
	return j.state
}

// Stats reads sizes and counters, all of one instant. It does not block.
func (m *Memory) Stats(ctx context.Context) (Stats, error) {
	if err := m.ready(ctx, "stats"); err != nil {
		return Stats{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(time.Now())
	c := &m.counters
	return Stats{
		Pending:    int64(m.pending.len()),
		Scheduled:  int64(m.scheduled.len()),
		Processing: m.held,
		Dead:       int64(m.dead.len()),
		Completed:  int64(m.completed.len()),
		Consumers:  int64(len(m.members)),
		Intake:     m.pauses[0], Consumption: m.pauses[1],
		Limits: m.limits.set, LimitedBy: m.limits.by,
		Counters: map[string]int64{
			"appended":  c.appended,
			"duplicate": c.duplicate,
			"claimed":   c.claimed,
			"completed": c.completed,
			"retried":   c.retried,
			"snoozed":   c.snoozed,
			"released":  c.released,
			"returned":  c.returned,
			"crashed":   c.crashed,
			"dead":      c.dead,
			"trimmed":   c.trimmed,
			"deferred":  c.deferred,
			"redriven":  c.redriven,
			"discarded": c.discarded,
			"purged":    c.purged,
			"expired":   c.expired,
			"cancelled": c.cancelled,
			"limited":   c.limited,

			"completed_trimmed": c.completedTrimmed,
		},
	}, nil
}

var _ Engine = (*Memory)(nil)
