package durabletest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

// single is a job with a key that it keeps while it waits or runs.
func single(id, key string) *durable.Job { return keyed(id, durable.Unique{Key: key}) }

func keyed(id string, u durable.Unique) *durable.Job {
	j := job(id)
	j.Unique = &u
	return j
}

// taken checks that a key is refused, and whose it is.
func (q *queue) taken(when, key, holder string) {
	q.Helper()
	a := q.producer().send(single("another", key))
	want := durable.Refusal{Code: durable.RefusedUnique, Holder: holder}
	if a.Taken != 1 || len(a.Refused) != 1 || a.Refused[0] != want {
		q.Errorf("%s: append with the key %q: %+v, want refused for %s", when, key, a, holder)
	}
}

// free checks that a key can be had, and has a job with it stored and done.
func (q *queue) free(when, key string) {
	q.Helper()
	q.keeps(when, single("heir", key))
	w := q.worker()
	w.done(w.one("heir"))
}

// keeps checks that a job is stored.
func (q *queue) keeps(when string, j *durable.Job) {
	q.Helper()
	if a := q.producer().send(j); a.Taken != 1 || len(a.Refused) > 0 {
		q.Fatalf("%s: append of %s: %+v", when, j.ID, a)
	}
}

func uniquePromises() []promise {
	return []promise{
		{"in one batch it is had where it is asked for, too", Limits{}, func(q *queue) {
			running := durable.Unique{Key: "k", States: []durable.State{durable.StateProcessing}}
			waiting := durable.Unique{Key: "l", States: []durable.State{durable.StatePending}}
			a := q.producer().send(keyed("a", running), keyed("b", running), keyed("c", waiting), keyed("d", waiting))
			if a.Taken != 4 || len(a.Refused) != 1 || a.Refused[0].Pos != 3 || a.Refused[0].Holder != "c" {
				q.Errorf("%+v, want d refused for c, and nothing else", a)
			}
			waiting.Key = "m"
			later := keyed("e", waiting)
			later.Delay = time.Hour
			still := keyed("f", waiting)
			if a = q.producer().send(later, still); a.Taken != 2 || len(a.Refused) != 0 {
				q.Errorf("%+v, want none refused", a)
			}
		}},
		{"of 1,000 submissions of one key at once one is stored, and all others name it", Limits{}, func(q *queue) {
			const senders, batch, batches = 8, 5, 25
			other := q.another()
			refused := make([][]durable.Refusal, senders)
			stored := make([][]string, senders)
			var all sync.WaitGroup
			for s := range senders {
				p := q.producerOn([]durable.Engine{q.engine, other}[s%2])
				all.Go(func() {
					for n := range batches {
						jobs := make([]*durable.Job, batch)
						left := make(map[int]string)
						for i := range jobs {
							jobs[i] = single(fmt.Sprintf("job-%d-%d-%d", s, n, i), "k")
							left[i] = jobs[i].ID
						}
						a, err := p.Append(q.ctx, uint64(n+1), jobs)
						if err != nil || a.Taken != batch {
							q.Errorf("append: %+v, %v", a, err)
							return
						}
						for _, r := range a.Refused {
							delete(left, r.Pos)
						}
						for _, id := range left {
							stored[s] = append(stored[s], id)
						}
						refused[s] = append(refused[s], a.Refused...)
					}
				})
			}
			all.Wait()
			winner := slices.Concat(stored...)
			if len(winner) != 1 {
				q.Fatalf("%d are stored, want one: %q", len(winner), winner[:min(3, len(winner))])
			}
			losers := slices.Concat(refused...)
			if len(losers) != senders*batch*batches-1 {
				q.Errorf("%d are refused, want all others", len(losers))
			}
			for _, r := range losers {
				if r.Code != durable.RefusedUnique || r.Holder != winner[0] {
					q.Fatalf("refused with %q for %q, want %q for %q", r.Code, r.Holder, durable.RefusedUnique, winner[0])
				}
			}
			q.places("after it", durable.Stats{Pending: 1})
			w := q.worker()
			w.done(w.one(winner[0]))
			q.free("when it is done", "k")
		}},
		{"of one batch the first has the key", Limits{}, func(q *queue) {
			p := q.producer()
			a := p.send(single("a", "k"), single("b", "k"), single("c", "other"), job("d"), single("e", "k"))
			want := []durable.Refusal{
				{Pos: 1, Code: durable.RefusedUnique, Holder: "a"}, {Pos: 4, Code: durable.RefusedUnique, Holder: "a"},
			}
			if a.Taken != 5 || !slices.Equal(a.Refused, want) {
				q.Errorf("append: %+v, want refused %+v", a, want)
			}
			q.places("after it", durable.Stats{Pending: 3})
			q.ordered("stored", q.worker().take(3), named("a", "c", "d"))
		}},
		{"a refused key is answered twice alike, takes no room, and is no error", Limits{MaxBacklog: 2}, func(q *queue) {
			p := q.producer()
			p.store(single("a", "k"), job("b"))
			first := p.send(single("c", "k"), single("a", "new"))
			want := []durable.Refusal{{Pos: 0, Code: durable.RefusedUnique, Holder: "a"}, {Pos: 1, Code: durable.RefusedDuplicate}}
			if first.Taken != 2 || !slices.Equal(first.Refused, want) {
				q.Errorf("append to a full backlog: %+v, want refused %+v", first, want)
			}
			w := q.worker()
			w.done(w.take(2)...)
			for range 2 { // the key is free by now, but the answer was another
				if again := p.sendAs(p.n, single("c", "k"), single("a", "new")); again.Taken != 2 || !slices.Equal(again.Refused, want) {
					q.Errorf("again: %+v, want refused %+v", again, want)
				}
			}
			q.places("after it", durable.Stats{})
			q.free("a refused job takes no key either", "new")
		}},
		{"a key is kept while its holder waits, runs, and waits again", Limits{}, func(q *queue) {
			q.store(single("a", "k"))
			q.taken("while it waits", "k", "a")
			w := q.worker()
			for _, v := range []durable.Verdict{durable.Retry, durable.Snooze, durable.Release} {
				c := w.one("a")
				q.taken("while it runs", "k", "a")
				w.settled("O", outcome(c, v))
				q.taken("after "+string(v), "k", "a")
			}
			w.one("a")
			w.lose()
			q.taken("when its worker is lost", "k", "a")
			w = q.worker()
			w.done(w.one("a"))
			q.free("when it is done", "k")
		}},
		{"a scheduled job keeps its key", Limits{}, func(q *queue) {
			j := single("a", "k")
			j.Delay = time.Hour
			q.store(j)
			q.taken("while it is scheduled", "k", "a")
		}},
		{"a dead job frees its key, unless it is to keep it", Limits{}, func(q *queue) {
			keeps := keyed("b", durable.Unique{Key: "kept", States: []durable.State{durable.StatePending, durable.StateProcessing, durable.StateDead}})
			q.store(single("a", "k"), keeps)
			w := q.worker()
			for _, c := range w.take(2) {
				w.settled("O", outcome(c, durable.Dead))
			}
			q.taken("of a dead one that keeps it", "kept", "b")
			q.free("of a dead one", "k")
			q.places("after it", durable.Stats{Dead: 2})
		}},
		{"a key is free when its holder is in a state that does not count", Limits{}, func(q *queue) {
			waits := func(id string) *durable.Job {
				return keyed(id, durable.Unique{Key: "k", States: []durable.State{durable.StatePending, durable.StateScheduled}})
			}
			q.store(waits("a"))
			q.taken("while it waits", "k", "a")
			w := q.worker()
			c := w.one("a")
			q.keeps("while it runs", waits("b"))
			w.settled("O", outcome(c, durable.Release))
			q.taken("the key is the other's, although the first waits again", "k", "b")
			w.done(w.take(2)...)
			q.free("when both are done", "k")
		}},
		{"the end of one that has lost its key frees nothing", Limits{}, func(q *queue) {
			q.store(keyed("a", durable.Unique{Key: "k", States: []durable.State{durable.StatePending}}))
			w := q.worker()
			c := w.one("a")
			q.keeps("while it runs", single("b", "k"))
			w.done(c)
			q.taken("after its end", "k", "b")
		}},
		{"a window keeps the key from the append on, whatever becomes of the holder", Limits{}, func(q *queue) {
			q.store(keyed("a", durable.Unique{Key: "k", Window: moment}))
			w := q.worker()
			w.done(w.one("a"))
			q.taken("in its window", "k", "a")
			q.pause(moment)
			q.free("when it is over", "k")
		}},
		{"a window that is over frees no key of one that is there", Limits{}, func(q *queue) {
			q.store(keyed("a", durable.Unique{Key: "k", Window: instant}))
			q.lapse(instant)
			q.taken("when it is over", "k", "a")
			w := q.worker()
			w.done(w.one("a"))
			q.free("when it is done", "k")
		}},
		{"a key is kept for a while after its holder has completed", Limits{}, func(q *queue) {
			after := durable.Unique{Key: "k", After: moment}
			q.store(keyed("a", after))
			w := q.worker()
			c := w.one("a")
			q.lapse(moment) // it does not begin before
			w.done(c)
			q.taken("after it", "k", "a")
			q.pause(moment)
			q.keeps("when that is over", keyed("b", after))
			w.settled("O", outcome(w.one("b"), durable.Dead))
			q.free("of one that is dead", "k") // for it has not completed
		}},
		{"a duplicate ID is told before a taken key", Limits{}, func(q *queue) {
			p := q.producer()
			p.store(single("a", "k"))
			if a := p.send(single("a", "k")); len(a.Refused) != 1 || a.Refused[0].Code != durable.RefusedDuplicate {
				q.Errorf("append: %+v", a)
			}
		}},
		{"a key out of bounds is refused by name", Limits{}, func(q *queue) {
			p := q.producer()
			for field, u := range map[string]durable.Unique{
				"Unique.Key has 0": {},
				"Unique.Key has":   {Key: strings.Repeat("k", durable.MaxIDBytes+1)},
				"Window":           {Key: "k", Window: -1},
				"After":            {Key: "k", After: -1},
				"States":           {Key: "k", States: []durable.State{durable.StateCompleted}},
			} {
				_, err := p.Append(q.ctx, 1, []*durable.Job{job("a"), keyed("b", u)})
				if !errors.Is(err, durable.ErrNotExecuted) || !strings.Contains(err.Error(), field) {
					q.Errorf("%+v: %v", u, err)
				}
			}
			longest := strings.Repeat("k", durable.MaxIDBytes)
			q.keeps("the longest key", single("c", longest))
			q.taken("the longest key", longest, "c")
			q.keeps("any bytes", single("d", "\x00\xff {}\r\n"))
			q.taken("any bytes", "\x00\xff {}\r\n", "d")
			q.places("after it", durable.Stats{Pending: 2})
		}},
	}
}

