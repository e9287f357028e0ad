package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// picture is all that a queue has in Redis, as any operator can see it. It is read key by key, so
// it is exact only while nothing moves.
type picture struct {
	engine   *engine
	prefix   string
	places   map[string][]string // by ID: the names of the lists and sets it is in, once for each entry
	hashes   map[string]map[string]string
	sizes    map[string]int // entries, by the name of a list or set
	counters map[string]int64
	leases   map[string]float64 // consumer → lease end, ms
	forever  []string           // keys that belong to no living thing and have no TTL
}

// count is how many IDs are in a place whose name begins so.
func (p *picture) count(place string) (n int) {
	for name, size := range p.sizes {
		if strings.HasPrefix(name, place) {
			n += size
		}
	}
	return n
}

// present is how many entries are on their way.
func (p *picture) present() int {
	return p.count("pending") + p.count("arriving") + p.count("scheduled") + p.count("processing:")
}

func prefixOf(queue string) string { return "{" + queue + "}:" }

// look takes a picture.
func look(ctx context.Context, rdb redis.UniversalClient, e *engine, queue string) (*picture, error) {
	p := &picture{
		engine: e, prefix: prefixOf(queue), places: map[string][]string{}, hashes: map[string]map[string]string{},
		sizes: map[string]int{}, counters: map[string]int64{}, leases: map[string]float64{},
	}
	keys, err := p.keys(ctx, rdb)
	if err != nil {
		return nil, err
	}
	for batch := range slices.Chunk(keys, 500) {
		if err := p.read(ctx, rdb, batch); err != nil {
			return nil, err
		}
	}
	if e.name == "stream" {
		return p, p.readStream(ctx, rdb)
	}
	return p, nil
}

func (p *picture) keys(ctx context.Context, rdb redis.UniversalClient) (keys []string, err error) {
	pattern := strings.NewReplacer("[", `\[`, "*", `\*`).Replace(p.prefix) + "*"
	var mu sync.Mutex // a cluster is asked node by node, all at once
	scan := func(ctx context.Context, c *redis.Client) error {
		it := c.Scan(ctx, 0, pattern, 5000).Iterator()
		for it.Next(ctx) {
			mu.Lock()
			keys = append(keys, it.Val())
			mu.Unlock()
		}
		return it.Err()
	}
	switch c := rdb.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(ctx, scan)
	case *redis.Client:
		err = scan(ctx, c)
	}
	slices.Sort(keys) // SCAN may name a key twice
	return slices.Compact(keys), err
}

// read takes a batch of keys into the picture.
func (p *picture) read(ctx context.Context, rdb redis.UniversalClient, keys []string) error {
	pipe := rdb.Pipeline()
	results := make([]redis.Cmder, len(keys))
	ttls := make([]*redis.DurationCmd, len(keys))
	for i, key := range keys {
		name := strings.TrimPrefix(key, p.prefix)
		switch {
		case strings.HasPrefix(name, "job:"), name == "counters", name == p.engine.counters:
			results[i] = pipe.HGetAll(ctx, key)
		case p.engine.name == "sortedset" && name == "pending":
			results[i] = pipe.ZRange(ctx, key, 0, -1)
		case p.engine.name == "stream" && (name == "dead" || name == "corrupt"):
		case name == "pending", name == "arriving", strings.HasPrefix(name, "processing:"):
			results[i] = pipe.LRange(ctx, key, 0, -1)
		case name == "scheduled", name == "dead", name == "corrupt", name == "completed":
			results[i] = pipe.ZRange(ctx, key, 0, -1)
		case name == "consumers":
			results[i] = pipe.ZRangeWithScores(ctx, key, 0, -1)
		case slices.Contains(p.engine.keys, name):
		default:
			ttls[i] = pipe.PTTL(ctx, key)
		}
	}
	if pipe.Len() == 0 {
		return nil
	}
	// A key that holds something else than it should is not ours, and not in the picture.
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return fmt.Errorf("picture: %w", err)
	}
	for i, key := range keys {
		name := strings.TrimPrefix(key, p.prefix)
		if results[i] != nil && results[i].Err() != nil {
			continue
		}
		switch r := results[i].(type) {
		case *redis.MapStringStringCmd:
			if id, ok := strings.CutPrefix(name, "job:"); ok {
				p.hashes[id] = r.Val()
				continue
			}
			for field, value := range r.Val() {
				var n int64
				_, _ = fmt.Sscan(value, &n)
				p.counters[field] = n
			}
		case *redis.StringSliceCmd:
			p.sizes[name] = len(r.Val())
			for _, id := range r.Val() {
				p.places[id] = append(p.places[id], name)
			}
		case *redis.ZSliceCmd:
			for _, z := range r.Val() {
				p.leases[fmt.Sprint(z.Member)] = z.Score
			}
		}
		if ttls[i] != nil && ttls[i].Val() == -1 { // for ever; -2 is gone meanwhile
			p.forever = append(p.forever, name)
		}
	}
	return nil
}

// look takes a picture that must succeed.
func (l *lab) look(rdb redis.UniversalClient, queue string) *picture {
	p, err := look(l.ctx, rdb, l.engine(), queue)
	l.must(err)
	return p
}

// load is how many entries are on their way, cheaply; -1 if Redis does not answer.
func (l *lab) load(rdb redis.UniversalClient, queue string) int64 {
	// Of one instant: a sweep moves what is claimed to what is scheduled.
	sum := `local p = KEYS[1]
		local total = ` + l.engine().load + `
		return total`
	ctx, cancel := context.WithTimeout(l.ctx, 5*time.Second)
	defer cancel()
	n, err := rdb.Do(ctx, "EVAL", sum, 1, prefixOf(queue)).Int64()
	if err != nil {
		return -1
	}
	return n
}

// counter reads one of the queue's counters; 0 if Redis does not answer.
func (l *lab) counter(rdb redis.UniversalClient, queue, name string) int64 {
	ctx, cancel := context.WithTimeout(l.ctx, 2*time.Second)
	defer cancel()
	n, _ := rdb.HGet(ctx, prefixOf(queue)+l.engine().counters, name).Int64()
	return n
}

// drained waits until nothing is on its way, and notes a breach if that does not come.
func (l *lab) drained(rdb redis.UniversalClient, queue string, limit time.Duration) bool {
	last := time.Now()
	ok := l.within(limit, func() bool {
		n := l.load(rdb, queue)
		if time.Since(last) > 2*time.Second {
			last = time.Now()
			l.say("%d on their way, %d completed", n, l.counter(rdb, queue, "completed"))
		}
		return n == 0
	})
	l.require(ok, "not drained within %v: %d are on their way", limit, l.load(rdb, queue))
	return ok
}

// untracked are the words for a server whose memory is compared. One that tracks latencies keeps a histogram of 24 KiB
// for each command from its first use on, and engines use commands late that they do not use early.
var untracked = []string{"--latency-tracking", "no"}

// memory is what Redis uses, with nothing of its clients'.
func (l *lab) memory(rdb redis.UniversalClient) int64 {
	info, err := rdb.Info(l.ctx, "memory").Result()
	l.must(err)
	var used, clients int64
	for line := range strings.Lines(info) {
		_, _ = fmt.Sscanf(line, "used_memory:%d", &used)
		_, _ = fmt.Sscanf(line, "mem_clients_normal:%d", &clients)
	}
	return used - clients
}
