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

	await lane // of this queue's Await, which keeps its place until the command ends

	mu    sync.Mutex // guards wider
	wider *gate      // the gate that already has a place for this queue's Await
}

// close lets go of the store's client, and waits for an Await that was given up.
func (q *queue) close() error {
	err := q.redis.drop(q)
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if q.await.enter(ctx) == nil {
		q.await.leave()
	}
	return err
}

// bound gives ctx the deadline of one exchange, unless it has an earlier one.
func (q *queue) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, q.redis.opts.Timeout)
}

// send executes a script in a lane and takes the code off its answer. Codes that mean the
// same in every script come back as errors.
func (q *queue) send(ctx context.Context, in lane, s *script, keys []string, args []any) (code string, answer reply, err error) {
	if err := q.ready(ctx); err != nil {
		return "", nil, failed(q.name, s.verb, ErrNotExecuted, err)
	}
	ctx, cancel := q.bound(ctx)
	defer cancel()
	if err := in.enter(ctx); err != nil {
		return "", nil, failed(q.name, s.verb, ErrNotExecuted, err)
	}
	defer in.leave()
	client, _ := q.redis.hold(q)
	got, err := q.redis.exec(ctx, client, s, keys, args)
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

// hold is the client as Await uses it, with a place for its connection.
func (q *queue) hold() redis.UniversalClient {
	client, gate := q.redis.hold(q)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.wider != gate {
		gate.widen()
		q.wider = gate
	}
	return client
}
