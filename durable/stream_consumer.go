package durable

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// streamConsumer is an identity that claims from a Stream.
type streamConsumer struct {
	stream *Stream
	id     string

	mu          sync.Mutex // guards what follows
	seen, woken string     // where the next Await begins: IDs in the stream, and in wake
}

// OpenConsumer obtains an identity for claiming, with a lease that ends that long from now. The group is
// made, at the beginning of the stream, if it is not there.
func (s *Stream) OpenConsumer(ctx context.Context, lease time.Duration) (Consumer, error) {
	if lease < millisecond {
		return nil, s.misuse("open", "the lease must be at least a millisecond")
	}
	id, err := s.open(ctx, "consumer", millis(lease))
	if err != nil {
		return nil, err
	}
	return &streamConsumer{stream: s, id: id, seen: "0-0", woken: "0-0"}, nil
}

func (c *streamConsumer) ID() string { return c.id }

// Claim takes at most 512 jobs, also where there are more slots. XREADGROUP is within the script, so
// that no entry is ever pending for a consumer without its stamp, lease and number.
func (c *streamConsumer) Claim(ctx context.Context, r ClaimRequest) (Claimed, error) {
	s := c.stream
	switch {
	case r.N == 0:
		return Claimed{}, s.misuse("claim", "numbers start at 1")
	case r.Slots < 1:
		return Claimed{}, s.misuse("claim", "Slots must be at least 1")
	}
	n := strconv.FormatUint(r.N, 10)
	named := -1
	if r.Named != nil {
		named = len(r.Named)
	}
	args := make([]any, 0, 9+2*len(r.Named))
	args = append(args, c.id, n, min(r.Slots, claimStep), r.MaxBytes, max(0, r.Held), s.opts.MaxCrashes,
		s.opts.MaxCorrupt, s.opts.MaxCompleted, named)
	for _, ref := range r.Named {
		args = append(args, ref.ID, ref.Token)
	}
	code, answer, err := s.run(ctx, s.redis.commands, streamScripts.claim, args...)
	if err != nil {
		return Claimed{}, err
	}
	c.note(answer.text(), answer.text())
	return answer.streamClaimed(code, c.id+":"+n)
}

// note keeps where the next Await begins; what is not known stays as it was.
func (c *streamConsumer) note(seen, woken string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if seen != "" {
		c.seen = seen
	}
	if woken != "" {
		c.woken = woken
	}
}

func (c *streamConsumer) noted() (seen, woken string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen, c.woken
}

func (c *streamConsumer) Settle(ctx context.Context, n uint64, outcomes []Outcome) (Settled, error) {
	s := c.stream
	if n == 0 {
		return Settled{}, s.misuse("settle", "numbers start at 1")
	}
	if err := checkOutcomes(s.name, outcomes, s.capabilities()); err != nil {
		return Settled{}, err
	}
	args := make([]any, 0, 5+8*len(outcomes))
	args = append(args, c.id, strconv.FormatUint(n, 10), s.opts.MaxDead, s.opts.MaxCompleted, len(outcomes))
	for i := range outcomes {
		o := &outcomes[i]
		switch o.Verdict {
		case Done, Retry, Snooze, Dead, Release:
		default:
			return Settled{}, s.misuse("settle", fmt.Sprintf("outcome %d has the unknown verdict %q", i, o.Verdict))
		}
		args = append(args, o.ID, o.Token, string(rune(o.Verdict)), millis(o.Delay), o.MaxAttempts, shorten(o.Reason), o.Result, millis(o.Retention))
	}
	_, answer, err := s.run(ctx, s.redis.commands, streamScripts.settle, args...)
	if err != nil {
		return Settled{}, err
	}
	return answer.settled(len(outcomes))
}

func (c *streamConsumer) Renew(ctx context.Context, lease time.Duration) error {
	s := c.stream
	if lease < millisecond {
		return s.misuse("renew", "the lease must be at least a millisecond")
	}
	_, _, err := s.run(ctx, s.redis.renewals, streamScripts.renew, c.id, millis(lease))
	return err
}

func (c *streamConsumer) Leave(ctx context.Context) (bool, error) {
	s := c.stream
	_, answer, err := s.run(ctx, s.redis.commands, streamScripts.leave,
		c.id, returnStep, s.opts.MaxCrashes, s.opts.MaxCorrupt)
	if err != nil {
		return false, err
	}
	return answer.int() == 1, nil
}

// Await parks in XREAD, which takes nothing: whatever becomes of it, nothing is lost or held. XREADGROUP
// would give an entry to a consumer that may be dead by then, and bring a consumer back that was removed. It
// looks past what the last claim has seen, in the stream and at the marker that whoever returns a job sets. Every
// waiting process wakes for every entry; all but one then claim in vain. A context that ends is
// heeded at once; the command, which cannot be called off, then ends by itself within Park, or when
// the client closes.
func (c *streamConsumer) Await(ctx context.Context) error {
	s := c.stream
	seen, woken := c.noted()
	return s.park(ctx, &s.await, func(ctx context.Context, client redis.UniversalClient) error {
		return once{redis.NewCmd(ctx, "xread", "count", 1, "block", int(Park/time.Millisecond),
			"streams", s.keys.stream, s.keys.wake, seen, woken)}.send(ctx, client)
	})
}
