package durable_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

// streamBundle is one stream queue on a server, and a client that looks at its keys.
type streamBundle struct {
	site
	name, self string // self: what the keys of the group end with
	stream     *durable.Stream
}

// setupStream makes an empty queue on the shared server.
func setupStream(t testing.TB, opts *durable.StreamOptions) *streamBundle {
	t.Helper()
	return setupStreamAt(t, redistest.Addr(t), redistest.Client(t), redistest.Name(t), opts)
}

func setupStreamAt(t testing.TB, addr string, rdb *redis.Client, name string, opts *durable.StreamOptions) *streamBundle {
	t.Helper()
	b := &streamBundle{site: newSite(t, addr, rdb, name), name: name}
	b.stream = b.handle(opts)
	return b
}

// handle makes one more handle, of another process as it were.
func (b *streamBundle) handle(opts *durable.StreamOptions) *durable.Stream {
	b.Helper()
	s := store(b.TB, &redis.Options{Addr: b.addr}, nil).Stream(b.name, opts)
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Errorf("close: %v", err)
		}
	})
	return s
}

// group is the same queue as another group sees it.
func (b *streamBundle) group(name string, opts durable.StreamOptions) *streamBundle {
	b.Helper()
	opts.Group = name
	other := *b
	other.stream, other.self = b.handle(&opts), "@"+name
	return &other
}

func (b *streamBundle) producer() durable.Producer {
	b.Helper()
	p, err := b.stream.OpenProducer(b.ctx)
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// append stores jobs with these IDs, or ends the test.
func (b *streamBundle) append(ids ...string) {
	b.Helper()
	a, err := b.producer().Append(b.ctx, 1, jobsOf(ids...))
	if err != nil || a.Taken != len(ids) || len(a.Refused) > 0 {
		b.Fatalf("append: %+v, %v", a, err)
	}
}

// add is what any client may do.
func (b *streamBundle) add(fields ...string) (entry string) {
	b.Helper()
	entry, err := b.rdb.XAdd(b.ctx, &redis.XAddArgs{Stream: b.key("stream"), Values: fields}).Result()
	if err != nil {
		b.Fatal(err)
	}
	return entry
}

// streamWorker is a claimer with the queue it is of.
type streamWorker struct {
	*streamBundle
	claimer
}

func (b *streamBundle) worker() *streamWorker { return b.workerOf(b.stream, long) }

func (b *streamBundle) workerOf(s *durable.Stream, lease time.Duration) *streamWorker {
	b.Helper()
	return &streamWorker{streamBundle: b, claimer: b.claimer(s, lease)}
}

// nothing checks that there is nothing to claim.
func (w *streamWorker) nothing() {
	w.Helper()
	if c := w.claim(10); c.Status != durable.ClaimEmpty {
		w.Fatalf("claim: %q with %q", c.Status, idsOf(c.Jobs))
	}
}

func (b *streamBundle) stats() durable.Stats {
	b.Helper()
	s, err := b.stream.Stats(b.ctx)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// places compares sizes: pending scheduled processing dead corrupt.
func (b *streamBundle) places(want string) {
	b.Helper()
	s := b.stats()
	if got := fmt.Sprint(s.Pending, s.Scheduled, s.Processing, s.Dead, s.Corrupt); got != want {
		b.Fatalf("pending, scheduled, processing, dead, corrupt: %s, want %s", got, want)
	}
}

func (b *streamBundle) length() int64 {
	b.Helper()
	n, err := b.rdb.XLen(b.ctx, b.key("stream")).Result()
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// owners tells how many entries are pending for each consumer of the group, those without any too.
func (b *streamBundle) owners(group string) map[string]int64 {
	b.Helper()
	all, err := b.rdb.XInfoConsumers(b.ctx, b.key("stream"), group).Result()
	if err != nil {
		b.Fatal(err)
	}
	owners := map[string]int64{}
	for _, c := range all {
		owners[c.Name] = c.Pending
	}
	return owners
}

// clean checks that there is nothing of any job left but these records.
func (b *streamBundle) clean(records ...string) {
	b.Helper()
	if n := b.length(); n != 0 {
		b.Errorf("%d entries are left", n)
	}
	for _, g := range b.rdb.XInfoGroups(b.ctx, b.key("stream")).Val() {
		if g.Pending != 0 {
			b.Errorf("%d are pending in %s", g.Pending, g.Name)
		}
	}
	var left []string
	for _, key := range b.keysLike("job:*") {
		left = append(left, strings.TrimPrefix(key, b.key("job:")))
	}
	slices.Sort(left)
	slices.Sort(records)
	if !slices.Equal(left, records) {
		b.Errorf("records left: %q, want %q", left, records)
	}
	for _, set := range []string{"returned", "retries", "scheduled"} {
		for _, key := range b.keysLike(set + "*") {
			b.Errorf("left: %s: %q", key, b.rdb.ZRange(b.ctx, key, 0, -1).Val())
		}
	}
}

// expire ends a consumer's lease on the server, as time would.
func (b *streamBundle) expire(c durable.Consumer) {
	b.Helper()
	b.rescore("consumers"+b.self, c.ID())
}

func (b *streamBundle) sweep() durable.Swept {
	b.Helper()
	var all durable.Swept
	for {
		s, err := b.stream.Sweep(b.ctx)
		if err != nil {
			b.Fatal(err)
		}
		all.Fenced += s.Fenced
		all.Returned += s.Returned
		all.Dead += s.Dead
		all.Trimmed += s.Trimmed
		all.Ended += s.Ended
		if !s.More {
			return all
		}
	}
}

// outlive waits until a job has expired, by Redis's clock.
func (b *streamBundle) outlive(id string) {
	b.Helper()
	r, err := b.stream.Lookup(b.ctx, durable.LookupRequest{ID: id})
	if err != nil {
		b.Fatal(err)
	}
	for !b.rdb.Time(b.ctx).Val().After(r.Expires) {
		if b.ctx.Err() != nil {
			b.Fatal(b.ctx.Err())
		}
	}
}

// due makes everything that is scheduled due now.
func (b *streamBundle) due() {
	b.Helper()
	for _, set := range []string{"scheduled", "retries" + b.self} {
		for _, name := range b.rdb.ZRange(b.ctx, b.key(set), 0, -1).Val() {
			b.rescore(set, name)
		}
	}
}
