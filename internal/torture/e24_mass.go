package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// mass: very many jobs are ready, as many fall due in the same moment, and a dead consumer holds very many. No
// script takes long, the server answers others meanwhile, and all of it gets done.
func mass(l *lab) {
	ready := pick(l, 30_000, 1_000_000)
	held := pick(l, 10_000, 100_000)
	server := l.server("--latency-tracking", "yes")
	rdb := l.dial(server.Addr())
	l.say("%d ready, %d due at once, %d held by a dead consumer", ready, ready, held)
	due := time.Now().Add(pick(l, 4*time.Second, time.Minute))
	l.seedJobs(rdb, "held", held, l.engine().seeds.held, 0)
	l.seedJobs(rdb, "ready", ready, l.engine().seeds.ready, 0)
	l.seedJobs(rdb, "due", ready, l.engine().seeds.due, due.UnixMilli())
	// Its record says that none of these has killed it, as a suspect has been charged before: they come back at once.
	l.do(rdb, "HSET", prefixOf(l.name)+"sender:0-dead", "kind", "consumer", "charge", "-", "lease", 2000)
	l.do(rdb, "EXPIRE", prefixOf(l.name)+"sender:0-dead", 3600)
	l.do(rdb, "ZADD", prefixOf(l.name)+"consumers", 1, "0-dead")
	l.do(rdb, "CONFIG", "RESETSTAT")

	pings := l.ping(rdb)
	began := time.Now()
	for i := range 2 {
		l.spawn(role{Name: fmt.Sprint("worker", i), Addr: server.Addr(), Workers: 256, Kinds: []string{""}, SweepEvery: time.Second, Lease: 10 * time.Second})
	}
	prefix := prefixOf(l.name)
	var returned, promoted time.Duration
	stillHeld := func() bool {
		yes, err := l.holds(rdb, "0-dead")
		l.must(err)
		return yes
	}
	l.within(pick(l, time.Minute, 10*time.Minute), func() bool {
		if returned == 0 && !stillHeld() {
			returned = time.Since(began)
			l.say("returned what the dead one held")
		}
		if promoted == 0 && time.Now().After(due) && rdb.ZCount(l.ctx, prefix+"scheduled", "-inf", fmt.Sprint(due.UnixMilli())).Val() == 0 {
			promoted = time.Since(due)
			l.say("promoted what was due")
		}
		return returned > 0 && promoted > 0
	})
	l.drained(rdb, l.name, pick(l, time.Minute, 20*time.Minute))
	slow := l.scriptP99(rdb)
	latencies := pings()
	l.dismiss()

	h := l.check(rdb, expectation{foreign: 2*ready + held, steady: true, uncount: false})
	slices.Sort(latencies)
	p99, p100 := latencies[len(latencies)*99/100], latencies[len(latencies)-1]
	rate := float64(ready) / promoted.Seconds()
	l.figure("jobs", len(h.jobs))
	l.figure("script_p99", slow)
	l.figure("ping_p99", p99)
	l.figure("ping_p100", p100)
	l.figure("promoted_per_s", int(rate))
	l.figure("returned_after", returned)
	l.require(returned > 0 && returned <= pick(l, 15*time.Second, time.Minute), "what a dead consumer held was returned after %v", returned)
	l.require(slow < pick(l, 20*time.Millisecond, 5*time.Millisecond), "a script took %v at p99", slow)
	l.require(p99 <= 20*time.Millisecond+30*time.Millisecond, "a ping took %v at p99", p99) // 20 ms, on a machine of its own
	l.require(promoted > 0 && rate >= 2500, "%d promoted a second", int(rate))              // 5,000, likewise
}

// seedJobs makes jobs as another language would, by a script, ten thousand at a time.
func (l *lab) seedJobs(rdb *redis.Client, name string, n int, place string, at int64) {
	script := `local p = ARGV[1]
		for i = tonumber(ARGV[3]), tonumber(ARGV[4]) - 1 do
			local id = ARGV[2] .. '.' .. i
			` + place + `
		end return 1`
	for from := 0; from < n; from += 10_000 {
		l.do(rdb, "EVAL", script, 0, prefixOf(l.name), name, from, min(from+10_000, n), at)
	}
}

// ping asks the server for a sign of life, a hundred times a second, until the function it returns is called.
func (l *lab) ping(rdb *redis.Client) (stop func() []time.Duration) {
	var all []time.Duration
	done := make(chan struct{})
	var pinging sync.WaitGroup
	pinging.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				began := time.Now()
				if rdb.Ping(l.ctx).Err() == nil {
					all = append(all, time.Since(began))
				}
			case <-done:
				return
			}
		}
	})
	return func() []time.Duration { close(done); pinging.Wait(); return all }
}

// scriptP99 is what the server has measured of our scripts.
func (l *lab) scriptP99(rdb *redis.Client) time.Duration {
	info, err := rdb.Info(l.ctx, "latencystats").Result()
	l.must(err)
	for line := range strings.Lines(info) {
		if rest, ok := strings.CutPrefix(line, "latency_percentiles_usec_evalsha:"); ok {
			for pair := range strings.SplitSeq(strings.TrimSpace(rest), ",") {
				var us float64
				if _, err := fmt.Sscanf(pair, "p99=%g", &us); err == nil {
					return time.Duration(us * float64(time.Microsecond))
				}
			}
		}
	}
	return 0
}
