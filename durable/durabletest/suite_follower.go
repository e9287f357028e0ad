package durabletest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

// followerPromises are about a follower itself.
func followerPromises() []promise {
	return []promise{
		{"a follower that does not listen loses the oldest, and is told so once", Limits{}, func(q *queue) {
			f, p := q.follower(), q.producer()
			f.adopt(p.ID())
			p.store(job("a"))
			w := q.worker()
			c := w.one("a")
			for i := range 2*durable.MaxNotices + 500 {
				w.tell(progress(c, fmt.Sprint(i)))
			}
			w.done(c)
			f.listen()
			for i := 0; len(f.notices) == 0 || f.notices[len(f.notices)-1].What != durable.NoticeCompleted; i++ {
				if i > 2*durable.MaxNotices {
					q.Fatalf("the end is not told; last: %+v", f.notices[len(f.notices)-1])
				}
				f.listen()
			}
			if f.gaps != 1 {
				q.Errorf("%d gaps are told, want one", f.gaps)
			}
			if n := len(f.notices); n < durable.MaxNotices || n > 2*durable.MaxNotices {
				q.Errorf("%d notices, want %d at least, and not all", n, durable.MaxNotices)
			}
			last := -1
			for _, n := range f.notices[:len(f.notices)-1] {
				i, err := strconv.Atoi(string(n.Data))
				if err != nil || i <= last {
					q.Fatalf("%s is told after %d", heard(n), last)
				}
				last = i
			}
			f.notices, f.gaps = nil, 0
			f.silent("after it")
			if f.gaps != 0 {
				q.Errorf("one more gap is told")
			}
		}},
		{"as many steps as are promised are kept without a gap", Limits{}, func(q *queue) {
			f, p := q.follower(), q.producer()
			f.adopt(p.ID())
			p.store(job("a"), job("b"))
			w := q.worker()
			held := w.take(2)
			var want []string
			for i := range durable.MaxNotices {
				w.tell(progress(held[0], fmt.Sprint(i)), progress(held[1], fmt.Sprint(i)))
				want = append(want, fmt.Sprint("p a ", i), fmt.Sprint("p b ", i))
			}
			f.hears("all", want...)
			if f.gaps > 0 {
				q.Errorf("%d gaps are told", f.gaps)
			}
		}},
		{"news ends a wait, and without any it ends by itself", Limits{}, func(q *queue) {
			f, p := q.follower(), q.producer()
			f.adopt(p.ID())
			start := time.Now()
			f.listen()
			if d := time.Since(start); len(f.notices) > 0 || d > 10*durable.Park {
				q.Errorf("after %v: %+v", d, f.notices)
			}
			p.store(job("a"))
			w := q.worker()
			c := w.one("a")
			heard := make(chan error, 1)
			go func() {
				for range 10 {
					news, err := f.Await(q.ctx)
					if err != nil || len(news.Notices) > 0 {
						heard <- err
						return
					}
				}
				heard <- errors.New("nothing")
			}()
			q.pause(3 * between)
			w.done(c)
			if err := <-heard; err != nil {
				q.Errorf("await: %v", err)
			}
			ctx, cancel := context.WithCancel(q.ctx)
			time.AfterFunc(between, cancel)
			if news, err := f.Await(ctx); err == nil && len(news.Notices) > 0 {
				q.Errorf("told %+v", news)
			}
			f.silent("after it")
		}},
		{"a follower follows its own kind and no stranger", Limits{}, func(q *queue) {
			f, second := q.follower(), q.follower()
			if f.ID() == "" || f.ID() == second.ID() {
				q.Errorf("followers are called %q and %q", f.ID(), second.ID())
			}
			for _, adopted := range []bool{true, false} {
				if err := f.Adopt(q.ctx, "nobody", adopted); !errors.Is(err, durable.ErrNoSender) {
					q.Errorf("adopting nobody: %v", err)
				}
			}
		}},
		{"a follower that is closed is told nothing, and is unknown", Limits{}, func(q *queue) {
			f, p := q.follower(), q.producer()
			f.adopt(p.ID())
			p.store(job("a"), job("b"))
			f.follow("b")
			w := q.worker()
			w.done(w.one("a"))
			for range 2 {
				if err := f.Close(q.ctx); err != nil {
					q.Errorf("close: %v", err)
				}
			}
			c := w.one("b")
			if c.Followed {
				q.Errorf("the claim is followed")
			}
			w.done(c)
			_, err1 := f.Await(q.ctx)
			_, err2 := f.Follow(q.ctx, []string{"b"})
			err3 := f.Adopt(q.ctx, p.ID(), true)
			for i, err := range []error{err1, err2, err3} {
				if !errors.Is(err, durable.ErrNoSender) {
					q.Errorf("call %d: %v, want ErrNoSender", i+1, err)
				}
			}
			next := q.follower()
			next.adopt(p.ID())
			p.store(job("c"))
			w.done(w.one("c"))
			next.hears("the next", "c c")
		}},
		{"calls of a follower end with their context", Limits{}, func(q *queue) {
			f, p := q.follower(), q.producer()
			ctx, cancel := cancelled(q)
			defer cancel()
			_, err1 := q.engine.(durable.FollowEngine).OpenFollower(ctx)
			err2 := f.Adopt(ctx, p.ID(), true)
			_, err3 := f.Follow(ctx, []string{"a"})
			for i, err := range []error{err1, err2, err3} {
				if !errors.Is(err, durable.ErrNotExecuted) {
					q.Errorf("call %d: %v", i+1, err)
				}
			}
			if _, err := f.Await(ctx); err == nil {
				q.Errorf("await: no error")
			}
		}},
	}
}