func uniqueOperatorPromises() []promise {
	return []promise{
		{"a record tells the key", Limits{}, func(q *queue) {
			q.store(single("a", "k"), job("b"))
			if r := q.in("a", durable.StatePending); r.UniqueKey != "k" {
				q.Errorf("the key of a is %q", r.UniqueKey)
			}
			if r := q.in("b", durable.StatePending); r.UniqueKey != "" {
				q.Errorf("the key of b is %q", r.UniqueKey)
			}
		}},
		{"a discard and a purge free the key", Limits{}, func(q *queue) {
			keeps := func(id string) *durable.Job {
				return keyed(id, durable.Unique{Key: "k-" + id, States: []durable.State{durable.StatePending, durable.StateDead}})
			}
			w := q.worker()
			q.kill(w, "because", keeps("discarded"))
			q.taken("while it is dead", "k-discarded", "discarded")
			q.handled(q.discard(durable.Selection{IDs: []string{"discarded"}}), "discarded", "")
			q.free("discarded", "k-discarded")
			q.kill(w, "because", keeps("dead"))
			q.store(keeps("pending"))
			q.purgeAll(durable.PurgeRequest{Confirm: q.name()})
			q.free("purged when dead", "k-dead")
			q.free("purged when pending", "k-pending")
		}},
		{"a dead job that is trimmed frees its key", Limits{MaxDead: 1}, func(q *queue) {
			w := q.worker()
			q.kill(w, "because", keyed("a", durable.Unique{Key: "k", States: []durable.State{durable.StatePending, durable.StateDead}}))
			q.taken("while it is kept", "k", "a")
			q.pause(between)
			q.kill(w, "because", job("b"))
			q.sweep()
			q.nothing("a")
			q.free("trimmed", "k")
		}},
		{"the record of a completed job keeps no key", Limits{}, func(q *queue) {
			j := single("a", "k")
			j.Retention = time.Hour
			q.store(j)
			w := q.worker()
			w.done(w.one("a"))
			q.in("a", durable.StateCompleted)
			q.free("completed", "k")
		}},
		{"a redriven job has its key again, and stays dead where another has it", Limits{}, func(q *queue) {
			w := q.worker()
			q.kill(w, "because", single("a", "k"))
			q.handled(q.redrive(durable.Selection{IDs: []string{"a"}}), "a", "")
			q.taken("redriven", "k", "a")
			w.settled("O", outcome(w.one("a"), durable.Dead))
			q.store(single("b", "k"))
			q.handled(q.redrive(durable.Selection{IDs: []string{"a"}}), "", "a")
			if h := q.redrive(durable.Selection{All: true}); len(h.IDs) > 0 || h.More() || h.Full {
				q.Errorf("redrive of all: %+v", h)
			}
			q.in("a", durable.StateDead)
			q.taken("after it", "k", "b")
			w.done(w.one("b"))
			q.handled(q.redrive(durable.Selection{All: true}), "a", "")
			q.taken("redriven at last", "k", "a")
			w.done(w.one("a"))
			q.free("after all", "k")
		}},
		{"of two dead jobs with one key one comes back", Limits{}, func(q *queue) {
			w := q.worker()
			q.kill(w, "because", single("a", "k"))
			q.kill(w, "because", single("b", "k"))
			q.handled(q.redrive(durable.Selection{IDs: []string{"a", "b"}}), "a", "b")
			q.places("after it", durable.Stats{Pending: 1, Dead: 1})
		}},
	}
}

// expiryUniquePromises are those of engines with both.
func expiryUniquePromises() []promise {
	return []promise{
		{"an expired job frees its key", Limits{}, func(q *queue) {
			j := single("a", "k")
			j.Expiry = instant
			q.store(j)
			q.lapse(instant)
			w := q.worker()
			w.none("too late")
			w.lapsed("too late", "a")
			q.free("expired", "k")
		}},
	}
}
