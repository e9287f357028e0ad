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
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

// Rules of PROTOCOL that only the keys in Redis show; what the contract shows is in durabletest.

func TestStreamForeignProducers(t *testing.T) {
	t.Parallel()

	t.Run("a plain XADD is a job like any other, by the ID of its entry", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		first := b.add("payload", "p\x00", "kind", "k", "headers", `{"a":"b"}`) // before any of us was there
		w := b.worker()
		b.append("ours")
		second := b.add("kind", "k2", "max_attempts", "7", "timeout_ms", "1500", "note", "unknown fields are not minded")
		c := w.take(3)
		if idsOf(c) != first+" ours "+second {
			t.Fatal(idsOf(c))
		}
		if string(c[0].Payload) != "p\x00" || c[0].Kind != "k" || string(c[0].Headers) != `{"a":"b"}` || c[0].Deliveries != 1 {
			t.Errorf("%+v", c[0])
		}
		if c[2].MaxAttempts != 7 || c[2].Timeout != 1500*time.Millisecond || c[2].Kind != "k2" {
			t.Errorf("%+v", c[2])
		}
		if got := w.settle(durable.Done, c...); got != "OOO" {
			t.Error(got)
		}
		b.clean()
	})

	t.Run("it is retried, released, buried and redriven too", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		id := b.add("payload", "x", "kind", "k")
		w := b.worker()
		w.settle(durable.Retry, w.take(1)...)
		b.places("0 1 0 0 0")
		c := w.take(1)
		if c[0].ID != id || c[0].Attempts != 1 || c[0].Deliveries != 2 || string(c[0].Payload) != "x" {
			t.Fatalf("%+v", c[0])
		}
		w.settle(durable.Release, c...)
		w.settle(durable.Dead, w.take(1)...)
		b.places("0 0 0 1 0")
		h, err := b.stream.Redrive(b.ctx, durable.Selection{IDs: []string{id}})
		if err != nil || len(h.IDs) != 1 {
			t.Fatal(h, err)
		}
		c = w.take(1)
		if c[0].ID != id || c[0].Attempts != 0 || c[0].Deliveries != 4 {
			t.Fatalf("%+v", c[0])
		}
		w.settle(durable.Done, c...)
		b.clean()
	})

	t.Run("an ID of its own is respected, and runs once", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		for range 3 {
			b.add("id", "a", "payload", "1")
		}
		w := b.worker()
		c := w.claim(10)
		if idsOf(c.Jobs) != "a" || c.Dropped != 2 {
			t.Fatalf("%q, %d dropped", idsOf(c.Jobs), c.Dropped)
		}
		b.add("id", "a", "payload", "2") // it is there
		w.nothing()
		if a, err := b.producer().Append(b.ctx, 1, jobsOf("a")); err != nil || len(a.Refused) != 1 {
			t.Error(a, err)
		}
		w.settle(durable.Done, c.Jobs...)
		b.clean()
	})

	t.Run("what nobody can run is quarantined by name, and holds nobody up", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		w := b.worker()
		b.append("before")
		empty := b.add("user_id", "10042", "template", "welcome")
		words := b.add("payload", "x", "max_attempts", "many")
		b.add("payload", "x", "id", strings.Repeat("x", 2000))
		b.rdb.Set(b.ctx, b.key("job:taken"), "a string", 0)
		b.add("payload", "x", "id", "taken")
		b.append("after")
		c := w.claim(10)
		if idsOf(c.Jobs) != "before after" || c.Corrupt != 4 {
			t.Fatalf("%q, %d corrupt", idsOf(c.Jobs), c.Corrupt)
		}
		b.places("0 0 2 0 4")
		page, err := b.stream.Jobs(b.ctx, durable.JobsRequest{State: durable.StateCorrupt})
		if err != nil || len(page.Jobs) != 4 {
			t.Fatalf("%+v, %v", page, err)
		}
		for i, says := range []string{"neither a payload nor a kind", "not all numbers", "longer than", "not a hash"} {
			if r := page.Jobs[i]; !strings.Contains(r.Reason, says) || r.Since.IsZero() {
				t.Errorf("%+v, want %q", r, says)
			}
		}
		for _, id := range []string{empty, words, "taken"} {
			if r, err := b.stream.Lookup(b.ctx, durable.LookupRequest{ID: id}); err != nil || r.State != durable.StateCorrupt {
				t.Errorf("lookup %s: %+v, %v", id, r, err)
			}
		}
		kept := b.rdb.XRange(b.ctx, b.key("corrupt"), "-", "+").Val()[0].Values
		if kept["user_id"] != "10042" || kept["entry"] != empty {
			t.Errorf("kept: %v", kept)
		}
		if got := b.rdb.Get(b.ctx, b.key("job:taken")).Val(); got != "a string" {
			t.Errorf("a key that is not ours: %q", got)
		}
		w.settle(durable.Done, c.Jobs...)
		purged, err := b.stream.Purge(b.ctx, durable.PurgeRequest{Confirm: b.name, States: []durable.State{durable.StateCorrupt}})
		if err != nil || purged.Total() != 4 {
			t.Error(purged, err)
		}
		b.clean("taken")
	})

	t.Run("the quarantine is bounded", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, &durable.StreamOptions{MaxCorrupt: 3})
		for range 10 {
			b.add("what", "ever")
		}
		b.worker().nothing()
		b.places("0 0 0 0 3")
		if keys := b.keysLike("job:*"); len(keys) != 3 {
			t.Error(keys)
		}
	})

	t.Run("what they add is not refused, and counts", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, &durable.StreamOptions{MaxBacklog: 3})
		w := b.worker()
		b.append("a", "b")
		for range 5 {
			b.add("payload", "x")
		}
		if a, err := b.producer().Append(b.ctx, 1, jobsOf("c")); err != nil || a.Taken != 0 || a.Backlog != 7 {
			t.Fatal(a, err)
		}
		if got := len(w.take(7)); got != 7 || b.length() != 7 {
			t.Fatal(got, b.length(), "nothing may be trimmed")
		}
	})
}

