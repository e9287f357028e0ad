package durable_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
)

// Rules of PROTOCOL that only the keys in Redis show; what the contract shows is in durabletest.

func TestStreamConsumers(t *testing.T) {
	t.Parallel()

	t.Run("a consumer that leaves is removed from the group when nothing is pending, and no sooner", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		ids := make([]string, 300)
		for i := range ids {
			ids[i] = fmt.Sprint("job", i)
		}
		b.append(ids...)
		w := b.worker()
		w.take(300)
		if more, err := w.Leave(b.ctx); err != nil || !more {
			t.Fatal(more, err)
		}
		if got := b.owners("weir")[w.ID()]; got != 50 {
			t.Errorf("%d pending after the first step, want 50", got)
		}
		if more, err := w.Leave(b.ctx); err != nil || more {
			t.Fatal(more, err)
		}
		if _, there := b.owners("weir")[w.ID()]; there {
			t.Error("it is still in the group")
		}
		b.places("300 0 0 0 0")
	})

	t.Run("a killed consumer's entries come back, and it goes", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		b.append("a", "b")
		killed, w := b.worker(), b.worker()
		killed.take(1)
		b.expire(killed)
		if s := b.sweep(); s.Fenced != 1 || s.Returned != 1 {
			t.Errorf("%+v", s)
		}
		if owners := b.owners("weir"); len(owners) != 1 || owners["-"] != 1 {
			t.Errorf("%v", owners)
		}
		b.due()
		c := w.take(2)
		if b.owners("weir")[w.ID()] != 2 {
			t.Error(b.owners("weir"))
		}
		w.settle(durable.Done, c...)
		b.clean()
	})

	t.Run("a frozen one changes nothing when it thaws, and comes not back into the group", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		b.append("a", "b", "c")
		frozen, w := b.worker(), b.worker()
		old := frozen.take(1)[0]
		b.expire(frozen)
		b.sweep()
		b.due()
		held := w.take(3)
		before := b.dump()
		for _, v := range []durable.Verdict{durable.Done, durable.Retry, durable.Snooze, durable.Dead, durable.Release} {
			if got := frozen.settle(v, old); got != "S" {
				t.Errorf("%c: %s", v, got)
			}
		}
		// Late copies: of the claim that it had, and of one that it never sent before.
		for _, n := range []uint64{frozen.claims, frozen.claims + 1} {
			if _, err := frozen.Claim(b.ctx, durable.ClaimRequest{N: n, Slots: 5, MaxBytes: 1}); !errors.Is(err, durable.ErrFenced) {
				t.Error(err)
			}
		}
		if err := frozen.Renew(b.ctx, long); !errors.Is(err, durable.ErrFenced) {
			t.Error(err)
		}
		_ = frozen.Await(b.ctx)
		if _, there := b.owners("weir")[frozen.ID()]; there {
			t.Error("it is in the group again")
		}
		after := b.dump()
		strip := func(s string) string { // its own record counts its settles
			var kept []string
			for line := range strings.Lines(s) {
				if !strings.Contains(line, "sender:"+frozen.ID()) {
					kept = append(kept, line)
				}
			}
			return strings.Join(kept, "")
		}
		if strip(before) != strip(after) {
			t.Errorf("changed:\n%s\nto:\n%s", before, after)
		}
		if got := w.settle(durable.Done, held...); got != "OOO" {
			t.Error(got)
		}
	})

	t.Run("a repeated claim reads the consumer's own pending list again", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		b.append("a", "b", "c", "d")
		w := b.worker()
		first := w.take(1)
		r := durable.ClaimRequest{N: 2, Slots: 2, MaxBytes: 1 << 20, Held: 1}
		for range 3 {
			if c, err := w.Claim(b.ctx, r); err != nil || idsOf(c.Jobs) != "b c" || c.Jobs[0].Deliveries != 1 {
				t.Fatalf("%q, %v", idsOf(c.Jobs), err)
			}
		}
		b.places("1 0 3 0 0")
		w.settle(durable.Done, first...)
	})

	t.Run("an entry that is pending without a stamp is found by the count, and returned uncharged", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		b.append("a", "b")
		w := b.worker()
		// As if a claim had stopped after XREADGROUP.
		b.rdb.XReadGroup(b.ctx, &redis.XReadGroupArgs{Group: "weir", Consumer: w.ID(), Streams: []string{b.key("stream"), ">"}, Count: 1, Block: -1})
		if c := w.claim(1); c.Status != durable.ClaimReconcile {
			t.Fatalf("%q", c.Status)
		}
		c, err := w.Claim(b.ctx, durable.ClaimRequest{N: 2, Slots: 5, MaxBytes: 1 << 20, Named: []durable.Ref{}})
		if err != nil || idsOf(c.Jobs) != "a b" || c.Jobs[0].Crashes != 0 {
			t.Fatalf("%+v, %v", c, err)
		}
	})

	t.Run("bytes that do not fit are put back in their place", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		jobs := jobsOf("a", "b", "c", "d", "e")
		for _, j := range jobs {
			j.Payload = make([]byte, 400)
		}
		if a, err := b.producer().Append(b.ctx, 1, jobs); err != nil || a.Taken != 5 {
			t.Fatal(a, err)
		}
		w, other := b.worker(), b.worker()
		var got []string
		for n := range uint64(2) {
			c, err := w.Claim(b.ctx, durable.ClaimRequest{N: n + 1, Slots: 5, MaxBytes: 1000, Held: 2 * int(n)})
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, idsOf(c.Jobs))
		}
		b.append("f")
		got = append(got, idsOf(other.claim(5).Jobs))
		if s := strings.Join(got, "|"); s != "a b|c d|e f" {
			t.Error(s)
		}
		if c := b.owners("weir"); c[w.ID()] != 4 || c[other.ID()] != 2 || c["-"] != 0 {
			t.Error(c)
		}
	})

	t.Run("new jobs and retries take turns", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		w := b.worker()
		b.append("stubborn")
		w.settle(durable.Snooze, w.take(1)...)
		ids := []string{"a", "b", "c", "d"}
		b.append(ids...)
		seen := map[string]int{}
		for range 8 {
			for _, c := range w.claim(1).Jobs {
				seen[c.ID]++
				verdict := durable.Done
				if c.ID == "stubborn" {
					verdict = durable.Snooze // due again at once
				}
				w.settle(verdict, c)
			}
		}
		if seen["stubborn"] < 3 || len(seen) != 5 {
			t.Error(seen)
		}
	})
}

