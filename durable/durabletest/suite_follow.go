package durabletest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

// listener is a follower that remembers what it was told.
type listener struct {
	q *queue
	durable.Follower
	notices []durable.Notice
	gaps    int
}

func (q *queue) follower() *listener {
	q.Helper()
	return q.followerOn(q.engine)
}

func (q *queue) followerOn(e durable.Engine) *listener {
	q.Helper()
	engine, ok := e.(durable.FollowEngine)
	if !ok {
		q.Fatalf("%T is no durable.FollowEngine", e)
	}
	f, err := engine.OpenFollower(q.ctx)
	if err != nil {
		q.Fatalf("open follower: %v", err)
	}
	return &listener{q: q, Follower: f}
}

func (f *listener) adopt(senders ...string) {
	f.q.Helper()
	for _, s := range senders {
		if err := f.Adopt(f.q.ctx, s, true); err != nil {
			f.q.Fatalf("adopt: %v", err)
		}
	}
}

func (f *listener) follow(ids ...string) []durable.Record {
	f.q.Helper()
	records, err := f.Follow(f.q.ctx, ids)
	if err != nil || len(records) != len(ids) {
		f.q.Fatalf("follow %q: %d records, %v", ids, len(records), err)
	}
	return records
}

// listen waits once.
func (f *listener) listen() {
	f.q.Helper()
	news, err := f.Await(f.q.ctx)
	if err != nil {
		f.q.Fatalf("await of a follower: %v", err)
	}
	f.notices = append(f.notices, news.Notices...)
	if news.Gap {
		f.gaps++
	}
}

// heard is what a notice says, in a word.
func heard(n durable.Notice) string {
	s := fmt.Sprintf("%c %s", n.What, n.ID)
	if len(n.Data) > 0 {
		s += " " + string(n.Data)
	}
	if n.Kept {
		s += " kept"
	}
	if n.Reason != "" {
		s += ": " + n.Reason
	}
	return s
}

// hears waits until as many things were told as are wanted, since the last time, and checks that they are these: of one job in this order.
func (f *listener) hears(when string, want ...string) {
	f.q.Helper()
	f.q.until(fmt.Sprintf("%s: %d notices", when, len(want)), func() bool {
		if len(f.notices) < len(want) {
			f.listen()
		}
		return len(f.notices) >= len(want)
	})
	f.q.sameNotices(when, f.notices, want)
	f.notices = nil
}

// sameNotices compares by job.
func (q *queue) sameNotices(when string, notices []durable.Notice, want []string) {
	q.Helper()
	job := func(s string) string { return strings.Fields(s)[1] }
	var got []string
	for _, n := range notices {
		got = append(got, heard(n))
	}
	byJob := func(a, b string) int { return strings.Compare(job(a), job(b)) }
	slices.SortStableFunc(got, byJob)
	want = slices.Clone(want)
	if slices.SortStableFunc(want, byJob); !slices.Equal(got, want) {
		q.Errorf("%s: told %.300q, want %.300q", when, got, want)
	}
}

// silent checks that nothing is told: the end of a job that it follows as well comes next.
func (f *listener) silent(when string) {
	f.q.Helper()
	f.hears(when)
	mark := fmt.Sprintf("mark-%d", time.Now().UnixNano())
	p := f.q.producer()
	f.adopt(p.ID())
	p.store(job(mark))
	w := f.q.worker()
	w.done(w.one(mark)) // nothing else waits
	f.hears(when, "c "+mark)
}

func followPromises() []promise {
	return slices.Concat(toldPromises(), followerPromises())
}

