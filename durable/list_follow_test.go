package durable_test

import (
	"strings"
	"testing"

	"github.com/seed-9dec4fca/weir/durable"
)

// follower is one that collects what it is told.
type follower struct {
	*bundle
	durable.Follower
}

func (b *bundle) follower() *follower { return b.followerOf(b.list) }

func (b *bundle) followerOf(l durable.FollowEngine) *follower {
	b.Helper()
	f, err := l.OpenFollower(b.ctx)
	if err != nil {
		b.Fatal(err)
	}
	return &follower{bundle: b, Follower: f}
}

func (f *follower) adopt(sender string) {
	f.Helper()
	if err := f.Adopt(f.ctx, sender, true); err != nil {
		f.Fatal(err)
	}
}

// news awaits n notices, and writes them down: "a:s a:p=half b:d(because)". A gap is "gap".
func (f *follower) news(n int) string {
	f.Helper()
	var got []string
	for len(got) < n {
		news, err := f.Await(f.ctx)
		if err != nil && f.ctx.Err() != nil {
			f.Fatalf("%v, after %v", err, got)
		}
		if news.Gap {
			got = append(got, "gap")
		}
		for _, n := range news.Notices {
			word := n.ID + ":" + string(rune(n.What))
			if n.Data != nil {
				word += "=" + string(n.Data)
			}
			if n.Reason != "" {
				word += "(" + strings.ReplaceAll(n.Reason, " ", "_") + ")"
			}
			got = append(got, word)
		}
	}
	return strings.Join(got, " ")
}

func (f *follower) hears(want string) {
	f.Helper()
	if got := f.news(strings.Count(want, " ") + 1); got != want {
		f.Errorf("told %q, want %q", got, want)
	}
}

// hearsNothing looks that there is nothing to read.
func (f *follower) hearsNothing() {
	f.Helper()
	if n := f.rdb.XLen(f.ctx, f.key("told:"+f.ID())).Val(); n > 0 {
		f.Errorf("%d entries: %s", n, f.news(1))
	}
}

func (w *worker) tell(tellings ...durable.Telling) {
	w.Helper()
	if err := w.Consumer.(durable.Teller).Tell(w.ctx, tellings); err != nil {
		w.Fatal(err)
	}
}

// appendOf stores jobs for a producer, under its first number.
func (b *bundle) appendOf(p durable.Producer, ids ...string) {
	b.Helper()
	if a, err := p.Append(b.ctx, 1, jobsOf(ids...)); err != nil || a.Taken != len(ids) || len(a.Refused) > 0 {
		b.Fatalf("append: %+v, %v", a, err)
	}
}

func TestListFollow(t *testing.T) {
	t.Parallel()
	onBoth(t, follow)
}

