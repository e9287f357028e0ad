package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
)

// engine is what is tortured. All keep one contract; what an operator sees of them differs.
type engine struct {
	name     string
	wait     string   // the command in which a worker waits
	waitKey  string   // on which it does
	counters string   // the key of the accounting
	keys     []string // all that have a name of their own, apart from completed
	seeds    seeds    // of E24
	suspects string   // of E22: of the jobs that consumer c holds, n are suspects
	load     string   // how many are on their way, in Lua
	open     func(store *durable.Redis, name string, o *durable.ListOptions) tortured
}

// tortured is a queue of any engine.
type tortured interface {
	durable.Engine
	ACLRule(user string) string
}

// engines are those of -engine; the first is the default.
var engines = []*engine{
	{
		name: "list", wait: "blmove", waitKey: "pending", counters: "counters",
		keys:     []string{"pending", "arriving", "scheduled", "dead", "corrupt", "reasons", "consumers", "counters", "meta"},
		seeds:    listSeeds(`redis.call('LPUSH', p .. 'pending', id)`),
		suspects: listSuspects,
		load:     `redis.call('LLEN', p .. 'pending') + redis.call('LLEN', p .. 'arriving')` + listHeld,
		open: func(store *durable.Redis, name string, o *durable.ListOptions) tortured {
			return store.List(name, o)
		},
	},
	{
		name: "stream", wait: "xread", waitKey: "stream", counters: "accounts",
		keys: []string{
			"stream", "scheduled", "returned", "retries", "dead", "corrupt", "wake", "consumers", "accounts", "counters", "meta",
		},
		seeds:    streamSeeds,
		suspects: streamSuspects,
		load:     `redis.call('XLEN', p .. 'stream') + redis.call('ZCARD', p .. 'scheduled')`,
		open: func(store *durable.Redis, name string, o *durable.ListOptions) tortured {
			return store.Stream(name, &durable.StreamOptions{
				Prefix: o.Prefix, MaxBacklog: o.MaxBacklog, MaxCrashes: o.MaxCrashes, MaxDead: o.MaxDead,
				MaxCorrupt: o.MaxCorrupt, MaxCompleted: o.MaxCompleted,
			})
		},
	},
	{
		name: "sortedset", wait: "blpop", waitKey: "wake", counters: "counters",
		keys:     []string{"pending", "wake", "scheduled", "dead", "corrupt", "reasons", "consumers", "counters", "meta"},
		seeds:    listSeeds(`redis.call('ZADD', p .. 'pending', i, id)`),
		suspects: listSuspects,
		load:     `redis.call('ZCARD', p .. 'pending')` + listHeld,
		open: func(store *durable.Redis, name string, o *durable.ListOptions) tortured {
			return store.SortedSet(name, &durable.SortedSetOptions{
				Prefix: o.Prefix, MaxBacklog: o.MaxBacklog, MaxCrashes: o.MaxCrashes, MaxDead: o.MaxDead,
				MaxCorrupt: o.MaxCorrupt, MaxCompleted: o.MaxCompleted,
			})
		},
	},
}

// engineNamed is that engine; nil if there is none.
func engineNamed(name string) *engine {
	for _, e := range engines {
		if e.name == name {
			return e
		}
	}
	return nil
}

// engine is the one that this experiment tortures.
func (l *lab) engine() *engine {
	if e := engineNamed(l.set.engine); e != nil {
		return e
	}
	return engines[0]
}

// open makes a queue.
func (l *lab) open(store *durable.Redis) tortured {
	return l.engine().open(store, l.name, &durable.ListOptions{})
}

// enqueue adds an entry as another language does, and the hash of its job if there are fields.
func (e *engine) enqueue(ctx context.Context, pipe redis.Pipeliner, prefix, id string, fields ...any) {
	if len(fields) > 0 {
		pipe.HSet(ctx, prefix+"job:"+id, fields...)
	}
	switch e.name {
	case "stream": // of ours, as only those can lack their record
		pipe.XAdd(ctx, &redis.XAddArgs{Stream: prefix + "stream", Values: []string{"id", id, "kind", drill, "payload", "{}", "append", "0-gone:1:0"}})
	case "sortedset":
		pipe.ZAdd(ctx, prefix+"pending", redis.Z{Score: float64(time.Now().UnixMicro()), Member: id})
		pipe.LPush(ctx, prefix+"wake", 1)
	default:
		pipe.LPush(ctx, prefix+"pending", id)
	}
}