func toldPromises() []promise {
	return []promise{
		{"a follower is told what others do with its producers' jobs", Limits{}, func(q *queue) {
			f, p := q.follower(), q.producerOn(q.another())
			f.adopt(p.ID())
			w := q.workerOn(q.another())
			p.store(job("a"))
			c := w.one("a")
			if !c.Followed {
				q.Errorf("the claim is not followed")
			}
			w.tell(durable.Telling{Ref: ref(c), Started: true})
			w.tell(durable.Telling{Ref: ref(c), Progress: []byte("half")})
			w.settled("O", outcome(c, durable.Done))
			q.until("three notices", func() bool {
				f.listen()
				return len(f.notices) >= 3
			})
			for _, n := range f.notices {
				if life := fmt.Sprintf("%s:%d", p.ID(), 1); n.Life != life && !strings.HasPrefix(n.Life, life+":") {
					q.Errorf("the life is %q, want that of %s", n.Life, life)
				}
			}
			f.hears("all", "s a", "p a half", "c a")
			if f.gaps > 0 {
				q.Errorf("%d gaps", f.gaps)
			}
		}},
		{"a result is told where it is short, else that it is kept", Limits{}, func(q *queue) {
			f, p := q.follower(), q.producer()
			f.adopt(p.ID())
			p.store(jobs(5)...)
			w := q.worker()
			held := w.take(5)
			longest := strings.Repeat("r", durable.MaxNoticed)
			w.settled("OOOOO", result(held[0], "short", 0), result(held[1], "short", time.Hour),
				result(held[2], longest, 0), result(held[3], longest+"r", time.Hour), result(held[4], longest+"r", 0))
			f.hears("all", "c job-0000 short", "c job-0001 short", "c job-0002 "+longest, "c job-0003 kept", "c job-0004")
		}},
		{"a job that waits again, and one that dies, are told", Limits{}, func(q *queue) {
			f, p := q.follower(), q.producer()
			f.adopt(p.ID())
			p.store(jobs(5)...)
			w := q.worker()
			held := w.take(5)
			last := outcome(held[4], durable.Retry)
			last.MaxAttempts = 1
			w.settled("OOOOX", outcome(held[0], durable.Retry), outcome(held[1], durable.Snooze), outcome(held[2], durable.Release),
				outcome(held[3], durable.Dead), last)
			f.hears("all", "r job-0000", "r job-0001", "r job-0002", "d job-0003: because", "d job-0004: because")
		}},
		{"what a lost or leaving worker held is told", Limits{MaxCrashes: 2}, func(q *queue) {
			f, p := q.follower(), q.producer()
			p.store(jobs(2)...)
			f.adopt(p.ID()) // also of what it has appended before
			one, two := q.worker(), q.worker()
			f.adopt(one.ID()) // a lost one tells its process nothing
			one.one("job-0000")
			two.one("job-0001")
			one.lose()
			f.hears("lost", "r job-0000")
			for more := true; more; {
				var err error
				if more, err = two.Leave(q.ctx); err != nil {
					q.Fatalf("leave: %v", err)
				}
			}
			f.hears("left", "r job-0001")
			heir := q.worker()
			for range 2 {
				c := heir.take(1)[0]
				if c.ID == "job-0000" {
					heir.lose()
					break
				}
				heir.done(c)
				f.hears("done", "c job-0001")
			}
			if got := q.stats().Dead; got != 1 {
				q.Fatalf("%d are dead", got)
			}
			q.until("it is told that job-0000 is dead, and why", func() bool {
				f.listen()
				return slices.ContainsFunc(f.notices, func(n durable.Notice) bool {
					return n.What == durable.NoticeDead && n.ID == "job-0000" && n.Reason != ""
				})
			})
		}},
		{"who has done it itself is not told", Limits{}, func(q *queue) {
			f, p := q.follower(), q.producer()
			w := q.worker()
			f.adopt(p.ID(), w.ID())
			p.store(jobs(4)...)
			held := w.take(4)
			for _, c := range held {
				if c.Followed {
					q.Errorf("the claim of %s is followed", c.ID)
				}
			}
			w.tell(durable.Telling{Ref: ref(held[0]), Started: true, Progress: []byte("half")})
			w.settled("OOOO", outcome(held[0], durable.Done), outcome(held[1], durable.Dead), outcome(held[2], durable.Done), outcome(held[3], durable.Done))
			f.silent("of what it has done")
		}},
		{"who has not adopted a producer is not told, and neither is who has given it up", Limits{}, func(q *queue) {
			none, former := q.follower(), q.follower()
			p := q.producer()
			former.adopt(p.ID(), p.ID())
			for range 2 {
				if err := former.Adopt(q.ctx, p.ID(), false); err != nil {
					q.Errorf("adopt no more: %v", err)
				}
			}
			p.store(job("a"))
			w := q.worker()
			c := w.one("a")
			if c.Followed {
				q.Errorf("the claim is followed")
			}
			w.done(c)
			none.silent("who never was")
			former.silent("who is no more")
		}},
		{"a consumer that is adopted no more is another's", Limits{}, func(q *queue) {
			f, p, w := q.follower(), q.producer(), q.worker()
			f.adopt(p.ID(), w.ID())
			if err := f.Adopt(q.ctx, w.ID(), false); err != nil {
				q.Errorf("adopt no more: %v", err)
			}
			p.store(job("a"))
			w.done(w.one("a"))
			f.hears("after it", "c a")
		}},
		{"each follower is told of its own", Limits{}, func(q *queue) {
			one, two := q.follower(), q.followerOn(q.another())
			p1, p2 := q.producer(), q.producer()
			one.adopt(p1.ID())
			two.adopt(p2.ID())
			w := q.worker()
			two.adopt(w.ID())
			p1.store(job("a"))
			p2.store(job("b"))
			w.done(w.take(2)...)
			one.hears("the first", "c a")
			one.silent("the first")
			two.silent("the second") // its own consumer has done it
		}},
		{"a job that somebody else has appended can be followed", Limits{}, func(q *queue) {
			f, other := q.follower(), q.follower()
			late := job("late")
			late.Delay = 50 * time.Millisecond
			kept := job("kept")
			kept.Retention = time.Hour
			q.store(kept)
			w := q.worker()
			w.settled("O", result(w.one("kept"), "result", 0))
			q.store(job("held"))
			held := w.one("held")
			w.tell(progress(held, "half"))
			q.store(late, job("waits"))
			records := f.follow("waits", "none", "late", "kept", "held", "waits")
			var got []string
			for _, r := range records {
				got = append(got, string(r.State))
			}
			if want := []string{"pending", "", "scheduled", "completed", "processing", "pending"}; !slices.Equal(got, want) {
				q.Errorf("followed are %q, want %q", got, want)
			}
			if r := records[3]; r.ID != "kept" || string(r.Result) != "result" || r.Life == "" {
				q.Errorf("completed: %+v", r)
			}
			if r := records[4]; r.Consumer != w.ID() || string(r.Progress) != "half" || len(r.Payload) > 0 {
				q.Errorf("held: %+v", r)
			}
			other.follow("held", "none")
			w.done(held)
			f.hears("the first", "c held")
			other.hears("the second", "c held")
			c := w.one("waits")
			if !c.Followed {
				q.Errorf("the claim is not followed")
			}
			w.done(c)
			f.hears("what waited", "c waits")
			w.done(w.one("late"))
			f.hears("what was late", "c late")
			q.store(job("held")) // another life
			w.done(w.one("held"))
			f.silent("of the next with its ID")
			other.silent("of the next with its ID")
		}},
		{"a job that is followed twice over is told once", Limits{}, func(q *queue) {
			f, p := q.follower(), q.producer()
			f.adopt(p.ID())
			p.store(job("a"))
			f.follow("a", "a")
			f.follow("a")
			w := q.worker()
			w.done(w.one("a"))
			f.hears("after it", "c a")
			f.silent("again")
		}},
		{"what was done by its own consumer is not told of a job that is followed either", Limits{}, func(q *queue) {
			f, w := q.follower(), q.worker()
			f.adopt(w.ID())
			q.store(job("a"))
			f.follow("a")
			c := w.one("a")
			if c.Followed {
				q.Errorf("the claim is followed")
			}
			w.done(c)
			f.silent("of what it has done")
		}},
		{"no more jobs can be followed at once than a page has", Limits{}, func(q *queue) {
			f := q.follower()
			var ids []string
			for i := range durable.MaxPage {
				ids = append(ids, fmt.Sprint("none-", i))
			}
			for _, r := range f.follow(ids...) {
				if r.State != "" {
					q.Errorf("%+v", r)
				}
			}
			if _, err := f.Follow(q.ctx, append(ids, "one more")); !errors.Is(err, durable.ErrNotExecuted) {
				q.Errorf("one more: %v", err)
			}
			f.follow()
		}},
	}
}

