package durable_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

// Rules of PROTOCOL that only the keys in Redis show; what the contract shows is in durabletest.

func TestListSenders(t *testing.T) {
	t.Parallel()

	t.Run("a sender without a record is told so and nothing is done", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		p, w := b.producer(), b.worker()
		b.append("a")
		claim := w.take(1)[0]
		for _, id := range []string{p.ID(), w.ID()} {
			b.rdb.Del(b.ctx, b.key("sender:"+id))
		}
		before := b.dump()
		_, err1 := p.Append(b.ctx, 1, jobsOf("b"))
		_, err2 := p.Close(b.ctx, 2)
		_, err3 := w.Claim(b.ctx, durable.ClaimRequest{N: 2, Slots: 1, Held: 1})
		_, err4 := w.Settle(b.ctx, 1, []durable.Outcome{{Ref: durable.Ref{ID: "a", Token: claim.Token}, Verdict: durable.Done}})
		for i, err := range []error{err1, err2, err3, err4} {
			if !errors.Is(err, durable.ErrNoSender) {
				t.Errorf("%d: %v", i, err)
			}
		}
		if after := b.dump(); after != before {
			t.Errorf("changed:\n%s\nto:\n%s", before, after)
		}
	})

	t.Run("a record outlives every lease and goes by itself", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		p, w := b.producer(), b.worker()
		check := func(when string, id string) {
			t.Helper()
			if ttl := b.rdb.TTL(b.ctx, b.key("sender:"+id)).Val(); ttl < 23*time.Hour || ttl > 24*time.Hour {
				t.Errorf("%s: the record has a TTL of %v", when, ttl)
			}
			b.rdb.Expire(b.ctx, b.key("sender:"+id), time.Minute)
		}
		check("opened", p.ID())
		check("opened", w.ID())
		if _, err := p.Append(b.ctx, 1, jobsOf("a")); err != nil {
			t.Fatal(err)
		}
		check("appended", p.ID())
		if _, err := p.Close(b.ctx, 2); err != nil {
			t.Fatal(err)
		}
		check("closed", p.ID())
		c := w.take(1)
		check("claimed", w.ID())
		w.settle(durable.Done, c...)
		check("settled", w.ID())
		if err := w.Renew(b.ctx, long); err != nil {
			t.Fatal(err)
		}
		check("renewed", w.ID())
		if _, err := w.Leave(b.ctx); err != nil {
			t.Fatal(err)
		}
		check("left", w.ID())
	})

	t.Run("a counter that went back gives no identity twice", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		first := b.producer().ID()
		b.rdb.HSet(b.ctx, b.key("counters"), "next_sender", "words", "fence", "words", "appended", "words")
		second := b.producer().ID()
		if first == second || !strings.HasPrefix(second, "1-") {
			t.Fatal(first, second)
		}
		b.append("a")
		if c := b.worker().take(1)[0]; c.Fence < time.Now().Add(-time.Hour).UnixMilli() {
			t.Fatal("fence", c.Fence)
		}
	})
}

