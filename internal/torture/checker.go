package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// expectation is what an experiment says about its faults. The zero value is a Redis that kept
// all it was told, and a queue that ends empty.
type expectation struct {
	queue    string
	replicas string // IDs that begin so asked for replicas, and are not lost with the primary
	lossy    int64  // Redis lost what it was told from about this moment on (ns); 0: nothing
	foreign  int    // jobs that came in without the library
	removed  int    // jobs that an operator took out
	uncount  bool   // the counters were spoilt, so they need not add up
	halves   bool   // scripts stopped in the middle: a completion may be told as gone
	steady   bool   // nothing was frozen or cut off, so no lease may be lost
	notEmpty bool   // the queue does not end empty
	memory   int64  // what Redis used before; 0: not compared
	refusals bool   // IDs were used again, and some of their jobs are dead
	orphans  int    // hashes that an operator left without an entry
}

// grace is what a loaded machine may add to any limit.
const grace = 3 * time.Second

// check makes the checks that follow every experiment, when all is quiet, and adds their figures.
func (l *lab) check(rdb redis.UniversalClient, x expectation) *history {
	orElse(&x.queue, l.name)
	h := l.readHistory()
	p := l.look(rdb, x.queue)
	l.checkRuns(h, x)
	l.checkJobs(h, p, x)
	l.checkPlaces(p, x)
	if x.lossy == 0 && !x.uncount && !x.halves {
		l.checkCounters(h, p, x)
	}
	if n := h.count["lease lost"]; x.steady {
		bad := h.inexcusable()
		l.require(bad == 0, "%d leases were lost, though nobody was frozen, cut off or without a processor", bad)
		if n > 0 {
			l.figure("leases_lost_to_the_machine", n-bad)
		}
	} else if n > 0 {
		l.figure("leases_lost", n)
	}
	for actor, f := range h.actors {
		for _, leak := range f.leaks {
			l.breach("%s leaks: %s", actor, leak)
		}
	}
	for _, e := range l.notes("", noteDown) {
		var heap, bytes int64
		_, _ = fmt.Sscanf(e.S, "heap=%d", &heap)
		bytes = 64<<20 + 64<<20 // of the front, and what TORTURE allows
		l.require(heap <= bytes, "%s had %d MiB of heap", e.A, heap>>20)
	}
	if x.memory > 0 {
		now := l.memory(rdb)
		l.figure("redis", fmt.Sprintf("%+.1f%%", 100*float64(now-x.memory)/float64(x.memory)))
		l.require(float64(now) <= 1.05*float64(x.memory)+(1<<20), "Redis used %d KiB before and %d KiB after", x.memory>>10, now>>10)
	}
	return h
}

// checkRuns looks at every execution: what was repeated must have a reason, and nothing may start
// once it is completed.
func (l *lab) checkRuns(h *history, x expectation) {
	runs, dup, unexplained := 0, 0, 0
	causes := map[string]int{}
	var recovered []time.Duration
	for id, j := range h.jobs {
		failed, unsure := 0, 0 // runs that are known to have been charged; that may have been, and nobody was left to write it down
		for i, r := range j.runs {
			runs++
			if x.lossy == 0 {
				l.require(int(r.N) > failed && int(r.N) <= failed+unsure+1, "%s: attempt %d after %d failed runs (delivery %d)", id, r.N, failed, r.D)
				for _, c := range j.completed {
					l.require(r.T <= c.T, "%s: delivery %d started %v after its completion", id, r.D, time.Duration(r.T-c.T))
				}
			}
			if _, ok := r.told["retried"]; ok {
				failed++
			} else if r.failed() && since(h.fate(r.A).killed, r.end) {
				unsure++
			}
			if i == 0 {
				continue
			}
			before := j.runs[i-1]
			cause := h.cause(before, x.lossy)
			causes[cause]++
			if cause == "retried" || cause == "snoozed" {
				l.require(before.end <= r.T, "%s: delivery %d began before the failed one had ended", id, r.D)
				continue
			}
			dup++
			switch cause {
			case "":
				unexplained++
				l.breach("%s: delivery %d by %s, then %d by %s, for no reason (%s; told %v)",
					id, before.D, before.A, r.D, r.A, before.outcome, before.told)
			case "killed":
				recovered = append(recovered, time.Duration(r.T-firstSince(h.fate(before.A).killed, before.T)))
			}
			if x.lossy == 0 {
				l.require(r.D > before.D && r.D > 1, "%s: delivery %d follows %d", id, r.D, before.D)
			}
			l.require(r.F > before.F, "%s: fence %d follows %d", id, r.F, before.F)
		}
	}
	l.figure("runs", runs)
	l.figure("dup", dup)
	l.figure("unexplained", unexplained)
	if len(recovered) > 0 { // with what stood before them in the queue; see watchLeases for the promise
		l.figure("rerun_p100", slices.Max(recovered))
	}
}

// failed tells whether the handler has ended in an error.
func (r *run) failed() bool { return r.end > 0 && r.outcome != "ok" }

func firstSince(moments []int64, t int64) int64 {
	for _, m := range moments {
		if m >= t {
			return m
		}
	}
	return t
}

