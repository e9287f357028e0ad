package main

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// plainBatch is how many jobs go in one pipeline.
const plainBatch = 256

// inlineBacklog is what a standing backlog costs Redis itself where a job has no key of its own: a list of payloads.
func inlineBacklog(ctx context.Context, t *task) (*outcome, error) {
	payload := randomPayload(t.Load.Payload)
	return backlogOf(ctx, t, func(p redis.Pipeliner, _ string) {
		p.LPush(ctx, baselinePending, payload)
	})
}

// plainBacklog is the same with a hash for each job and a list of IDs.
func plainBacklog(ctx context.Context, t *task) (*outcome, error) {
	payload := randomPayload(t.Load.Payload)
	return backlogOf(ctx, t, func(p redis.Pipeliner, id string) {
		p.HSet(ctx, baselineJob+id, "payload", payload, "append", "1-x:1", "kind", "k")
		p.LPush(ctx, baselinePending, id)
	}, "hgetall", "del")
}

// backlogOf writes and takes jobs by plain commands in pipelines, the last ones for each that was taken. Each job that comes in is
// matched by one that goes out.
func backlogOf(ctx context.Context, t *task, write func(p redis.Pipeliner, id string), after ...string) (*outcome, error) {
	rdb := redis.NewClient(&redis.Options{Addr: t.Addr, PoolSize: 1})
	defer rdb.Close() //nolint:errcheck // nothing of it is kept
	last := 0
	add := func() error {
		_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for range plainBatch {
				last++
				write(p, strconv.Itoa(last))
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
		for _, command := range after {
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
