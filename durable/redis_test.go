package durable_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

func TestNewRedis(t *testing.T) {
	t.Parallel()

	t.Run("what it cannot use is refused by name", func(t *testing.T) {
		t.Parallel()
		ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
		defer func() { _ = ring.Close() }()
		plain := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		defer func() { _ = plain.Close() }()
		for want, try := range map[string]func() (*durable.Redis, error){
			"the client is nil":            func() (*durable.Redis, error) { return durable.NewRedis(nil, nil) },
			"*redis.Client is nil":         func() (*durable.Redis, error) { return durable.NewRedis((*redis.Client)(nil), nil) },
			"*redis.ClusterClient is nil":  func() (*durable.Redis, error) { return durable.NewRedis((*redis.ClusterClient)(nil), nil) },
			"*redis.Ring is not supported": func() (*durable.Redis, error) { return durable.NewRedis(ring, nil) },
			"RedisOptions.Timeout is -1s": func() (*durable.Redis, error) {
				return durable.NewRedis(plain, &durable.RedisOptions{Timeout: -time.Second})
			},
			"RedisOptions.DialTimeout is -1s": func() (*durable.Redis, error) {
				return durable.NewRedis(plain, &durable.RedisOptions{DialTimeout: -time.Second})
			},
		} {
			if _, err := try(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
	})

	t.Run("every setting on which a promise rests survives the copy", func(t *testing.T) {
		t.Parallel()
		theirs := redis.NewClient(&redis.Options{
			Addr: "127.0.0.1:1", Username: "u", Password: "p", DB: 3, ClientName: "n",
			MaxRetries: -1, MinRetryBackoff: -1, MaxRetryBackoff: -1, ReadTimeout: -1, WriteTimeout: -2, PoolSize: 1,
			PoolTimeout: time.Millisecond, MinIdleConns: 5, MaxActiveConns: 1,
		})
		defer func() { _ = theirs.Close() }()
		s, err := durable.NewRedis(theirs, &durable.RedisOptions{Timeout: 7 * time.Second, DialTimeout: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		ours := durable.OwnClient(s).(*redis.Client)
		defer func() { _ = ours.Close() }()
		o := ours.Options()
		got := fmt.Sprint(o.Addr, o.Username, o.Password, o.DB, o.ClientName, o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff,
			o.ReadTimeout, o.WriteTimeout, o.DialTimeout, o.PoolTimeout, o.DialerRetries, o.ContextTimeoutEnabled,
			o.MinIdleConns, o.MaxActiveConns, o.PipelinePoolSize, o.MaintNotificationsConfig.Mode)
		want := fmt.Sprint("127.0.0.1:1", "u", "p", 3, "n", 0, time.Duration(0), time.Duration(0),
			7*time.Second, 7*time.Second, 3*time.Second, 7*time.Second, 1, true,
			0, 0, -1, maintnotifications.ModeDisabled)
		if got != want || o.PoolSize < 1000 {
			t.Errorf("settings are\n%s, want\n%s", got, want)
		}
		if theirs.Options().PoolSize != 1 || theirs.Options().Dialer == nil {
			t.Error("the user's own client was changed")
		}

		cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, RouteRandomly: true, ReadTimeout: -1, MaxRedirects: -1})
		defer func() { _ = cluster.Close() }()
		s, err = durable.NewRedis(cluster, nil)
		if err != nil {
			t.Fatal(err)
		}
		own := durable.OwnClient(s).(*redis.ClusterClient)
		defer func() { _ = own.Close() }()
		c := own.Options()
		got = fmt.Sprint(c.MaxRedirects, c.MaxRetries, c.ReadOnly, c.RouteRandomly, c.ReadTimeout, c.WriteTimeout, c.ContextTimeoutEnabled, c.PipelinePoolSize)
		want = fmt.Sprint(3, -1, false, false, 15*time.Second, 15*time.Second, true, -1)
		if got != want {
			t.Errorf("cluster settings are\n%s, want\n%s", got, want)
		}
	})

	t.Run("a hook sees every command by its name", func(t *testing.T) {
		t.Parallel()
		h := &spy{seen: make(chan string, 100)}
		l := store(t, &redis.Options{Addr: redistest.Addr(t)}, &durable.RedisOptions{Hook: h}).List(redistest.Name(t), nil)
		t.Cleanup(func() { _ = l.Close() })
		if _, err := l.Stats(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := <-h.seen; !strings.Contains(got, "stats") {
			t.Fatal(got)
		}
	})
}

// spy is a hook that notes the commands.
type spy struct{ seen chan string }

func (s *spy) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *spy) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.seen <- fmt.Sprint(cmd.Args()...)
		return next(ctx, cmd)
	}
}

