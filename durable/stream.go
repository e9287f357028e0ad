package durable

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// StreamOptions bound a stream queue. The zero value of each field means its default;
// negative values are refused by name. Everybody who uses a queue should set the same.
type StreamOptions struct {
	// Prefix is what every key of the queue begins with, literally. On a cluster it needs a
	// hash tag. Default "{<name>}:".
	Prefix string
	// Group is the consumer group that this handle's consumers belong to. Each group gets every
	// job, and an entry stays until all are done with it. Default "weir".
	Group string
	// MaxBacklog bounds what waits, of the group that is furthest behind: an append stores what there
	// is room for, and nothing is ever trimmed to make room. What comes back (retries, releases,
	// recoveries) and what foreign producers add is not refused. Default 100,000.
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
	// MaxIdle is how long a consumer without a lease (a foreign one, that reads the group by
	// itself) may leave an entry unacknowledged before it is taken from it. Whole milliseconds; default one minute.
	MaxIdle time.Duration
}

// DefaultGroup is the consumer group of a Stream that names none.
const DefaultGroup = "weir"

const (
	defaultMaxIdle = time.Minute
	maxGroupBytes  = 128
	adoptStep      = 64 // pending entries that one sweep looks at, whosever they are
)

func (o *StreamOptions) validate() error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"MaxBacklog", o.MaxBacklog},
		{"MaxCrashes", int64(o.MaxCrashes)},
		{"MaxDead", o.MaxDead},
		{"MaxCorrupt", o.MaxCorrupt},
		{"MaxCompleted", o.MaxCompleted},
		{"MaxIdle", int64(o.MaxIdle)},
	} {
		if f.value < 0 {
			return fmt.Errorf("durable: StreamOptions.%s is %d, must not be negative", f.name, f.value)
		}
	}
	switch {
	case len(o.Prefix) > maxPrefixBytes:
		return fmt.Errorf("durable: StreamOptions.Prefix has %d bytes, at most %d are possible", len(o.Prefix), maxPrefixBytes)
	case len(o.Group) > maxGroupBytes:
		return fmt.Errorf("durable: StreamOptions.Group has %d bytes, at most %d are possible", len(o.Group), maxGroupBytes)
	case strings.ContainsFunc(o.Group, func(c rune) bool { return c <= ' ' || c == 0x7f || c == '@' }):
		return fmt.Errorf("durable: StreamOptions.Group %q has a space, an @ or a control character in it", o.Group)
	}
	return nil
}

