package durable_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

// listQueue is what a list and a sorted-set queue have in common.
type listQueue interface {
	durable.FollowEngine
	durable.Operator
	durable.Inspector
	ACLRule(user string) string
}

// maker makes either.
type maker func(s *durable.Redis, name string, opts *durable.ListOptions) listQueue

func list(s *durable.Redis, name string, opts *durable.ListOptions) listQueue {
	return s.List(name, opts)
}

func sortedSet(s *durable.Redis, name string, opts *durable.ListOptions) listQueue {
	if opts == nil {
		opts = &durable.ListOptions{}
	}
	return s.SortedSet(name, &durable.SortedSetOptions{
		Prefix: opts.Prefix, MaxBacklog: opts.MaxBacklog, MaxCrashes: opts.MaxCrashes, MaxDead: opts.MaxDead,
		MaxCorrupt: opts.MaxCorrupt, MaxCompleted: opts.MaxCompleted,
	})
}

// onBoth runs a test of what the two engines do with the same scripts.
func onBoth(t *testing.T, test func(t *testing.T, of maker)) {
	t.Helper()
	for name, of := range map[string]maker{"list": list, "sorted set": sortedSet} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, of)
		})
	}
}

// bundle is one list or sorted-set queue on a server, and a client that looks at its keys.
type bundle struct {
	site
	of   maker
	list listQueue
}

// setupList makes an empty queue on the shared server.
func setupList(t testing.TB, opts *durable.ListOptions) *bundle {
	t.Helper()
	return setupQueue(t, list, opts)
}

func setupQueue(t testing.TB, of maker, opts *durable.ListOptions) *bundle {
	t.Helper()
	return setupQueueAt(t, of, redistest.Addr(t), redistest.Client(t), redistest.Name(t), opts)
}

func setupListAt(t testing.TB, addr string, rdb *redis.Client, name string, opts *durable.ListOptions) *bundle {
	t.Helper()
	return setupQueueAt(t, list, addr, rdb, name, opts)
}

func setupQueueAt(t testing.TB, of maker, addr string, rdb *redis.Client, name string, opts *durable.ListOptions) *bundle {
	t.Helper()
	b := &bundle{site: newSite(t, addr, rdb, name), of: of}
	if opts != nil && opts.Prefix != "" {
		b.prefix = opts.Prefix
	}
	b.list = b.another(addr, name, opts)
	return b
}

// another makes one more handle, of another process as it were.
func (b *bundle) another(addr, name string, opts *durable.ListOptions) listQueue {
	b.Helper()
	l := b.of(store(b.TB, &redis.Options{Addr: addr}, nil), name, opts)
	b.Cleanup(func() {
		if err := l.Close(); err != nil {
			b.Errorf("close: %v", err)
		}
	})
	return l
}

// blocked are the clients of the server that wait in a command, by what CLIENT calls them. Other tests have theirs on a server
// that is shared.
func (b *bundle) blocked(command string) (ids []string) {
	for line := range strings.Lines(b.rdb.ClientList(b.ctx).Val()) {
		if strings.Contains(line, " flags=b ") && strings.Contains(line, " cmd="+command+" ") {
			id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
			ids = append(ids, id)
		}
	}
	return ids
}

// parked waits until one does.
func (b *bundle) parked(command string) {
	b.Helper()
	if !eventually(b.ctx, func() bool { return len(b.blocked(command)) > 0 }) {
		b.Fatal("nobody waits in", command)
	}
}

