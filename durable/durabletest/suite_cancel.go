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

func (q *queue) cancel(id, life string) (durable.Cancelled, error) {
	return q.operator().Cancel(q.ctx, durable.CancelRequest{ID: id, Life: life})
}

// cancelled cancels jobs that wait.
func (q *queue) cancelled(ids ...string) {
	q.Helper()
	for _, id := range ids {
		if c, err := q.cancel(id, ""); err != nil || c.Running || c.Consumer != "" {
			q.Fatalf("cancel of %s, which waits: %+v, %v", id, c, err)
		}
	}
}

// marked asks for the end of a claim of w.
func (q *queue) marked(id string, w *worker) {
	q.Helper()
	if c, err := q.cancel(id, ""); err != nil || !c.Running || c.Consumer != w.ID() {
		q.Fatalf("cancel of %s, which runs: %+v, %v", id, c, err)
	}
}

// uncancelled checks that there is nothing to cancel.
func (q *queue) uncancelled(when, id, life string) {
	q.Helper()
	if c, err := q.cancel(id, life); !errors.Is(err, durable.ErrNoJob) {
		q.Errorf("%s: cancel of %s: %+v, %v; want ErrNoJob", when, id, c, err)
	}
}

func (w *worker) teller() durable.Teller {
	w.q.Helper()
	t, ok := w.Consumer.(durable.Teller)
	if !ok {
		w.q.Fatalf("%T is no durable.Teller", w.Consumer)
	}
	return t
}

// asked checks which claims of w are to be cancelled.
func (w *worker) asked(when string, want ...*durable.Claim) {
	w.q.Helper()
	refs, err := w.teller().Cancels(w.q.ctx)
	if err != nil {
		w.q.Fatalf("cancels: %v", err)
	}
	var got, named []string
	for _, r := range refs {
		got = append(got, r.ID+" "+r.Token)
	}
	for _, c := range want {
		named = append(named, c.ID+" "+c.Token)
	}
	slices.Sort(got)
	if slices.Sort(named); !slices.Equal(got, named) {
		w.q.Errorf("%s: to be cancelled are %q, want %q", when, got, named)
	}
}

// life is that of a job.
func (q *queue) life(id string) string {
	q.Helper()
	life := q.lookup(id).Life
	if life == "" {
		q.Errorf("%s has no life", id)
	}
	return life
}

func cancelPromises() []promise {
	return slices.Concat(cancelWaitingPromises(), cancelRunningPromises())
}

