package durable

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// listConsumer is an identity that claims from a List.
type listConsumer struct {
	list *List
	id   string
}

// OpenConsumer obtains an identity for claiming, with a lease that ends that long from now.
func (l *List) OpenConsumer(ctx context.Context, lease time.Duration) (Consumer, error) {
	if lease < millisecond {
		return nil, l.misuse("open", "the lease must be at least a millisecond")
	}
	id, err := l.open(ctx, "consumer", millis(lease))
	if err != nil {
		return nil, err
	}
	return &listConsumer{list: l, id: id}, nil
}

func (c *listConsumer) ID() string { return c.id }

// Claim takes at most 512 jobs, also where there are more slots.
func (c *listConsumer) Claim(ctx context.Context, r ClaimRequest) (Claimed, error) {
	l := c.list
	switch {
	case r.N == 0:
		return Claimed{}, l.misuse("claim", "numbers start at 1")
	case r.Slots < 1:
		return Claimed{}, l.misuse("claim", "Slots must be at least 1")
	}
	n := strconv.FormatUint(r.N, 10)
	named := -1
	if r.Named != nil {
		named = len(r.Named)
	}
	args := make([]any, 0, 9+2*len(r.Named))
	args = append(args, c.id, n, min(r.Slots, claimStep), r.MaxBytes, r.Held, l.opts.MaxCrashes, l.opts.MaxCorrupt, l.opts.MaxCompleted, named)
	for _, ref := range r.Named {
		args = append(args, ref.ID, ref.Token)
	}
	code, answer, err := l.run(ctx, l.redis.commands, l.scripts.claim, args...)
	if err != nil {
		return Claimed{}, err
	}
	return answer.claimed(code, c.id+":"+n)
}

func (c *listConsumer) Settle(ctx context.Context, n uint64, outcomes []Outcome) (Settled, error) {
	l := c.list
	if n == 0 {
		return Settled{}, l.misuse("settle", "numbers start at 1")
	}
	if err := checkOutcomes(l.name, outcomes, l.capabilities()); err != nil {
		return Settled{}, err
	}
	args := make([]any, 0, 8+len(outcomes))
	args = append(args, c.id, strconv.FormatUint(n, 10), l.opts.MaxDead, l.opts.MaxCompleted, 0)
	runs := len(args) - 1
	for rest := outcomes; len(rest) > 0; {
		o := &rest[0]
		switch o.Verdict {
		case Done, Retry, Snooze, Dead, Release:
		default:
			return Settled{}, l.misuse("settle", fmt.Sprintf("outcome %d has the unknown verdict %q", len(outcomes)-len(rest), o.Verdict))
		}
		k := alike(rest)
		verdict := string(rune(o.Verdict))
		if o.keeps() {
			verdict = doneAndKept
		}
		args = append(args, verdict, o.Token, k)
		for i := range rest[:k] {
			args = append(args, rest[i].ID)
			switch {
			case o.keeps():
				args = append(args, millis(rest[i].Retention), rest[i].Result)
			case o.Verdict != Done:
				args = append(args, millis(rest[i].Delay), rest[i].MaxAttempts, shorten(rest[i].Reason))
			}
		}
		rest = rest[k:]
		args[runs] = args[runs].(int) + 1
	}
	_, answer, err := l.run(ctx, l.redis.commands, l.scripts.settle, args...)
	if err != nil {
		return Settled{}, err
	}
	return answer.settled(len(outcomes))
}

// doneAndKept is the verdict of a script for Done with a result, or with a retention of its own.
const doneAndKept = "K"

func (o *Outcome) keeps() bool { return o.Verdict == Done && (len(o.Result) > 0 || o.Retention > 0) }

// alike is how many of the first outcomes have one verdict and one token, and are as long in a request.
func alike(outcomes []Outcome) int {
	first := &outcomes[0]
	for i := range outcomes {
		if o := &outcomes[i]; o.Verdict != first.Verdict || o.Token != first.Token || o.keeps() != first.keeps() {
			return i
		}
	}
	return len(outcomes)
}

// shorten cuts a reason to what is kept of it, at the border of a character.
func shorten(reason string) string {
	if len(reason) <= maxReason {
		return reason
	}
	return strings.ToValidUTF8(reason[:maxReason], "")
}

func (c *listConsumer) Renew(ctx context.Context, lease time.Duration) error {
	l := c.list
	if lease < millisecond {
		return l.misuse("renew", "the lease must be at least a millisecond")
	}
	_, _, err := l.run(ctx, l.redis.renewals, l.scripts.renew, c.id, millis(lease))
	return err
}

func (c *listConsumer) Leave(ctx context.Context) (bool, error) {
	l := c.list
	_, answer, err := l.run(ctx, l.redis.commands, l.scripts.leave,
		c.id, returnStep, l.opts.MaxCrashes, l.opts.MaxCorrupt)
	if err != nil {
		return false, err
	}
	return answer.int() == 1, nil
}

// Cancels tells which of its claims are asked to be cancelled.
func (c *listConsumer) Cancels(ctx context.Context) ([]Ref, error) {
	l := c.list
	_, answer, err := l.run(ctx, l.redis.commands, l.scripts.cancels, c.id)
	if err != nil {
		return nil, err
	}
	var refs []Ref
	for len(answer) > 1 {
		refs = append(refs, Ref{ID: answer.text(), Token: answer.text()})
	}
	return refs, nil
}

// Await parks in a command that moves an ID to where the next claim of anybody takes it from:
// whatever becomes of it, nothing is lost. A context that ends is heeded at once; the command,
// which cannot be called off, then ends by itself within Park, or when the client closes.
func (c *listConsumer) Await(ctx context.Context) error {
	l := c.list
	return l.park(ctx, &l.await, func(ctx context.Context, client redis.UniversalClient) error {
		return l.wait(ctx, client, l.keys.pending, l.keys.arriving, l.keys.wake, int(Park/time.Second))
	})
}

// move waits until there is an entry at the right of one list, and moves it to the left of the
// other. A server that does not know BLMOVE (before Redis 6.2) is asked for BRPOPLPUSH, which does the
// same, from then on; one that has forgotten it, for BLMOVE again. What is unknown was not executed.
func (l *List) move(ctx context.Context, client redis.UniversalClient, from, to string, seconds int) error {
	var err error
	for range 2 {
		old := l.older.Load()
		cmd := once{redis.NewCmd(ctx, "blmove", from, to, "right", "left", seconds)}
		if old {
			cmd = once{redis.NewCmd(ctx, "brpoplpush", from, to, seconds)}
		}
		if err = cmd.send(ctx, client); !unknown(err) {
			return err
		}
		l.older.CompareAndSwap(old, !old)
	}
	return err
}

// wait is the command of Await. In a sorted-set queue it takes the entry of wake, which is there when something
// may be claimed, and stands for nothing: see lua/zset_ready.lua.
func (l *List) wait(ctx context.Context, client redis.UniversalClient, from, to, wake string, seconds int) error {
	if l.step > 0 {
		return once{redis.NewCmd(ctx, "blpop", wake, seconds)}.send(ctx, client)
	}
	return l.move(ctx, client, from, to, seconds)
}

// waiter is the command with which Await waits, as far as is known.
func (l *List) waiter() string {
	switch {
	case l.step > 0:
		return "BLPOP"
	case l.older.Load():
		return "BRPOPLPUSH"
	}
	return "BLMOVE"
}

var _ Teller = (*listConsumer)(nil)
