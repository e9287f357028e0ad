package durable_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
)

func TestStreamGroups(t *testing.T) {
	t.Parallel()

	// two is a queue with two groups, each with a worker.
	two := func(t *testing.T, opts durable.StreamOptions) (mail, audit *streamWorker) {
		t.Helper()
		b := setupStream(t, &opts)
		return b.worker(), b.group("audit", opts).worker()
	}

	t.Run("each group does every job, and the last one ends it", func(t *testing.T) {
		t.Parallel()
		mail, audit := two(t, durable.StreamOptions{})
		mail.append("a", "b", "c")
		entry := mail.add("payload", "x")
		one, other := mail.take(4), audit.take(4)
		if idsOf(one) != "a b c "+entry || idsOf(other) != idsOf(one) {
			t.Fatalf("%q and %q", idsOf(one), idsOf(other))
		}
		if got := mail.settle(durable.Done, one...); got != "OOOO" || mail.length() != 4 {
			t.Fatal(got, mail.length())
		}
		// It is still there for the other one, so its ID is taken; and gone for the first.
		if a, err := mail.producer().Append(mail.ctx, 1, jobsOf("a")); err != nil || len(a.Refused) != 1 {
			t.Error(a, err)
		}
		if _, err := mail.stream.Lookup(mail.ctx, durable.LookupRequest{ID: "a"}); !is(err, durable.ErrNoJob) {
			t.Error(err)
		}
		if r, err := audit.stream.Lookup(mail.ctx, durable.LookupRequest{ID: "a"}); err != nil || r.State != durable.StateProcessing {
			t.Error(r, err)
		}
		mail.places("0 0 0 0 0")
		audit.places("0 0 4 0 0")
		if got := audit.settle(durable.Done, other...); got != "OOOO" {
			t.Error(got)
		}
		mail.clean()
		mail.append("a")
	})

	t.Run("the token of one group is nothing to the other", func(t *testing.T) {
		t.Parallel()
		mail, audit := two(t, durable.StreamOptions{})
		mail.append("a")
		one, other := mail.take(1), audit.take(1)
		if got := mail.settle(durable.Done, other...) + audit.settle(durable.Done, one...); got != "SS" {
			t.Error(got)
		}
		if got := mail.settle(durable.Done, one...) + audit.settle(durable.Done, other...); got != "OO" {
			t.Error(got)
		}
		mail.clean()
	})

	t.Run("retries, deaths, redrives and losses of one group are its own", func(t *testing.T) {
		t.Parallel()
		mail, audit := two(t, durable.StreamOptions{})
		mail.append("retried", "dead", "lost", "released")
		c := mail.take(4)
		mail.settle(durable.Retry, c[0])
		mail.settle(durable.Dead, c[1])
		mail.settle(durable.Release, c[3])
		mail.expire(mail)
		mail.sweep()
		audit.sweep()
		mail.places("1 2 0 1 0")
		audit.places("4 0 0 0 0")
		if h, err := mail.stream.Redrive(mail.ctx, durable.Selection{IDs: []string{"dead"}}); err != nil || len(h.IDs) != 1 {
			t.Fatal(h, err)
		}
		// The other group has all four once, and not the redriven copy.
		other := audit.take(4)
		if idsOf(other) != "retried dead lost released" {
			t.Error(idsOf(other))
		}
		for _, c := range other {
			if c.Attempts != 0 || c.Crashes != 0 || c.Deliveries != 1 {
				t.Errorf("%+v", c)
			}
		}
		audit.settle(durable.Done, other...)
		audit.nothing()
		heir := mail.worker()
		heir.due()
		seen := map[string]string{}
		for len(seen) < 4 { // a suspect waits for its turn
			heir.due()
			for _, c := range heir.claim(10).Jobs {
				seen[c.ID] = fmt.Sprint(c.Attempts, c.Crashes, c.Deliveries)
				heir.settle(durable.Done, c)
			}
		}
		want := map[string]string{"retried": "1 0 2", "dead": "0 0 2", "lost": "0 1 2", "released": "0 0 2"}
		for id, w := range want {
			if seen[id] != w {
				t.Errorf("%s: %s, want %s", id, seen[id], w)
			}
		}
		mail.clean()
	})

	t.Run("a group that is dead in one is not gone before it is dealt with", func(t *testing.T) {
		t.Parallel()
		mail, audit := two(t, durable.StreamOptions{})
		mail.append("a")
		mail.settle(durable.Dead, mail.take(1)...)
		audit.settle(durable.Done, audit.take(1)...)
		if a, err := mail.producer().Append(mail.ctx, 1, jobsOf("a")); err != nil || len(a.Refused) != 1 {
			t.Error(a, err)
		}
		if h, err := audit.stream.Discard(mail.ctx, durable.Selection{IDs: []string{"a"}}); err != nil || len(h.Missed) != 1 {
			t.Error(h, err)
		}
		if h, err := mail.stream.Discard(mail.ctx, durable.Selection{IDs: []string{"a"}}); err != nil || len(h.IDs) != 1 {
			t.Error(h, err)
		}
		mail.clean()
	})

	t.Run("what is for one group is passed by the others", func(t *testing.T) {
		t.Parallel()
		mail, audit := two(t, durable.StreamOptions{})
		entry := mail.add("payload", "x", "for_group", "audit")
		mail.append("a")
		if got := idsOf(mail.claim(10).Jobs); got != "a" {
			t.Error(got)
		}
		if _, err := mail.stream.Lookup(mail.ctx, durable.LookupRequest{ID: entry}); !is(err, durable.ErrNoJob) {
			t.Error(err)
		}
		c := audit.claim(10)
		if got := idsOf(c.Jobs); got != entry+" a" {
			t.Error(got)
		}
		if got := audit.settle(durable.Done, c.Jobs...); got != "OO" || mail.length() != 1 {
			t.Error(got, mail.length())
		}
	})

	t.Run("a group that comes later has all that is still there", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		b.append("a", "b")
		w := b.worker()
		w.settle(durable.Done, w.take(1)...)
		late := b.group("late", durable.StreamOptions{}).worker()
		if got := idsOf(late.take(1)); got != "b" {
			t.Error(got)
		}
		late.nothing()
	})

	t.Run("the slowest group counts for the bound, and nothing of it is trimmed", func(t *testing.T) {
		t.Parallel()
		mail, audit := two(t, durable.StreamOptions{MaxBacklog: 4})
		p := mail.producer()
		for n := range uint64(4) {
			if a, err := p.Append(mail.ctx, n+1, jobsOf(fmt.Sprint("job", n))); err != nil || a.Taken != 1 {
				t.Fatal(a, err)
			}
			mail.settle(durable.Done, mail.take(1)...)
			mail.sweep()
		}
		if a, err := p.Append(mail.ctx, 5, jobsOf("more")); err != nil || a.Taken != 0 || a.Backlog != 4 {
			t.Fatal(a, err)
		}
		c := audit.take(4)
		if a, err := p.Append(mail.ctx, 6, jobsOf("more")); err != nil || a.Taken != 1 {
			t.Fatal(a, err)
		}
		if got := audit.settle(durable.Done, c...); got != "OOOO" {
			t.Error(got)
		}
	})

	t.Run("a group that was destroyed holds nothing up", func(t *testing.T) {
		t.Parallel()
		mail, audit := two(t, durable.StreamOptions{})
		mail.append("a", "b")
		audit.take(1)
		mail.settle(durable.Done, mail.take(2)...)
		mail.sweep()
		if n := mail.length(); n != 2 {
			t.Fatal(n)
		}
		mail.rdb.XGroupDestroy(mail.ctx, mail.key("stream"), "audit")
		mail.sweep()
		mail.clean()
	})

	t.Run("a foreign group is waited for too", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		w := b.worker()
		b.rdb.XGroupCreate(b.ctx, b.key("stream"), "theirs", "0")
		b.append("a")
		w.settle(durable.Done, w.take(1)...)
		b.sweep()
		got := b.rdb.XReadGroup(b.ctx, &redis.XReadGroupArgs{Group: "theirs", Consumer: "c", Streams: []string{b.key("stream"), ">"}, Block: -1}).Val()
		if len(got) != 1 || len(got[0].Messages) != 1 {
			t.Fatal(got)
		}
		b.sweep()
		if b.length() != 1 {
			t.Error("it is pending there, and gone")
		}
		b.rdb.XAck(b.ctx, b.key("stream"), "theirs", got[0].Messages[0].ID)
		b.sweep()
		b.clean()
	})

	t.Run("a group destroyed and made anew loses and doubles nothing of ours", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		b.append("held", "released", "retried", "unread")
		w, other := b.worker(), b.worker()
		held := w.take(1)
		w.settle(durable.Release, w.take(1)...)
		retried := other.take(2)
		if idsOf(retried) != "released retried" {
			t.Fatal(idsOf(retried))
		}
		other.settle(durable.Release, retried[0])
		other.settle(durable.Retry, retried[1])
		b.rdb.XGroupDestroy(b.ctx, b.key("stream"), "weir")
		b.due()
		other.settle(durable.Release, other.take(3)...) // an entry that had been ended would be missed now
		var got []string
		for range 4 {
			for _, c := range other.claim(10).Jobs {
				got = append(got, c.ID)
				other.settle(durable.Done, c)
			}
		}
		slices.Sort(got)
		if s := strings.Join(got, " "); s != "released retried unread" {
			t.Errorf("ran: %s", s)
		}
		if got := w.settle(durable.Done, held...); got != "O" {
			t.Error(got)
		}
		b.clean()
	})

	t.Run("records of completed jobs are each group's own", func(t *testing.T) {
		t.Parallel()
		mail, audit := two(t, durable.StreamOptions{})
		kept := &durable.Job{ID: "a", Retention: time.Hour, Payload: []byte("payload")}
		if _, err := mail.producer().Append(mail.ctx, 1, []*durable.Job{kept}); err != nil {
			t.Fatal(err)
		}
		mail.settle(durable.Done, mail.take(1)...)
		if r, err := mail.stream.Lookup(mail.ctx, durable.LookupRequest{ID: "a"}); err != nil || r.State != durable.StateCompleted || r.Size != 7 {
			t.Errorf("%+v, %v", r, err)
		}
		c := audit.take(1)
		if c[0].ID != "a" || string(c[0].Payload) != "payload" {
			t.Errorf("%+v", c[0])
		}
		audit.settle(durable.Done, c...)
		for _, w := range []*streamWorker{mail, audit} {
			if _, err := w.stream.Purge(w.ctx, durable.PurgeRequest{Confirm: w.name, States: []durable.State{durable.StateCompleted}}); err != nil {
				t.Error(err)
			}
		}
		mail.clean()
	})

	t.Run("a purge of one group takes nothing from the other", func(t *testing.T) {
		t.Parallel()
		mail, audit := two(t, durable.StreamOptions{})
		mail.append("a", "b", "c")
		p, err := mail.stream.Purge(mail.ctx, durable.PurgeRequest{Confirm: mail.name})
		if err != nil || p.Total() != 3 {
			t.Error(p, err)
		}
		mail.nothing()
		if got := audit.settle(durable.Done, audit.take(3)...); got != "OOO" {
			t.Error(got)
		}
		mail.clean()
	})
}