func followOperatorPromises() []promise {
	return []promise{
		{"what an operator does to a job is told", Limits{}, func(q *queue) {
			f, p := q.follower(), q.producer()
			f.adopt(p.ID())
			w := q.worker()
			p.store(jobs(3)...)
			for _, c := range w.take(3) {
				w.settled("O", outcome(c, durable.Dead))
			}
			f.hears("dead", "d job-0000: because", "d job-0001: because", "d job-0002: because")
			q.handled(q.discard(durable.Selection{IDs: []string{"job-0000"}}), "job-0000", "")
			f.hears("discarded", "g job-0000")
			q.handled(q.redrive(durable.Selection{IDs: []string{"job-0001"}}), "job-0001", "")
			f.hears("redriven", "r job-0001")
			held := w.one("job-0001")
			late := job("late")
			late.Delay = time.Hour
			p.store(job("waits"), late)
			q.purgeAll(durable.PurgeRequest{Confirm: q.name(), States: []durable.State{
				durable.StatePending, durable.StateScheduled, durable.StateDead, durable.StateProcessing,
			}})
			f.hears("purged", "g job-0001", "g job-0002", "g late", "g waits")
			w.settled("G", outcome(held, durable.Done))
			f.silent("after it")
		}},
	}
}

// followUniquePromises are those of engines with both.
func followUniquePromises() []promise {
	return []promise{
		{"a dead job that cannot come back for its key is not said to wait", Limits{}, func(q *queue) {
			f, p := q.follower(), q.producer()
			f.adopt(p.ID())
			w := q.worker()
			p.store(single("a", "k"))
			w.settled("O", outcome(w.one("a"), durable.Dead))
			f.hears("dead", "d a: because")
			q.store(single("b", "k"))
			q.handled(q.redrive(durable.Selection{IDs: []string{"a"}}), "", "a")
			w.done(w.one("b"))
			f.silent("it stays dead")
		}},
	}
}