func cancelWaitingPromises() []promise {
	return []promise{
		{"a job that waits is cancelled at once, and never claimed", Limits{}, func(q *queue) {
			q.store(jobs(5)...)
			q.cancelled("job-0000", "job-0002", "job-0004")
			q.nothing("job-0002")
			q.uncancelled("again", "job-0002", "")
			w := q.worker()
			q.ordered("the others", w.take(2), named("job-0001", "job-0003"))
			w.none("the cancelled ones")
			q.places("after it", durable.Stats{Processing: 2})
			if n := q.counter("cancelled"); n != 3 {
				q.Errorf("%d are counted, want 3", n)
			}
		}},
		{"a scheduled job is cancelled at once", Limits{}, func(q *queue) {
			late, retried := job("late"), job("retried")
			late.Delay = 10 * brief
			q.store(retried)
			w := q.worker()
			o := outcome(w.one("retried"), durable.Retry)
			o.Delay = 10 * brief
			w.settled("O", o)
			q.store(late)
			for _, id := range []string{"late", "retried"} {
				if c, err := q.cancel(id, ""); err != nil || c.Running {
					q.Errorf("cancel of %s: %+v, %v", id, c, err)
				}
				q.nothing(id)
			}
			q.pause(20 * brief)
			w.none("when they would be due")
			q.places("after it", durable.Stats{})
		}},
		{"a cancel leaves alone what it does not mean", Limits{}, func(q *queue) {
			q.store(job("a"))
			first := q.life("a")
			w := q.worker()
			w.done(w.one("a"))
			q.uncancelled("when it is gone", "a", first)
			q.store(job("a"))
			second := q.life("a")
			if first == second {
				q.Errorf("two jobs have the life %q", first)
			}
			q.uncancelled("another life", "a", first)
			q.uncancelled("no life that ever was", "a", "x")
			q.in("a", durable.StatePending)
			c := w.one("a")
			q.uncancelled("another life that runs", "a", first)
			w.asked("another life that runs")
			w.settled("O", outcome(c, durable.Release))
			if got := q.life("a"); got != second {
				q.Errorf("its life was %q, and is %q", second, got)
			}
			if c, err := q.cancel("a", second); err != nil || c.Running {
				q.Errorf("cancel of its life: %+v, %v", c, err)
			}
			q.nothing("a")
			q.uncancelled("no job", "none", "")
		}},
		{"what has ended is not cancelled", Limits{}, func(q *queue) {
			kept := job("completed")
			kept.Retention = time.Hour
			w := q.worker()
			q.kill(w, "because", job("dead"))
			q.store(kept)
			w.done(w.one("completed"))
			q.uncancelled("dead", "dead", "")
			q.uncancelled("completed", "completed", "")
			q.in("dead", durable.StateDead)
			q.in("completed", durable.StateCompleted)
		}},
		{"a cancelled job with a retention leaves a record, until it is over", Limits{}, func(q *queue) {
			waits, runs := job("waits"), job("runs")
			waits.Retention, runs.Retention = moment, moment
			q.store(runs)
			w := q.worker()
			c := w.one("runs")
			q.store(waits)
			q.cancelled("waits")
			q.marked("runs", w)
			w.settled("C", outcome(c, durable.Release))
			for _, id := range []string{"waits", "runs"} {
				r := q.in(id, durable.StateCancelled)
				q.near("cancelled", r.Since, 0)
				q.near("forgotten", r.Due, moment)
				if len(r.Payload) != 0 || r.Size == 0 || r.Cancelling {
					q.Errorf("cancelled: %+v", r)
				}
				q.uncancelled("again", id, "")
			}
			if all := q.pages(durable.JobsRequest{State: durable.StateCompleted}); len(all) != 2 {
				q.Errorf("kept are %q", recordIDs(all))
			}
			w.none("what was cancelled")
			q.places("while they are kept", durable.Stats{Completed: 2})
			q.until("they are forgotten", func() bool {
				_, err := q.operator().Lookup(q.ctx, durable.LookupRequest{ID: "waits"})
				return errors.Is(err, durable.ErrNoJob) && q.stats().Completed == 0
			})
		}},
		{"the ID of a cancelled job can be used again, and what is left of it starts nothing", Limits{}, func(q *queue) {
			q.store(job("a"), job("b"))
			q.cancelled("a", "b")
			late := job("b")
			late.Delay = 30 * time.Millisecond
			start := time.Now()
			q.store(job("a"), late)
			one, two := q.worker(), q.worker()
			c := one.one("a")
			two.none("while it runs")
			if c := two.one("b"); time.Since(start) < late.Delay {
				q.Errorf("%s comes after %v", c.ID, time.Since(start))
			}
			one.done(c)
			one.none("when it is done")
		}},
		{"a job is cancelled while consumption is paused", Limits{}, func(q *queue) {
			q.store(jobs(2)...)
			q.paused(durable.Consumption | durable.Intake)
			q.cancelled("job-0000")
			q.resumed(durable.Consumption | durable.Intake)
			w := q.worker()
			w.one("job-0001")
			w.none("the rest")
		}},
		{"a cancel beside a claim ends the job or marks the claim, never both and never neither", Limits{}, func(q *queue) {
			const n, before = 100, 10
			q.store(jobs(n)...)
			w, op := q.worker(), q.operator()
			claims := make(map[string]*durable.Claim)
			for _, c := range w.take(before) {
				claims[c.ID] = c
			}
			running := make(map[string]bool)
			var wrong []string
			var both sync.WaitGroup
			both.Go(func() {
				for i := range n {
					id := fmt.Sprintf("job-%04d", n-1-i)
					c, err := op.Cancel(q.ctx, durable.CancelRequest{ID: id})
					if err != nil {
						wrong = append(wrong, fmt.Sprint(id, ": ", err))
					}
					running[id] = c.Running
				}
			})
			for range n - before {
				for _, c := range w.claim(1).Jobs {
					claims[c.ID] = c
				}
			}
			both.Wait()
			if len(wrong) > 0 {
				q.Fatalf("cancel: %s", strings.Join(wrong, "; "))
			}
			var asked []*durable.Claim
			for id, r := range running {
				if c := claims[id]; r != (c != nil) {
					q.Errorf("%s: the cancel says running is %v, and its claim is %v", id, r, c)
				} else if r {
					asked = append(asked, c)
				}
			}
			w.asked("after it", asked...)
		}},
	}
}

