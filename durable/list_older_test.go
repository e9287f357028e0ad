package durable_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

// sinceFive are commands that servers have learnt since Redis 5.0, but ACL, with which tests log in. One
// that a server of the tests does not know itself does no harm here.
var sinceFive = []string{
	"BLMOVE", "LMOVE", "LPOS", "COPY", "GETDEL", "GETEX", "HRANDFIELD", "ZRANDMEMBER", "SMISMEMBER", "ZMSCORE", "ZDIFF", "ZDIFFSTORE",
	"ZINTER", "ZUNION", "ZRANGESTORE", "GEOSEARCH", "GEOSEARCHSTORE", "XAUTOCLAIM", "RESET", "HELLO", "LMPOP", "BLMPOP", "ZMPOP", "BZMPOP",
	"EVAL_RO", "EVALSHA_RO", "FCALL", "FCALL_RO", "FUNCTION", "EXPIRETIME", "PEXPIRETIME", "SINTERCARD", "ZINTERCARD", "SORT_RO", "LCS",
}

// without starts a server that does not know these commands.
func without(t testing.TB, commands ...string) *redistest.Server {
	t.Helper()
	var args []string
	for _, c := range commands {
		args = append(args, "--rename-command", c, "")
	}
	return redistest.Start(t, args...)
}

func TestListConformanceOnAnOlderServer(t *testing.T) {
	t.Parallel()
	addr := without(t, sinceFive...).Addr()
	open := func(t testing.TB, limits durabletest.Limits) func() durable.Engine {
		name := redistest.Name(t)
		return func() durable.Engine {
			return store(t, &redis.Options{Addr: addr}, nil).List(name, &durable.ListOptions{
				MaxBacklog: limits.MaxBacklog, MaxCrashes: limits.MaxCrashes, MaxDead: limits.MaxDead,
				MaxCompleted: limits.MaxCompleted,
			})
		}
	}
	durabletest.Run(t, open, nil)
	durabletest.RunOperator(t, open, nil)
}

