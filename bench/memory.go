package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// memory fills a queue that nobody consumes, and looks at what Redis uses for it.
func memory(ctx context.Context, t *task) (*outcome, error) {
	rdb := redis.NewClient(&redis.Options{Addr: t.Addr, PoolSize: 1})
	defer rdb.Close() //nolint:errcheck // nothing of it is kept
	q, err := openQueue(t)
	if err != nil {
		return nil, err
	}
	const first = 100 // makes what is there once and for all: scripts, connections, registers
	if err := fill(ctx, q, t.Load.Payload, first); err != nil {
		return nil, err
	}
	before, err := settledMemory(ctx, rdb)
	if err != nil {
		return nil, err
	}
	if err := fill(ctx, q, t.Load.Payload, t.Load.Jobs); err != nil {
		return nil, err
	}
	after, err := settledMemory(ctx, rdb)
	if err != nil {
		return nil, err
	}
	o := &outcome{Jobs: t.Load.Jobs, Seconds: 1}
	o.set("bytes/job", (after-before)/float64(t.Load.Jobs))
	return o, nil
}

// settledMemory is the least that Redis uses within a second: a table that is being resized is there twice.
func settledMemory(ctx context.Context, rdb *redis.Client) (float64, error) {
	least := math.Inf(1)
	for range 10 {
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return 0, err
		}
		used, err := usedMemory(ctx, rdb)
		if err != nil {
			return 0, err
		}
		least = min(least, used)
	}
	return least, nil
}

// usedMemory is what Redis uses, without its clients.
func usedMemory(ctx context.Context, rdb *redis.Client) (float64, error) {
	info, err := rdb.Info(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	var used, clients float64
	for line := range strings.Lines(info) {
		_, _ = fmt.Sscanf(line, "used_memory:%g", &used)
		_, _ = fmt.Sscanf(line, "mem_clients_normal:%g", &clients)
	}
	return used - clients, nil
}
