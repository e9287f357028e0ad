package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/internal/redisproc"
)

// refuse: the server refuses to write, or to do anything, for a while, for each reason it has. Nobody
// crashes, nobody spins, and work goes on when it is over.
func refuse(l *lab) {
	const consumers = 2
	last := pick(l, 2500*time.Millisecond, 20*time.Second)
	server := l.server("--save", "100000 1", "--appendonly", "no", "--busy-reply-threshold", "200")
	rdb := l.dial(server.Addr())
	var requests atomic.Int64
	for i := range consumers {
		proxy := l.proxy(server.Addr())
		proxy.OnRequest(func(e redisproc.Exchange) redisproc.Action {
			if len(e.Args) > 0 && (strings.EqualFold(e.Args[0], "evalsha") || strings.EqualFold(e.Args[0], l.engine().wait)) {
				requests.Add(1)
			}
			return redisproc.Pass
		})
		l.spawn(role{Name: fmt.Sprint("worker", i), Addr: proxy.Addr(), Workers: 4, Lease: 4 * time.Second})
	}
	producer := l.spawn(role{Name: "producer", Addr: server.Addr(), Producers: 2, Rate: 100, Task: task{Work: 2}, WorkMax: 10})
	l.goesOn(rdb, "the start")

	during := func(what, errorName string, begin, end func()) {
		l.say("%s", what)
		refused := l.refused(rdb, errorName)
		begin()
		n, began := requests.Load(), time.Now()
		l.pause(last)
		rate := float64(requests.Load()-n) / time.Since(began).Seconds() / consumers
		end()
		l.goesOn(rdb, what)
		l.figure(what, fmt.Sprintf("%.1f/s", rate))
		l.require(rate <= 20, "%s: %.1f requests a second and consumer", what, rate)
		l.require(errorName == "" || l.refused(rdb, errorName) > refused, "%s: the server refused nothing", what)
	}
	dump := filepath.Join(server.Dir(), "dump.rdb")
	during("MISCONF", "MISCONF", func() {
		_ = os.Remove(dump)
		l.must(os.Mkdir(dump, 0o700)) // a directory is in the way of the snapshot
		l.must(os.WriteFile(filepath.Join(dump, "in-the-way"), nil, 0o600))
		l.save(rdb, "err")
	}, func() {
		l.must(os.RemoveAll(dump))
		l.save(rdb, "ok")
	})
	during("NOREPLICAS", "NOREPLICAS",
		func() { l.do(rdb, "CONFIG", "SET", "min-replicas-to-write", 1) },
		func() { l.do(rdb, "CONFIG", "SET", "min-replicas-to-write", 0) })
	during("BUSY", "BUSY", func() {
		busy := l.dial(server.Addr())
		limit := (last + 600*time.Millisecond).Milliseconds()
		go func() {
			_ = busy.Do(l.ctx, "EVAL", `local t = redis.call('TIME') local from = t[1] * 1000 + t[2] / 1000
				repeat t = redis.call('TIME') until t[1] * 1000 + t[2] / 1000 - from > tonumber(ARGV[1]) return 1`, 0, limit).Err()
		}()
		l.pause(100 * time.Millisecond)
	}, func() {})
	producer.term()
	producer.wait(time.Minute)
	l.drained(rdb, l.name, time.Minute)
	l.loading(server, rdb)
	producer = l.spawn(role{Name: "late", Addr: server.Addr(), Producers: 1, Jobs: 200})
	l.goesOn(rdb, "LOADING")
	producer.wait(time.Minute)
	l.drained(rdb, l.name, time.Minute)
	l.dismiss()
	l.check(rdb, expectation{})
}

// save takes a snapshot and waits for its result.
func (l *lab) save(rdb *redis.Client, want string) {
	l.do(rdb, "BGSAVE")
	ok := l.within(20*time.Second, func() bool {
		info := rdb.Info(l.ctx, "persistence").Val()
		return strings.Contains(info, "rdb_bgsave_in_progress:0") && strings.Contains(info, "rdb_last_bgsave_status:"+want)
	})
	l.require(ok, "the snapshot did not end with %q", want)
}

// loading restarts the server on a snapshot with many keys, which takes it a while to read.
func (l *lab) loading(server *redisproc.Server, rdb *redis.Client) {
	keys := pick(l, 100_000, 1_000_000)
	l.say("LOADING %d keys", keys)
	l.do(rdb, "EVAL", "for i = 1, tonumber(ARGV[1]) do redis.call('SET', 'ballast:' .. i, 'x') end return 1", 0, keys)
	l.do(rdb, "SAVE")
	server.Kill()
	began := time.Now()
	l.must(server.Restart())
	l.figure("LOADING", time.Since(began))
}

// calls is how many scripts the server has been asked to run.
func (l *lab) calls(rdb *redis.Client) (n int64) {
	info, err := rdb.Info(l.ctx, "commandstats").Result()
	l.must(err)
	for line := range strings.Lines(info) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:calls="); ok {
			_, _ = fmt.Sscan(strings.Split(rest, ",")[0], &n)
		}
	}
	return n
}
