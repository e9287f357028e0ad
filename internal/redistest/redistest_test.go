package redistest_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/seed-9dec4fca/weir/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(redistest.Main(m)) }

func TestShared(t *testing.T) {
	t.Parallel()
	var name string
	t.Run("a test uses keys under its own name", func(t *testing.T) {
		name = redistest.Name(t)
		if err := redistest.Client(t).Set(t.Context(), "x{"+name+"}y", 1, 0).Err(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("which are gone afterwards", func(t *testing.T) {
		n, err := redistest.Client(t).Exists(t.Context(), "x{"+name+"}y").Result()
		if err != nil || n != 0 {
			t.Fatal(n, err)
		}
	})
}

// TestOrphan ends a test binary in the worst way: what it started must not outlive it.
func TestOrphan(t *testing.T) {
	t.Parallel()
	if os.Getenv("REDISTEST_ORPHAN") != "" {
		s := redistest.Start(t)
		info := s.Client(t).Info(t.Context(), "server").Val()
		_, rest, _ := strings.Cut(info, "process_id:")
		pid, _, _ := strings.Cut(rest, "\r")
		_, _ = os.Stdout.WriteString("pid=" + pid + "\n")
		os.Exit(3)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestOrphan$")
	cmd.Env = append(os.Environ(), "REDISTEST_ORPHAN=1")
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 3 {
		t.Fatalf("%v\n%s", err, out)
	}
	_, pid, _ := strings.Cut(string(out), "pid=")
	n, err := strconv.Atoi(strings.TrimSpace(pid))
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(n) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d lives on: %s", n, stat)
		}
	}
}

func TestPrivateServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	c := s.Client(t)
	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}

	s.Kill()
	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Fatal("a killed server answers")
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if v, err := c.Get(t.Context(), "k").Result(); err != nil || v != "v" {
		t.Fatal("restarted on the same files:", v, err)
	}

	if err := s.Freeze(); err != nil {
		t.Fatal(err)
	}
	quick := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	defer func() { _ = quick.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := quick.Ping(ctx).Err(); err == nil {
		t.Fatal("a frozen server answers")
	}
	if err := s.Thaw(); err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal("thawed:", err)
	}
}

func TestProxy(t *testing.T) {
	t.Parallel()
	type bundle struct {
		proxy  *redistest.Proxy
		client *redis.Client // no retries, 200 ms of patience
		direct *redis.Client
		key    string
	}
	setup := func(t *testing.T) bundle {
		t.Helper()
		t.Parallel()
		p := redistest.NewProxy(t, redistest.Addr(t))
		c := redis.NewClient(&redis.Options{
			Addr: p.Addr(), MaxRetries: -1, PoolSize: 1, DialerRetries: 1,
			ReadTimeout: 200 * time.Millisecond, WriteTimeout: 200 * time.Millisecond,
		})
		t.Cleanup(func() { _ = c.Close() })
		return bundle{p, c, redistest.Client(t), redistest.Name(t)}
	}
	timedOut := func(err error) bool {
		var timeout interface{ Timeout() bool }
		return errors.As(err, &timeout) && timeout.Timeout()
	}

	for how, is := range map[redistest.Action]func(error) bool{
		redistest.Swallow: timedOut,
		redistest.Silence: timedOut,
		redistest.FIN:     func(err error) bool { return errors.Is(err, io.EOF) },
		// The client peeks once before it reads: the reset is then spent, and EOF follows.
		redistest.RST: func(err error) bool { return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) },
	} {
		name := []string{"pass", "swallow", "silence", "FIN", "RST"}[how]
		t.Run(name+" hits exactly the n-th matching reply, after the server has executed it", func(t *testing.T) {
			b := setup(t)
			done := b.proxy.Lose(2, redistest.With("incr"), how)
			for i, want := range []bool{true, false, true} {
				_ = b.client.Get(t.Context(), "nothing").Err()
				err := b.client.Incr(t.Context(), b.key).Err()
				if want && err != nil || !want && !is(err) {
					t.Fatal(i, err)
				}
			}
			<-done
			if v := b.direct.Get(t.Context(), b.key).Val(); v != "3" {
				t.Fatal("executed", v, "times")
			}
		})
	}

	t.Run("a lost request is not executed", func(t *testing.T) {
		b := setup(t)
		remove := b.proxy.OnRequest(func(e redistest.Exchange) redistest.Action {
			if redistest.With("incr")(e) {
				return redistest.FIN
			}
			return redistest.Pass
		})
		if err := b.client.Incr(t.Context(), b.key).Err(); err == nil {
			t.Fatal("answered")
		}
		remove()
		if v, err := b.client.Incr(t.Context(), b.key).Result(); v != 1 || err != nil {
			t.Fatal(v, err)
		}
	})

	t.Run("a rule that blocks holds the reply back", func(t *testing.T) {
		b := setup(t)
		go1 := make(chan struct{})
		seen := make(chan struct{})
		b.proxy.OnReply(func(e redistest.Exchange) redistest.Action {
			if redistest.With("echo")(e) {
				close(seen)
				<-go1
			}
			return redistest.Pass
		})
		got := make(chan error, 1)
		go func() { got <- b.client.Echo(context.Background(), strings.Repeat("x", 1<<20)).Err() }()
		<-seen
		select {
		case err := <-got:
			t.Fatal("came early:", err)
		default:
		}
		close(go1)
		if err := <-got; err != nil {
			t.Fatal(err)
		}
	})

	t.Run("a black hole swallows old and new connections until it ends", func(t *testing.T) {
		b := setup(t)
		if err := b.client.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		end := b.proxy.Blackhole()
		for range 2 {
			if err := b.client.Ping(t.Context()).Err(); !timedOut(err) {
				t.Fatal(err)
			}
		}
		end()
		if err := b.client.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("the server's side of a cut connection can outlive it", func(t *testing.T) {
		b := setup(t)
		b.proxy.KeepServerSide(true)
		id := b.client.ClientID(t.Context()).Val()
		b.proxy.Sever(redistest.RST)
		if list := b.direct.ClientList(t.Context()).Val(); !strings.Contains("\n"+list, "\nid="+strconv.FormatInt(id, 10)+" ") {
			t.Fatal(id, "gone from", list)
		}
	})
}
