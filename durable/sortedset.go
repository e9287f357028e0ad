package durable

import (
	"context"
	"fmt"
	"time"
)

// SortedSetOptions bound a sorted-set queue, and say how far priority goes. The zero value of each field means its
// default; negative values are refused by name. Everybody who uses a queue should set the same.
type SortedSetOptions struct {
	// Prefix is what every key of the queue begins with, literally. On a cluster it needs a
	// hash tag. Default "{<name>}:".
	Prefix string
	// MaxBacklog bounds pending plus scheduled jobs, as in ListOptions. Default 100,000.
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
	// Ageing keeps low priorities from starving: a job is overtaken by one whose priority is higher by one if that
	// came at most so much later, by one whose priority is higher by two if it came at most twice as much later, and so on.
	// From a microsecond to 8,784 hours. Default 8,784 hours, a year: a higher priority always comes first, in practice.
	Ageing time.Duration
}

// maxAgeing is long enough to stand for ever, and short enough for every score to be exact.
const maxAgeing = 366 * 24 * time.Hour

// ageing is the option with its default, or an error.
func ageing(options string, d time.Duration) (time.Duration, error) {
	switch {
	case d == 0:
		return maxAgeing, nil
	case d < 0:
		return maxAgeing, fmt.Errorf("durable: %s.Ageing is %v, must not be negative", options, d)
	case d < time.Microsecond, d > maxAgeing:
		return maxAgeing, fmt.Errorf("durable: %s.Ageing is %v, must be from 1µs to %v", options, d, maxAgeing)
	}
	return d, nil
}

// SortedSet is a queue with priorities: an Engine like List, with the same keys, but that the IDs of the jobs that
// wait are in a sorted set. Jobs of one priority are claimed in the order of their arrival; what is released or returned
// comes back to its old place. Make one with Redis.SortedSet; several with the same prefix are the same queue. It
// is safe for concurrent use.
type SortedSet struct {
	queue *List // which asks the scripts for a sorted set
}

// SortedSet makes a handle of the queue name. Nil options mean the defaults. It does not touch
// the network; a bad name or option is reported by Info, and by every call.
func (r *Redis) SortedSet(name string, opts *SortedSetOptions) *SortedSet {
	if opts == nil {
		opts = &SortedSetOptions{}
	}
	const options = "SortedSetOptions"
	q := newList(r, name, options, ListOptions{
		Prefix: opts.Prefix, MaxBacklog: opts.MaxBacklog, MaxCrashes: opts.MaxCrashes, MaxDead: opts.MaxDead,
		MaxCorrupt: opts.MaxCorrupt, MaxCompleted: opts.MaxCompleted,
	})
	q.keys, q.scripts = newSortedSetKeys(q.opts.Prefix), sortedSetScripts
	step, err := ageing(options, opts.Ageing)
	if q.bad == nil {
		q.bad = err
	}
	q.step = step
	return &SortedSet{queue: q}
}

// Info tells the name and the bound, and the error of a bad name or option.
func (s *SortedSet) Info() (Info, error) { return s.queue.Info() }

// Check asks the server whether the queue can run on it; see List.Check.
func (s *SortedSet) Check(ctx context.Context) error { return s.queue.Check(ctx) }

// Inspect is Check, and returns besides what is doubtful but usable.
func (s *SortedSet) Inspect(ctx context.Context) (CheckWarnings, error) { return s.queue.Inspect(ctx) }

// OpenProducer obtains an identity for appending.
func (s *SortedSet) OpenProducer(ctx context.Context) (Producer, error) {
	return s.queue.OpenProducer(ctx)
}

// OpenConsumer obtains an identity for claiming, with a lease that ends that long from now.
func (s *SortedSet) OpenConsumer(ctx context.Context, lease time.Duration) (Consumer, error) {
	return s.queue.OpenConsumer(ctx, lease)
}

// Sweep returns what consumers without a lease still hold: to its old place, or, where a crash is charged, after
// a short delay, or to the dead letters when the crashes are used up. One call looks at a bounded number of
// consumers and entries.
func (s *SortedSet) Sweep(ctx context.Context) (Swept, error) { return s.queue.Sweep(ctx) }

// Stats reads sizes and counters, all of one instant. Claims are those of the first 1,000
// registered consumers.
func (s *SortedSet) Stats(ctx context.Context) (Stats, error) { return s.queue.Stats(ctx) }

// Close lets go of the store's client, which closes with the last queue that uses it. It
// waits for an Await that was given up, at most about a second. Nothing durable changes, a later
// call connects anew, and it is idempotent.
func (s *SortedSet) Close() error { return s.queue.Close() }

// Lookup tells all that is known of one job, of one instant; ErrNoJob if there is none.
func (s *SortedSet) Lookup(ctx context.Context, r LookupRequest) (Record, error) {
	return s.queue.Lookup(ctx, r)
}

// Jobs shows one page of the jobs in one state; see Operator. Those that wait come in the order in which they
// are claimed.
func (s *SortedSet) Jobs(ctx context.Context, r JobsRequest) (JobPage, error) {
	return s.queue.Jobs(ctx, r)
}

// Redrive sends dead jobs back to the queue, behind all others of their priority; see Operator.
func (s *SortedSet) Redrive(ctx context.Context, sel Selection) (Handled, error) {
	return s.queue.Redrive(ctx, sel)
}

// Discard deletes dead jobs for good.
func (s *SortedSet) Discard(ctx context.Context, sel Selection) (Handled, error) {
	return s.queue.Discard(ctx, sel)
}

// Pause stops what sides names until Resume, for all processes. by is required; 256 bytes of it are kept.
func (s *SortedSet) Pause(ctx context.Context, sides Side, by string) error {
	return s.queue.Pause(ctx, sides, by)
}

// Resume lets what sides names go on.
func (s *SortedSet) Resume(ctx context.Context, sides Side) error { return s.queue.Resume(ctx, sides) }

// Purge deletes jobs by their state, at most 500 entries a step.
func (s *SortedSet) Purge(ctx context.Context, r PurgeRequest) (Purged, error) {
	return s.queue.Purge(ctx, r)
}

// OpenFollower obtains an identity for following; see List.OpenFollower.
func (s *SortedSet) OpenFollower(ctx context.Context) (Follower, error) {
	return s.queue.OpenFollower(ctx)
}

// Cancel ends a job that waits, and asks for the end of one that is claimed; see Operator.
func (s *SortedSet) Cancel(ctx context.Context, r CancelRequest) (Cancelled, error) {
	return s.queue.Cancel(ctx, r)
}

// SetLimits sets what all processes together may claim; see Operator.
func (s *SortedSet) SetLimits(ctx context.Context, l Limits, by string) error {
	return s.queue.SetLimits(ctx, l, by)
}

// ACLRule is the line of an ACL file, or the arguments of ACL SETUSER, that gives user exactly
// what this queue needs; see List.ACLRule.
func (s *SortedSet) ACLRule(user string) string { return s.queue.ACLRule(user) }

var (
	_ FollowEngine = (*SortedSet)(nil)
	_ Operator     = (*SortedSet)(nil)
	_ Inspector    = (*SortedSet)(nil)
)
