package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// malform: an operator, or another version, puts all sorts of things into the queue. Each is run, dropped or
// quarantined, and counted; nobody panics or spins, and the others' jobs are not held up.
func malform(l *lab) {
	items := pick(l, 2500, 10_000)
	server := l.server()
	rdb := l.dial(server.Addr())
	bounds := role{Addr: server.Addr(), Workers: 8, Kinds: []string{drill, ""}, SweepEvery: 300 * time.Millisecond}
	bounds.List.MaxCorrupt = 100_000
	var crew []*child
	for i := range 2 {
		r := bounds
		r.Name = fmt.Sprint("worker", i)
		crew = append(crew, l.spawn(r))
	}
	producer := l.spawn(role{Name: "producer", Addr: server.Addr(), Producers: 2, Rate: 100})
	l.pause(pick(l, 3*time.Second, 20*time.Second))
	began := time.Now().UnixNano()
	var counted tally
	if l.engine().name == "stream" {
		counted = l.addMalformed(rdb, items)
	} else {
		counted = l.pushMalformed(rdb, items)
	}
	ended := time.Now().UnixNano()
	if l.engine().name != "stream" { // what is pending there is one consumer's
		l.surplus(rdb)
	}
	producer.term()
	producer.wait(30 * time.Second)
	l.drained(rdb, l.name, 30*time.Second)

	calls, from := l.calls(rdb), time.Now()
	l.pause(1500 * time.Millisecond)
	rate := float64(l.calls(rdb)-calls) / time.Since(from).Seconds()
	l.require(rate < 60, "%.0f scripts a second on an empty queue: somebody spins", rate)
	l.dismiss()

	h := l.readHistory()
	before, during := h.latency(0, began), h.latency(began, ended)
	l.figure("p99_before", before)
	l.figure("p99_during", during)
	l.require(during < 2*before+200*time.Millisecond, "others waited %v at p99, and %v before", during, before)
	p := l.look(rdb, l.name)
	ran := 0
	for id, j := range h.jobs {
		if len(j.runs) > 0 && !strings.HasPrefix(id, "producer.") && !strings.HasPrefix(id, "held.") {
			ran++
		}
	}
	corrupt, dropped := int(p.counters["corrupt"]), int(p.counters["dropped"])
	l.figure("ran", ran)
	l.figure("quarantined", corrupt)
	l.figure("dropped", dropped)
	l.require(ran == counted.run, "%d malformed items ran, want %d", ran, counted.run)
	l.require(corrupt == counted.corrupt, "%d were quarantined, want %d", corrupt, counted.corrupt)
	l.require(dropped >= counted.drop, "%d were dropped, want %d", dropped, counted.drop)
	for _, c := range crew {
		l.require(!strings.Contains(c.log()+c.Output(), "panic"), "%s: %s", c.role.Name, excerpt(c.log()+c.Output(), "panic"))
	}
	l.check(rdb, expectation{uncount: true})
}

// latency is the 99th percentile from enqueued to started, of jobs enqueued in a span.
func (h *history) latency(from, to int64) time.Duration {
	var all []time.Duration
	for _, j := range h.jobs {
		if j.reported > from && j.reported < to && len(j.runs) > 0 {
			all = append(all, time.Duration(max(0, j.runs[0].T-j.reported)))
		}
	}
	slices.Sort(all)
	if len(all) == 0 {
		return 0
	}
	return all[len(all)*99/100]
}

// tally is what must become of malformed items.
type tally struct{ run, corrupt, drop int }

// pushMalformed puts n items into pending, some hundred a second.
func (l *lab) pushMalformed(rdb *redis.Client, n int) (t tally) {
	prefix := prefixOf(l.name)
	random := stream(l.set.seed, l.name)
	set, empty := l.engine().name == "sortedset", false // a set has each ID once
	for i := range n {
		pipe := rdb.Pipeline()
		put := func(id string, values ...any) {
			l.engine().enqueue(l.ctx, pipe, prefix, id, values...)
		}
		id := fmt.Sprint("item.", i)
		switch kind := random.IntN(12); {
		case kind == 0:
			put(id+"\x00after", "payload", "x", "status", "pending", "attempts", "0")
			t.run++
		case kind == 1:
			put(id+"\xff\xfe", "payload", "\x80", "status", "pending")
			t.run++
		case kind == 2 && i%20 == 0:
			put(id + strings.Repeat("L", 512<<10))
			t.corrupt++
		case kind == 3:
			put("{"+id+"}{", "payload", "x", "status", "pending")
			t.run++
		case kind == 4 && (!empty || !set):
			put("")
			t.corrupt++
			empty = true
		case kind == 5:
			put(id, "payload", "x")
			put(id)
			t.run++
			if !set {
				t.drop++
			}
		case kind == 6:
			put(id, "note", "no field that we know")
			t.run++
		case kind == 7:
			put(id, "payload", "x", "status", "pending", "attempts", "many", "deliveries", "-1")
			t.corrupt++
		case kind == 8:
			put(id, "payload", "x", "status", "paused-by-version-9", "attempts", "0")
			t.corrupt++
		case kind == 9:
			pipe.Set(l.ctx, prefix+"job:"+id, "a string", time.Minute)
			put(id)
			t.corrupt++
		case kind == 10:
			put(id, "payload", "x", "attempts", "99999999999999999999", "timeout_ms", "1e9")
			t.corrupt++
		default:
			put(id)
			t.drop++
		}
		_, err := pipe.Exec(l.ctx)
		l.must(err)
		if i%100 == 99 {
			l.pause(100 * time.Millisecond)
		}
	}
	return t
}

// surplus copies entries into the list of a consumer that has not claimed them, and ends its lease: what
// the sweeper finds there is not that consumer's.
func (l *lab) surplus(rdb *redis.Client) {
	prefix := prefixOf(l.name)
	l.spawn(role{Name: "holder", Addr: rdb.Options().Addr, Workers: 4, Kinds: []string{"held"}})
	held := l.spawn(role{Name: "held", Addr: rdb.Options().Addr, Producers: 1, Jobs: 4, Kind: "held", Task: task{Work: 5000}})
	held.wait(20 * time.Second)
	running := func() bool { return len(l.notes("holder", noteStart)) == 4 }
	l.require(l.within(15*time.Second, running), "the held jobs do not run")
	var theirs string
	p := l.look(rdb, l.name)
	for c := range p.leases {
		if p.sizes["processing:"+c] == 0 {
			theirs = c // a worker that is idle; killing either will do
		}
	}
	for id, places := range p.places {
		if strings.HasPrefix(id, "held.") && strings.HasPrefix(places[0], "processing:") && theirs != "" {
			l.do(rdb, "LPUSH", prefix+"processing:"+theirs, id)
		}
	}
	// Its lease ends by decree, as if it had been killed: the sweepers look at its list.
	l.do(rdb, "ZADD", prefix+"consumers", "XX", 1, theirs)
	l.pause(1500 * time.Millisecond)
}