func TestStreamBacklog(t *testing.T) {
	t.Parallel()

	t.Run("nothing that is unread or pending is ever trimmed", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, &durable.StreamOptions{MaxBacklog: 5})
		p, w := b.producer(), b.worker()
		var n uint64
		fill := func() (stored int) {
			for i := 0; ; i++ {
				n++
				a, err := p.Append(b.ctx, n, jobsOf(fmt.Sprint("job", n)))
				if err != nil {
					t.Fatal(err)
				}
				if a.Taken == 0 {
					return i
				}
			}
		}
		total := fill()
		claims := w.take(3)
		total += fill()
		if total != 8 || b.length() != 8 {
			t.Fatalf("%d stored, %d entries", total, b.length())
		}
		for range 5 {
			b.sweep()
		}
		claims = append(claims, w.take(5)...)
		if len(claims) != total || strings.Trim(w.settle(durable.Done, claims...), "O") != "" {
			t.Fatal(len(claims), "claims")
		}
		b.clean()
	})

	t.Run("what somebody else trims is gone, and its ID is free again", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		b.append("a", "b", "c")
		w := b.worker()
		b.rdb.XTrimMaxLen(b.ctx, b.key("stream"), 0)
		w.nothing()
		b.append("a") // at once
		b.sweep()     // and the others with time
		if eventually(b.ctx, func() bool { b.sweep(); return len(b.keysLike("job:*")) == 1 }); b.field("a", "entry") == "" {
			t.Fatal(b.keysLike("job:*"))
		}
		w.settle(durable.Done, w.take(1)...)
		b.clean()
	})

	t.Run("an entry that is deleted while it is held, waits or is retried is a cancelled job", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		b.append("done", "released", "retried", "dead", "held", "lost")
		w := b.worker()
		c := w.take(5)
		lost := b.worker()
		lost.take(1)
		w.settle(durable.Release, c[1])
		w.settle(durable.Retry, c[2])
		for _, m := range b.rdb.XRange(b.ctx, b.key("stream"), "-", "+").Val() {
			b.rdb.XDel(b.ctx, b.key("stream"), m.ID)
		}
		if got := w.settle(durable.Done, c[0]) + w.settle(durable.Dead, c[3]) + w.settle(durable.Release, c[4]); got != "OGO" {
			t.Error(got)
		}
		b.expire(lost)
		b.sweep()
		b.due()
		w.nothing()
		if !eventually(b.ctx, func() bool { b.sweep(); return len(b.keysLike("job:*")) == 0 }) {
			t.Error(b.keysLike("job:*"))
		}
		b.clean()
	})

	t.Run("a record that is deleted is a cancelled job too", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		b.append("unread", "held", "released")
		w := b.worker()
		b.rdb.Del(b.ctx, b.key("job:unread"))
		c := w.claim(10)
		if idsOf(c.Jobs) != "held released" || c.Dropped != 1 {
			t.Fatalf("%q, %d dropped", idsOf(c.Jobs), c.Dropped)
		}
		w.settle(durable.Release, c.Jobs[1])
		b.rdb.Del(b.ctx, b.key("job:held"), b.key("job:released"))
		if got := w.settle(durable.Done, c.Jobs[0]); got != "G" {
			t.Error(got)
		}
		r := durable.ClaimRequest{N: w.claims + 1, Slots: 1, MaxBytes: 1, Named: []durable.Ref{}}
		if c, err := w.Claim(b.ctx, r); err != nil || len(c.Jobs) != 0 {
			t.Error(c, err)
		}
		b.clean()
	})
}

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

