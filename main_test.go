package weir_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

func TestMain(m *testing.M) {
	if os.Getenv(childQueue) != "" {
		os.Exit(worker())
	}
	if role := os.Getenv(childRole); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(redistest.Main(m))
}

// patience is how long a test waits for what must happen before it says that it did not.
const patience = 30 * time.Second

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// open opens a queue on a server; Shutdown is the cleanup's.
func open(t *testing.T, rdb *redis.Client, name string, list *durable.ListOptions, opts *bridge.Options) *bridge.Queue {
	t.Helper()
	q, _ := openWatching(t, rdb, name, list, opts)
	return q
}

// appends counts the appends that are sent.
type appends struct{ n atomic.Int64 }

func (a *appends) DialHook(next redis.DialHook) redis.DialHook { return next }
func (a *appends) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if slices.Contains(cmd.Args(), any("append")) {
			a.n.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (a *appends) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// openWatching is open; sent waits until one append more has been sent than when it was made by watch: from
// then on the bridge has its request together, and takes no more from the front if that is not answered.
func openWatching(t *testing.T, rdb *redis.Client, name string, list *durable.ListOptions, opts *bridge.Options) (q *bridge.Queue, watch func() (sent func())) {
	t.Helper()
	seen := &appends{}
	store, err := durable.NewRedis(rdb, &durable.RedisOptions{Hook: seen})
	if err != nil {
		t.Fatal(err)
	}
	q, err = bridge.Open(store.List(name, list), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if _, err := q.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	return q, func() func() {
		before := seen.n.Load()
		return func() {
			t.Helper()
			eventually(t, "an append is sent", func() bool { return seen.n.Load() > before })
		}
	}
}

// run runs the queue until the test ends.
func run(t *testing.T, q *bridge.Queue, opts *bridge.RunOptions) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- q.Run(ctx, opts) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx := patient(t)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// places lists where in the queue an ID is; a job under way is in exactly one.
func places(t *testing.T, rdb *redis.Client, queue, id string) (found []string) {
	t.Helper()
	ctx := patient(t)
	lists, err := rdb.Keys(ctx, "{"+queue+"}:processing:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range append(lists, "{"+queue+"}:pending", "{"+queue+"}:arriving") {
		entries, err := rdb.LRange(ctx, key, 0, -1).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if entry == id {
				found = append(found, strings.TrimPrefix(key, "{"+queue+"}:"))
			}
		}
	}
	for _, set := range []string{"scheduled", "dead", "corrupt"} {
		if rdb.ZScore(ctx, "{"+queue+"}:"+set, id).Err() == nil {
			found = append(found, set)
		}
	}
	return found
}
