package main

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
)

// freezeWorker: a worker is stopped past its lease and goes on. Its jobs run elsewhere by then: what
// it says about them changes nothing, and its handlers hear why their contexts end.
func freezeWorker(l *lab) {
	const jobs = 3
	rounds := pick(l, 1, 10)
	server := l.server()
	rdb := l.dial(server.Addr())
	for round := range rounds {
		l.freezeOnce(rdb, round, jobs)
	}

	h := l.check(rdb, expectation{})
	stale := h.count["stale"]
	l.figure("stale", stale)
	l.require(stale == rounds*jobs, "%d late completions were refused, want %d", stale, rounds*jobs)
	told := 0
	for _, e := range l.notes("", noteContext) {
		if strings.HasPrefix(e.S, bridge.ErrLeaseLost.Error()) {
			told++
		}
	}
	l.figure("contexts_ended", told)
	l.require(told == rounds*jobs, "%d handlers were told that the lease is lost, want %d", told, rounds*jobs)
	for id, j := range h.jobs {
		l.require(len(j.runs) == 2 && len(j.completed) == 1, "%s ran %d times and was completed %d times", id, len(j.runs), len(j.completed))
	}
}

func (l *lab) freezeOnce(rdb *redis.Client, round, jobs int) {
	const lease = 2 * time.Second
	name := func(who string) string { return fmt.Sprintf("%s-%d", who, round) }
	addr := rdb.Options().Addr
	frozen := l.spawn(role{Name: name("frozen"), Addr: addr, Workers: jobs, Lease: lease})
	// At the thaw the first run has two seconds to go, and the second one more than that: its claim
	// is what must not change.
	producer := l.spawn(role{
		Name: name("producer"), Addr: addr, Producers: 1, Jobs: jobs, Task: task{Work: 4000 + int(2*lease/time.Millisecond), Deaf: true},
	})
	producer.wait(30 * time.Second)
	started := func(actors ...*child) (n int) {
		for _, c := range actors {
			n += len(l.notes(c.role.Name, noteStart))
		}
		return n
	}
	l.require(l.within(10*time.Second, func() bool { return started(frozen) == jobs }), "the jobs did not start")
	frozen.freeze()
	began := time.Now()
	var others []*child // a worker runs one suspect at a time
	for i := range jobs {
		others = append(others, l.spawn(role{Name: fmt.Sprint(name("other"), "-", i), Addr: addr, Workers: jobs, Lease: lease, SweepEvery: lease / 4}))
	}
	l.require(l.within(3*lease+grace, func() bool { return started(others...) == jobs }), "%d jobs run elsewhere, want %d", started(others...), jobs)
	l.pause(max(0, 3*lease-time.Since(began)))
	before := l.look(rdb, l.name)
	frozen.thaw()
	refused := func() bool { return len(l.notes(frozen.role.Name, "stale")) == jobs }
	l.require(l.within(2*lease, refused), "the late completions were not refused")
	after := l.look(rdb, l.name)
	l.require(len(before.hashes) == jobs && reflect.DeepEqual(before.hashes, after.hashes) && reflect.DeepEqual(before.places, after.places),
		"stale completions changed something:\n%v %v\n%v %v", before.hashes, before.places, after.hashes, after.places)
	l.drained(rdb, l.name, time.Minute)
	l.dismiss()
}