// checkJobs looks for every job that was reported enqueued.
func (l *lab) checkJobs(h *history, p *picture, x expectation) {
	reported, lost, completed := 0, 0, 0
	for id, j := range h.jobs {
		l.require(x.lossy > 0 || len(j.completed) <= 1, "%s was completed %d times", id, len(j.completed))
		if len(j.completed) > 0 {
			completed++
			last := j.runs[len(j.runs)-1]
			l.require(x.lossy > 0 || j.completed[0].D == last.D, "%s: delivery %d was completed, though %d had started", id, j.completed[0].D, last.D)
		}
		if j.reported == 0 {
			continue
		}
		reported++
		_, there := p.hashes[id]
		if len(j.completed) == 0 && !there && !j.mayBeOver(h) && !j.mayHaveEnded() {
			lost++
			if x.lossy == 0 && x.removed == 0 {
				l.breach("%s was reported enqueued and is nowhere (%d runs)", id, len(j.runs))
			}
			l.require(j.alone || x.replicas == "" || !strings.HasPrefix(id, x.replicas), "%s is lost, and was reported to be on a replica", id)
			// A second before, as replication and the ledger are not of the same instant.
			l.require(x.lossy == 0 || j.reported >= x.lossy-int64(time.Second),
				"%s is lost, and was reported enqueued %v before Redis lost anything", id, time.Duration(x.lossy-j.reported))
		}
	}
	l.figure("reported", reported)
	l.figure("completed", completed)
	l.figure("lost", lost)
	if x.replicas != "" {
		careful, alone := 0, 0
		for id, j := range h.jobs {
			if strings.HasPrefix(id, x.replicas) && j.reported > 0 {
				careful++
				if j.alone {
					alone++
				}
			}
		}
		l.figure("replicated", careful-alone)
		l.figure("unreplicated", alone)
		l.require(careful > alone && alone > 0, "%d jobs asked for a replica, %d did without: nothing was seen", careful, alone)
	}
	if x.lossy == 0 {
		l.require(lost <= x.removed, "%d lost", lost)
		gone := h.goneUnderALease()
		l.require(gone <= x.removed || x.halves, "%d claims ended as gone", gone)
		l.require(x.refusals || h.count["refused"] == 0, "%d jobs were refused, though no ID was used twice", h.count["refused"])
		l.require(h.count["gap"] == 0, "%d gaps in the numbers", h.count["gap"])
	}
}

// mayBeOver tells whether the job may be completed although nobody could write it down: its
// handler succeeded, and its worker died before the answer.
func (j *life) mayBeOver(h *history) bool {
	return slices.ContainsFunc(j.runs, func(r *run) bool {
		_, unsettled := r.told["unsettled"]
		_, stale := r.told["stale"]
		_, gone := r.told["gone"] // judged by itself
		return r.outcome == "ok" && !stale && (unsettled || gone || since(h.fate(r.A).killed, r.end))
	})
}

// mayHaveEnded tells whether the job may be cancelled or expired: somebody has asked for that, or seen it, or was told.
func (j *life) mayHaveEnded() bool {
	return j.expired || len(j.cancels) > 0 || slices.ContainsFunc(j.ends, func(e entry) bool { return e.S == "expired" })
}

// checkPlaces looks at Redis: each ID is in one place, with its hash, and nothing else is left.
func (l *lab) checkPlaces(p *picture, x expectation) {
	torn, bare, ghosts := 0, 0, 0
	for id, places := range p.places {
		if len(places) != 1 {
			torn++
			l.breach("%s is in %v", shorten(id), places)
		}
		if p.hashes[id] == nil && places[0] != "corrupt" {
			bare++
		}
	}
	for id := range p.hashes {
		if len(p.places[id]) == 0 {
			ghosts++
			if ghosts > x.orphans {
				l.breach("%s has a hash %v and is in no list", shorten(id), p.hashes[id])
			}
		}
	}
	l.figure("torn", torn)
	l.figure("ghosts", max(0, ghosts-x.orphans))
	l.require(bare == 0, "%d entries without a hash", bare)
	if !x.notEmpty {
		l.require(p.present() == 0, "%d are still on their way: %v", p.present(), p.sizes)
	}
	for name := range p.sizes {
		if c, ok := strings.CutPrefix(name, "processing:"); ok {
			_, registered := p.leases[c]
			l.require(registered, "%s has %d entries and no registered consumer", name, p.sizes[name])
		}
	}
	l.require(len(p.forever) == 0, "keys that stay for ever: %v", p.forever)
}

// checkCounters adds up what Redis has counted.
func (l *lab) checkCounters(h *history, p *picture, x expectation) {
	in := p.counters["appended"] + int64(x.foreign)
	out := p.counters["completed"] + int64(p.count("dead")) + p.counters["trimmed"] + int64(p.present()+x.removed) +
		int64(p.count("corrupt")) + p.counters["corrupt_trimmed"] + p.counters["cancelled"] + p.counters["expired"]
	l.require(in == out, "counters: %d came in, %d are accounted for: %v", in, out, p.counters)
	known, unsure := 0, 0
	for id, j := range h.jobs {
		switch hash := p.hashes[id]; {
		case hash["status"] == "completed", hash == nil && len(j.completed) > 0:
			known++
		case hash == nil && j.mayBeOver(h) && j.mayHaveEnded():
			unsure++
		case hash == nil && j.mayBeOver(h):
			known++
		}
	}
	n := int(p.counters["completed"])
	l.require(known <= n && n <= known+unsure, "counters: %d completed, the ledgers know %d, and of %d not", n, known, unsure)
}

// shorten makes an ID fit for a line.
func shorten(id string) string {
	if len(id) > 40 {
		id = id[:40] + "…"
	}
	return fmt.Sprintf("%q", id)
}
