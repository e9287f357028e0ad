package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/policy"
)

// killers: handlers end their process, panic, leave by Goexit, allocate without measure. Panics run again; a
// killer of processes is dead after its bound, and of the innocent beside it none is.
func killers(l *lab) {
	innocents := pick(l, 100, 200)
	exiting := pick(l, 3, 1)
	bound := pick(l, 3, 5)
	lease := pick(l, time.Second, 2*time.Second)
	server := l.server()
	rdb := l.dial(server.Addr())
	r := role{
		Addr: server.Addr(), Workers: 16, Lease: lease, SweepEvery: lease / 4,
		Retry: policy.Retry{MaxAttempts: 3, Initial: 50 * time.Millisecond, Max: 100 * time.Millisecond},
	}
	r.List.MaxCrashes = bound
	feed := func(name string, jobs int, t task) {
		f := role{Name: name, Addr: server.Addr(), Producers: 1, Jobs: jobs, Task: t, List: r.List}
		l.spawn(f).wait(20 * time.Second)
	}
	feed("innocent-a", innocents/2, task{Work: 500})
	feed("exiting", exiting, task{Work: 20, Do: "exit"})
	feed("allocating", 1, task{Work: 20, Do: "alloc"})
	feed("panicking", 3, task{Do: "panic"})
	feed("leaving", 3, task{Do: "goexit"})
	feed("innocent-b", innocents/2, task{Work: 500})

	const workers = 2
	crew := make([]*child, workers)
	next, deaths := 0, 0
	hire := func(i int) {
		r.Name = fmt.Sprint("worker", next)
		next++
		crew[i] = l.spawn(r)
		crew[i].mayDie = true
	}
	for i := range crew {
		hire(i)
	}
	suspects := l.watchSuspects(rdb)
	ok := l.within(pick(l, time.Minute, 5*time.Minute), func() bool {
		for i, c := range crew {
			if c.Ended() {
				deaths++
				c.buried()
				l.say("%s died, death %d", c.role.Name, deaths)
				hire(i)
			}
		}
		return l.load(rdb, l.name) == 0
	})
	l.require(ok, "not drained: %d", l.load(rdb, l.name))
	most := suspects()
	l.dismiss()

	l.check(rdb, expectation{steady: true})
	l.require(most <= 1, "a consumer held %d suspects at once", most)
	p := l.look(rdb, l.name)
	reasons := map[string]int{}
	for id, places := range p.places {
		who, reason := actorOf(id), p.hashes[id]["reason"]
		l.require(places[0] == "dead", "%s is in %v", id, places)
		l.require(!strings.HasPrefix(who, "innocent"), "%s is dead: %s", id, reason)
		if who == "exiting" || who == "allocating" {
			l.require(reason == "worker lost", "%s is dead for another reason: %s", id, reason)
		}
		reasons[who]++
	}
	for who, want := range map[string]int{"exiting": exiting, "allocating": 1, "panicking": 3, "leaving": 3} {
		l.require(reasons[who] == want, "%d of %s are dead, want %d", reasons[who], who, want)
	}
	// Only the first death of each killer is shared by those beside it: from then on it is a suspect.
	charged := p.counters["crashed"]
	l.figure("charged", charged)
	l.require(charged <= int64((exiting+1)*r.Workers+deaths), "%d claims were charged with %d deaths by %d killers", charged, deaths, exiting+1)
	l.figure("deaths", deaths)
	l.figure("dead", len(p.places))
	// Each killer alone reaches its bound: no more processes may die than that, the first death being shared.
	l.require(deaths <= (exiting+1)*bound, "%d processes died of %d killers with a bound of %d", deaths, exiting+1, bound)
}

// watchSuspects looks every 20 ms how many suspects any consumer holds, until the function it returns is called, which
// gives the most there were: jobs of which each may have killed a process. With two, nobody could tell which did.
func (l *lab) watchSuspects(rdb *redis.Client) (stop func() int64) {
	count := `local most, p = 0, ARGV[1]
		for _, c in ipairs(redis.call('ZRANGE', p .. 'consumers', 0, -1)) do
			local n = 0
			` + l.engine().suspects + `
			most = math.max(most, n)
		end
		return most`
	var most int64
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if n, err := rdb.Do(l.ctx, "EVAL", count, 0, prefixOf(l.name)).Int64(); err == nil {
					most = max(most, n)
				}
			case <-done:
				return
			}
		}
	})
	return func() int64 { close(done); watching.Wait(); return most }
}
