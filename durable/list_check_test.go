package durable_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

func TestListCheck(t *testing.T) {
	t.Parallel()

	t.Run("leaves nothing behind", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		if err := b.list.Check(b.ctx); err != nil {
			t.Fatal(err)
		}
		if keys := b.keysLike("*"); len(keys) > 0 {
			t.Fatal(keys)
		}
	})

	t.Run("blocks in no command, as all queues of a store share its lanes", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		h := &blocking{}
		l := store(t, &redis.Options{Addr: s.Addr()}, &durable.RedisOptions{Hook: h}).List("q", nil)
		t.Cleanup(func() { _ = l.Close() })
		if err := l.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if h.waited || !h.asked {
			t.Fatal("BLMOVE asked:", h.asked, "and waited in vain:", h.waited)
		}
	})

	t.Run("eviction of jobs is refused, unless allowed, and of volatile keys doubtful", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
		b := setupListAt(t, s.Addr(), s.Client(t), "q", nil)
		err := b.list.Check(b.ctx)
		if problems, ok := errors.AsType[*durable.CheckError](err); !ok || len(problems.Problems) != 1 || !strings.Contains(err.Error(), "allkeys-lru") {
			t.Fatal(err)
		}
		tolerant := store(t, &redis.Options{Addr: s.Addr()}, &durable.RedisOptions{AllowEviction: true}).List("q", nil)
		t.Cleanup(func() { _ = tolerant.Close() })
		if warnings, err := tolerant.Inspect(b.ctx); err != nil || len(warnings) != 1 {
			t.Fatal(warnings, err)
		}
		b.rdb.ConfigSet(b.ctx, "maxmemory-policy", "volatile-ttl")
		if warnings, err := b.list.Inspect(b.ctx); err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "volatile-ttl") {
			t.Fatal(warnings, err)
		}
		b.rdb.ConfigSet(b.ctx, "maxmemory-policy", "noeviction")
		if warnings, err := b.list.Inspect(b.ctx); err != nil || len(warnings) != 0 {
			t.Fatal(warnings, err)
		}
	})

	t.Run("a server that does not answer is no verdict", func(t *testing.T) {
		t.Parallel()
		l := store(t, &redis.Options{Addr: "127.0.0.1:1"}, nil).List("q", nil)
		t.Cleanup(func() { _ = l.Close() })
		err := l.Check(t.Context())
		if _, ok := errors.AsType[*durable.CheckError](err); ok || !is(err, durable.ErrNotExecuted) {
			t.Fatal(err)
		}
	})

	t.Run("a bad name or option is a problem by name", func(t *testing.T) {
		t.Parallel()
		s := store(t, &redis.Options{Addr: "127.0.0.1:1"}, nil)
		for name, l := range map[string]durable.Engine{
			"name":       s.List("", nil),
			"brace":      s.List("a{b", nil),
			"control":    s.List("a\nb", nil),
			"bytes":      s.List(strings.Repeat("x", 200), nil),
			"MaxBacklog": s.List("q", &durable.ListOptions{MaxBacklog: -1}),
			"MaxCrashes": s.List("q", &durable.ListOptions{MaxCrashes: -1}),
			"MaxDead":    s.List("q", &durable.ListOptions{MaxDead: -1}),
			"MaxCorrupt": s.List("q", &durable.ListOptions{MaxCorrupt: -1}),
			"Prefix":     s.List("q", &durable.ListOptions{Prefix: strings.Repeat("x", 300)}),
		} {
			if _, err := l.Info(); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: info: %v", name, err)
			}
			if problems, ok := errors.AsType[*durable.CheckError](l.Check(t.Context())); !ok || !strings.Contains(problems.Error(), name) {
				t.Errorf("%s: check: %v", name, problems)
			}
			if _, err := l.Stats(t.Context()); !is(err, durable.ErrNotExecuted) {
				t.Errorf("%s: stats: %v", name, err)
			}
		}
	})
}

func TestListACL(t *testing.T) {
	t.Parallel()
	onBoth(t, permissions)
}

