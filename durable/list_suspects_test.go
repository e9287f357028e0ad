package durable_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
)

func TestListSuspects(t *testing.T) {
	t.Parallel()
	onBoth(t, suspects)
}

func suspects(t *testing.T, of maker) {
	// lose ends w as a crash does, and sweeps it up.
	lose := func(b *bundle, w *worker) durable.Swept {
		b.Helper()
		b.expire(w)
		return b.sweep()
	}
	crashes := func(b *bundle, id string) string {
		b.Helper()
		return id + "=" + b.field(id, "crashes")
	}

	t.Run("without a suspect all that a lost worker held is charged, and comes back later", func(t *testing.T) {
		t.Parallel()
		b := setupQueue(t, of, nil)
		w := b.worker()
		b.append("a", "b")
		w.take(2)
		if s := lose(b, w); s.Fenced != 1 || s.Returned != 2 || s.Dead != 0 {
			t.Fatalf("%+v", s)
		}
		if got := crashes(b, "a") + crashes(b, "b"); got != "a=1b=1" {
			t.Fatal(got)
		}
		now := b.rdb.Time(b.ctx).Val().UnixMilli()
		for _, z := range b.rdb.ZRangeWithScores(b.ctx, b.key("scheduled"), 0, -1).Val() {
			if d := int64(z.Score) - now; d < 0 || d > 2000 {
				t.Errorf("%v comes back in %d ms", z.Member, d)
			}
		}
		c := b.worker().take(1)[0]
		if c.Crashes != 1 || c.Deliveries != 2 || c.Attempts != 0 {
			t.Fatalf("%+v", c)
		}
	})

	t.Run("a consumer holds one suspect at a time, and innocents beside it", func(t *testing.T) {
		t.Parallel()
		b := setupQueue(t, of, nil)
		w := b.worker()
		b.append("a", "b", "c")
		w.take(3)
		lose(b, w)
		b.append("d", "e")
		b.due()
		next := b.worker()
		first := next.claim(10)
		suspects := 0
		for _, c := range first.Jobs {
			suspects += c.Crashes
		}
		if len(first.Jobs) != 3 || suspects != 1 {
			t.Fatalf("%s, %d suspects", idsOf(first.Jobs), suspects)
		}
		if first.NextDue < 0 {
			t.Fatal("the others are not due")
		}
		b.due()
		if c := next.claim(10); len(c.Jobs) > 0 {
			t.Fatalf("a second suspect: %+v", c)
		}
		for _, c := range first.Jobs {
			next.settle(durable.Done, c)
		}
		for range 2 {
			b.due()
			c := next.claim(10)
			if len(c.Jobs) != 1 || c.Jobs[0].Crashes != 1 {
				t.Fatalf("%+v", c)
			}
			next.settle(durable.Done, c.Jobs...)
		}
		b.places("0 0 0 0 0")
	})

	t.Run("only the suspect is charged for the next crash, its neighbours come back at once", func(t *testing.T) {
		t.Parallel()
		b := setupQueue(t, of, nil)
		w := b.worker()
		b.append("suspect")
		w.take(1)
		lose(b, w)
		b.due()
		ids := make([]string, 300) // more than one step of the sweep
		for i := range ids {
			ids[i] = fmt.Sprint("innocent", i)
		}
		b.append(ids...)
		next := b.worker()
		next.take(301)
		if s := lose(b, next); s.Returned != 301 {
			t.Fatalf("%+v", s)
		}
		b.places("300 1 0 0 0")
		if got := crashes(b, "suspect"); got != "suspect=2" {
			t.Fatal(got)
		}
		for i, c := range b.worker().take(300) {
			if c.Crashes != 0 || c.ID != ids[i] {
				t.Fatalf("%+v", c)
			}
		}
	})

	for verdict, name := range map[durable.Verdict]string{
		durable.Done: "done", durable.Retry: "retried", durable.Release: "released", durable.Dead: "dead",
	} {
		t.Run("a suspect that was "+name+" is none any more for its consumer", func(t *testing.T) {
			t.Parallel()
			b := setupQueue(t, of, nil)
			w := b.worker()
			b.append("a")
			w.take(1)
			lose(b, w)
			b.due()
			next := b.worker()
			next.settle(verdict, next.take(1)...)
			if got := b.rdb.HGet(b.ctx, b.key("sender:"+next.ID()), "suspect").Val(); got != "" {
				t.Fatal("still noted:", got)
			}
		})
	}

	t.Run("a suspect that was taken away does not keep its consumer from the next", func(t *testing.T) {
		t.Parallel()
		b := setupQueue(t, of, nil)
		w := b.worker()
		b.append("a", "b")
		w.take(2)
		lose(b, w)
		b.due()
		next := b.worker()
		held := next.take(1)[0]
		b.rdb.Del(b.ctx, b.key("job:"+held.ID)) // by an operator
		b.due()
		if c := next.claim(1); len(c.Jobs) != 1 {
			t.Fatalf("%+v", c)
		}
	})

	t.Run("story 29: a job that kills every worker is dead after its bound, and no innocent", func(t *testing.T) {
		t.Parallel()
		b := setupQueue(t, of, &durable.ListOptions{MaxCrashes: 3})
		ids := make([]string, 200)
		for i := range ids {
			ids[i] = "innocent" + strconv.Itoa(i)
		}
		b.append(append(ids[:100:100], append([]string{"killer"}, ids[100:]...)...)...)
		completed, killed := 0, 0
		w := b.worker()
		for b.field("killer", "status") != "dead" || completed < len(ids) {
			if b.ctx.Err() != nil {
				t.Fatal(completed, "completed,", killed, "killed")
			}
			c := w.claim(32)
			if len(c.Jobs) == 0 {
				b.due()
				continue
			}
			// The worker completes what comes before the killer in its batch, and dies of that.
			for _, job := range c.Jobs {
				if job.ID == "killer" {
					killed++
					lose(b, w)
					w = b.worker()
					break
				}
				completed += strings.Count(w.settle(durable.Done, job), "O")
			}
		}
		if s := b.stats(); s.Dead != 1 || completed != 200 || killed > 10 {
			t.Fatalf("%+v, %d completed, killed %d times", s, completed, killed)
		}
		if got := b.field("killer", "reason"); got != "worker lost" {
			t.Fatal(got)
		}
		if b.field("killer", "attempts") != "" {
			t.Fatal("a crash cost an attempt")
		}
	})
}

