package cron

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisNotesOptions configures RedisNotes. The zero value of a field means its default; a negative one is refused by
// name.
type RedisNotesOptions struct {
	// Prefix is that of the queue's keys. "{<queue>}:".
	Prefix string
	// Keep is how long the note of a schedule that ticks no more is kept; longer than the time between two
	// ticks of any. 400 days, for those of every year.
	Keep time.Duration
}

const defaultKeep = 400 * 24 * time.Hour

// RedisNotes are notes in one key beside those of a queue, "{mail}:cron": a sorted set from the name of a
// schedule to its last tick, in ms. It holds as many members as there are schedules, and goes with the last of them.
type RedisNotes struct {
	rdb  redis.UniversalClient
	key  string
	keep time.Duration
}

// NewRedisNotes makes notes beside the queue of that name, or that with the prefix in opts. It does not touch
// the network, and rdb stays the caller's. The server must be 6.2 or newer; the commands are TIME, ZADD, ZMSCORE,
// ZREMRANGEBYSCORE and PEXPIRE.
func NewRedisNotes(rdb redis.UniversalClient, queue string, opts *RedisNotesOptions) (*RedisNotes, error) {
	var o RedisNotesOptions
	if opts != nil {
		o = *opts
	}
	switch {
	case rdb == nil:
		return nil, errors.New("cron: NewRedisNotes: the client is nil")
	case queue == "" && o.Prefix == "":
		return nil, errors.New("cron: NewRedisNotes: the name of the queue is empty")
	case o.Keep < 0:
		return nil, fmt.Errorf("cron: RedisNotesOptions.Keep is negative: %v", o.Keep)
	}
	if o.Prefix == "" {
		o.Prefix = "{" + queue + "}:"
	}
	return &RedisNotes{rdb: rdb, key: o.Prefix + "cron", keep: cmp.Or(o.Keep, defaultKeep)}, nil
}

// Now is the server's time; on a cluster that of any of its nodes.
func (n *RedisNotes) Now(ctx context.Context) (time.Time, error) {
	now, err := n.rdb.Time(ctx).Result()
	if err != nil {
		return time.Time{}, fmt.Errorf("cron: notes: time: %w", err)
	}
	return now, nil
}

// readStep is how many notes one command reads.
const readStep = 500

// Last reads notes.
func (n *RedisNotes) Last(ctx context.Context, names []string) (map[string]time.Time, error) {
	found := map[string]time.Time{}
	for len(names) > 0 {
		step := names[:min(readStep, len(names))]
		names = names[len(step):]
		args := append(make([]any, 0, 2+len(step)), "ZMSCORE", n.key)
		for _, name := range step {
			args = append(args, name)
		}
		scores, err := n.rdb.Do(ctx, args...).Slice()
		if err != nil {
			return nil, fmt.Errorf("cron: notes: read: %w", err)
		}
		for i, score := range scores {
			switch at := score.(type) { // RESP3 has numbers, RESP2 strings; nil is none
			case float64:
				found[step[i]] = time.UnixMilli(int64(at))
			case string:
				ms, err := strconv.ParseFloat(at, 64)
				if err != nil {
					return nil, fmt.Errorf("cron: notes: note of %q: %w", step[i], err)
				}
				found[step[i]] = time.UnixMilli(int64(ms))
			}
		}
	}
	return found, nil
}

// Note writes notes.
func (n *RedisNotes) Note(ctx context.Context, ticks map[string]time.Time) error {
	members := make([]redis.Z, 0, len(ticks))
	newest := time.Time{}
	for name, tick := range ticks {
		members = append(members, redis.Z{Score: float64(tick.UnixMilli()), Member: name})
		if tick.After(newest) {
			newest = tick
		}
	}
	if len(members) == 0 {
		return nil
	}
	_, err := n.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for len(members) > 0 {
			step := members[:min(readStep, len(members))]
			members = members[len(step):]
			p.ZAddArgs(ctx, n.key, redis.ZAddArgs{GT: true, Members: step})
		}
		old := newest.Add(-n.keep).UnixMilli()
		p.ZRemRangeByScore(ctx, n.key, "-inf", "("+strconv.FormatInt(old, 10))
		p.PExpire(ctx, n.key, n.keep)
		return nil
	})
	if err != nil {
		return fmt.Errorf("cron: notes: write: %w", err)
	}
	return nil
}
