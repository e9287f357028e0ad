package durable_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redisproc"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

func TestSentinel(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	b := setupListAt(t, primary.Addr(), primary.Client(t), "q", nil)
	sentinel := startSentinel(b, primary.Port())
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "group", SentinelAddrs: []string{sentinel}})
	t.Cleanup(func() { _ = rdb.Close() })
	store, err := durable.NewRedis(rdb, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.list = store.List("q", nil)
	t.Cleanup(func() { _ = b.list.Close() })
	if err := b.list.Check(b.ctx); err != nil {
		t.Fatal(err)
	}
	b.append("a")
	w := b.worker()
	w.settle(durable.Done, w.take(1)...)
}

// startSentinel watches the server on a port as "group" until the test ends.
func startSentinel(b *bundle, port int) (addr string) {
	b.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	addr = free.Addr().String()
	_ = free.Close()
	_, own, _ := strings.Cut(addr, ":")
	config := filepath.Join(b.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\nsentinel monitor group 127.0.0.1 %d 1\n", own, port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	p, err := redisproc.Spawn(exec.Command("redis-server", config, "--sentinel"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.Kill)
	c := redis.NewSentinelClient(&redis.Options{Addr: addr})
	defer func() { _ = c.Close() }()
	if !eventually(b.ctx, func() bool { return c.GetMasterAddrByName(b.ctx, "group").Err() == nil }) {
		b.Fatal("no answer from the sentinel: ", p.Output())
	}
	return addr
}

func TestCluster(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf")
	admin := s.Client(t)
	if err := admin.Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if !eventually(ctx, func() bool { return strings.Contains(admin.ClusterInfo(ctx).Val(), "cluster_state:ok") }) {
		t.Fatal("the cluster does not come up")
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.Addr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	store, err := durable.NewRedis(rdb, nil)
	if err != nil {
		t.Fatal(err)
	}

	t.Run("replicas are waited for on the node that has the queue", func(t *testing.T) {
		replicating, err := durable.NewRedis(rdb, &durable.RedisOptions{Replicas: 1, ReplicaWait: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		l := replicating.List("replicated", nil)
		t.Cleanup(func() { _ = l.Close() })
		p, err := l.OpenProducer(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := p.Append(ctx, 1, jobsOf("a")); err != nil || a.Taken != 1 || a.Replicas != 0 {
			t.Fatalf("%+v, %v", a, err) // there is none
		}
	})

	t.Run("a whole life of a job is in one slot", func(t *testing.T) {
		b := setupListAt(t, s.Addr(), admin, "mail", nil)
		b.list = store.List("mail", nil)
		t.Cleanup(func() { _ = b.list.Close() })
		if err := b.list.Check(b.ctx); err != nil {
			t.Fatal(err)
		}
		b.append("a", "b", "c", "d")
		w := b.worker()
		c := w.take(4)
		for i, v := range []durable.Verdict{durable.Retry, durable.Dead, durable.Release} {
			w.settle(v, c[i])
		}
		if err := w.Await(b.ctx); err != nil {
			t.Fatal(err)
		}
		if err := w.Renew(b.ctx, long); err != nil {
			t.Fatal(err)
		}
		b.expire(w)
		b.sweep()
		if more, err := w.Leave(b.ctx); more || err != nil {
			t.Fatal(more, err)
		}
		if s := b.stats(); s.Dead != 1 || s.Scheduled+s.Pending != 3 {
			t.Fatalf("%+v", s)
		}
	})

	t.Run("a reply that is lost is not asked for again by the client", func(t *testing.T) {
		proxy := redistest.NewProxy(t, s.Addr())
		direct := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{proxy.Addr()},
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
				return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: proxy.Addr()}}}}, nil
			},
		})
		t.Cleanup(func() { _ = direct.Close() })
		store, err := durable.NewRedis(direct, nil)
		if err != nil {
			t.Fatal(err)
		}
		l := store.List("lost", nil)
		t.Cleanup(func() { _ = l.Close() })
		p, err := l.OpenProducer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var sent atomic.Int32
		proxy.OnRequest(func(e redistest.Exchange) redistest.Action {
			if redistest.With("append")(e) {
				sent.Add(1)
			}
			return redistest.Pass
		})
		lost := proxy.Lose(1, redistest.With("append"), redistest.FIN)
		if _, err := p.Append(t.Context(), 1, jobsOf("a")); !is(err, durable.ErrInDoubt) {
			t.Fatal(err)
		}
		<-lost
		if sent.Load() > 2 { // by its hash, and in full where the server did not know it
			t.Fatal("sent", sent.Load(), "times")
		}
		if a, err := p.Append(t.Context(), 1, jobsOf("a")); err != nil || a.Taken != 1 || len(a.Refused) > 0 {
			t.Fatal(a, err)
		}
	})

	t.Run("a prefix without a hash tag is refused by name", func(t *testing.T) {
		if _, err := store.List("q", &durable.ListOptions{Prefix: "queue:"}).Info(); err == nil || !strings.Contains(err.Error(), "hash tag") {
			t.Fatal(err)
		}
		if _, err := store.List("q", &durable.ListOptions{Prefix: "{queue}:"}).Info(); err != nil {
			t.Fatal(err)
		}
	})
}

// A master was killed and another had taken over; clients went on asking the dead one for a minute.
func TestClusterMasterReplaced(t *testing.T) {
	t.Parallel()
	first, second := redistest.Start(t), redistest.Start(t)
	var master atomic.Value
	master.Store(first.Addr())
	rdb := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
		return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: master.Load().(string)}}}}, nil
	}})
	t.Cleanup(func() { _ = rdb.Close() })
	store, err := durable.NewRedis(rdb, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := store.List("q", nil)
	t.Cleanup(func() { _ = l.Close() })
	if _, err := l.OpenProducer(t.Context()); err != nil {
		t.Fatal(err)
	}
	first.Kill()
	master.Store(second.Addr())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if !eventually(ctx, func() bool { _, err = l.OpenProducer(ctx); return err == nil }) {
		t.Fatal("the new master is not asked:", err)
	}
}
