package main

import (
	"context"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

var asynqPeer = implementation{
	name:   "asynq",
	module: "github.com/hibiken/asynq",
	config: "Concurrency = workers, TaskCheckInterval 10 ms (its default sleeps a second on an empty queue), one queue, LogLevel fatal; " +
		"connections for every worker and producer; everything else as it comes",
	open: func(e *env) (queue, error) {
		q := &asynqQueue{rdb: e.client()}
		q.client = asynq.NewClientFromRedisClient(q.rdb)
		return q, nil
	},
}

type asynqQueue struct {
	rdb    *redis.Client
	client *asynq.Client
}

func (q *asynqQueue) submit(ctx context.Context, payload []byte) error {
	return q.enqueue(ctx, payload)
}

func (q *asynqQueue) enqueue(ctx context.Context, payload []byte) error {
	_, err := q.client.EnqueueContext(ctx, asynq.NewTask("noop", payload))
	return err
}

func (q *asynqQueue) flush(context.Context) error { return nil }

func (q *asynqQueue) consume(_ context.Context, workers int, handle func([]byte)) error {
	server := asynq.NewServerFromRedisClient(q.rdb, asynq.Config{
		Concurrency: workers, TaskCheckInterval: 10 * time.Millisecond, LogLevel: asynq.FatalLevel,
	})
	return server.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		handle(t.Payload())
		return nil
	}))
}

func (q *asynqQueue) left(ctx context.Context, _ int64) (int64, error) {
	return lengths(ctx, q.rdb, "asynq:{default}:pending", "asynq:{default}:active")
}

// lengths is the sum of the lengths of lists.
func lengths(ctx context.Context, rdb *redis.Client, keys ...string) (sum int64, err error) {
	for _, key := range keys {
		n, err := rdb.LLen(ctx, key).Result()
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}