func TestListQuarantine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 512<<10)

	for name, spoil := range map[string]func(b *bundle) string{
		"of another type": func(b *bundle) string { b.rdb.Set(b.ctx, b.key("job:x"), "string", 0); return "x" },
		"with words for attempts": func(b *bundle) string {
			b.rdb.HSet(b.ctx, b.key("job:x"), "attempts", "many")
			return "x"
		},
		"with words for crashes":        func(b *bundle) string { b.rdb.HSet(b.ctx, b.key("job:x"), "crashes", "-1"); return "x" },
		"with a fraction for a timeout": func(b *bundle) string { b.rdb.HSet(b.ctx, b.key("job:x"), "timeout_ms", "1.5"); return "x" },
		"with an unknown status":        func(b *bundle) string { b.rdb.HSet(b.ctx, b.key("job:x"), "status", "frozen"); return "x" },
		"with an empty ID":              func(b *bundle) string { b.rdb.HSet(b.ctx, b.key("job:"), "payload", "p"); return "" },
		"with an absurd ID":             func(b *bundle) string { b.rdb.HSet(b.ctx, b.key("job:"+long), "payload", "p"); return long },
	} {
		t.Run("an entry "+name+" is put aside once with the reason, and the next runs", func(t *testing.T) {
			t.Parallel()
			b := setupList(t, nil)
			id := spoil(b)
			b.rdb.LPush(b.ctx, b.key("pending"), id)
			b.append("next")
			w := b.worker()
			c := w.claim(10)
			if idsOf(c.Jobs) != "next" || c.Corrupt != 1 {
				t.Fatalf("%d corrupt, jobs %s", c.Corrupt, idsOf(c.Jobs))
			}
			if c := w.claim(10); c.Status != durable.ClaimEmpty || c.Corrupt != 0 {
				t.Fatalf("again: %+v", c)
			}
			b.places("0 0 1 0 1")
			noted := b.rdb.ZRange(b.ctx, b.key("corrupt"), 0, -1).Val()[0]
			if len(noted) > 200 || b.rdb.HGet(b.ctx, b.key("reasons"), noted).Val() == "" {
				t.Fatalf("noted as %q", noted)
			}
			if b.rdb.Exists(b.ctx, b.key("job:"+id)).Val() != 1 {
				t.Fatal("the key is gone")
			}
		})
	}

	t.Run("a due job of another type is put aside", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		b.rdb.Set(b.ctx, b.key("job:x"), "string", 0)
		b.rdb.ZAdd(b.ctx, b.key("scheduled"), redis.Z{Score: 1, Member: "x"})
		if c := b.worker().claim(1); c.Status != durable.ClaimEmpty || c.Corrupt != 1 {
			t.Fatalf("%+v", c)
		}
		b.places("0 0 0 0 1")
	})

	t.Run("a claim whose job became another type is put aside by the sweep, or gone when settled", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		w := b.worker()
		b.append("a", "b")
		claims := w.take(2)
		for _, id := range []string{"a", "b"} {
			b.rdb.Del(b.ctx, b.key("job:"+id))
			b.rdb.Set(b.ctx, b.key("job:"+id), "string", 0)
		}
		if got := w.settle(durable.Done, claims[0]); got != "G" {
			t.Fatal(got)
		}
		b.expire(w)
		b.sweep()
		b.places("0 0 0 0 1")
		if b.rdb.Get(b.ctx, b.key("job:b")).Val() != "string" {
			t.Fatal("the foreign key was touched")
		}
	})

	t.Run("the quarantine is bounded, index, reasons and jobs together", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, &durable.ListOptions{MaxCorrupt: 5})
		pipe := b.rdb.Pipeline()
		for i := range 500 {
			pipe.HSet(b.ctx, b.key("job:"+strconv.Itoa(i)), "attempts", "x")
			pipe.LPush(b.ctx, b.key("pending"), strconv.Itoa(i))
		}
		if _, err := pipe.Exec(b.ctx); err != nil {
			t.Fatal(err)
		}
		w := b.worker()
		steps := 0
		for w.claim(10).Status == durable.ClaimMore {
			steps++
		}
		b.places("0 0 0 0 5")
		if n := len(b.keysLike("job:*")); n != 5 || b.rdb.HLen(b.ctx, b.key("reasons")).Val() != 5 || steps > 20 {
			t.Fatal(n, "jobs left after", steps, "steps")
		}
		if n := b.stats().Counters["corrupt"]; n != 500 {
			t.Fatal(n, "counted")
		}
	})
}