func TestStreamUnknownLag(t *testing.T) {
	t.Parallel()
	b := setupStream(t, &durable.StreamOptions{MaxBacklog: 6})
	one, two := b.worker(), b.group("other", durable.StreamOptions{MaxBacklog: 6}).worker()
	b.append("a", "b", "c", "d")
	one.take(1)
	if groups, err := b.stream.Groups(b.ctx); err != nil || len(groups) != 2 || groups[0].Name != "other" || groups[0].Lag != 4 || groups[1].Lag != 3 {
		t.Fatalf("%+v, %v", groups, err)
	}
	one.places("3 0 1 0 0")
	two.places("4 0 0 0 0")

	// Somebody deletes what is unread: from now on Redis does not know.
	unread := b.rdb.XRange(b.ctx, b.key("stream"), "-", "+").Val()[2].ID
	b.rdb.XDel(b.ctx, b.key("stream"), unread)
	groups, err := b.stream.Groups(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range groups {
		if g.Lag != durable.Unknown {
			t.Errorf("%+v: its lag is known", g)
		}
		if s := []*streamWorker{two, one}[i].stats(); s.Pending != durable.Unknown {
			t.Errorf("%s: %+v, want pending unknown", g.Name, s)
		}
	}
	// The bound holds all the same.
	a, err := b.producer().Append(b.ctx, 1, jobsOf("e", "f", "g", "h"))
	if err != nil || a.Taken != 3 || a.Backlog != 6 {
		t.Error(a, err)
	}
	if got := idsOf(two.take(6)); got != "a b d e f g" {
		t.Error(got)
	}
	// With one group it is counted, not guessed.
	b.rdb.XGroupDestroy(b.ctx, b.key("stream"), "other")
	one.places("5 0 1 0 0")
}

// Consumers without a lease share the group: their entries come back by idle time, by XAUTOCLAIM.
func TestStreamForeignConsumers(t *testing.T) {
	t.Parallel()
	read := func(b *streamBundle, consumer string, n int64) {
		b.Helper()
		err := b.rdb.XReadGroup(b.ctx, &redis.XReadGroupArgs{Group: "weir", Consumer: consumer, Streams: []string{b.key("stream"), ">"}, Count: n, Block: -1}).Err()
		if err != nil {
			b.Fatal(err)
		}
	}

	t.Run("what a foreign consumer leaves is taken from it, to the end of the list", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, &durable.StreamOptions{MaxIdle: time.Millisecond})
		ids := make([]string, 300)
		for i := range ids {
			ids[i] = fmt.Sprint("job", i)
		}
		b.append(ids...)
		b.worker()
		read(b, "foreign", 300)
		sweeps := 0
		for ; b.owners("weir")["foreign"] > 0; sweeps++ {
			before := b.owners("weir")["foreign"]
			b.sweep()
			if taken := before - b.owners("weir")["foreign"]; taken > 100 {
				t.Errorf("%d taken by one sweep", taken)
			}
		}
		if sweeps < 3 {
			t.Errorf("%d sweeps", sweeps)
		}
		b.places("0 300 0 0 0") // each has a crash
		w := b.worker()
		b.due()
		if c := w.take(1)[0]; c.Crashes != 1 || c.Deliveries != 1 {
			t.Errorf("%+v", c)
		}
		// Nothing is pending for it now, so it goes.
		if !eventually(b.ctx, func() bool { b.sweep(); _, there := b.owners("weir")["foreign"]; return !there }) {
			t.Error(b.owners("weir"))
		}
	})

	t.Run("one that is not idle for long keeps what it has, and is not removed", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		b.append("a", "b")
		w := b.worker()
		read(b, "foreign", 1)
		for range 3 {
			b.sweep()
		}
		if owners := b.owners("weir"); owners["foreign"] != 1 {
			t.Error(owners)
		}
		if got := idsOf(w.take(1)); got != "b" {
			t.Error(got)
		}
	})

	t.Run("what was delivered too often, and never acknowledged, is dead", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, &durable.StreamOptions{MaxIdle: time.Millisecond, MaxCrashes: 3})
		entry := b.add("payload", "poison")
		b.worker()
		read(b, "foreign", 1)
		for range 2 { // XCLAIM counts
			b.rdb.XClaim(b.ctx, &redis.XClaimArgs{Stream: b.key("stream"), Group: "weir", Consumer: "another", Messages: []string{entry}})
		}
		var dead int
		if !eventually(b.ctx, func() bool { dead += b.sweep().Dead; return dead > 0 }) {
			t.Fatal("it is not dead")
		}
		b.places("0 0 0 1 0")
		letters := b.rdb.XRange(b.ctx, b.key("dead"), "-", "+").Val()
		if len(letters) != 1 || letters[0].Values["payload"] != "poison" || letters[0].Values["entry"] != entry || letters[0].Values["reason"] != "worker lost" {
			t.Errorf("%v", letters)
		}
		b.clean(entry)
	})

	t.Run("the living keep what they hold, however long it takes", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, &durable.StreamOptions{MaxIdle: time.Millisecond})
		b.append("a", "b", "c")
		w := b.worker()
		c := w.take(2)
		w.settle(durable.Snooze, c[1]) // one that waits stays where it is too
		for range 10 {
			b.sweep()
		}
		if got := b.owners("weir")[w.ID()]; got != 1 {
			t.Error(b.owners("weir"))
		}
		b.places("1 1 1 0 0")
		if got := w.settle(durable.Done, c[0]); got != "O" {
			t.Error(got)
		}
	})

	t.Run("one whose registration somebody deleted goes on, or is swept", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, &durable.StreamOptions{MaxIdle: time.Millisecond})
		b.append("a")
		w := b.worker()
		c := w.take(1)
		b.rdb.ZRem(b.ctx, b.key("consumers"), w.ID())
		if !eventually(b.ctx, func() bool { b.sweep(); return b.rdb.ZScore(b.ctx, b.key("consumers"), w.ID()).Val() > 0 }) {
			t.Fatal("not registered again")
		}
		if err := w.Renew(b.ctx, long); err != nil {
			t.Error(err)
		}
		if got := w.settle(durable.Done, c...); got != "O" {
			t.Error(got)
		}
		b.clean()
	})
}
