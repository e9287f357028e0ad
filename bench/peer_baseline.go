package main

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// The obvious implementation: a hash for each job, a list of IDs, one round trip for each step. It has
// the weaknesses that docs/blmove.md tells of; it is here as the speed of what one would write.
var baselinePeer = implementation{
	name:   "baseline",
	module: "github.com/redis/go-redis/v9",
	config: "one round trip per step: HSET + LPUSH to enqueue, BLMOVE to take, HSET + HGET to stamp and read, a script to complete; " +
		"a connection for every worker and producer",
	open: func(e *env) (queue, error) { return &baseline{rdb: e.client()}, nil },
}

const (
	baselinePending    = "{base}:pending"
	baselineProcessing = "{base}:processing:"
	baselineJob        = "{base}:job:"
)

// complete removes a job if the claim is still the worker's.
//
//nolint:forbidigo // it is what one would write oneself
var complete = redis.NewScript(`
if redis.call('HGET', KEYS[2], 'token') ~= ARGV[2] then return 0 end
redis.call('LREM', KEYS[1], 1, ARGV[1])
redis.call('DEL', KEYS[2])
return 1`)

type baseline struct {
	rdb  *redis.Client
	last atomic.Int64
}

func (b *baseline) submit(ctx context.Context, payload []byte) error { return b.enqueue(ctx, payload) }

func (b *baseline) enqueue(ctx context.Context, payload []byte) error {
	id := strconv.FormatInt(b.last.Add(1), 10)
	_, err := b.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, baselineJob+id, "payload", payload, "status", "pending", "attempts", 0)
		p.LPush(ctx, baselinePending, id)
		return nil
	})
	return err
}

func (b *baseline) flush(context.Context) error { return nil }

func (b *baseline) consume(ctx context.Context, workers int, handle func([]byte)) error {
	for i := range workers {
		go func() {
			if err := b.work(ctx, strconv.Itoa(i), handle); err != nil && ctx.Err() == nil {
				panic(err) // nothing that is measured afterwards would mean anything
			}
		}()
	}
	return nil
}

func (b *baseline) work(ctx context.Context, name string, handle func([]byte)) error {
	mine := baselineProcessing + name
	for n := 0; ctx.Err() == nil; n++ {
		id, err := b.rdb.BLMove(ctx, baselinePending, mine, "RIGHT", "LEFT", time.Second).Result()
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			return err
		}
		key, token := baselineJob+id, name+":"+strconv.Itoa(n)
		pipe := b.rdb.Pipeline()
		pipe.HSet(ctx, key, "status", "processing", "token", token)
		payload := pipe.HGet(ctx, key, "payload")
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		body, err := payload.Bytes()
		if err != nil {
			return err
		}
		handle(body)
		if err := complete.Run(ctx, b.rdb, []string{mine, key}, id, token).Err(); err != nil {
			return err
		}
	}
	return nil
}

func (b *baseline) left(ctx context.Context, _ int64) (int64, error) {
	keys, err := b.rdb.Keys(ctx, baselineProcessing+"*").Result()
	if err != nil {
		return 0, err
	}
	return lengths(ctx, b.rdb, append(keys, baselinePending)...)
}
