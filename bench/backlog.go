package main

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// plainBatch is how many jobs go in one pipeline.
const plainBatch = 256

// plainBacklog is what a standing backlog costs Redis itself: a hash for each job and a list of IDs, written and taken by plain
// commands in pipelines. Each job that comes in is matched by one that goes out.
func plainBacklog(ctx context.Context, t *task) (*outcome, error) {
	rdb := redis.NewClient(&redis.Options{Addr: t.Addr, PoolSize: 1})
	defer rdb.Close() //nolint:errcheck // nothing of it is kept
	payload, last := randomPayload(t.Load.Payload), 0
	add := func() error {
		_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for range plainBatch {
				last++
				id := strconv.Itoa(last)
				p.HSet(ctx, baselineJob+id, "payload", payload, "append", "1-x:1", "kind", "k")
				p.LPush(ctx, baselinePending, id)
			}
			return nil
		})
		return err
	}
	for last < t.Load.Backlog {
		if err := add(); err != nil {
			return nil, err
		}
	}
	m, err := newMeter(ctx, t)
	if err != nil {
		return nil, err
	}
	jobs := 0
	for ; jobs < t.Load.Jobs; jobs += plainBatch {
		if err := add(); err != nil {
			return nil, err
		}
		ids, err := rdb.RPopCount(ctx, baselinePending, plainBatch).Result()
		if err != nil {
			return nil, err
		}
		for _, command := range []string{"hgetall", "del"} {
			if _, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
				for _, id := range ids {
					p.Do(ctx, command, baselineJob+id)
				}
				return nil
			}); err != nil {
				return nil, err
			}
		}
	}
	return m.stop(ctx, jobs)
}