// followCancelPromises are those of engines with both.
func followCancelPromises() []promise {
	return []promise{
		{"a cancel is told, when the job has ended", Limits{}, func(q *queue) {
			f, p, w := q.follower(), q.producer(), q.worker()
			f.adopt(p.ID())
			late := job("late")
			late.Delay = time.Hour
			p.store(job("runs"), job("lost"))
			c := w.one("runs")
			lost := q.worker()
			lost.one("lost")
			p.store(job("waits"), late)
			f.follow("waits")
			q.cancelled("waits", "late")
			f.hears("those that waited", "x waits", "x late")
			q.marked("runs", w)
			q.marked("lost", lost)
			w.settled("C", outcome(c, durable.Retry))
			f.hears("one that ran", "x runs")
			lost.lose()
			f.hears("one that lost its worker", "x lost")
		}},
	}
}

// followExpiryPromises are those of engines with both.
func followExpiryPromises() []promise {
	return []promise{
		{"a job that expires is told, but not to whose claim has ended it", Limits{}, func(q *queue) {
			f, own := q.follower(), q.follower()
			p, o, w := q.producer(), q.producer(), q.worker()
			f.adopt(p.ID())
			own.adopt(o.ID(), w.ID())
			p.store(passing("a", instant))
			o.store(passing("b", instant))
			q.lapse(instant)
			w.none("too late")
			w.lapsed("too late", "a", "b")
			f.hears("another's", "e a")
			own.silent("its own")
		}},
		{"following a job that waits and has expired ends it", Limits{}, func(q *queue) {
			f, other, p := q.follower(), q.follower(), q.producer()
			other.adopt(p.ID())
			late, kept := passing("late", instant), passing("kept", instant)
			late.Delay, kept.Retention = time.Hour, time.Hour
			p.store(passing("a", instant), late, kept, passing("b", long))
			q.lapse(instant)
			records := f.follow("a", "late", "kept", "b")
			for i, want := range []durable.State{durable.StateExpired, durable.StateExpired, durable.StateExpired, durable.StatePending} {
				if records[i].State != want {
					q.Errorf("%s is %q, want %q", records[i].ID, records[i].State, want)
				}
			}
			if r := f.follow("a", "kept"); r[0].State != "" || r[1].State != durable.StateExpired {
				q.Errorf("followed again: %q and %q", r[0].State, r[1].State)
			}
			other.hears("who follows, too", "e a", "e late", "e kept")
			f.hears("who has asked", "e a", "e late", "e kept")
			if n := q.counter("expired"); n != 3 {
				q.Errorf("%d are counted, want 3", n)
			}
			w := q.worker()
			w.done(w.one("b"))
			w.none("the others")
			w.lapsed("the others")
			q.places("after it", durable.Stats{Completed: 1})
		}},
	}
}
