package durable

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"
)

// ListOptions bound a list queue. The zero value of each field means its default;
// negative values are refused by name. Everybody who uses a queue should set the same.
type ListOptions struct {
	// Prefix is what every key of the queue begins with, literally. On a cluster it needs a
	// hash tag. Default "{<name>}:".
	Prefix string
	// MaxBacklog bounds pending plus scheduled jobs: an append stores what there is room
	// for. What comes back (retries, releases, recoveries) and what foreign producers push is not
	// refused. Default 100,000.
	MaxBacklog int64
	// MaxCrashes is how many claims of a job may end with the loss of its consumer before it
	// is dead; default 5.
	MaxCrashes int
	// MaxDead is how many dead letters are kept; the oldest are discarded, and counted.
	// Default 10,000.
	MaxDead int64
	// MaxCorrupt is how many entries that nobody can run are kept for the operator; the
	// oldest are discarded. Default 1,000.
	MaxCorrupt int64
	// MaxCompleted is how many records of completed jobs are kept (Job.Retention); those that would
	// be forgotten next go first. Default 10,000.
	MaxCompleted int64
}

const (
	defaultMaxBacklog   = 100_000
	defaultMaxCrashes   = 5
	defaultMaxDead      = 10_000
	defaultMaxCorrupt   = 1_000
	defaultMaxCompleted = 10_000

	maxNameBytes   = 128
	maxPrefixBytes = 256
)

// Bounds of one script.
const (
	claimStep    = 512      // jobs that one claim takes
	returnStep   = 250      // entries that one sweep or leave returns
	sweepMembers = 8        // consumers that one sweep looks at
	searchStep   = 1000     // keys that one sweep looks at for unregistered lists
	statsMembers = 1000     // consumers whose claims stats count
	maxReason    = 1 << 10  // bytes of a reason that are kept
	unknownLease = 30_000   // ms; of a consumer whose record is gone
	wireVersion  = 1        // of the contract of DESIGN section 4; the newest we speak
	drainTimeout = 3 * Park // of one Await, beyond which the server is taken to be frozen
	millisecond  = time.Millisecond
)

func (o *ListOptions) validate(options string) error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"MaxBacklog", o.MaxBacklog},
		{"MaxCrashes", int64(o.MaxCrashes)},
		{"MaxDead", o.MaxDead},
		{"MaxCorrupt", o.MaxCorrupt},
		{"MaxCompleted", o.MaxCompleted},
	} {
		if f.value < 0 {
			return fmt.Errorf("durable: %s.%s is %d, must not be negative", options, f.name, f.value)
		}
	}
	if len(o.Prefix) > maxPrefixBytes {
		return fmt.Errorf("durable: %s.Prefix has %d bytes, at most %d are possible", options, len(o.Prefix), maxPrefixBytes)
	}
	return nil
}

