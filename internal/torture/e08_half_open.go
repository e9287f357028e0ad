package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redisproc"
)

// halfOpen: clients die parked in BLMOVE, or BLPOP, and the server does not know. What it still hands to
// them is claimed by others within a second.
func halfOpen(l *lab) {
	const dead, jobs = 100, 1000
	server := l.server()
	rdb := l.dial(server.Addr())
	proxy := l.proxy(server.Addr())
	proxy.KeepServerSide(true)
	var cut atomic.Bool
	var moved atomic.Int64
	proxy.OnReply(func(e redisproc.Exchange) redisproc.Action {
		empty := bytes.HasPrefix(e.Reply[1:], []byte("-1")) || e.Reply[0] == '_'
		if cut.Load() && redisproc.With(l.engine().wait)(e) && e.Reply[0] != '-' && !empty {
			moved.Add(1)
		}
		return redisproc.Pass
	})
	worst, rounds := time.Duration(0), pick(l, 2, 10)
	var total int64
	l.spawn(role{Name: "worker", Addr: server.Addr(), Workers: 64, Kinds: []string{""}})
	for round := range rounds {
		cut.Store(false)
		l.park(rdb, proxy.Addr(), dead)
		cut.Store(true)
		moved.Store(0)
		proxy.Sever(redisproc.RST)
		pushed := l.push(rdb, round, jobs)
		ok := l.within(10*time.Second, func() bool { return l.load(rdb, l.name) == 0 })
		l.require(ok, "%d of %d jobs are still there", l.load(rdb, l.name), jobs)
		for _, e := range l.notes("", noteStart) {
			if at, ok := pushed[e.ID]; ok {
				worst = max(worst, time.Duration(e.T-at))
			}
		}
		l.say("%d moved by dead clients", moved.Load())
		l.require(moved.Load() <= dead, "%d dead clients moved %d jobs", dead, moved.Load())
		total += moved.Load()
	}
	l.dismiss()
	l.check(rdb, expectation{foreign: rounds * jobs, steady: true})
	l.figure("dead_clients", rounds*dead)
	l.figure("moved_by_them", total)
	l.figure("claimed_p100", worst)
	l.require(total > 0, "no dead client was handed anything: the experiment shows nothing")
	l.require(worst <= time.Second+grace, "a job was claimed %v after it was pushed", worst)
}

// park has n clients wait, each with a connection of its own.
func (l *lab) park(rdb *redis.Client, addr string, n int) {
	var parked sync.WaitGroup
	ctx, cancel := context.WithCancel(l.ctx)
	l.later(func() { cancel(); parked.Wait() })
	var opened sync.WaitGroup
	for range n {
		opened.Add(1)
		parked.Go(func() {
			store, err := durable.NewRedis(redis.NewClient(&redis.Options{Addr: addr}), nil)
			if err == nil {
				defer func() { _ = store.Close() }()
				var c durable.Consumer
				c, err = l.open(store).OpenConsumer(ctx, 2*time.Second)
				opened.Done()
				if err == nil {
					_ = c.Await(ctx)
				}
			}
		})
	}
	opened.Wait()
	blocked := func() (k int) {
		info := rdb.Info(l.ctx, "clients").Val()
		_, _ = fmt.Sscanf(info[max(0, strings.Index(info, "blocked_clients:")):], "blocked_clients:%d", &k)
		return k
	}
	l.require(l.within(time.Second, func() bool { return blocked() >= n }), "%d clients are parked, want %d", blocked(), n)
}

// push enqueues jobs as any language does, one by one, and tells when.
func (l *lab) push(rdb *redis.Client, round, n int) map[string]int64 {
	pushed := make(map[string]int64, n)
	ids := make([]int, n)
	for i := range ids {
		ids[i] = i
	}
	for batch := range slices.Chunk(ids, 100) {
		pipe := rdb.Pipeline()
		for _, i := range batch {
			id := fmt.Sprintf("foreign.%d.%d", round, i)
			pushed[id] = time.Now().UnixNano()
			l.engine().enqueue(l.ctx, pipe, prefixOf(l.name), id, "payload", "x", "status", "pending", "attempts", 0)
		}
		_, err := pipe.Exec(l.ctx)
		l.must(err)
	}
	return pushed
}