func TestStreamAwait(t *testing.T) {
	t.Parallel()

	t.Run("a wait takes nothing, and ends for what anybody adds", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		w := b.worker()
		for range 20 {
			w.nothing()
			ended := make(chan time.Duration)
			start := time.Now()
			go func() {
				_ = w.Await(b.ctx)
				ended <- time.Since(start)
			}()
			b.add("payload", "x")
			d := <-ended
			if owners := b.owners("weir"); owners[w.ID()] != 0 {
				t.Fatal("it took something:", owners)
			}
			w.settle(durable.Done, w.take(1)...)
			if d < durable.Park/2 {
				return
			}
		}
		t.Error("20 times it did not end early")
	})

	t.Run("what was added between a claim and its wait ends the wait", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		w, other := b.worker(), b.worker()
		b.append("held")
		c := other.take(1)
		w.nothing()
		other.settle(durable.Release, c...)
		for range 20 {
			start := time.Now()
			if err := w.Await(b.ctx); err != nil {
				t.Fatal(err)
			}
			if time.Since(start) < durable.Park/2 {
				return
			}
		}
		t.Error("20 times it did not end early")
	})

	t.Run("with nothing to claim it does not spin", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		w, other := b.worker(), b.worker()
		b.append("held", "retried")
		c := other.take(2)
		o := durable.Outcome{Ref: durable.Ref{ID: c[1].ID, Token: c[1].Token}, Verdict: durable.Snooze, Delay: time.Hour}
		if _, err := other.Settle(b.ctx, 1, []durable.Outcome{o}); err != nil {
			t.Fatal(err)
		}
		w.nothing()
		ctx, cancel := context.WithTimeout(b.ctx, 1500*time.Millisecond)
		defer cancel()
		waits := 0
		for ; ctx.Err() == nil; waits++ {
			_ = w.Await(ctx)
		}
		if waits > 3 {
			t.Errorf("%d waits in 1.5 s", waits)
		}
	})
}

func TestStreamOperators(t *testing.T) {
	t.Parallel()

	t.Run("a redriven job's ID is taken, though its first entry is gone", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		b.append("a")
		w := b.worker()
		w.settle(durable.Dead, w.take(1)...)
		if h, err := b.stream.Redrive(b.ctx, durable.Selection{All: true}); err != nil || len(h.IDs) != 1 {
			t.Fatal(h, err)
		}
		if a, err := b.producer().Append(b.ctx, 1, jobsOf("a")); err != nil || len(a.Refused) != 1 {
			t.Error(a, err)
		}
		b.sweep()
		w.settle(durable.Done, w.take(1)...)
		b.clean()
	})

	t.Run("a purge of claims takes none that was just released or retried, wherever the script stopped", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		b.append("released", "retried", "held")
		w := b.worker()
		w.take(3)
		// As if the settles had stopped before the entries were given up.
		b.rdb.HSet(b.ctx, b.key("job:released"), "status", "pending", "claim_token", "")
		b.rdb.HSet(b.ctx, b.key("job:retried"), "status", "scheduled", "claim_token", "")
		p, err := b.stream.Purge(b.ctx, durable.PurgeRequest{Confirm: b.name, States: []durable.State{durable.StateProcessing}})
		if err != nil || p.Total() != 1 {
			t.Error(p, err)
		}
		b.places("1 1 0 0 0")
		b.due()
		heir := b.worker()
		heir.settle(durable.Done, heir.take(2)...)
		b.clean()
	})

	t.Run("whoever only produces, sweeps and purges makes no group", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		b.append("a", "b")
		b.rdb.XGroupCreate(b.ctx, b.key("stream"), "other", "0")
		b.sweep()
		if p, err := b.stream.Purge(b.ctx, durable.PurgeRequest{Confirm: b.name}); err != nil || p.Total() != 0 {
			t.Error(p, err)
		}
		if groups, err := b.stream.Groups(b.ctx); err != nil || len(groups) != 1 {
			t.Error(groups, err)
		}
		b.rdb.XGroupDestroy(b.ctx, b.key("stream"), "other")
		if p, err := b.stream.Purge(b.ctx, durable.PurgeRequest{Confirm: b.name}); err != nil || p.Total() != 2 {
			t.Error(p, err)
		}
		b.clean()
	})
}