func TestListBadKeys(t *testing.T) {
	t.Parallel()
	onBoth(t, badKeys)
}

func badKeys(t *testing.T, of maker) {
	for _, name := range []string{"meta", "counters", "pending", "arriving", "scheduled", "dead", "corrupt", "reasons", "consumers", "sender", "processing"} {
		t.Run(name+" of another type is named, and nothing is changed", func(t *testing.T) {
			t.Parallel()
			b := setupQueue(t, of, nil)
			b.append("a", "b")
			p, w := b.producer(), b.worker()
			held := w.take(1)
			key := b.key(name)
			if _, set := b.list.(*durable.SortedSet); set && name == "arriving" {
				key = b.key("wake")
			}
			switch name {
			case "sender":
				key = b.key("sender:" + w.ID())
			case "processing":
				key = b.key("processing:" + w.ID())
			}
			b.rdb.Del(b.ctx, key)
			b.rdb.SAdd(b.ctx, key, "a set")
			before := b.dump()

			calls := map[string]error{}
			_, calls["claim"] = w.Claim(b.ctx, durable.ClaimRequest{N: 2, Slots: 1, Held: 1})
			_, calls["settle"] = w.Settle(b.ctx, 1, []durable.Outcome{{Ref: durable.Ref{ID: "a", Token: held[0].Token}, Verdict: durable.Done}})
			_, calls["leave"] = w.Leave(b.ctx)
			if name != "sender" && name != "processing" {
				_, calls["append"] = p.Append(b.ctx, 1, jobsOf("c"))
				_, calls["close"] = p.Close(b.ctx, 1)
				_, calls["open"] = b.list.OpenProducer(b.ctx)
				calls["renew"] = w.Renew(b.ctx, long)
				_, calls["sweep"] = b.list.Sweep(b.ctx)
				_, calls["stats"] = b.list.Stats(b.ctx)
			}
			for call, err := range calls {
				if err == nil || !strings.Contains(err.Error(), strconv.Quote(key)) {
					t.Errorf("%s does not name the key: %v", call, err)
				}
				if !is(err, durable.ErrBadKey) || !is(err, durable.ErrNotExecuted) {
					t.Errorf("%s: wrong class: %v", call, err)
				}
			}
			if after := b.dump(); after != before {
				t.Errorf("changed:\n%s\nto:\n%s", before, after)
			}
			if name != "sender" && name != "processing" {
				if err := b.list.Check(b.ctx); err == nil || !strings.Contains(err.Error(), key) {
					t.Errorf("the check does not name the key: %v", err)
				}
			}
		})
	}

	t.Run("a queue of a newer wire version is refused by name, and nothing is changed", func(t *testing.T) {
		t.Parallel()
		b := setupQueue(t, of, nil)
		p := b.producer()
		b.rdb.HSet(b.ctx, b.key("meta"), "wire", 2)
		before := b.dump()
		_, err := p.Append(b.ctx, 1, jobsOf("a"))
		if !is(err, durable.ErrNotExecuted) || !strings.Contains(err.Error(), "wire version 2") {
			t.Fatal(err)
		}
		if err := b.list.Check(b.ctx); err == nil || !strings.Contains(err.Error(), "wire version 2") {
			t.Fatal(err)
		}
		if after := b.dump(); after != before {
			t.Fatal("changed")
		}
	})
}