func (b *bundle) producer() durable.Producer {
	b.Helper()
	p, err := b.list.OpenProducer(b.ctx)
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// append stores jobs with these IDs, or ends the test.
func (b *bundle) append(ids ...string) {
	b.Helper()
	a, err := b.producer().Append(b.ctx, 1, jobsOf(ids...))
	if err != nil || a.Taken != len(ids) || len(a.Refused) > 0 {
		b.Fatalf("append: %+v, %v", a, err)
	}
}

// worker is a claimer with the queue it is of.
type worker struct {
	*bundle
	claimer
}

func (b *bundle) worker() *worker { return b.workerOf(b.list, long) }

func (b *bundle) workerOf(l durable.Engine, lease time.Duration) *worker {
	b.Helper()
	return &worker{bundle: b, claimer: b.claimer(l, lease)}
}

// where tells in how many places an ID is, by name.
func (b *bundle) where(id string) string {
	b.Helper()
	var places []string
	for _, key := range []string{"pending", "arriving"} {
		for _, in := range b.waiting(key) {
			if in == id {
				places = append(places, key)
			}
		}
	}
	for _, key := range b.keysLike("processing:*") {
		for _, in := range b.rdb.LRange(b.ctx, key, 0, -1).Val() {
			if in == id {
				places = append(places, "processing")
			}
		}
	}
	for _, set := range []string{"scheduled", "dead", "corrupt"} {
		if b.rdb.ZScore(b.ctx, b.key(set), id).Err() == nil {
			places = append(places, set)
		}
	}
	return strings.Join(places, " ")
}

// waiting lists the IDs in pending, or in arriving.
func (b *bundle) waiting(key string) []string {
	b.Helper()
	if b.rdb.Type(b.ctx, b.key(key)).Val() == "zset" {
		return b.rdb.ZRange(b.ctx, b.key(key), 0, -1).Val()
	}
	return b.rdb.LRange(b.ctx, b.key(key), 0, -1).Val()
}

// push adds IDs to pending as another language would.
func (b *bundle) push(ids ...string) {
	b.Helper()
	for _, id := range ids {
		var pushed *redis.IntCmd
		if _, is := b.list.(*durable.SortedSet); is {
			pushed = b.rdb.ZAdd(b.ctx, b.key("pending"), redis.Z{Score: float64(time.Now().UnixMicro()), Member: id})
		} else {
			pushed = b.rdb.LPush(b.ctx, b.key("pending"), id)
		}
		if err := pushed.Err(); err != nil {
			b.Fatal(err)
		}
	}
}

func (b *bundle) stats() durable.Stats {
	b.Helper()
	s, err := b.list.Stats(b.ctx)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// places compares sizes: pending scheduled processing dead corrupt.
func (b *bundle) places(want string) {
	b.Helper()
	s := b.stats()
	if got := fmt.Sprint(s.Pending, s.Scheduled, s.Processing, s.Dead, s.Corrupt); got != want {
		b.Fatalf("pending, scheduled, processing, dead, corrupt: %s, want %s", got, want)
	}
}

// expire ends a consumer's lease on the server, as time would.
func (b *bundle) expire(c durable.Consumer) {
	b.Helper()
	b.rescore("consumers", c.ID())
}

func (b *bundle) sweep() durable.Swept {
	b.Helper()
	var all durable.Swept
	for {
		s, err := b.list.Sweep(b.ctx)
		if err != nil {
			b.Fatal(err)
		}
		all.Fenced += s.Fenced
		all.Returned += s.Returned
		all.Dead += s.Dead
		all.Trimmed += s.Trimmed
		if !s.More {
			return all
		}
	}
}

// due makes everything that is scheduled due now.
func (b *bundle) due() {
	b.Helper()
	for _, id := range b.rdb.ZRange(b.ctx, b.key("scheduled"), 0, -1).Val() {
		b.rescore("scheduled", id)
	}
}

// zs are members of a sorted set, with scores that come first.
func zs(members ...string) []redis.Z {
	all := make([]redis.Z, len(members))
	for i, m := range members {
		all[i] = redis.Z{Score: float64(i + 1), Member: m}
	}
	return all
}

// commandsOf counts the requests since the statistics were reset, and the commands that scripts have executed for them.
func commandsOf(ctx context.Context, rdb *redis.Client) (requests, inside int) {
	for line := range strings.Lines(rdb.Info(ctx, "commandstats").Val()) {
		var name string
		var calls int
		if _, err := fmt.Sscanf(strings.NewReplacer("cmdstat_", "", ":calls=", " ", ",", " ").Replace(line), "%s %d", &name, &calls); err != nil {
			continue
		}
		switch name {
		case "eval", "evalsha", "hello", "client":
			requests += calls
		case "config|resetstat", "info":
		default:
			inside += calls
		}
	}
	return requests, inside
}
