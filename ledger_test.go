package weir_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
)

// ledger notes every run of a handler, outside of Redis. It is safe for concurrent use.
type ledger struct {
	mu    sync.Mutex
	runs  map[string][]int // the deliveries of each run, by ID
	order []string
}

func newLedger() *ledger { return &ledger{runs: map[string][]int{}} }

func (l *ledger) note(id string, deliveries int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[id] = append(l.runs[id], deliveries)
	l.order = append(l.order, id)
}

// total is how many runs there were.
func (l *ledger) total() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.order)
}

// of returns the deliveries of each run of one job.
func (l *ledger) of(id string) []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]int(nil), l.runs[id]...)
}

// once checks that each of these jobs ran once, at its first delivery, and nothing else ran.
func (l *ledger) once(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if runs := l.of(id); len(runs) != 1 || runs[0] != 1 {
			t.Errorf("job %q: deliveries that ran %v, want one run, of the first", id, runs)
		}
	}
	if n := l.total(); n != len(ids) {
		t.Errorf("%d runs of %d jobs", n, len(ids))
	}
}

// consume handles a kind by noting each run.
func (l *ledger) consume(t *testing.T, kind *bridge.Kind[string]) {
	t.Helper()
	err := kind.Handle(func(_ context.Context, d *bridge.Delivery[string]) error {
		l.note(d.ID, d.Deliveries)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// await receives what must come within the patience of a test.
func await[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-patient(t).Done():
		t.Fatalf("not within %v: %s", patience, what)
		panic("unreachable")
	}
}

// raw takes payloads as they are.
type raw struct{}

func (raw) Encode(v string) ([]byte, error) { return []byte(v), nil }
func (raw) Decode(p []byte) (string, error) { return string(p), nil }

// plain names a kind whose payloads are opaque.
func plain(q *bridge.Queue, kind string) *bridge.Kind[string] {
	return bridge.NewKind(q, kind, &bridge.KindOptions[string]{Codec: raw{}})
}

// push enqueues as any language does, without the library: a hash and an entry.
func push(t *testing.T, rdb *redis.Client, prefix, id string, fields ...any) {
	t.Helper()
	ctx := patient(t)
	if len(fields) > 0 {
		if err := rdb.HSet(ctx, prefix+"job:"+id, fields...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := rdb.LPush(ctx, prefix+"pending", id).Err(); err != nil {
		t.Fatal(err)
	}
}

// leftovers lists the keys under a prefix that are neither accounting nor end by themselves.
func leftovers(t *testing.T, rdb *redis.Client, prefix string) (keys []string) {
	t.Helper()
	ctx := patient(t)
	scan := rdb.Scan(ctx, 0, prefix+"*", 1000).Iterator()
	for scan.Next(ctx) {
		key := scan.Val()
		switch strings.TrimPrefix(key, prefix) {
		case "counters", "meta":
			continue
		}
		if ttl := rdb.PTTL(ctx, key).Val(); ttl != -1 { // -1: for ever; -2: gone meanwhile
			continue
		}
		keys = append(keys, key)
	}
	if err := scan.Err(); err != nil {
		t.Fatal(err)
	}
	return keys
}

// shut shuts a queue down now; the cleanup's Shutdown finds it done.
func shut(t *testing.T, q *bridge.Queue) bridge.Report {
	t.Helper()
	report, err := q.Shutdown(patient(t))
	if err != nil {
		t.Fatalf("shutdown: %v", err)
	}
	return report
}

// enlist opens a queue on a store with options of its own; Shutdown is the cleanup's.
func enlist(t *testing.T, rdb *redis.Client, redisOpts *durable.RedisOptions, name string, list *durable.ListOptions, opts *bridge.Options) *bridge.Queue {
	t.Helper()
	store, err := durable.NewRedis(rdb, redisOpts)
	if err != nil {
		t.Fatal(err)
	}
	q, err := bridge.Open(store.List(name, list), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, q) })
	return q
}