func TestListWithoutBLMOVE(t *testing.T) {
	t.Parallel()
	const warning = "the server has no BLMOVE: BRPOPLPUSH is used"
	server := without(t, sinceFive...)
	admin := server.Client(t)
	setup := func(t *testing.T) *bundle {
		t.Helper()
		t.Parallel()
		return setupListAt(t, server.Addr(), admin, redistest.Name(t), nil)
	}

	t.Run("the check finds nothing missing, and says once what is used instead", func(t *testing.T) {
		b := setup(t)
		for range 2 {
			warnings, err := b.list.Inspect(b.ctx)
			if err != nil || len(warnings) != 1 || warnings[0] != warning {
				t.Fatal(warnings, err)
			}
		}
		if keys := b.keysLike("*"); len(keys) > 0 {
			t.Fatal("left behind:", keys)
		}
	})

	t.Run("await moves the oldest, and the next claims begin with it, in order", func(t *testing.T) {
		b := setup(t)
		b.append("a", "b", "c", "d")
		w := b.worker()
		for range 2 {
			if err := w.Await(b.ctx); err != nil {
				t.Fatal(err)
			}
		}
		if moved := strings.Join(b.rdb.LRange(b.ctx, b.key("arriving"), 0, -1).Val(), " "); moved != "b a" {
			t.Error("arriving:", moved)
		}
		if rest := strings.Join(b.rdb.LRange(b.ctx, b.key("pending"), 0, -1).Val(), " "); rest != "d c" {
			t.Error("pending:", rest)
		}
		if got := idsOf(w.take(4)); got != "a b c d" {
			t.Error(got)
		}
	})

	t.Run("it is asked for once, whoever comes first, and however many come at once", func(t *testing.T) {
		b := setup(t)
		for _, first := range []func(*durable.List) error{
			func(l *durable.List) error { return l.Check(b.ctx) },
			func(l *durable.List) error { return b.workerOf(l, long).Await(b.ctx) },
		} {
			asked := &asks{}
			info, _ := b.list.Info()
			l := store(t, &redis.Options{Addr: server.Addr()}, &durable.RedisOptions{Hook: asked}).List(info.Name, nil)
			t.Cleanup(func() { _ = l.Close() })
			b.append("x", "y") // nobody waits
			if err := first(l); err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					if err := l.Check(b.ctx); err != nil {
						t.Error(err)
					}
				})
				all.Go(func() { _ = l.ACLRule("x") })
			}
			w := b.workerOf(l, long)
			if err := w.Await(b.ctx); err != nil {
				t.Error(err)
			}
			all.Wait()
			if n := asked.of("blmove"); n != 1 || asked.of("brpoplpush") < 5 {
				t.Errorf("BLMOVE %d times, BRPOPLPUSH %d times", n, asked.of("brpoplpush"))
			}
			w.settle(durable.Done, w.take(2)...)
		}
		fresh := b.another(server.Addr(), redistest.Name(t), nil)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if warnings, err := fresh.Inspect(b.ctx); err != nil || !slices.Contains(warnings, warning) {
					t.Error(warnings, err)
				}
			})
		}
		all.Wait()
	})

	for name, how := range map[string]redistest.Action{"swallowed": redistest.Swallow, "cut": redistest.FIN, "reset": redistest.RST} {
		t.Run("a move whose reply was "+name+" leaves its job to the next claim of anyone", func(t *testing.T) {
			b := setup(t)
			proxy := redistest.NewProxy(t, server.Addr())
			info, _ := b.list.Info()
			list := store(t, &redis.Options{Addr: proxy.Addr()}, &durable.RedisOptions{Timeout: 500 * time.Millisecond}).List(info.Name, nil)
			t.Cleanup(func() { _ = list.Close() })
			w := b.workerOf(list, long)
			lost := proxy.Lose(1, redistest.With("brpoplpush"), how)
			ended := make(chan error, 1)
			go func() { ended <- w.Await(b.ctx) }()
			b.append("a")
			select {
			case <-lost:
			case <-b.ctx.Done():
				t.Fatal("BRPOPLPUSH was never answered")
			}
			if got := idsOf(b.worker().take(1)); got != "a" {
				t.Fatal(got)
			}
			<-ended
		})
	}

	t.Run("its ACL line is one that the server takes, and enough", func(t *testing.T) {
		b := setup(t)
		if rule := b.list.ACLRule("older"); !strings.Contains(rule, "+blmove") {
			t.Error("before anybody has asked:", rule)
		}
		if err := b.list.Check(b.ctx); err != nil {
			t.Fatal(err)
		}
		rule := strings.Fields(b.list.ACLRule("older"))
		if !slices.Contains(rule, "+brpoplpush") || slices.Contains(rule, "+blmove") || slices.Contains(rule, "resetchannels") {
			t.Fatal(rule)
		}
		info, _ := b.list.Info()
		as := func(user string, more ...string) *durable.List {
			permit(t, b.rdb, user, append(rule[1:], more...)...)
			l := store(t, &redis.Options{Addr: server.Addr(), Username: user, Password: "secret"}, nil).List(info.Name, nil)
			t.Cleanup(func() { _ = l.Close() })
			return l
		}
		l := as("older")
		if warnings, err := l.Inspect(b.ctx); err != nil || len(warnings) != 1 {
			t.Fatal(warnings, err)
		}
		b.append("a")
		w := b.workerOf(l, long)
		if err := w.Await(b.ctx); err != nil {
			t.Error(err)
		}
		w.settle(durable.Done, w.take(1)...)
		b.places("0 0 0 0 0")

		problemIs(t, as("denied", "-brpoplpush").Check(b.ctx), "may not run BRPOPLPUSH")
	})
}

