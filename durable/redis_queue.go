package durable

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/go-redis/v9"
)

// queue is what a handle of a queue in Redis has, whatever keeps the jobs: its place at the store's client, and the way a
// script goes there.
type queue struct {
	redis *Redis
	name  string
	bad   error // of name and options

	await  parking // of Consumer.Await
	follow parking // of Follower.Await
}

// parking is where a command blocks: one at a time, which keeps its place until it ends, on a connection of its own.
type parking struct {
	*lane

	mu   sync.Mutex // guards gate
	gate *gate      // that already has a place for the connection
}

func newQueue(r *Redis, name string) queue {
	return queue{redis: r, name: name, await: parking{lane: newLane(awaitLane)}, follow: parking{lane: newLane(awaitLane)}}
}

// close lets go of the store's client, and waits for an Await that was given up.
func (q *queue) close() error {
	err := q.redis.drop(q)
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	for _, p := range []*parking{&q.await, &q.follow} {
		if p.enter(ctx) == nil {
			p.leave()
		}
	}
	return err
}

// bound gives ctx the deadline of one exchange, unless it has an earlier one.
func (q *queue) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, q.redis.opts.Timeout)
}

// send executes a script in a lane and takes the code off its answer. Codes that mean the
// same in every script come back as errors.
func (q *queue) send(ctx context.Context, in *lane, s *script, keys []string, args []any) (code string, answer reply, err error) {
	if err := q.ready(ctx); err != nil {
		return "", nil, failed(q.name, s.verb, ErrNotExecuted, err)
	}
	ctx, cancel := q.bound(ctx)
	defer cancel()
	got, err := q.exec(ctx, in, s, keys, args)
	if err != nil {
		return "", nil, classify(q.name, s.verb, err)
	}
	code, answer, err = decodeReply(got)
	if err == nil {
		err = answer.refusal(code)
	}
	if err != nil {
		return "", nil, failed(q.name, s.verb, err, nil)
	}
	return code, answer, nil
}

// ready refuses a call that cannot be executed.
func (q *queue) ready(ctx context.Context) error {
	if q.bad != nil {
		return q.bad
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// misuse is the answer to a request that no store could execute.
func (q *queue) misuse(op, what string) error {
	return failed(q.name, op, ErrNotExecuted, errors.New(what))
}

// park runs a command that blocks for Park at most. A context that ends is heeded at once; the command, which cannot be
// called off, then ends by itself, or when the client closes.
func (q *queue) park(ctx context.Context, in *parking, wait func(context.Context, redis.UniversalClient) error) error {
	if err := q.ready(ctx); err != nil {
		return failed(q.name, "await", ErrNotExecuted, err)
	}
	if err := in.enter(ctx); err != nil {
		return failed(q.name, "await", ErrNotExecuted, err)
	}
	client := q.hold(in)
	done := make(chan error, 1)
	go func() { // owned by the parking: Close waits for its place
		defer in.leave()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		err := wait(ctx, client)
		if err != nil && err != redis.Nil { //nolint:errorlint // Nil is returned as it is
			done <- classify(q.name, "await", err)
			return
		}
		done <- nil
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return failed(q.name, "await", ErrInDoubt, context.Cause(ctx))
	}
}

// hold is the client as a command that blocks uses it, with a place for its connection.
func (q *queue) hold(p *parking) redis.UniversalClient {
	client, gate := q.redis.hold(q)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gate != gate {
		gate.widen()
		p.gate = gate
	}
	return client
}