func TestListAppend(t *testing.T) {
	t.Parallel()

	t.Run("a script that stopped half-way is finished by the same number", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, &durable.ListOptions{MaxBacklog: 3})
		p := b.producer()
		// As if it had stopped after the entries and the first hash.
		b.rdb.LPush(b.ctx, b.key("pending"), "a", "b")
		b.rdb.HSet(b.ctx, b.key("job:a"), "payload", "payload of a", "append", p.ID()+":1")
		a, err := p.Append(b.ctx, 1, jobsOf("a", "b"))
		if err != nil || a.Taken != 2 || len(a.Refused) > 0 {
			t.Fatalf("%+v, %v", a, err)
		}
		w := b.worker()
		if got := idsOf(w.take(2)); got != "a b" {
			t.Fatal(got)
		}
		if c := w.claim(1); c.Status != durable.ClaimEmpty {
			t.Fatalf("a job twice: %+v", c)
		}
	})

	t.Run("an ID that cannot be stored is refused, alone", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		b.rdb.Set(b.ctx, b.key("job:taken"), "by a string", 0)
		huge := strings.Repeat("x", durable.MaxIDBytes)
		a, err := b.producer().Append(b.ctx, 1, jobsOf("", huge, huge+"x", "taken", "a"))
		want := []durable.Refusal{{Pos: 0, Code: durable.RefusedBadID}, {Pos: 2, Code: durable.RefusedBadID}, {Pos: 3, Code: durable.RefusedBadKey}}
		if err != nil || a.Taken != 5 || !slices.Equal(a.Refused, want) {
			t.Fatalf("%+v, %v", a, err)
		}
		if got := b.rdb.Get(b.ctx, b.key("job:taken")).Val(); got != "by a string" {
			t.Fatalf("the foreign key holds %q", got)
		}
		if got := idsOf(b.worker().take(2)); got != huge+" a" {
			t.Fatal(got)
		}
	})

	t.Run("5,000 jobs in one batch are stored", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		ids := make([]string, 5000)
		for i := range ids {
			ids[i] = fmt.Sprint("job", i)
		}
		b.append(ids...)
		b.places("5000 0 0 0 0")
		if got := idsOf(b.worker().take(300)); got != strings.Join(ids[:300], " ") {
			t.Fatal(got)
		}
	})

	t.Run("a job is what the contract says, for every language to read", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		p := b.producer()
		job := &durable.Job{ID: "a", Kind: "k", Payload: []byte("p"), Headers: []byte("{}"), MaxAttempts: 3, Timeout: time.Second}
		if _, err := p.Append(b.ctx, 1, []*durable.Job{job, {ID: "b", Delay: time.Hour}}); err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(b.rdb.HGetAll(b.ctx, b.key("job:a")).Val(), b.rdb.HGetAll(b.ctx, b.key("job:b")).Val())
		want := "map[append:" + p.ID() + ":1 headers:{} kind:k max_attempts:3 payload:p status:pending timeout_ms:1000] " +
			"map[append:" + p.ID() + ":1 payload: status:scheduled]"
		if got != want {
			t.Fatalf("%s\nwant %s", got, want)
		}
	})
}

func TestListSettle(t *testing.T) {
	t.Parallel()

	t.Run("two outcomes for one claim in a batch: the first counts", func(t *testing.T) {
		t.Parallel()
		for verdict, second := range map[durable.Verdict]string{durable.Done: "OG", durable.Release: "OS", durable.Snooze: "OS", durable.Dead: "OS"} {
			b := setupList(t, nil)
			w := b.worker()
			b.append("a")
			c := w.take(1)[0]
			if got := w.settle(verdict, c, c); got != second {
				t.Errorf("%c: %s, want %s", verdict, got, second)
			}
			b.places(map[durable.Verdict]string{
				durable.Done: "0 0 0 0 0", durable.Release: "1 0 0 0 0", durable.Snooze: "0 1 0 0 0", durable.Dead: "0 0 0 1 0",
			}[verdict])
		}
	})

	t.Run("story 33: dead letters are bounded, index and job together", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, &durable.ListOptions{MaxDead: 3})
		w := b.worker()
		trimmed := 0
		for i := range 10 {
			b.append(fmt.Sprint(i))
			c := w.take(1)[0]
			w.settles++
			s, err := w.Settle(b.ctx, w.settles, []durable.Outcome{{Ref: durable.Ref{ID: c.ID, Token: c.Token}, Verdict: durable.Dead, Reason: strings.Repeat("ü", 5000)}})
			if err != nil {
				t.Fatal(err)
			}
			w.held--
			trimmed += s.Trimmed
		}
		b.places("0 0 0 3 0")
		if keys := b.keysLike("job:*"); len(keys) != 3 || trimmed != 7 || b.stats().Counters["trimmed"] != 7 {
			t.Fatal(keys, trimmed)
		}
		if reason := b.field("9", "reason"); len(reason) == 0 || len(reason) > 1024 || strings.Trim(reason, "ü") != "" {
			t.Fatalf("%d bytes of reason", len(reason))
		}
	})

	t.Run("the trim leaves alone what is not dead any more, or not ours", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, &durable.ListOptions{MaxDead: 1})
		w := b.worker()
		b.append("a", "b", "c")
		claims := w.take(3)
		w.settle(durable.Dead, claims[0])
		b.rdb.HSet(b.ctx, b.key("job:a"), "status", "pending") // an operator brought it back
		b.rdb.ZAdd(b.ctx, b.key("dead"), redis.Z{Score: 2, Member: "foreign"})
		b.rdb.Set(b.ctx, b.key("job:foreign"), "string", 0)
		w.settle(durable.Dead, claims[1:]...)
		if n := b.rdb.Exists(b.ctx, b.key("job:a"), b.key("job:foreign"), b.key("job:c")).Val(); n != 3 {
			t.Fatal(n, "left")
		}
		b.places("0 0 0 1 0")
	})
}

