package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// history is what all ledgers together tell, by job.
type history struct {
	jobs   map[string]*life
	actors map[string]*fate
	count  map[string]int // lines, by what they say
	marks  []entry        // the conductor's
}

// life is one job.
type life struct {
	id                          string
	offered, accepted, reported int64 // when; 0: never
	runs                        []*run
	completed                   []entry
	alone                       bool // reported without the replicas that were asked for
	back                        bool // Shutdown returned it, or it ended without being durable
	dead, expired               bool
	acceptedBy                  map[string]int // how often, by actor; what it follows counts too
	cancels                     []entry        // asked, told and marked, in order
	ends                        []entry        // of its tickets
	contexts                    []entry        // that have ended under its runs
	claims                      map[int]entry  // by delivery, as noted by runs
}

// run is one execution of a handler.
type run struct {
	entry                    // its start
	end     int64            // 0: it never came to an end
	outcome string           // of its handler
	told    map[string]int64 // transitions of this claim, and when
}

// fate is what happened to an actor.
type fate struct {
	killed []int64
	frozen []int64
	lost   []int64 // its lease
	stalls []entry
	leaks  []string
}

type runKey struct {
	actor, id string
	d         int
}

// readHistory reads the ledgers of the experiment.
func (l *lab) readHistory() *history {
	entries, err := readLedgers(l.dir)
	l.must(err)
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.T, b.T) })
	h := &history{jobs: map[string]*life{}, actors: map[string]*fate{}, count: map[string]int{}}
	runs := map[runKey]*run{}
	for _, e := range entries {
		h.count[e.E]++
		switch e.E {
		case noteKill, noteFreeze:
			h.fate(e.S).suffer(e)
		case noteThaw, noteLossy:
		case "lease lost":
			f := h.fate(e.A)
			f.lost = append(f.lost, e.T)
		case noteStall:
			f := h.fate(e.A)
			f.stalls = append(f.stalls, e)
		case "leak":
			f := h.fate(e.A)
			f.leaks = append(f.leaks, e.S)
		}
		if e.A == conductor {
			h.marks = append(h.marks, e)
		}
		if e.ID == "" {
			continue
		}
		j := h.jobs[e.ID]
		if j == nil {
			j = &life{id: e.ID, claims: map[int]entry{}, acceptedBy: map[string]int{}}
			h.jobs[e.ID] = j
		}
		key := runKey{e.A, e.ID, e.D}
		switch e.E {
		case noteOffered:
			j.offered = e.T
		case noteFollowed:
			j.acceptedBy[e.A]++
		case noteAccepted:
			j.accepted = e.T
			j.acceptedBy[e.A]++
		case "enqueued":
			j.reported = e.T
		case "unreplicated":
			j.alone = true
		case noteAsked, noteTold, noteMarked:
			j.cancels = append(j.cancels, e)
		case noteTicket:
			j.ends = append(j.ends, e)
		case noteContext:
			j.contexts = append(j.contexts, e)
		case noteClaimed:
			j.claims[e.D] = e
		case noteReturned, "evicted", "refused", "abandoned":
			j.back = true
		case noteStart:
			r := &run{entry: e, told: map[string]int64{}}
			runs[key] = r
			j.runs = append(j.runs, r)
		case noteEnd:
			if r := runs[key]; r != nil {
				r.end, r.outcome = e.T, e.S
			}
		default:
			if e.E == "completed" {
				j.completed = append(j.completed, e)
			}
			switch e.E {
			case "dead":
				j.dead = true
			case "expired":
				j.expired = true
			}
			if r := runs[key]; r != nil {
				r.told[e.E] = e.T
			}
		}
	}
	for _, j := range h.jobs {
		j.runs = slices.DeleteFunc(j.runs, func(r *run) bool { return h.belated(j, r) })
	}
	return h
}

// belated tells whether a run began when its job had run elsewhere already, in a worker that was stopped between its claim and the
// call of the handler, and hears at once that its lease is lost. That the token is void is seen by what the store answers.
func (h *history) belated(j *life, r *run) bool {
	_, settled := r.told["completed"]
	return !settled && since(h.fate(r.A).lost, r.T) && slices.ContainsFunc(j.runs, func(o *run) bool { return o.F > r.F && o.T < r.T })
}

func (h *history) fate(actor string) *fate {
	f := h.actors[actor]
	if f == nil {
		f = &fate{}
		h.actors[actor] = f
	}
	return f
}

func (f *fate) suffer(e entry) {
	if e.E == noteKill {
		f.killed = append(f.killed, e.T)
	} else {
		f.frozen = append(f.frozen, e.T)
	}
}

// goneUnderALease is how many claims heard that there is no such job, though their worker had not lost its lease: who
// has lost it may be told so, as the job has been completed by another.
func (h *history) goneUnderALease() (n int) {
	for _, j := range h.jobs {
		for _, r := range j.runs {
			if _, gone := r.told["gone"]; gone && !since(h.fate(r.A).lost, r.T) {
				n++
			}
		}
	}
	return n
}

// since tells whether one of the moments is not before t.
func since(moments []int64, t int64) bool {
	return slices.ContainsFunc(moments, func(m int64) bool { return m >= t })
}

// cause tells why the job may run again after r, other than that r failed; "" if nothing is known.
func (h *history) cause(r *run, lossy int64) string {
	f := h.fate(r.A)
	switch {
	case since(f.killed, r.T):
		return "killed"
	case since(f.lost, r.T):
		return "lease"
	case lossy > 0 && (r.end == 0 || r.end >= lossy-int64(time.Second)):
		return "lossy"
	}
	for _, told := range []string{"retried", "snoozed", "released", "unsettled", "stuck"} {
		if _, ok := r.told[told]; ok {
			return told
		}
	}
	return ""
}

// starts are the moments at which an actor started runs.
func (h *history) starts(actor string) (moments []int64) {
	for _, j := range h.jobs {
		for _, r := range j.runs {
			if r.A == actor {
				moments = append(moments, r.T)
			}
		}
	}
	slices.Sort(moments)
	return moments
}

// notes are the lines of one actor that say something, in order; any actor's if it is "".
func (l *lab) notes(actor, what string) (found []entry) {
	entries, err := readLedgers(l.dir)
	l.must(err)
	for _, e := range entries {
		if e.E == what && (actor == "" || e.A == actor) {
			found = append(found, e)
		}
	}
	slices.SortStableFunc(found, func(a, b entry) int { return cmp.Compare(a.T, b.T) })
	return found
}

// percent is a share as it stands in a line.
func percent(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }

// fmtPair is two numbers as they stand in a line.
func fmtPair(a, b int64) string { return fmt.Sprintf("%d/%d", a, b) }
