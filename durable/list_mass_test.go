package durable_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

// seed makes jobs as another language would, where place puts them, ten thousand at a time.
func (b *bundle) seed(name string, n int, status, place string) {
	b.Helper()
	script := `local p = ARGV[1]
		for i = tonumber(ARGV[3]), tonumber(ARGV[4]) - 1 do
			local id = ARGV[2] .. '.' .. i
			redis.call('HSET', p .. 'job:' .. id, 'payload', 'x', 'status', ARGV[5], 'attempts', 0)
			` + place + `
		end return 1`
	for from := 0; from < n; from += 10_000 {
		if err := b.rdb.Do(b.ctx, "EVAL", script, 0, b.prefix, name, from, min(from+10_000, n), status).Err(); err != nil {
			b.Fatal(err)
		}
	}
}

// Story 32. A script of maintenance unpacked more than 8,000 elements, and so it failed exactly when most was to be done.
func TestCase32_MaintenanceFailsWhenMostIsDue(t *testing.T) {
	t.Parallel()
	const (
		n     = 100_000
		step  = 2_000 // what one call may move, at the very most; the engine's own bounds are smaller
		slots = 500
	)
	s := redistest.Start(t)
	b := setupListAt(t, s.Addr(), s.Client(t), "q", &durable.ListOptions{MaxBacklog: 10 * n, MaxDead: 10, MaxCompleted: 10})
	ctx, cancel := context.WithTimeout(t.Context(), 8*patience) // it is much
	t.Cleanup(cancel)
	b.ctx = ctx
	lost, w := b.worker(), b.worker()
	b.seed("due", n, "scheduled", `redis.call('ZADD', p .. 'scheduled', 1, id)`)
	b.seed("held", n, "processing", `redis.call('LPUSH', p .. 'processing:`+lost.ID()+`', id)
		redis.call('HSET', p .. 'job:' .. id, 'claim_token', '`+lost.ID()+`:1', 'deliveries', 1)`)
	b.seed("dead", n, "dead", `redis.call('ZADD', p .. 'dead', i, id)`)
	b.seed("over", n, "completed", `redis.call('ZADD', p .. 'completed', 1, id)`)
	b.seed("kept", n, "completed", `redis.call('ZADD', p .. 'completed', 9999999999999, id)`)
	b.seed("nobody", n/10, "", `redis.call('DEL', p .. 'job:' .. id) redis.call('ZADD', p .. 'consumers', 1, id)`)
	// Who died holds no suspect, and one has been charged: what it held comes back at once.
	b.rdb.HSet(b.ctx, b.key("sender:"+lost.ID()), "charge", "-")
	b.expire(lost)

	sizes := func() (all map[string]int64) {
		p := b.rdb.Pipeline()
		counts := map[string]*redis.IntCmd{
			"held": p.LLen(b.ctx, b.key("processing:"+lost.ID())),
		}
		for _, set := range []string{"scheduled", "dead", "completed", "consumers"} {
			counts[set] = p.ZCard(b.ctx, b.key(set))
		}
		if _, err := p.Exec(b.ctx); err != nil {
			t.Fatal(err)
		}
		all = map[string]int64{}
		for name, c := range counts {
			all[name] = c.Val()
		}
		return all
	}
	bounded := func(what string, before, after map[string]int64) {
		t.Helper()
		for name := range before {
			if moved := before[name] - after[name]; moved > step {
				t.Fatalf("one %s took %d of %s", what, moved, name)
			}
		}
	}

	before, sweeps := sizes(), 0
	for more := true; more || before["dead"] > 10 || before["completed"] > 10; sweeps++ {
		swept, err := b.list.Sweep(b.ctx)
		if err != nil {
			t.Fatalf("sweep %d of %v: %v", sweeps, before, err)
		}
		more = swept.More
		after := sizes()
		bounded("sweep", before, after)
		before = after
	}
	if before["held"] != 0 || before["consumers"] != 1 {
		t.Fatalf("after %d sweeps there are %v", sweeps, before)
	}
	if hashes := b.rdb.DBSize(b.ctx).Val(); hashes > 2*n+100 {
		t.Errorf("%d keys, of %d jobs", hashes, 2*n)
	}

	// All that is due is promoted, by claims that take little; then some take much, and the rest is purged.
	seen := map[string]bool{}
	for claims := 0; before["scheduled"] > 0 || claims < 420; claims++ {
		most := 1
		if before["scheduled"] == 0 {
			most = slots
		}
		c := w.claim(most)
		after := sizes()
		bounded("claim", before, after)
		before = after
		for _, job := range c.Jobs {
			if seen[job.ID] {
				t.Fatal(job.ID, "twice")
			}
			seen[job.ID] = true
		}
		if len(c.Jobs) > most || len(c.Jobs) == 0 {
			t.Fatalf("claim %d: %d jobs, status %c", claims, len(c.Jobs), c.Status)
		}
		if codes := w.settle(durable.Done, c.Jobs...); strings.Trim(codes, "O") != "" {
			t.Fatal(codes)
		}
	}
	purged := 0
	for r := (durable.PurgeRequest{Confirm: "q", States: []durable.State{durable.StatePending}}); ; {
		p, err := b.list.Purge(b.ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		if purged += p.Total(); p.Total() > step {
			t.Fatalf("one purge took %d", p.Total())
		}
		if r.Cursor = p.Cursor; r.Cursor == "" {
			break
		}
	}
	if len(seen)+purged != 2*n {
		t.Errorf("%d ran and %d were purged, of %d", len(seen), purged, 2*n)
	}
	b.places("0 0 0 10 0")
}

// Story 38. One batch of due jobs was lost with its poller, which had taken it out of one place and not put it into the next.
func TestCase38_DueJobsAreLostWithTheirPoller(t *testing.T) {
	t.Parallel()
	onBoth(t, dueJobsAreNotLost)
}

func dueJobsAreNotLost(t *testing.T, of maker) {
	const jobs, rounds, slots = 12_000, 6, 20
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 38))
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	b := setupQueueAt(t, of, s.Addr(), s.Client(t), "q", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	t.Cleanup(cancel)
	b.ctx = ctx
	proxy := redistest.NewProxy(t, s.Addr())
	list := of(store(t, &redis.Options{Addr: proxy.Addr()}, &durable.RedisOptions{Timeout: 5 * time.Second}), "q", nil)
	t.Cleanup(func() { _ = list.Close() })
	b.seed("due", jobs, "scheduled", `redis.call('ZADD', p .. 'scheduled', 1, id)`)
	// A picture of one instant: a claim that was sent before the death may still be on its way to the new server.
	const picture = `local ids = {}
		for _, key in ipairs(KEYS) do
			local type, held = redis.call('TYPE', key).ok, {}
			if type == 'list' then held = redis.call('LRANGE', key, 0, -1) end
			if type == 'zset' then held = redis.call('ZRANGE', key, 0, -1) end
			for _, id in ipairs(held) do table.insert(ids, id) end -- in any order
		end -- of the keys
		return ids`
	keys := []string{b.key("scheduled"), b.key("dead"), b.key("corrupt"), b.key("pending"), b.key("arriving")}
	all := func(when string) {
		t.Helper()
		ids, err := b.rdb.Eval(b.ctx, picture, keys).StringSlice()
		if err != nil {
			t.Fatal(err)
		}
		places := map[string]int{}
		for _, id := range ids {
			places[id]++
		}
		for i := range jobs {
			if id := fmt.Sprint("due.", i); places[id] != 1 {
				t.Errorf("%s: %s is in %d places", when, id, places[id])
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}

	for round := range rounds {
		c, err := list.OpenConsumer(b.ctx, long)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, b.key("processing:"+c.ID()))
		// With the n-th claim everything dies (the first is sent twice, as the server has no script yet): before the server has it, while it executes it, or after.
		var once sync.Once
		claims, fatal, died := 0, 1+rng.IntN(8), make(chan struct{})
		delay := time.Duration(rng.IntN(1500)) * time.Microsecond
		remove := proxy.OnRequest(func(e redistest.Exchange) redistest.Action {
			if redistest.With("claim")(e) {
				if claims++; claims >= fatal {
					once.Do(func() { time.AfterFunc(delay, func() { s.Kill(); close(died) }) })
				}
			}
			return redistest.Pass
		})
		for n, held := uint64(1), 0; err == nil; n++ {
			var claimed durable.Claimed
			claimed, err = c.Claim(b.ctx, durable.ClaimRequest{N: n, Slots: slots, MaxBytes: 1 << 20, Held: held})
			held += len(claimed.Jobs)
			if b.ctx.Err() != nil {
				t.Fatal(err)
			}
		}
		remove()
		select {
		case <-died:
		case <-time.After(patience):
			t.Fatal("before anything died:", err)
		}
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
		rewriteLog(b) // else the half of a script that the dying server wrote counts with the next restart
		all(fmt.Sprint("after death ", round))
		b.expire(c)
		b.rdb.HSet(b.ctx, b.key("sender:"+c.ID()), "charge", "-")
		b.sweep()
		all(fmt.Sprint("after sweep ", round))
	}
	if n := b.rdb.ZCard(b.ctx, b.key("scheduled")).Val(); n == 0 || n == jobs {
		t.Errorf("%d of %d are scheduled: nothing fell due around a death", n, jobs)
	}
	w := b.worker()
	for ended := 0; ended < jobs; {
		c := w.claim(500)
		w.settle(durable.Done, c.Jobs...)
		if ended += len(c.Jobs); c.Status == durable.ClaimEmpty && ended < jobs {
			t.Fatalf("%d of %d jobs", ended, jobs)
		}
	}
	b.places("0 0 0 0 0")
}

// rewriteLog has the server begin its append-only log anew, from what it holds.
func rewriteLog(b *bundle) {
	b.Helper()
	if err := b.rdb.BgRewriteAOF(b.ctx).Err(); err != nil {
		b.Fatal(err)
	}
	if !eventually(b.ctx, func() bool {
		info := b.rdb.Info(b.ctx, "persistence").Val()
		return strings.Contains(info, "aof_rewrite_in_progress:0") && strings.Contains(info, "aof_rewrite_scheduled:0")
	}) {
		b.Fatal("the log is not rewritten")
	}
}