func TestListWaitsWithWhatThereIs(t *testing.T) {
	t.Parallel()

	t.Run("a user who may not run BLMOVE is told so, and nothing else is tried", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		b := setupListAt(t, s.Addr(), s.Client(t), "q", nil)
		if err := b.rdb.Do(b.ctx, "ACL", "SETUSER", "denied", "on", ">secret", "~*", "+@all", "-blmove").Err(); err != nil {
			t.Fatal(err)
		}
		asked := &asks{}
		l := store(t, &redis.Options{Addr: s.Addr(), Username: "denied", Password: "secret"}, &durable.RedisOptions{Hook: asked}).List("q", nil)
		t.Cleanup(func() { _ = l.Close() })
		problemIs(t, l.Check(b.ctx), "may not run BLMOVE")
		if err := b.workerOf(l, long).Await(b.ctx); !is(err, durable.ErrNotExecuted) {
			t.Error(err)
		}
		if asked.of("brpoplpush") > 0 || asked.of("blmove") != 2 {
			t.Errorf("BLMOVE %d times, BRPOPLPUSH %d times", asked.of("blmove"), asked.of("brpoplpush"))
		}
	})

	t.Run("for longer than an exchange may take", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		b := setupListAt(t, s.Addr(), s.Client(t), "q", nil)
		l := store(t, &redis.Options{Addr: s.Addr()}, &durable.RedisOptions{Timeout: durable.Park / 4}).List("q", nil)
		t.Cleanup(func() { _ = l.Close() })
		if err := b.workerOf(l, long).Await(b.ctx); err != nil {
			t.Error(err)
		}
	})

	t.Run("a server with neither is refused by name", func(t *testing.T) {
		t.Parallel()
		s := without(t, "BLMOVE", "BRPOPLPUSH")
		b := setupListAt(t, s.Addr(), s.Client(t), "q", nil)
		for range 2 {
			problemIs(t, b.list.Check(b.ctx), "neither BLMOVE nor BRPOPLPUSH")
			if err := b.worker().Await(b.ctx); !is(err, durable.ErrNotExecuted) {
				t.Error(err)
			}
		}
	})

	// A failover may lead to a server of another version, and an upgrade is one.
	t.Run("a server that knows only the other is waited on as well", func(t *testing.T) {
		t.Parallel()
		servers := []*redistest.Server{without(t, "BRPOPLPUSH"), without(t, "BLMOVE"), without(t, "BRPOPLPUSH")}
		var now atomic.Int32
		l := store(t, &redis.Options{Addr: "moving", Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", servers[now.Load()].Addr())
		}}, nil).List("q", nil)
		t.Cleanup(func() { _ = l.Close() })
		for i, s := range servers {
			b := setupListAt(t, s.Addr(), s.Client(t), "q", nil)
			if i > 0 {
				now.Store(int32(i))
				servers[i-1].Kill()
			}
			b.append("a")
			c := b.worker()
			if err := awaiter(b, l).Await(b.ctx); err != nil {
				t.Fatal(i, err)
			}
			if at := b.where("a"); at != "arriving" {
				t.Errorf("server %d: the job is in %q", i, at)
			}
			if got := idsOf(c.take(1)); got != "a" {
				t.Error(i, got)
			}
		}
	})

	t.Run("a server that replicates the text of scripts is refused by name", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		l := store(t, &redis.Options{Addr: s.Addr()}, &durable.RedisOptions{Hook: verbatim{}}).List("q", nil)
		t.Cleanup(func() { _ = l.Close() })
		problemIs(t, l.Check(t.Context()), "lua-replicate-commands")
	})
}

// awaiter opens a consumer on a queue whose connections may just have ended: it asks until one is new.
func awaiter(b *bundle, l *durable.List) durable.Consumer {
	b.Helper()
	for {
		c, err := l.OpenConsumer(b.ctx, long)
		if err == nil {
			return c
		}
		if b.ctx.Err() != nil {
			b.Fatal(err)
		}
	}
}

// problemIs checks that a check found one problem, and which.
func problemIs(t *testing.T, err error, want string) {
	t.Helper()
	problems, ok := err.(*durable.CheckError) //nolint:errorlint // as Check returns it
	if !ok || len(problems.Problems) != 1 || !strings.Contains(problems.Problems[0], want) {
		t.Errorf("%v, want one problem: %s", err, want)
	}
}

// asks is a hook that counts commands.
type asks struct {
	mu sync.Mutex // guards n
	n  map[string]int
}

func (a *asks) of(command string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.n[command]
}

func (a *asks) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a *asks) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		a.mu.Lock()
		if a.n == nil {
			a.n = map[string]int{}
		}
		a.n[cmd.Name()]++
		a.mu.Unlock()
		return next(ctx, cmd)
	}
}

func (a *asks) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// verbatim is a hook that answers the probes as Redis 6.0 does with lua-replicate-commands set to no.
type verbatim struct{}

func (verbatim) DialHook(next redis.DialHook) redis.DialHook { return next }

func (verbatim) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		probe, ok := cmd.(interface {
			Val() any
			SetVal(any)
		})
		if !ok || cmd.Name() != "eval" || !slices.Contains(cmd.Args(), any("probe")) {
			return err
		}
		answer, _ := probe.Val().([]any)
		for i := len(answer) - 1; i > 8; i-- {
			answer[i] = "@user_script: 18: Write commands not allowed after non deterministic commands. Call redis.replicate_commands() at the start of your script"
		}
		probe.SetVal(answer)
		return err
	}
}

func (verbatim) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
