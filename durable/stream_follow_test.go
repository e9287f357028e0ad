package durable_test

import (
	"slices"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

func (b *streamBundle) follower() *follower {
	b.Helper()
	looks := &bundle{site: b.site}
	return looks.followerOf(b.stream)
}

func TestStreamFollow(t *testing.T) {
	t.Parallel()

	t.Run("the follower of the producer is told what others make of its jobs", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, &durable.StreamOptions{MaxCrashes: 2})
		f, p, w := b.follower(), b.producer(), b.worker()
		b.append("before")
		f.adopt(p.ID())
		jobs := append(jobsOf("a", "b", "c", "d", "e", "f", "g"), &durable.Job{ID: "x", Expiry: time.Millisecond})
		if a, err := p.Append(b.ctx, 1, jobs); err != nil || a.Taken != len(jobs) {
			t.Fatal(a, err)
		}
		c := w.take(8)
		for _, c := range c {
			if c.Followed != (c.ID != "before") {
				t.Errorf("%s is followed: %v", c.ID, c.Followed)
			}
		}
		if err := w.Consumer.(durable.Teller).Tell(b.ctx, []durable.Telling{
			{Ref: durable.Ref{ID: "a", Token: c[1].Token}, Started: true, Progress: []byte("half")},
			{Ref: durable.Ref{ID: "b", Token: "another"}, Started: true},
		}); err != nil {
			t.Fatal(err)
		}
		f.hears("a:s a:p=half")
		w.settles++
		if _, err := w.Settle(b.ctx, w.settles, []durable.Outcome{
			{Ref: durable.Ref{ID: "a", Token: c[1].Token}, Verdict: durable.Done, Result: []byte("42")},
		}); err != nil {
			t.Fatal(err)
		}
		w.held--
		w.settle(durable.Done, c[0])
		w.settle(durable.Retry, c[2])
		w.settle(durable.Snooze, c[3])
		w.settle(durable.Dead, c[4])
		w.settle(durable.Release, c[5])
		b.cancel("g")
		b.cancel("c")
		b.expire(w)
		b.sweep()
		f.hears("a:c=42 b:r c:r d:d(because) e:r c:x f:r g:x")
		again := b.worker()
		if c := again.claim(1); len(c.Jobs) != 1 || c.Jobs[0].ID != "e" || !c.Jobs[0].Followed {
			t.Errorf("%+v", c)
		}
		b.outlive("x")
		for b.state("x") != "" {
			again.claim(1)
		}
		f.hears("x:e")
		if _, err := again.Leave(b.ctx); err != nil {
			t.Fatal(err)
		}
		f.news(1) // in which order they come back is no matter
		if _, err := b.stream.Redrive(b.ctx, durable.Selection{IDs: []string{"d"}}); err != nil {
			t.Fatal(err)
		}
		f.hears("d:r")
	})

	t.Run("a job of anybody can be followed, also one that a foreign producer has added", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		f, w := b.follower(), b.worker()
		b.append("a")
		entry := b.add("payload", "x")
		old := b.add("payload", "x", "expires_at_ms", "1")
		records, err := f.Follow(b.ctx, []string{"a", "none", entry, old})
		if err != nil {
			t.Fatal(err)
		}
		var states []durable.State
		for _, r := range records {
			states = append(states, r.State)
		}
		if !slices.Equal(states, []durable.State{"pending", "", "pending", "expired"}) {
			t.Error(states)
		}
		f.hears(old + ":e")
		c := w.take(2)
		if !c[0].Followed || !c[1].Followed {
			t.Error("not followed")
		}
		w.settle(durable.Done, c...)
		f.hears("a:c " + entry + ":c")
		b.clean()
	})

	t.Run("an expired job that is not due yet, or comes back, ends when it is asked for", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		f, w, p := b.follower(), b.worker(), b.producer()
		if a, err := p.Append(b.ctx, 1, []*durable.Job{
			{ID: "delayed", Delay: time.Hour, Expiry: time.Millisecond, Unique: &durable.Unique{Key: "k"}},
			{ID: "kept", Delay: time.Hour, Expiry: time.Millisecond, Retention: time.Hour},
		}); err != nil || a.Taken != 2 {
			t.Fatal(a, err)
		}
		w.nothing()
		for b.state("delayed") != "" {
			records, err := f.Follow(b.ctx, []string{"delayed", "kept"})
			if err != nil || records[0].State != records[1].State {
				t.Fatal(records, err)
			}
		}
		f.hears("delayed:e kept:e")
		if got := b.state("kept"); got != "expired" {
			t.Error(got)
		}
		b.clean("kept")
		b.free("expired")
	})

	t.Run("what other groups do is told to their followers", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		other := b.group("other", durable.StreamOptions{})
		f, g, p, w, o := b.follower(), other.follower(), b.producer(), b.worker(), other.worker()
		f.adopt(p.ID())
		if a, err := p.Append(b.ctx, 1, jobsOf("a", "b")); err != nil || a.Taken != 2 {
			t.Fatal(a, err)
		}
		if records, err := g.Follow(b.ctx, []string{"b"}); err != nil || records[0].State != durable.StatePending {
			t.Fatal(records, err)
		}
		w.settle(durable.Done, w.take(2)...)
		c := o.take(2)
		if c[0].Followed || !c[1].Followed {
			t.Error(c[0], c[1])
		}
		o.settle(durable.Dead, c...)
		f.hears("a:c b:c")
		g.hears("b:d(because)")
		if n := b.rdb.XLen(b.ctx, b.key("told:"+f.ID())).Val(); n != 1 {
			t.Error(n, "entries for who has heard all")
		}
	})

	t.Run("what its own consumers do is known without being told", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		f, p, w := b.follower(), b.producer(), b.worker()
		f.adopt(p.ID())
		f.adopt(w.ID())
		if a, err := p.Append(b.ctx, 1, jobsOf("a", "b", "c")); err != nil || a.Taken != 3 {
			t.Fatal(a, err)
		}
		c := w.take(3)
		w.settle(durable.Done, c[0])
		w.settle(durable.Dead, c[1])
		if _, err := w.Leave(b.ctx); err != nil {
			t.Fatal(err)
		}
		f.hearsNothing()
		if err := f.Close(b.ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Await(b.ctx); !is(err, durable.ErrNoSender) {
			t.Error(err)
		}
	})
}
