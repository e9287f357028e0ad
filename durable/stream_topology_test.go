package durable_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

// Two nodes, so that what is asked of the wrong one is not answered.
func TestStreamCluster(t *testing.T) {
	t.Parallel()
	var nodes []*redistest.Server
	var slots []redis.ClusterSlot
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i, r := range [][2]int{{0, 8191}, {8192, 16383}} {
		s := redistest.Start(t, "--cluster-enabled", "yes", "--cluster-config-file", fmt.Sprintf("nodes-%d.conf", i),
			"--cluster-require-full-coverage", "no")
		if err := s.Client(t).Do(ctx, "CLUSTER", "ADDSLOTSRANGE", r[0], r[1]).Err(); err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, s)
		slots = append(slots, redis.ClusterSlot{Start: r[0], End: r[1], Nodes: []redis.ClusterNode{{Addr: s.Addr()}}})
	}
	for _, s := range nodes {
		c := s.Client(t)
		if !eventually(ctx, func() bool { return strings.Contains(c.ClusterInfo(ctx).Val(), "cluster_state:ok") }) {
			t.Fatal("the cluster does not come up")
		}
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return slots, nil },
	})
	t.Cleanup(func() { _ = rdb.Close() })
	store, err := durable.NewRedis(rdb, nil)
	if err != nil {
		t.Fatal(err)
	}

	for _, name := range []string{"mail", "a", "b", "c"} { // of both nodes
		slot := rdb.ClusterKeySlot(ctx, "{"+name+"}:stream").Val()
		s := nodes[slot/8192]
		b := setupStreamAt(t, s.Addr(), s.Client(t), name, nil)
		b.stream = store.Stream(name, nil)
		t.Cleanup(func() { _ = b.stream.Close() })
		if err := b.stream.Check(b.ctx); err != nil {
			t.Fatal(name, err)
		}
		b.append("a", "b", "c", "d")
		w := b.worker()
		c := w.take(4)
		for i, v := range []durable.Verdict{durable.Retry, durable.Dead, durable.Release} {
			w.settle(v, c[i])
		}
		for range 3 {
			if err := w.Await(b.ctx); err != nil {
				t.Fatal(name, err)
			}
		}
		b.expire(w)
		b.sweep()
		b.places("1 2 0 1 0")
		b.due()
		heir := b.worker()
		for done := 0; done < 3; {
			got := heir.claim(10).Jobs
			done += len(got)
			heir.settle(durable.Done, got...)
			b.due()
		}
		b.clean("b")
	}
	if _, err := store.Stream("q", &durable.StreamOptions{Prefix: "queue:"}).Info(); err == nil || !strings.Contains(err.Error(), "hash tag") {
		t.Fatal(err)
	}
}