func follow(t *testing.T, of maker) {
	t.Run("the follower of the producer is told what others make of its jobs", func(t *testing.T) {
		t.Parallel()
		b := setupQueue(t, of, nil)
		f, p, w := b.follower(), b.producer(), b.worker()
		b.append("before")
		f.adopt(p.ID())
		b.appendOf(p, "a", "b", "c", "d", "e", "f")
		c := w.take(7)
		for _, c := range c {
			if c.Followed != (c.ID != "before") {
				t.Errorf("%s is followed: %v", c.ID, c.Followed)
			}
		}
		w.tell(
			durable.Telling{Ref: durable.Ref{ID: "a", Token: c[1].Token}, Started: true, Progress: []byte("half")},
			durable.Telling{Ref: durable.Ref{ID: "b", Token: "another"}, Started: true, Progress: []byte("x")},
			durable.Telling{Ref: durable.Ref{ID: "before", Token: c[0].Token}, Started: true},
		)
		f.hears("a:s a:p=half")
		if got := b.field("a", "progress") + b.field("b", "progress"); got != "half" {
			t.Error("kept:", got)
		}
		w.settle(durable.Done, c[0], c[1])
		w.settle(durable.Retry, c[2])
		w.settle(durable.Snooze, c[3])
		w.settle(durable.Dead, c[4])
		w.settle(durable.Release, c[5])
		b.expire(w)
		b.sweep()
		f.hears("a:c b:r c:r d:d(because) e:r f:r")
		again := b.worker()
		if c := again.take(1); c[0].ID != "e" || !c[0].Followed {
			t.Errorf("%+v", c[0])
		}
		if _, err := again.Leave(b.ctx); err != nil {
			t.Fatal(err)
		}
		f.hears("e:r")
		if _, err := b.list.Redrive(b.ctx, durable.Selection{IDs: []string{"d"}}); err != nil {
			t.Fatal(err)
		}
		f.hears("d:r")
		if _, err := b.list.Purge(b.ctx, durable.PurgeRequest{Confirm: info(t, b.list).Name, States: []durable.State{durable.StateScheduled}}); err != nil {
			t.Fatal(err)
		}
		f.hears("f:g")
	})

	t.Run("a crash that is charged, and the last one, are told", func(t *testing.T) {
		t.Parallel()
		b := setupQueue(t, of, &durable.ListOptions{MaxCrashes: 2})
		f, p := b.follower(), b.producer()
		f.adopt(p.ID())
		b.appendOf(p, "a")
		for range 2 {
			w := b.worker()
			b.due()
			w.take(1)
			b.expire(w)
			b.sweep()
		}
		f.hears("a:r a:d(worker_lost)")
		if _, err := b.list.Discard(b.ctx, durable.Selection{All: true}); err != nil {
			t.Fatal(err)
		}
		f.hears("a:g")
	})

	t.Run("what its own consumers do is known without being told", func(t *testing.T) {
		t.Parallel()
		b := setupQueue(t, of, nil)
		f, p, w := b.follower(), b.producer(), b.worker()
		f.adopt(p.ID())
		f.adopt(w.ID())
		b.appendOf(p, "a", "b")
		c := w.take(2)
		if c[0].Followed {
			t.Error("to be told to itself")
		}
		w.tell(durable.Telling{Ref: durable.Ref{ID: "a", Token: c[0].Token}, Started: true})
		w.settle(durable.Done, c[0])
		w.settle(durable.Release, c[1])
		f.hearsNothing()
		if err := f.Adopt(b.ctx, w.ID(), false); err != nil {
			t.Fatal(err)
		}
		c = w.take(1)
		if !c[0].Followed {
			t.Error("not followed")
		}
		w.settle(durable.Done, c...)
		f.hears("b:c")
	})

	t.Run("a job of anybody can be followed, until it ends", func(t *testing.T) {
		t.Parallel()
		b := setupQueue(t, of, nil)
		f, other, w := b.follower(), b.follower(), b.worker()
		b.append("a", "b")
		c := w.take(1)
		records, err := f.Follow(b.ctx, []string{"b", "none", "a"})
		if err != nil || len(records) != 3 || records[0].State != durable.StatePending || records[1].State != "" ||
			records[1].ID != "none" || records[2].State != durable.StateProcessing || records[2].Consumer != w.ID() {
			t.Fatalf("%+v, %v", records, err)
		}
		for range 2 {
			if _, err := other.Follow(b.ctx, []string{"a"}); err != nil {
				t.Fatal(err)
			}
		}
		w.settle(durable.Release, c...)
		c = w.take(2)
		if !c[0].Followed || !c[1].Followed {
			t.Error("not followed")
		}
		w.settle(durable.Done, c...)
		f.hears("a:r a:c b:c")
		other.hears("a:r a:c")
		if _, err := f.Follow(b.ctx, make([]string, durable.MaxPage+1)); !is(err, durable.ErrNotExecuted) {
			t.Error("more than a page:", err)
		}
	})

	t.Run("a notice tells which life of an ID it is of", func(t *testing.T) {
		t.Parallel()
		b := setupQueue(t, of, nil)
		f, p, w := b.follower(), b.producer(), b.worker()
		f.adopt(p.ID())
		b.appendOf(p, "a")
		w.settle(durable.Done, w.take(1)...)
		news, err := f.Await(b.ctx)
		if err != nil || len(news.Notices) != 1 || news.Notices[0].Life != p.ID()+":1" {
			t.Fatalf("%+v, %v", news, err)
		}
	})

	t.Run("nothing is noted for who is closed, or has not asked for long", func(t *testing.T) {
		t.Parallel()
		b := setupQueue(t, of, nil)
		closed, gone, p, w := b.follower(), b.follower(), b.producer(), b.worker()
		closed.adopt(p.ID())
		b.appendOf(p, "a", "b")
		if _, err := gone.Follow(b.ctx, []string{"b"}); err != nil {
			t.Fatal(err)
		}
		if ttl := b.rdb.PTTL(b.ctx, b.key("follower:"+gone.ID())).Val(); ttl <= 0 || ttl > durable.FollowFor {
			t.Error("kept for", ttl)
		}
		for range 2 {
			if err := closed.Close(b.ctx); err != nil {
				t.Fatal(err)
			}
		}
		if b.rdb.Del(b.ctx, b.key("follower:"+gone.ID())).Val() != 1 { // as time would
			t.Fatal("there was no record")
		}
		c := w.take(2)
		if c[0].Followed || c[1].Followed {
			t.Error("followed by nobody")
		}
		w.settle(durable.Done, c...)
		if keys := append(b.keysLike("told:*"), b.keysLike("follower:*")...); len(keys) > 0 {
			t.Error("left behind:", keys)
		}
		for _, f := range []*follower{closed, gone} {
			if _, err := f.Await(b.ctx); !is(err, durable.ErrNoSender) {
				t.Error("await:", err)
			}
			if _, err := f.Follow(b.ctx, []string{"a"}); !is(err, durable.ErrNoSender) {
				t.Error("follow:", err)
			}
			if err := f.Adopt(b.ctx, w.ID(), true); !is(err, durable.ErrNoSender) {
				t.Error("adopt:", err)
			}
		}
		if err := b.follower().Adopt(b.ctx, "nobody", true); !is(err, durable.ErrNoSender) {
			t.Error("a sender that is not there:", err)
		}
	})

	t.Run("who never reads is kept a bounded number of notices, and learns that some are gone", func(t *testing.T) {
		t.Parallel()
		b := setupQueue(t, of, nil)
		f, p, w := b.follower(), b.producer(), b.worker()
		f.adopt(p.ID())
		b.appendOf(p, "a", "z")
		c := w.take(2)
		for range durable.MaxNotices + 500 {
			w.tell(durable.Telling{Ref: durable.Ref{ID: "a", Token: c[0].Token}, Progress: []byte("on")})
		}
		w.settle(durable.Done, c[1])
		stream := b.key("told:" + f.ID())
		if n := b.rdb.XLen(b.ctx, stream).Val(); n < durable.MaxNotices || n > durable.MaxNotices+200 {
			t.Error(n, "entries")
		}
		if ttl := b.rdb.PTTL(b.ctx, stream).Val(); ttl <= 0 || ttl > durable.FollowFor {
			t.Error("kept for", ttl)
		}
		var all, gaps int
		var last durable.Notice
		for last.ID != "z" {
			news, err := f.Await(b.ctx)
			if err != nil {
				t.Fatal(err)
			}
			if news.Gap {
				gaps++
			}
			all += len(news.Notices)
			last = news.Notices[len(news.Notices)-1]
		}
		if gaps != 1 || all < durable.MaxNotices {
			t.Errorf("%d gaps, %d notices", gaps, all)
		}
	})

	t.Run("a step with much to tell is kept in several entries", func(t *testing.T) {
		t.Parallel()
		b := setupQueue(t, of, nil)
		f, p, w := b.follower(), b.producer(), b.worker()
		f.adopt(p.ID())
		b.appendOf(p, "a", "z")
		c := w.take(2)
		const many = 100
		tellings := make([]durable.Telling, many)
		for i := range tellings {
			tellings[i] = durable.Telling{Ref: durable.Ref{ID: "a", Token: c[0].Token}, Progress: []byte(strings.Repeat("x", durable.MaxNoticed))}
		}
		w.tell(tellings...)
		if n := b.rdb.XLen(b.ctx, b.key("told:"+f.ID())).Val(); n < 5 || n > 10 {
			t.Error(n, "entries")
		}
		if got := strings.Count(f.news(many), "a:p="+strings.Repeat("x", durable.MaxNoticed)); got != many {
			t.Error(got, "notices")
		}
	})

	t.Run("keys that somebody has spoilt stop nobody, and what cannot be noted is a gap", func(t *testing.T) {
		t.Parallel()
		b := setupQueue(t, of, nil)
		f, spoilt, p, w := b.follower(), b.follower(), b.producer(), b.worker()
		f.adopt(p.ID())
		b.appendOf(p, "a", "b")
		if _, err := spoilt.Follow(b.ctx, []string{"a", "b"}); err != nil {
			t.Fatal(err)
		}
		b.rdb.Set(b.ctx, b.key("follower:"+spoilt.ID()), "x", 0)
		b.rdb.Set(b.ctx, b.key("told:"+f.ID()), "x", 0)
		c := w.take(2)
		w.settle(durable.Done, c[0])
		if ttl := b.rdb.TTL(b.ctx, b.key("told:"+f.ID())).Val(); ttl >= 0 {
			t.Error("somebody else's key expires in", ttl)
		}
		if _, err := f.Await(b.ctx); !is(err, durable.ErrBadKey) {
			t.Error(err)
		}
		b.rdb.Del(b.ctx, b.key("told:"+f.ID()))
		f.hears("gap")
		w.settle(durable.Done, c[1])
		f.hears("gap b:c")
	})
}

func info(t testing.TB, e durable.Engine) durable.Info {
	t.Helper()
	i, err := e.Info()
	if err != nil {
		t.Fatal(err)
	}
	return i
}