func TestStreamCheck(t *testing.T) {
	t.Parallel()

	t.Run("the queue of another engine is refused by name", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		l := store(t, &redis.Options{Addr: b.addr}, nil).List(b.name, nil)
		t.Cleanup(func() { _ = l.Close() })
		if _, err := l.OpenProducer(b.ctx); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{b.stream.Check(b.ctx), func() error { _, err := b.stream.OpenConsumer(b.ctx, long); return err }()} {
			if err == nil || !strings.Contains(err.Error(), "another engine") {
				t.Error(err)
			}
		}
	})

	t.Run("a key of another type is named, and nothing is done", func(t *testing.T) {
		t.Parallel()
		for _, key := range []string{"stream", "meta", "scheduled", "returned", "retries", "dead", "corrupt", "wake", "consumers", "completed"} {
			b := setupStream(t, nil)
			p := b.producer()
			b.rdb.Del(b.ctx, b.key(key))
			b.rdb.Set(b.ctx, b.key(key), "x", 0)
			before := b.dump()
			if _, err := p.Append(b.ctx, 1, jobsOf("a")); !errors.Is(err, durable.ErrBadKey) || !strings.Contains(err.Error(), b.key(key)) {
				t.Errorf("%s: %v", key, err)
			}
			if err := b.stream.Check(b.ctx); err == nil || !strings.Contains(err.Error(), b.key(key)) {
				t.Errorf("%s: check: %v", key, err)
			}
			if after := b.dump(); after != before {
				t.Errorf("%s: changed", key)
			}
		}
	})

	t.Run("the ACL rule is enough for everything", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		admin := s.Client(t)
		b := setupStreamAt(t, s.Addr(), admin, "q", nil)
		own := store(t, &redis.Options{Addr: s.Addr(), Username: "u", Password: "secret"}, nil).Stream("q", nil)
		t.Cleanup(func() { _ = own.Close() })
		args := []any{"ACL", "SETUSER", "u", ">secret"}
		for _, word := range strings.Fields(own.ACLRule("u"))[1:] {
			args = append(args, word)
		}
		if err := admin.Do(b.ctx, args...).Err(); err != nil {
			t.Fatal(err)
		}
		b.stream = own
		if err := own.Check(b.ctx); err != nil {
			t.Fatal(err)
		}
		p, w, lost := b.producer(), b.worker(), b.worker()
		kept := &durable.Job{ID: "kept", Retention: time.Hour}
		late := &durable.Job{ID: "late", Delay: time.Millisecond}
		if _, err := p.Append(b.ctx, 1, append(jobsOf("a", "b", "c", "d", "e"), kept, late)); err != nil {
			t.Fatal(err)
		}
		b.add("what", "ever")
		lost.take(1)
		b.expire(lost)
		b.sweep()
		b.due()
		c := w.take(7)
		for i, v := range []durable.Verdict{durable.Retry, durable.Snooze, durable.Release, durable.Dead, durable.Done, durable.Done, durable.Done} {
			w.settle(v, c[i])
		}
		if _, err := own.Redrive(b.ctx, durable.Selection{All: true}); err != nil {
			t.Error(err)
		}
		for _, state := range []durable.State{durable.StatePending, durable.StateScheduled, durable.StateProcessing, durable.StateDead, durable.StateCorrupt, durable.StateCompleted} {
			if _, err := own.Jobs(b.ctx, durable.JobsRequest{State: state}); err != nil {
				t.Error(err)
			}
		}
		if err := own.Pause(b.ctx, durable.Intake, "me"); err != nil {
			t.Error(err)
		}
		if _, err := own.Groups(b.ctx); err != nil {
			t.Error(err)
		}
		if _, err := own.Purge(b.ctx, durable.PurgeRequest{Confirm: "q"}); err != nil {
			t.Error(err)
		}
		if _, err := p.Close(b.ctx, 2); err != nil {
			t.Error(err)
		}
		if err := w.Await(b.ctx); err != nil {
			t.Error(err)
		}
		if _, err := w.Leave(b.ctx); err != nil {
			t.Error(err)
		}
	})

	t.Run("every command of the scripts is tried", func(t *testing.T) {
		t.Parallel()
		if untried := durable.UntriedStreamCommands(); len(untried) > 0 {
			t.Errorf("no probe for %q", untried)
		}
	})

	t.Run("bad options are refused by name", func(t *testing.T) {
		t.Parallel()
		r := store(t, &redis.Options{Addr: redistest.Addr(t)}, nil)
		for says, o := range map[string]durable.StreamOptions{
			"MaxBacklog": {MaxBacklog: -1}, "MaxIdle": {MaxIdle: -1}, "Group": {Group: "a@b"}, "Prefix": {Prefix: strings.Repeat("x", 300)},
		} {
			if _, err := r.Stream("q", &o).Info(); err == nil || !strings.Contains(err.Error(), "StreamOptions."+says) {
				t.Errorf("%s: %v", says, err)
			}
		}
		if _, err := r.Stream("{q}", nil).Info(); err == nil {
			t.Error("a brace in the name")
		}
	})
}