func TestListSweep(t *testing.T) {
	t.Parallel()

	t.Run("two sweepers at once return each claim once", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		ids := make([]string, 400)
		for i := range ids {
			ids[i] = fmt.Sprint("job", i)
		}
		b.append(ids...)
		w := b.worker()
		w.take(len(ids))
		b.expire(w)
		var wg sync.WaitGroup
		var mu sync.Mutex
		var fenced, returned int
		for range 4 {
			wg.Go(func() {
				s := b.sweep()
				mu.Lock()
				defer mu.Unlock()
				fenced += s.Fenced
				returned += s.Returned
			})
		}
		wg.Wait()
		if fenced != 1 || returned != len(ids) {
			t.Fatal(fenced, returned)
		}
		b.places("0 400 0 0 0")
	})

	t.Run("story 23: a claim without its fields is recovered", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		w := b.worker()
		b.append("a", "b")
		w.take(2)
		b.rdb.HDel(b.ctx, b.key("job:a"), "claim_token", "claimed_at_ms", "deliveries")
		b.rdb.HDel(b.ctx, b.key("job:b"), "claim_token", "status")
		b.expire(w)
		b.sweep()
		if got := idsOf(b.worker().take(2)); got != "a b" {
			t.Fatal(got)
		}
	})

	t.Run("story 24: what lost its job is dropped once, and the rest goes on", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		w := b.worker()
		b.append("a", "b", "c")
		w.take(3)
		b.rdb.Del(b.ctx, b.key("job:a"))
		b.rdb.LRem(b.ctx, b.key("processing:"+w.ID()), 1, "b") // an entry went
		b.expire(w)
		if s := b.sweep(); s.Returned != 1 {
			t.Fatalf("%+v", s)
		}
		if got := b.where("c"); got != "scheduled" {
			t.Fatal(got)
		}
		if keys := b.keysLike("processing:*"); len(keys) > 0 {
			t.Fatal(keys)
		}
	})

	t.Run("story 27: a list whose consumer was struck off the registry is found", func(t *testing.T) {
		t.Parallel()
		// A name that would be a pattern finds its own lists, and no others.
		name := "[a]*?" + redistest.Name(t)
		b := setupListAt(t, redistest.Addr(t), redistest.Client(t), name, nil)
		other := strings.Replace(b.prefix, "*", "more", 1) + "processing:not ours"
		b.rdb.LPush(b.ctx, other, "x")
		w := b.workerOf(b.list, 50*time.Millisecond)
		b.append("a")
		w.take(1)
		b.rdb.ZRem(b.ctx, b.key("consumers"), w.ID())
		for b.where("a") == "processing" {
			if b.ctx.Err() != nil {
				t.Fatal("never found")
			}
			b.sweep()
		}
		if got := b.where("a"); got != "scheduled" || b.stats().Consumers != 0 || b.rdb.LLen(b.ctx, other).Val() != 1 {
			t.Fatal(got, b.stats())
		}
	})

	t.Run("a list that is of another type is put aside and hides no other consumer", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		spoilt, w := b.worker(), b.worker()
		b.append("a")
		w.take(1)
		b.rdb.Set(b.ctx, b.key("processing:"+spoilt.ID()), "string", 0)
		b.expire(spoilt)
		b.expire(w)
		if s := b.sweep(); s.Returned != 1 {
			t.Fatalf("%+v", s)
		}
		b.places("0 1 0 0 1")
		if got := b.rdb.Get(b.ctx, b.key("processing:"+spoilt.ID())).Val(); got != "string" {
			t.Fatal("the foreign key was touched")
		}
	})

	t.Run("leaving charges nobody, also when a sweeper comes in between", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		ids := make([]string, 600)
		for i := range ids {
			ids[i] = fmt.Sprint("job", i)
		}
		b.append(ids...)
		w := b.worker()
		w.take(len(ids))
		if more, err := w.Leave(b.ctx); err != nil || !more {
			t.Fatal(more, err)
		}
		b.sweep()
		if more, err := w.Leave(b.ctx); err != nil || more {
			t.Fatal(more, err)
		}
		b.places("600 0 0 0 0")
		if got := idsOf(b.worker().take(600)); got != strings.Join(ids, " ") {
			t.Fatal("out of order:", got)
		}
	})
}