func (s *spy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// replyError is an error as a server sends it.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

func TestErrorClasses(t *testing.T) {
	t.Parallel()
	type pair struct {
		err  error
		want error
	}
	for name, p := range map[string]pair{
		"no connection":              {&net.OpError{Op: "dial", Err: errors.New("refused")}, durable.ErrNotExecuted},
		"pool timeout":               {redis.ErrPoolTimeout, durable.ErrNotExecuted},
		"client closed":              {redis.ErrClosed, durable.ErrNotExecuted},
		"deadline before":            {context.DeadlineExceeded, durable.ErrNotExecuted},
		"deadline during":            {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, durable.ErrInDoubt},
		"write failed":               {&net.OpError{Op: "write", Err: errors.New("broken pipe")}, durable.ErrInDoubt},
		"EOF":                        {io.EOF, durable.ErrInDoubt},
		"closed in flight":           {net.ErrClosed, durable.ErrInDoubt},
		"anything":                   {errors.New("?"), durable.ErrInDoubt},
		"full":                       {replyError("OOM command not allowed when used memory > 'maxmemory'."), durable.ErrOutOfMemory},
		"full, in a script":          {replyError("OOM command not allowed when used memory > 'maxmemory'. script: ab, on @user_script:3."), durable.ErrOutOfMemory},
		"full, in an old one":        {replyError("ERR Error running script (call to f_ab): @user_script:3: -OOM command not allowed"), durable.ErrOutOfMemory},
		"wrong type in a script":     {replyError("WRONGTYPE Operation against a key holding the wrong kind of value script: ab, on @user_script:3."), durable.ErrInDoubt},
		"denied in a script":         {replyError("ERR The user executing the script can't run this command or subcommand script: ab, on @user_script:3."), durable.ErrInDoubt},
		"read-only in an old script": {replyError("ERR Error running script (call to f_ab): @user_script:3: @user_script: 3: -READONLY You can't write"), durable.ErrNotExecuted},
		"loading":                    {replyError("LOADING Redis is loading the dataset in memory"), durable.ErrNotExecuted},
		"read-only":                  {replyError("READONLY You can't write against a read only replica."), durable.ErrNotExecuted},
		"no replicas":                {replyError("NOREPLICAS Not enough good replicas to write."), durable.ErrNotExecuted},
		"misconf":                    {replyError("MISCONF Redis is configured to save RDB snapshots"), durable.ErrNotExecuted},
		"busy":                       {replyError("BUSY Redis is busy running a script."), durable.ErrNotExecuted},
		"unblocked":                  {replyError("UNBLOCKED force unblock from blocking operation"), durable.ErrNotExecuted},
		"moved":                      {replyError("MOVED 1 127.0.0.1:1"), durable.ErrNotExecuted},
		"try again":                  {replyError("TRYAGAIN Multiple keys request during rehashing of slot"), durable.ErrNotExecuted},
		"cluster":                    {replyError("CLUSTERDOWN The cluster is down"), durable.ErrNotExecuted},
		"no auth":                    {replyError("NOAUTH Authentication required."), durable.ErrNotExecuted},
		"permission":                 {replyError("NOPERM this user has no permissions to run the 'evalsha' command"), durable.ErrNotExecuted},
		"no node":                    {fmt.Errorf("%w: no node: %w", durable.ErrNotExecuted, io.EOF), durable.ErrNotExecuted},
		"clients":                    {replyError("ERR max number of clients reached"), durable.ErrNotExecuted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, err := range []error{p.err, fmt.Errorf("by a hook: %w", p.err)} {
				if got := durable.Class(err); got != p.want { //nolint:errorlint // the class itself, not what it wraps
					t.Errorf("%v is %v, want %v", err, got, p.want)
				}
			}
		})
	}
}

func TestScriptsHaveProbes(t *testing.T) {
	t.Parallel()
	if untried := durable.UntriedCommands(); len(untried) > 0 {
		t.Error("the check does not try", untried)
	}
}

func TestTooOld(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"2.8.24": true, "4.0.14": true, "5.0.14": false, "6.0.20": false, "6.2.0": false, "7.0.15": false, "8.0": false, "10.1.2": false,
		"": false, "unstable": false, "255.255.255": false, "6.x": false,
	} {
		if got := durable.Older(version); got != want {
			t.Errorf("Redis %q too old: %v, want %v", version, got, want)
		}
	}
}