func cancelRunningPromises() []promise {
	return []promise{
		{"a claim that is to be cancelled is told to its consumer, and to no other", Limits{}, func(q *queue) {
			one, two := q.worker(), q.worker()
			one.asked("at first")
			q.store(jobs(4)...)
			held, other := one.take(3), two.take(1)
			one.asked("of nothing")
			q.marked("job-0001", one)
			q.marked("job-0001", one)
			one.asked("one", held[1])
			two.asked("of the other's")
			q.marked("job-0003", two)
			two.asked("its own", other[0])
			q.marked("job-0002", one)
			one.asked("both", held[1], held[2])
			if r := q.in("job-0001", durable.StateProcessing); !r.Cancelling || r.Consumer != one.ID() {
				q.Errorf("a claim to be cancelled: %+v", r)
			}
			if r := q.in("job-0000", durable.StateProcessing); r.Cancelling {
				q.Errorf("another claim: %+v", r)
			}
			one.done(held[1])
			one.asked("when one is done", held[2])
			one.settled("C", outcome(held[2], durable.Retry))
			one.asked("when both are")
		}},
		{"a claim to be cancelled is cancelled when it would wait again", Limits{}, func(q *queue) {
			q.store(jobs(3)...)
			w := q.worker()
			var outcomes []durable.Outcome
			for i, c := range w.take(3) {
				q.marked(c.ID, w)
				o := outcome(c, []durable.Verdict{durable.Retry, durable.Snooze, durable.Release}[i])
				o.MaxAttempts = 1 + i // a retry that would be dead is cancelled, too
				outcomes = append(outcomes, o)
			}
			for range 2 {
				if got := codesOf(w.settleAs(1, outcomes...)); got != "CCC" {
					q.Errorf("codes %q, want %q", got, "CCC")
				}
			}
			w.settles = 1
			w.none("after it")
			for _, o := range outcomes {
				q.nothing(o.ID)
			}
			q.places("after it", durable.Stats{})
			w.settled("GGG", outcomes...)
			if n := q.counter("cancelled"); n != 3 {
				q.Errorf("%d are counted, want 3", n)
			}
		}},
		{"what a claim to be cancelled has come to is kept", Limits{}, func(q *queue) {
			kept := job("done")
			kept.Retention = time.Hour
			q.store(kept, job("dead"))
			w := q.worker()
			held := w.take(2)
			q.marked("done", w)
			q.marked("dead", w)
			w.settled("OO", outcome(held[0], durable.Done), outcome(held[1], durable.Dead))
			q.in("done", durable.StateCompleted)
			if r := q.in("dead", durable.StateDead); r.Cancelling {
				q.Errorf("dead: %+v", r)
			}
			if n := q.counter("cancelled"); n != 0 {
				q.Errorf("%d are counted as cancelled", n)
			}
			// That was about the run that has ended.
			q.handled(q.redrive(durable.Selection{IDs: []string{"dead"}}), "dead", "")
			c := w.one("dead")
			w.asked("redriven")
			w.settled("O", outcome(c, durable.Release))
			w.done(w.one("dead"))
		}},
		{"a job to be cancelled ends with its lost consumer", Limits{}, func(q *queue) {
			q.store(jobs(3)...)
			w := q.worker()
			held := w.take(3)
			q.marked("job-0001", w)
			s := w.lose()
			if s.Ended != 1 || s.Returned != 2 {
				q.Errorf("swept: %+v", s)
			}
			q.nothing("job-0001")
			w.settled("G", outcome(held[1], durable.Done))
			heir := q.worker()
			for range 2 { // one at a time: both are suspects
				c := heir.take(1)[0]
				if c.ID == "job-0001" {
					q.Errorf("%s is claimed again", c.ID)
				}
				heir.done(c)
			}
			q.places("after it", durable.Stats{})
		}},
		{"a job to be cancelled ends with a consumer that leaves", Limits{}, func(q *queue) {
			q.store(jobs(3)...)
			w := q.worker()
			w.take(3)
			q.marked("job-0001", w)
			for more := true; more; {
				var err error
				if more, err = w.Leave(q.ctx); err != nil {
					q.Fatalf("leave: %v", err)
				}
			}
			q.nothing("job-0001")
			heir := q.worker()
			heir.done(heir.take(2)...)
			heir.none("after it")
			q.places("after it", durable.Stats{})
		}},
		{"a job to be cancelled whose consumer does not know of it ends when that is found out", Limits{}, func(q *queue) {
			q.store(jobs(2)...)
			w := q.worker()
			w.take(2)
			q.marked("job-0001", w)
			a := w.claim(1)
			if a.Status != durable.ClaimEmpty {
				q.Fatalf("claim: %q", a.Status)
			}
			clear(w.held) // the answer was lost, and the store lost writes
			r := w.request(1)
			if a := w.ask(r); a.Status != durable.ClaimReconcile {
				q.Fatalf("claim: %q, want reconcile", a.Status)
			}
			r = w.request(1)
			r.Named = []durable.Ref{}
			if c := w.only(w.ask(r)); c.ID != "job-0000" {
				q.Errorf("claimed %s", c.ID)
			}
			w.none("the cancelled one")
			q.nothing("job-0001")
			w.asked("after it")
		}},
		{"the next claim of an ID is not to be cancelled for the one before", Limits{}, func(q *queue) {
			q.store(job("a"))
			w := q.worker()
			c := w.one("a")
			q.marked("a", w)
			w.done(c)
			q.store(job("a"))
			c = w.one("a")
			w.asked("the next one")
			w.settled("O", outcome(c, durable.Release))
			q.in("a", durable.StatePending)
		}},
		{"a token of the past cancels nothing", Limits{}, func(q *queue) {
			q.store(job("a"))
			one, two := q.worker(), q.worker()
			past := one.one("a")
			one.settled("O", outcome(past, durable.Release))
			c := two.one("a")
			q.marked("a", two)
			one.asked("of another's")
			one.settled("S", outcome(past, durable.Release))
			two.asked("its own", c)
			two.done(c)
		}},
		{"a cancel and a question for cancels end with their context", Limits{}, func(q *queue) {
			w := q.worker()
			ctx, cancel := cancelled(q)
			defer cancel()
			if _, err := q.operator().Cancel(ctx, durable.CancelRequest{ID: "a"}); !errors.Is(err, durable.ErrNotExecuted) {
				q.Errorf("cancel: %v", err)
			}
			if _, err := w.teller().Cancels(ctx); !errors.Is(err, durable.ErrNotExecuted) {
				q.Errorf("cancels: %v", err)
			}
		}},
	}
}

// cancelUniquePromises are those of engines with both.
func cancelUniquePromises() []promise {
	return []promise{
		{"a cancelled job frees its key", Limits{}, func(q *queue) {
			q.store(single("a", "k"))
			q.cancelled("a")
			q.free("cancelled when it waited", "k")
			q.store(single("b", "k"))
			w := q.worker()
			c := w.one("b")
			q.marked("b", w)
			q.taken("while it runs", "k", "b")
			w.settled("C", outcome(c, durable.Retry))
			q.free("cancelled when it ran", "k")
			late := single("c", "k")
			late.Delay = time.Hour
			q.store(late)
			q.cancelled("c")
			q.free("cancelled when it was scheduled", "k")
		}},
		{"a key that is kept after completion is not after a cancel", Limits{}, func(q *queue) {
			q.store(keyed("a", durable.Unique{Key: "k", After: time.Hour}))
			q.cancelled("a")
			q.free("cancelled", "k")
		}},
		{"a window outlives a cancel", Limits{}, func(q *queue) {
			q.store(keyed("a", durable.Unique{Key: "k", Window: moment}))
			q.cancelled("a")
			q.taken("cancelled", "k", "a")
			q.pause(moment)
			q.free("when it is over", "k")
		}},
	}
}
