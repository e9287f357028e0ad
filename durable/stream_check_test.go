package durable_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

func TestStreamCheck(t *testing.T) {
	t.Parallel()

	t.Run("the queue of another engine is refused by name", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		l := store(t, &redis.Options{Addr: b.addr}, nil).List(b.name, nil)
		t.Cleanup(func() { _ = l.Close() })
		if _, err := l.OpenProducer(b.ctx); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{b.stream.Check(b.ctx), func() error { _, err := b.stream.OpenConsumer(b.ctx, long); return err }()} {
			if err == nil || !strings.Contains(err.Error(), "another engine") {
				t.Error(err)
			}
		}
	})

	t.Run("a key of another type is named, and nothing is done", func(t *testing.T) {
		t.Parallel()
		for _, key := range []string{"stream", "meta", "scheduled", "returned", "retries", "dead", "corrupt", "wake", "consumers", "completed"} {
			b := setupStream(t, nil)
			p := b.producer()
			b.rdb.Del(b.ctx, b.key(key))
			b.rdb.Set(b.ctx, b.key(key), "x", 0)
			before := b.dump()
			if _, err := p.Append(b.ctx, 1, jobsOf("a")); !errors.Is(err, durable.ErrBadKey) || !strings.Contains(err.Error(), b.key(key)) {
				t.Errorf("%s: %v", key, err)
			}
			if err := b.stream.Check(b.ctx); err == nil || !strings.Contains(err.Error(), b.key(key)) {
				t.Errorf("%s: check: %v", key, err)
			}
			if after := b.dump(); after != before {
				t.Errorf("%s: changed", key)
			}
		}
	})

	t.Run("the ACL rule is enough for everything", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		admin := s.Client(t)
		b := setupStreamAt(t, s.Addr(), admin, "q", nil)
		b.confine()
		if err := b.stream.Check(b.ctx); err != nil {
			t.Fatal(err)
		}
		p, w, lost := b.producer(), b.worker(), b.worker()
		kept := &durable.Job{ID: "kept", Retention: time.Hour}
		late := &durable.Job{ID: "late", Delay: time.Millisecond}
		if _, err := p.Append(b.ctx, 1, append(jobsOf("a", "b", "c", "d", "e"), kept, late)); err != nil {
			t.Fatal(err)
		}
		b.add("what", "ever")
		lost.take(1)
		b.expire(lost)
		b.sweep()
		b.due()
		c := w.take(7)
		for i, v := range []durable.Verdict{durable.Retry, durable.Snooze, durable.Release, durable.Dead, durable.Done, durable.Done, durable.Done} {
			w.settle(v, c[i])
		}
		if _, err := b.stream.Redrive(b.ctx, durable.Selection{All: true}); err != nil {
			t.Error(err)
		}
		for _, state := range []durable.State{durable.StatePending, durable.StateScheduled, durable.StateProcessing, durable.StateDead, durable.StateCorrupt, durable.StateCompleted} {
			if _, err := b.stream.Jobs(b.ctx, durable.JobsRequest{State: state}); err != nil {
				t.Error(err)
			}
		}
		if err := b.stream.Pause(b.ctx, durable.Intake, "me"); err != nil {
			t.Error(err)
		}
		if _, err := b.stream.Groups(b.ctx); err != nil {
			t.Error(err)
		}
		if _, err := b.stream.Purge(b.ctx, durable.PurgeRequest{Confirm: "q"}); err != nil {
			t.Error(err)
		}
		if _, err := p.Close(b.ctx, 2); err != nil {
			t.Error(err)
		}
		if err := w.Await(b.ctx); err != nil {
			t.Error(err)
		}
		if _, err := w.Leave(b.ctx); err != nil {
			t.Error(err)
		}
	})

	t.Run("a denied command is named as an ACL calls it", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		admin := s.Client(t)
		for _, denied := range []string{"XGROUP|CREATE", "XINFO|GROUPS", "XADD"} {
			user := store(t, &redis.Options{Addr: s.Addr(), Username: "u", Password: "secret"}, nil).Stream("q", nil)
			t.Cleanup(func() { _ = user.Close() })
			permit(t, admin, "u", append(strings.Fields(user.ACLRule("u"))[1:], "-"+denied)...)
			if err := user.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "may not run "+denied) {
				t.Errorf("without %s: %v", denied, err)
			}
		}
	})

	t.Run("every command of the scripts is tried", func(t *testing.T) {
		t.Parallel()
		if untried := durable.UntriedStreamCommands(); len(untried) > 0 {
			t.Errorf("no probe for %q", untried)
		}
	})

	t.Run("bad options are refused by name", func(t *testing.T) {
		t.Parallel()
		r := store(t, &redis.Options{Addr: redistest.Addr(t)}, nil)
		for says, o := range map[string]durable.StreamOptions{
			"MaxBacklog": {MaxBacklog: -1}, "MaxIdle": {MaxIdle: -1}, "Group": {Group: "a@b"}, "Prefix": {Prefix: strings.Repeat("x", 300)},
		} {
			if _, err := r.Stream("q", &o).Info(); err == nil || !strings.Contains(err.Error(), "StreamOptions."+says) {
				t.Errorf("%s: %v", says, err)
			}
		}
		if _, err := r.Stream("{q}", nil).Info(); err == nil {
			t.Error("a brace in the name")
		}
	})
}