// withDefaults fills in what was left zero.
func (o ListOptions) withDefaults(name string) ListOptions {
	if o.Prefix == "" {
		o.Prefix = "{" + name + "}:"
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
	if o.MaxCorrupt == 0 {
		o.MaxCorrupt = defaultMaxCorrupt
	}
	if o.MaxCompleted == 0 {
		o.MaxCompleted = defaultMaxCompleted
	}
	return o
}

// List is a queue in Redis lists: an Engine with the keys that the package comment shows, so
// that any language can enqueue and look. Make one with Redis.List; several with the same prefix
// are the same queue. It is safe for concurrent use.
type List struct {
	queue
	opts    ListOptions
	keys    *listKeys
	scripts *listScriptSet

	// step is how much earlier a job counts as arrived for each level of its priority, where the IDs that wait
	// are in a sorted set (SortedSet). 0: they are in a list.
	step time.Duration

	cursor atomic.Value // string: where the search for unregistered lists goes on
	older  atomic.Bool  // the server has no BLMOVE
}

// List makes a handle of the queue name. Nil options mean the defaults. It does not touch
// the network; a bad name or option is reported by Info, and by every call.
func (r *Redis) List(name string, opts *ListOptions) *List {
	if opts == nil {
		opts = &ListOptions{}
	}
	l := newList(r, name, "ListOptions", *opts)
	l.keys, l.scripts = newListKeys(l.opts.Prefix), listScripts
	return l
}

// newList makes what a list and a sorted set have in common.
func newList(r *Redis, name, options string, opts ListOptions) *List {
	l := &List{queue: newQueue(r, name), opts: opts.withDefaults(name)}
	l.cursor.Store("0")
	l.bad = validateName(name)
	if l.bad == nil {
		l.bad = opts.validate(options)
	}
	if l.bad == nil && r.cluster && !hasHashTag(l.opts.Prefix) {
		l.bad = fmt.Errorf("durable: %s.Prefix %q has no hash tag in braces, which a cluster needs", options, l.opts.Prefix)
	}
	return l
}

// validateName refuses names that would make keys or logs ambiguous.
func validateName(name string) error {
	switch {
	case name == "":
		return errors.New("durable: the name of a queue is empty")
	case len(name) > maxNameBytes:
		return fmt.Errorf("durable: the name of a queue has %d bytes, at most %d are possible", len(name), maxNameBytes)
	case strings.ContainsAny(name, "{}"):
		return fmt.Errorf("durable: the name %q of a queue has a brace in it", name)
	}
	for _, c := range name {
		if c < ' ' || c == 0x7f {
			return fmt.Errorf("durable: the name %q of a queue has a control character in it", name)
		}
	}
	return nil
}

// Info tells the name and the bound, and the error of a bad name or option.
func (l *List) Info() (Info, error) {
	return Info{Name: l.name, MaxBacklog: l.opts.MaxBacklog, Replicas: l.redis.opts.Replicas, Capabilities: l.capabilities()}, l.bad
}

func (l *List) capabilities() Capabilities {
	return Capabilities{
		FIFO: true, ReturnsFirst: true, Delay: true, Retention: true, Priority: l.step > 0,
		Expiry: true, Unique: true, Cancel: true, Results: true, Limits: true, Follow: true,
	}
}

// Close lets go of the store's client, which closes with the last queue that uses it. It
// waits for an Await that was given up, at most about a second. Nothing durable changes, a later
// call connects anew, and it is idempotent.
func (l *List) Close() error { return l.close() }

// run executes a script in a lane; see send.
func (l *List) run(ctx context.Context, in *lane, s *script, args ...any) (code string, answer reply, err error) {
	head := []any{s.verb, l.keys.prefix, wireVersion}
	if l.step > 0 && s != l.scripts.probe {
		head = append(head, l.step.Microseconds())
	}
	return l.send(ctx, in, s, l.keys.fixed, append(head, args...))
}

// millis is a duration as scripts take it.
func millis(d time.Duration) int64 { return max(0, d.Milliseconds()) }

// span is its inverse, also for what a time.Duration cannot say: others may have written that. A score of infinity comes as the
// smallest number there is.
func span(ms int64) time.Duration {
	const most = math.MaxInt64 / int64(millisecond)
	return time.Duration(min(max(ms, -most), most)) * millisecond
}

// attempts is a number of attempts as scripts take it: what has more than 15 digits is no number for them.
func attempts(n int) int64 { return max(0, min(int64(n), 999_999_999_999_999)) }

// Sweep returns what consumers without a lease still hold: to the head of the queue, or,
// where a crash is charged, after a short delay, or to the dead letters when the crashes are used
// up. One call looks at a bounded number of consumers and entries.
func (l *List) Sweep(ctx context.Context) (Swept, error) {
	_, answer, err := l.run(ctx, l.redis.commands, l.scripts.sweep,
		l.opts.MaxCrashes, l.opts.MaxDead, l.opts.MaxCorrupt, l.opts.MaxCompleted, returnStep, sweepMembers,
		l.cursor.Load(), l.keys.processingPattern, searchStep, unknownLease)
	if err != nil {
		return Swept{}, err
	}
	swept := answer.swept()
	if cursor := answer.text(); cursor != "" {
		l.cursor.Store(cursor)
	}
	_ = answer.int() // registered; it is counted
	swept.Ended = int(answer.int())
	return swept, nil
}

// Stats reads sizes and counters, all of one instant. Claims are those of the first 1,000
// registered consumers.
func (l *List) Stats(ctx context.Context) (Stats, error) {
	_, answer, err := l.run(ctx, l.redis.commands, l.scripts.stats, statsMembers)
	if err != nil {
		return Stats{}, err
	}
	limits, by := answer.limits()
	stats := answer.stats()
	stats.Limits, stats.LimitedBy = limits, by
	return stats, nil
}

var _ FollowEngine = (*List)(nil)
