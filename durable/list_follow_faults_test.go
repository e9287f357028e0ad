package durable_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

// followedJob is a job that a worker has and somebody follows, on a server of their own.
func followedJob(t *testing.T) (*redistest.Server, *bundle, *follower, *worker, []*durable.Claim) {
	t.Helper()
	s := redistest.Start(t)
	b := setupListAt(t, s.Addr(), s.Client(t), "q", nil)
	f, p, w := b.follower(), b.producer(), b.worker()
	f.adopt(p.ID())
	b.appendOf(p, "a")
	return s, b, f, w, w.take(1)
}

func TestListFollowFaults(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]redistest.Action{"swallowed": redistest.Swallow, "cut": redistest.FIN, "reset": redistest.RST} {
		t.Run("news whose reply was "+name+" is told again", func(t *testing.T) {
			t.Parallel()
			b, proxy, far := proxied(t, list, 200*time.Millisecond)
			f, p, w := b.followerOf(far), b.producer(), b.worker()
			f.adopt(p.ID())
			b.appendOf(p, "a", "b")
			c := w.take(2)
			w.settle(durable.Done, c[0])
			lost := proxy.Lose(1, redistest.With("xread"), how)
			if news, err := f.Await(b.ctx); !is(err, durable.ErrInDoubt) {
				t.Fatalf("a lost reply: %+v, %v", news, err)
			}
			<-lost
			w.settle(durable.Done, c[1])
			f.hears("a:c b:c")
		})
	}

	t.Run("whoever gives up waiting misses nothing", func(t *testing.T) {
		t.Parallel()
		_, b, f, w, c := followedJob(t)
		hasty, cancel := context.WithCancel(b.ctx)
		given := make(chan error, 1)
		go func() {
			_, err := f.Await(hasty)
			given <- err
		}()
		b.parked("xread")
		cancel()
		if err := <-given; !is(err, durable.ErrInDoubt) {
			t.Fatal(err)
		}
		w.settle(durable.Done, c...)
		f.hears("a:c")
	})

	t.Run("connections that are killed all the time lose no notice", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		b := setupListAt(t, s.Addr(), s.Client(t), "q", nil)
		f, p := b.follower(), b.producer()
		f.adopt(p.ID())
		ids := make([]string, 200)
		for i := range ids {
			ids[i] = fmt.Sprint("job", i)
		}
		b.appendOf(p, ids...)
		other := b.another(s.Addr(), "q", nil)
		w := b.workerOf(other, long)
		claims := w.take(len(ids))
		done := make(chan struct{})
		killed := int64(0)
		kill := func() bool {
			for _, id := range b.blocked("xread") {
				killed += b.rdb.ClientKillByFilter(b.ctx, "ID", id).Val()
			}
			return killed > 0
		}
		go func() {
			defer close(done)
			eventually(b.ctx, kill)
			for i, c := range claims {
				w.settle(durable.Done, c)
				if i%20 == 0 {
					kill()
				}
			}
		}()
		got := strings.Fields(f.news(len(ids)))
		if <-done; killed == 0 {
			t.Error("there was none to kill")
		}
		for i, c := range claims {
			if got[i] != c.ID+":c" {
				t.Fatalf("notice %d is %s, want that of %s", i, got[i], c.ID)
			}
		}
	})

	t.Run("a frozen server ends the wait, and when it thaws nothing is missing", func(t *testing.T) {
		t.Parallel()
		s, b, f, w, c := followedJob(t)
		if _, err := f.Await(b.ctx); err != nil { // which has renewed
			t.Fatal(err)
		}
		if err := s.Freeze(); err != nil {
			t.Fatal(err)
		}
		brief, cancel := context.WithTimeout(b.ctx, 100*time.Millisecond)
		defer cancel()
		if _, err := f.Await(brief); err == nil {
			t.Fatal("answered")
		}
		if err := s.Thaw(); err != nil {
			t.Fatal(err)
		}
		w.settle(durable.Done, c...)
		f.hears("a:c")
	})

	t.Run("a store that has lost notices says so, and one that has lost the follower too", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		p, w := b.producer(), b.worker()
		back, ahead := b.follower(), b.follower()
		back.adopt(p.ID())
		b.appendOf(p, "a", "b", "c")
		if _, err := ahead.Follow(b.ctx, []string{"a", "b", "c"}); err != nil {
			t.Fatal(err)
		}
		c := w.take(3)
		w.settle(durable.Done, c[0])
		var keys, dumps []string
		for _, f := range []*follower{back, ahead} {
			for _, key := range []string{b.key("follower:" + f.ID()), b.key("told:" + f.ID())} {
				keys, dumps = append(keys, key), append(dumps, b.rdb.Dump(b.ctx, key).Val())
			}
		}
		w.settle(durable.Done, c[1])
		back.hears("a:c b:c")
		ahead.hears("a:c b:c")
		for i, key := range keys { // as a failover to a replica that lags
			if err := b.rdb.RestoreReplace(b.ctx, key, durable.FollowFor, dumps[i]).Err(); err != nil {
				t.Fatal(err)
			}
		}
		// What was read is gone, and there is nothing new to notice that by: so the store is asked, now and then. Here after a failure.
		brief, cancel := context.WithCancel(b.ctx)
		cancel()
		if _, err := back.Await(brief); err == nil {
			t.Fatal("answered")
		}
		back.hears("gap")
		w.settle(durable.Done, c[2])
		back.hears("c:c")
		ahead.hears("gap c:c")
	})
}