// waiting are the IDs that wait to be claimed, once for each entry, of one instant.
func (l *lab) waiting(rdb *redis.Client) (ids []string) {
	var err error
	prefix := prefixOf(l.name)
	switch l.engine().name {
	case "stream":
		var entries []redis.XMessage
		entries, err = rdb.XRange(l.ctx, prefix+"stream", "-", "+").Result()
		for _, m := range entries {
			ids = append(ids, fmt.Sprint(m.Values["id"]))
		}
	case "sortedset":
		ids, err = rdb.ZRange(l.ctx, prefix+"pending", 0, -1).Result()
	default:
		ids, err = rdb.LRange(l.ctx, prefix+"pending", 0, -1).Result()
	}
	l.must(err)
	return ids
}

// holds tells whether a consumer holds anything.
func (l *lab) holds(rdb redis.UniversalClient, consumer string) (bool, error) {
	prefix := prefixOf(l.name)
	if l.engine().name != "stream" {
		n, err := rdb.LLen(l.ctx, prefix+"processing:"+consumer).Result()
		return n > 0, err
	}
	entries, err := rdb.XPendingExt(l.ctx, &redis.XPendingExtArgs{
		Stream: prefix + "stream", Group: durable.DefaultGroup, Start: "-", End: "+", Count: 1, Consumer: consumer,
	}).Result()
	return len(entries) > 0, err
}

// seeds are Lua that makes the job id, number i, with a hash at p .. 'job:' .. id: ready, due at ARGV[5], and
// held by 0-dead.
type seeds struct{ ready, due, held string }

func listSeeds(ready string) seeds {
	const job = `redis.call('HSET', p .. 'job:' .. id, 'payload', 'x', 'attempts', 0, 'status', `
	return seeds{
		ready: job + `'pending') ` + ready,
		due:   job + `'scheduled') redis.call('ZADD', p .. 'scheduled', ARGV[5], id)`,
		held: job + `'processing', 'claim_token', '0-dead:1', 'deliveries', 1)
			redis.call('LPUSH', p .. 'processing:0-dead', id)`,
	}
}

var streamSeeds = seeds{
	ready: `local e = redis.call('XADD', p .. 'stream', '*', 'id', id, 'kind', '', 'payload', 'x', 'append', '0-seed:1:' .. i)
		redis.call('HSET', p .. 'job:' .. id, 'append', '0-seed:1:' .. i, 'entry', e)`,
	due: `redis.call('ZADD', p .. 'scheduled', ARGV[5], id)
		redis.call('HSET', p .. 'job:' .. id, 'append', '0-seed:1:' .. i, 'delayed', 1, 'kind', '', 'payload', 'x')`,
	held: `redis.pcall('XGROUP', 'CREATE', p .. 'stream', 'weir', '0', 'MKSTREAM')
		local e = redis.call('XADD', p .. 'stream', '*', 'id', id, 'kind', '', 'payload', 'x', 'append', '0-seed:1:' .. i)
		redis.call('XREADGROUP', 'GROUP', 'weir', '0-dead', 'COUNT', 1, 'STREAMS', p .. 'stream', '>')
		redis.call('HSET', p .. 'job:' .. id, 'append', '0-seed:1:' .. i, 'entry', e, 'status', 'processing',
			'claim_token', '0-dead:1', 'deliveries', 1)`,
}

const (
	listHeld = `
		for _, c in ipairs(redis.call('ZRANGE', p .. 'consumers', 0, -1)) do
			total = total + redis.call('LLEN', p .. 'processing:' .. c)
		end
		total = total + redis.call('ZCARD', p .. 'scheduled')`
	listSuspects = `for _, id in ipairs(redis.call('LRANGE', p .. 'processing:' .. c, 0, -1)) do
			n = n + math.min(1, tonumber(redis.call('HGET', p .. 'job:' .. id, 'crashes') or 0))
		end`
	streamSuspects = `for _, one in ipairs(redis.call('XPENDING', p .. 'stream', 'weir', '-', '+', 1000, c)) do
			local got = redis.call('XRANGE', p .. 'stream', one[1], one[1])[1]
			local id = got and got[2][2] or ''
			n = n + math.min(1, tonumber(redis.call('HGET', p .. 'job:' .. id, 'crashes') or 0))
		end`
)