// withDefaults fills in what was left zero.
func (o StreamOptions) withDefaults(name string) StreamOptions {
	if o.Prefix == "" {
		o.Prefix = "{" + name + "}:"
	}
	if o.Group == "" {
		o.Group = DefaultGroup
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
	if o.MaxIdle == 0 {
		o.MaxIdle = defaultMaxIdle
	}
	return o
}

// Stream is a queue in a Redis stream with consumer groups: an Engine with the keys that the package
// comment shows, so that any language can enqueue with one XADD, and several groups can each do all the
// jobs. Make one with Redis.Stream; several with the same prefix are the same queue. It is safe for
// concurrent use.
type Stream struct {
	queue
	opts StreamOptions
	keys *streamKeys

	cursor atomic.Value // string: where XAUTOCLAIM goes on
	scan   atomic.Value // string: where the search for records without an entry goes on
}

// Stream makes a handle of the queue name. Nil options mean the defaults. It does not touch
// the network; a bad name or option is reported by Info, and by every call. It needs Redis 7.0.
func (r *Redis) Stream(name string, opts *StreamOptions) *Stream {
	s := &Stream{queue: newQueue(r, name)}
	s.cursor.Store("0-0")
	s.scan.Store("0")
	if opts != nil {
		s.opts = *opts
	}
	s.bad = validateName(name)
	if s.bad == nil {
		s.bad = s.opts.validate()
	}
	s.opts = s.opts.withDefaults(name)
	if s.bad == nil && r.cluster && !hasHashTag(s.opts.Prefix) {
		s.bad = fmt.Errorf("durable: StreamOptions.Prefix %q has no hash tag in braces, which a cluster needs", s.opts.Prefix)
	}
	s.keys = newStreamKeys(s.opts.Prefix, s.opts.Group)
	return s
}

// Info tells the name and the bound, and the error of a bad name or option.
func (s *Stream) Info() (Info, error) {
	return Info{Name: s.name, MaxBacklog: s.opts.MaxBacklog, Replicas: s.redis.opts.Replicas, Capabilities: s.capabilities()}, s.bad
}

func (s *Stream) capabilities() Capabilities {
	return Capabilities{
		FIFO: true, ReturnsFirst: true, Delay: true, Retention: true, FanOut: true, Expiry: true, Cancel: true, Results: true, Unique: true, Follow: true,
	}
}

// Close lets go of the store's client, which closes with the last queue that uses it. It
// waits for an Await that was given up, at most about a second. Nothing durable changes, a later
// call connects anew, and it is idempotent.
func (s *Stream) Close() error { return s.close() }

// run executes a script in a lane; see send.
func (s *Stream) run(ctx context.Context, in *lane, what *script, args ...any) (code string, answer reply, err error) {
	head := []any{what.verb, s.keys.prefix, wireVersion}
	if what != streamScripts.probe { // which is the list engine's
		head = append(head, s.opts.Group)
	}
	return s.send(ctx, in, what, s.keys.fixed, append(head, args...))
}

// Sweep returns what consumers without a lease still hold: to the head of the queue, or,
// where a crash is charged, after a short delay, or to the dead letters when the crashes are used
// up. Entries that are pending for consumers that nobody knows are found by XAUTOCLAIM, a step of
// it with each sweep, from the beginning to the end. One call looks at a bounded number of consumers and
// entries. It is for this handle's group alone.
func (s *Stream) Sweep(ctx context.Context) (Swept, error) {
	_, answer, err := s.run(ctx, s.redis.commands, streamScripts.sweep,
		s.opts.MaxCrashes, s.opts.MaxDead, s.opts.MaxCorrupt, s.opts.MaxCompleted, returnStep, sweepMembers,
		s.cursor.Load(), s.scan.Load(), s.keys.jobs, millis(s.opts.MaxIdle), adoptStep, unknownLease)
	if err != nil {
		return Swept{}, err
	}
	swept := answer.swept()
	s.cursor.Store(answer.text())
	s.scan.Store(answer.text())
	swept.Ended = int(answer.int())
	return swept, nil
}

// Unknown is a size that the store does not know.
const Unknown = -1

// Stats reads sizes and counters of this handle's group, all of one instant. Pending is Unknown where
// there are several groups and Redis does not know the lag of this one, as after entries were deleted that it
// had not read.
func (s *Stream) Stats(ctx context.Context) (Stats, error) {
	_, answer, err := s.run(ctx, s.redis.commands, streamScripts.stats)
	if err != nil {
		return Stats{}, err
	}
	return answer.stats(), nil
}

// StreamGroup is one consumer group of the stream, as Redis sees it: foreign ones too.
type StreamGroup struct {
	Name      string
	Consumers int64
	Pending   int64 // entries given to a consumer and not acknowledged, those that wait for a retry included
	Lag       int64 // entries not given to anybody yet, by Redis's reckoning; Unknown where it has none
	// LastDelivered is the ID of the last entry that was given to the group.
	LastDelivered string
}

// Groups tells what Redis knows of the groups of the stream; none before the first consumer was opened.
func (s *Stream) Groups(ctx context.Context) ([]StreamGroup, error) {
	_, answer, err := s.run(ctx, s.redis.commands, streamScripts.groups)
	if err != nil {
		return nil, err
	}
	var groups []StreamGroup
	for len(answer) > 0 {
		groups = append(groups, StreamGroup{
			Name: answer.text(), Consumers: answer.int(), Pending: answer.int(), Lag: answer.int(), LastDelivered: answer.text(),
		})
	}
	return groups, nil
}

var _ FollowEngine = (*Stream)(nil)
