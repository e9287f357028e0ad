package main

import (
	"slices"
	"syscall"
	"time"
)

// shutDown: processes that produce and work are shut down under load, in every manner. Each ends in its time,
// what it had accepted is durable or handed back, and what it was running goes back unharmed.
func shutDown(l *lab) {
	server := l.server()
	rdb := l.dial(server.Addr())
	proxy := l.proxy(server.Addr())
	both := func(name string, grace time.Duration) role {
		return role{
			Name: name, Addr: server.Addr(), Workers: 8, Producers: 2, Rate: 40, Grace: grace, Patience: grace + 2*time.Second,
			Task: task{Work: 50}, WorkMax: 600, SweepEvery: 500 * time.Millisecond,
		}
	}
	var crew []*child
	for name, grace := range map[string]time.Duration{
		"grace-0": time.Nanosecond, "grace-100ms": 100 * time.Millisecond, "twice": 500 * time.Millisecond, "killed": 2 * time.Second,
		"handler": time.Second, "outage": 500 * time.Millisecond,
	} {
		r := both(name, grace)
		switch name {
		case "handler":
			r.Kinds = []string{drill, "shutter"}
		case "outage":
			r.Addr, r.Timeout = proxy.Addr(), 500*time.Millisecond
		}
		crew = append(crew, l.spawn(r))
	}
	// Handlers that need longer than a lease, but not longer than the grace: the lease must be kept for them.
	long := l.spawn(role{Name: "grace-6s", Addr: server.Addr(), Workers: 4, Kinds: []string{"long"}, Grace: 6 * time.Second, Patience: 8 * time.Second, SweepEvery: 500 * time.Millisecond})
	feeder := l.spawn(role{Name: "feeder", Addr: server.Addr(), Producers: 1, Jobs: 8, Kind: "long", Task: task{Work: 4500}})
	feeder.wait(20 * time.Second)
	l.pause(pick(l, 1500*time.Millisecond, 10*time.Second))

	l.say("shutting down")
	heal := proxy.Blackhole()
	l.pause(300 * time.Millisecond)
	began := time.Now()
	long.term()
	for _, c := range crew {
		switch c.role.Name {
		case "handler":
			shut := l.spawn(role{Name: "shutter", Addr: server.Addr(), Producers: 1, Jobs: 1, Kind: "shutter", Task: task{Do: "shutdown"}})
			shut.wait(10 * time.Second)
		case "killed":
			c.term()
			l.pause(50 * time.Millisecond)
			c.kill()
		default:
			c.term()
		}
		if c.role.Name == "twice" {
			l.pause(20 * time.Millisecond)
			_ = c.Signal(syscall.SIGTERM)
		}
	}
	var last *child
	for _, c := range append(crew, long) {
		if c.role.Name == "handler" {
			last = c
			continue
		}
		c.wait(max(0, c.role.Grace+2*time.Second+grace-time.Since(began)))
	}
	// It has to work through what was there before the job that says so.
	l.require(l.within(time.Minute, func() bool {
		return slices.ContainsFunc(l.notes("handler", noteStart), func(e entry) bool { return e.S == "shutter" })
	}), "the job that shuts down is not run")
	last.wait(last.role.Grace + 2*time.Second + grace)
	heal()
	l.spawn(role{Name: "last", Addr: server.Addr(), Workers: 32, Kinds: []string{drill, "long", "shutter"}, SweepEvery: 500 * time.Millisecond})
	l.drained(rdb, l.name, 40*time.Second)
	l.dismiss()

	h := l.check(rdb, expectation{})
	var slowest time.Duration
	for _, e := range l.notes("", "shut") {
		for _, c := range append(crew, long) {
			if took := time.Duration(e.N) * time.Millisecond; e.A == c.role.Name {
				slowest = max(slowest, took-c.role.Grace)
				l.require(took <= c.role.Grace+2*time.Second+grace/2, "%s: Shutdown took %v with a grace of %v", e.A, took, c.role.Grace)
			}
		}
	}
	l.figure("over_grace_p100", slowest)
	doubtful := map[string]bool{}
	for _, e := range l.notes("", noteDoubtful) {
		doubtful[e.ID] = true
	}
	returned := 0
	for id, j := range h.jobs {
		if j.back {
			returned++
			l.require(j.reported == 0 && len(j.runs) == 0, "%s was handed back, and reported or run", id)
		}
		killed := len(h.fate(actorOf(id)).killed) > 0
		l.require(j.accepted == 0 || j.reported > 0 || j.back || doubtful[id] || killed, "%s was accepted and has no end", id)
	}
	l.figure("returned", returned)
	l.figure("doubtful", len(doubtful))
	l.figure("released", h.count["released"])
	l.require(h.count["released"] > 0, "no running job was released")
	for _, at := range h.fate("grace-6s").lost {
		l.require(h.stalled("grace-6s", at) >= stallExcuses, "a lease was lost while handlers had their grace")
	}
	for id, j := range h.jobs {
		if len(j.runs) > 0 && j.runs[0].A == "grace-6s" {
			l.require(len(j.runs) == 1, "%s was not let finish within the grace", id)
		}
	}
}

// actorOf is the producer that made an ID.
func actorOf(id string) string {
	for i := range id {
		if id[i] == '.' {
			return id[:i]
		}
	}
	return id
}
