package durable_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

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
		if c[0].Life != "" || c[1].Life == "" || c[2].Life != "" {
			t.Errorf("lives %q, %q, %q", c[0].Life, c[1].Life, c[2].Life)
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
