package durable_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
)

// patience bounds whatever must happen.
const patience = 20 * time.Second

// site is where the keys of one queue are, whatever its engine, and a client that looks at them.
type site struct {
	testing.TB
	ctx    context.Context
	addr   string
	rdb    *redis.Client
	prefix string
}

func newSite(t testing.TB, addr string, rdb *redis.Client, name string) site {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return site{TB: t, ctx: ctx, addr: addr, rdb: rdb, prefix: "{" + name + "}:"}
}

func store(t testing.TB, client *redis.Options, opts *durable.RedisOptions) *durable.Redis {
	t.Helper()
	rdb := redis.NewClient(client)
	t.Cleanup(func() { _ = rdb.Close() })
	s, err := durable.NewRedis(rdb, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (b *site) key(name string) string { return b.prefix + name }

func (b *site) keysLike(pattern string) []string {
	b.Helper()
	keys := map[string]bool{}
	prefix := strings.NewReplacer("*", `\*`, "[", `\[`).Replace(b.prefix)
	scan := b.rdb.Scan(b.ctx, 0, prefix+pattern, 1000).Iterator()
	for scan.Next(b.ctx) {
		keys[scan.Val()] = true
	}
	if err := scan.Err(); err != nil {
		b.Fatal(err)
	}
	return slices.Sorted(maps.Keys(keys))
}

// dump is all that the keys of the queue hold, times to live apart.
func (b *site) dump() string {
	b.Helper()
	var s strings.Builder
	for _, key := range b.keysLike("*") {
		fmt.Fprintf(&s, "%s %x\n", key, b.rdb.Dump(b.ctx, key).Val())
	}
	return s.String()
}

// rescore sets a score to a time long past, also when the server is full.
func (b *site) rescore(set, member string) {
	b.Helper()
	err := b.rdb.Eval(b.ctx, "redis.call('ZREM', KEYS[1], '') return redis.call('ZADD', KEYS[1], 'XX', 1, ARGV[1])",
		[]string{b.key(set)}, member).Err()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *site) field(id, name string) string {
	b.Helper()
	return b.rdb.HGet(b.ctx, b.key("job:"+id), name).Val()
}

func jobsOf(ids ...string) []*durable.Job {
	jobs := make([]*durable.Job, len(ids))
	for i, id := range ids {
		jobs[i] = &durable.Job{ID: id, Payload: []byte("payload of " + id)}
	}
	return jobs
}

// claimer is a consumer that numbers its requests.
type claimer struct {
	durable.Consumer
	at              *site
	claims, settles uint64
	held            int
}

const long = 10 * time.Minute

func (b *site) claimer(e durable.Engine, lease time.Duration) claimer {
	b.Helper()
	c, err := e.OpenConsumer(b.ctx, lease)
	if err != nil {
		b.Fatal(err)
	}
	return claimer{Consumer: c, at: b}
}

func (w *claimer) claim(slots int) durable.Claimed {
	w.at.Helper()
	w.claims++
	c, err := w.Claim(w.at.ctx, durable.ClaimRequest{N: w.claims, Slots: slots, MaxBytes: 1 << 20, Held: w.held})
	if err != nil {
		w.at.Fatal(err)
	}
	w.held += len(c.Jobs)
	return c
}

// take claims until it has n jobs.
func (w *claimer) take(n int) []*durable.Claim {
	w.at.Helper()
	var got []*durable.Claim
	for len(got) < n {
		c := w.claim(n - len(got))
		got = append(got, c.Jobs...)
		if c.Status == durable.ClaimEmpty && len(got) < n {
			if c.NextDue < 0 {
				w.at.Fatalf("%d of %d jobs, and no more to come", len(got), n)
			}
			_ = w.Await(w.at.ctx)
		}
	}
	return got
}

func (w *claimer) settle(verdict durable.Verdict, claims ...*durable.Claim) string {
	w.at.Helper()
	outcomes := make([]durable.Outcome, len(claims))
	for i, c := range claims {
		outcomes[i] = durable.Outcome{Ref: durable.Ref{ID: c.ID, Token: c.Token}, Verdict: verdict, MaxAttempts: 3, Reason: "because"}
	}
	w.settles++
	s, err := w.Settle(w.at.ctx, w.settles, outcomes)
	if err != nil {
		w.at.Fatal(err)
	}
	w.held -= len(claims)
	return codes(s)
}

func codes(s durable.Settled) string {
	var b strings.Builder
	for _, c := range s.Codes {
		b.WriteByte(byte(c))
	}
	return b.String()
}

func idsOf(claims []*durable.Claim) string {
	ids := make([]string, len(claims))
	for i, c := range claims {
		ids[i] = c.ID
	}
	return strings.Join(ids, " ")
}