func permissions(t *testing.T, of maker) {
	s := redistest.Start(t)
	admin := s.Client(t)
	const name = "mail*box[1]"
	rule := of(store(t, &redis.Options{Addr: s.Addr()}, nil), name, nil).ACLRule("weir")

	// as makes a user with the rule and what is changed in it, and a queue that logs in as it.
	as := func(t *testing.T, user string, changes ...string) *bundle {
		t.Helper()
		permit(t, admin, user, append(strings.Fields(rule)[1:], changes...)...)
		b := setupQueueAt(t, of, s.Addr(), admin, name, nil)
		l := of(store(t, &redis.Options{Addr: s.Addr(), Username: user, Password: "secret"}, nil), name, nil)
		t.Cleanup(func() { _ = l.Close() })
		b.list = l
		return b
	}

	t.Run("the generated line is enough for everything", func(t *testing.T) {
		b := as(t, "weir")
		if err := b.list.Check(b.ctx); err != nil {
			t.Fatal(err)
		}
		p, w := b.producer(), b.worker()
		later := &durable.Job{ID: "later", Delay: time.Millisecond}
		if _, err := p.Append(b.ctx, 1, append(jobsOf("a", "b", "c", "d", "e", "f"), later)); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Close(b.ctx, 2); err != nil {
			t.Fatal(err)
		}
		claims := w.take(7)
		for i, v := range []durable.Verdict{durable.Done, durable.Retry, durable.Snooze, durable.Dead, durable.Release} {
			w.settle(v, claims[i])
		}
		if err := w.Renew(b.ctx, long); err != nil {
			t.Fatal(err)
		}
		w.held = 0
		w.claim(1)
		b.rdb.HSet(b.ctx, b.key("job:bad"), "attempts", "x")
		b.push("bad")
		w.claims++
		if _, err := w.Claim(b.ctx, durable.ClaimRequest{N: w.claims, Slots: 9, MaxBytes: 99, Named: []durable.Ref{}}); err != nil {
			t.Fatal(err)
		}
		b.expire(w)
		b.sweep()
		if _, err := w.Leave(b.ctx); err != nil {
			t.Fatal(err)
		}
		f := b.follower()
		f.adopt(w.ID())
		if _, err := f.Follow(b.ctx, []string{"bad"}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Await(b.ctx); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(b.ctx); err != nil {
			t.Fatal(err)
		}
		last := b.worker()
		if err := last.Await(b.ctx); err != nil {
			t.Fatal(err)
		}
		if more, err := last.Leave(b.ctx); err != nil || more {
			t.Fatal(more, err)
		}
		b.stats()
		if log := admin.Do(b.ctx, "ACL", "LOG").Val().([]any); len(log) > 0 {
			t.Error("denied all the same:", log[0])
		}
	})

	for word := range strings.FieldsSeq(rule) {
		command, ok := strings.CutPrefix(word, "+")
		if !ok || command == "info" {
			continue
		}
		t.Run("without "+command+" the check names it", func(t *testing.T) {
			b := as(t, "without-"+command, "-"+command)
			err := b.list.Check(b.ctx)
			if problems, ok := errors.AsType[*durable.CheckError](err); !ok || !slices.ContainsFunc(problems.Problems, func(p string) bool {
				return strings.Contains(p, strings.ToUpper(command))
			}) {
				t.Fatal(err)
			}
		})
	}

	t.Run("without pexpire no record is made that would stay for ever", func(t *testing.T) {
		b := as(t, "no-pexpire", "-pexpire")
		if _, err := b.list.OpenProducer(b.ctx); err == nil {
			t.Fatal("opened")
		}
		for _, key := range b.keysLike("sender:*") {
			if b.rdb.PTTL(b.ctx, key).Val() < 0 {
				t.Error(key, "stays for ever")
			}
		}
	})

	t.Run("without info the queue is usable", func(t *testing.T) {
		b := as(t, "without-info", "-info")
		if err := b.list.Check(b.ctx); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("without the keys the check names them", func(t *testing.T) {
		b := as(t, "elsewhere", "resetkeys", "~other:*")
		if err := b.list.Check(b.ctx); err == nil || !strings.Contains(err.Error(), "{"+name+"}:") {
			t.Fatal(err)
		}
	})

	t.Run("a wrong password is no verdict about the queue, and not executed", func(t *testing.T) {
		l := store(t, &redis.Options{Addr: s.Addr(), Username: "weir", Password: "wrong"}, nil).List(name, nil)
		t.Cleanup(func() { _ = l.Close() })
		if _, err := l.Stats(t.Context()); !is(err, durable.ErrNotExecuted) {
			t.Fatal(err)
		}
	})
}

// blocking is a hook that sees whether a BLMOVE was asked for, and whether it waited in vain.
type blocking struct{ asked, waited bool }

func (b *blocking) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *blocking) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "blmove" {
			b.asked, b.waited = true, errors.Is(err, redis.Nil)
		}
		return err
	}
}

func (b *blocking) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
