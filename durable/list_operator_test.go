package durable_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

func (b *bundle) lookup(id string) durable.Record {
	b.Helper()
	r, err := b.list.Lookup(b.ctx, durable.LookupRequest{ID: id, Payload: true})
	if err != nil {
		b.Fatalf("lookup %q: %v", id, err)
	}
	return r
}

func TestListLookup(t *testing.T) {
	t.Parallel()

	t.Run("finds what others have put there, and what nobody can run", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		b.rdb.HSet(b.ctx, b.key("job:plain"), "payload", "p")
		b.rdb.HSet(b.ctx, b.key("job:odd"), "payload", "p", "status", "strange", "attempts", "many")
		b.rdb.Set(b.ctx, b.key("job:string"), "s", 0)
		long := strings.Repeat("x", 2000)
		b.rdb.LPush(b.ctx, b.key("pending"), "plain", "odd", "string", "", long)
		for id, want := range map[string]string{
			"plain":  "pending ",
			"odd":    "corrupt its status is unknown",
			"string": "corrupt its key is not a hash",
		} {
			if r := b.lookup(id); string(r.State)+" "+r.Reason != want {
				t.Errorf("%s: %+v", id, r)
			}
		}
		w := b.worker()
		w.take(1)
		w.claim(1)
		if r := b.lookup("plain"); r.State != durable.StateProcessing || r.Consumer != w.ID() || string(r.Payload) != "p" {
			t.Errorf("%+v", r)
		}
		for id, reason := range map[string]string{
			"odd": "its status is unknown", "string": "its key is not a hash", "": "its ID is empty",
		} {
			r := b.lookup(id)
			if r.State != durable.StateCorrupt || r.Reason != reason || time.Since(r.Since) > time.Minute {
				t.Errorf("%s: %+v", id, r)
			}
		}
		page, err := b.list.Jobs(b.ctx, durable.JobsRequest{State: durable.StateCorrupt})
		if err != nil || len(page.Jobs) != 4 || page.Cursor != "" {
			t.Errorf("corrupt: %+v, %v", page, err)
		}
		p, err := b.list.Purge(b.ctx, durable.PurgeRequest{Confirm: strings.Trim(b.prefix, "{}:"), States: []durable.State{durable.StateCorrupt}})
		if err != nil || p.Total() != 4 || p.Cursor != "" {
			t.Errorf("purge: %+v, %v", p, err)
		}
		b.places("0 0 1 0 0")
		if b.rdb.Get(b.ctx, b.key("job:string")).Val() != "s" || b.rdb.Exists(b.ctx, b.key("job:odd"), b.key("reasons")).Val() != 0 {
			t.Error("a purge deletes what is corrupt, and no key of another type")
		}
	})

	t.Run("pages leave out surplus copies", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		b.append("a", "b", "c", "d")
		w := b.worker()
		w.settle(durable.Dead, w.take(2)...)
		b.rdb.LPush(b.ctx, b.key("pending"), "a", "nobody")
		b.rdb.LPush(b.ctx, b.key("arriving"), "c")
		b.rdb.ZAdd(b.ctx, b.key("scheduled"), redis.Z{Member: "d", Score: 1})
		b.rdb.ZAdd(b.ctx, b.key("dead"), redis.Z{Member: "d", Score: 1})
		b.rdb.ZAdd(b.ctx, b.key("dead"), redis.Z{Member: "nobody", Score: 1})
		for state, want := range map[durable.State]string{
			durable.StateDead: "a b", durable.StateScheduled: "", durable.StateProcessing: "",
		} {
			page, err := b.list.Jobs(b.ctx, durable.JobsRequest{State: state})
			if got := recordIDs(page.Jobs); err != nil || got != want {
				t.Errorf("%s: %q, %v; want %q", state, got, err, want)
			}
		}
		h, err := b.list.Redrive(b.ctx, durable.Selection{All: true})
		if err != nil || strings.Join(h.IDs, " ") != "a b" || b.where("nobody") != "pending" {
			t.Errorf("redrive: %+v, %v; nobody is in %q", h, err, b.where("nobody"))
		}
		for range 3 { // a is in pending twice now, c in arriving and pending
			w.settle(durable.Done, w.claim(10).Jobs...)
		}
		b.places("0 0 0 0 0")
		if s := b.stats(); s.Counters["completed"] != 4 || s.Counters["redriven"] != 2 {
			t.Errorf("counted %v", s.Counters)
		}
	})
}

func recordIDs(records []durable.Record) string {
	ids := make([]string, len(records))
	for i, r := range records {
		ids[i] = r.ID
	}
	return strings.Join(ids, " ")
}

func TestListRetention(t *testing.T) {
	t.Parallel()
	b := setupList(t, nil)
	p, w := b.producer(), b.worker()
	j := &durable.Job{ID: "a", Payload: []byte("payload"), Headers: []byte(strings.Repeat("h", 5000)), Retention: time.Minute}
	if a, err := p.Append(b.ctx, 1, []*durable.Job{j}); err != nil || a.Taken != 1 {
		t.Fatal(a, err)
	}
	w.settle(durable.Done, w.take(1)...)
	hash := b.rdb.HGetAll(b.ctx, b.key("job:a")).Val()
	if hash["status"] != "completed" || hash["payload"] != "" || hash["headers"] != "" || hash["payload_bytes"] != "7" || hash["claim_token"] != "" {
		t.Errorf("kept: %v", hash)
	}
	if ttl := b.rdb.PTTL(b.ctx, b.key("job:a")).Val(); ttl <= 50*time.Second || ttl > time.Minute {
		t.Errorf("for %v", ttl)
	}
	// A producer in another language asks for it by a field.
	b.rdb.HSet(b.ctx, b.key("job:b"), "payload", "p", "retention_ms", 60000)
	b.rdb.LPush(b.ctx, b.key("pending"), "b")
	w.settle(durable.Done, w.take(1)...)
	if s := b.stats(); s.Completed != 2 {
		t.Errorf("%d completed", s.Completed)
	}
	// A record without a TTL, left by a script that stopped half-way, is found by the index.
	b.rdb.Persist(b.ctx, b.key("job:a"))
	b.rescore("completed", "a")
	b.sweep()
	if b.rdb.Exists(b.ctx, b.key("job:a")).Val() != 0 || b.stats().Completed != 1 {
		t.Error("a is still there")
	}
}

// A purge of what is pending once deleted the hash of a claim of which a surplus copy was left in the list.
func TestListPurgeLeavesTheJobOfASurplusCopyAlone(t *testing.T) {
	t.Parallel()
	b := setupList(t, nil)
	b.append("held", "dead", "later", "one")
	w := b.worker()
	claims := w.take(3)
	w.settle(durable.Dead, claims[1])
	w.settle(durable.Snooze, claims[2])
	b.rdb.LPush(b.ctx, b.key("arriving"), "held", "nobody")
	b.rdb.LPush(b.ctx, b.key("pending"), "held", "dead", "later")
	for _, set := range []string{"scheduled", "dead", "completed"} {
		b.rdb.ZAdd(b.ctx, b.key(set), redis.Z{Member: "held", Score: 1})
	}
	p, err := b.list.Purge(b.ctx, durable.PurgeRequest{
		Confirm: strings.Trim(b.prefix, "{}:"), States: []durable.State{durable.StatePending, durable.StateCompleted},
	})
	if err != nil || p.Total() != 1 || p.Deleted[durable.StatePending] != 1 {
		t.Errorf("purged %+v, %v", p, err)
	}
	if h, err := b.list.Discard(b.ctx, durable.Selection{Filter: durable.Filter{Kinds: []string{"none"}}}); err != nil || len(h.IDs) > 0 {
		t.Errorf("discard: %+v, %v", h, err)
	}
	for id, want := range map[string]durable.State{
		"held": durable.StateProcessing, "dead": durable.StateDead, "later": durable.StateScheduled,
	} {
		if r := b.lookup(id); r.State != want {
			t.Errorf("%s is %q, want %q", id, r.State, want)
		}
	}
	if where := b.where("held"); where != "processing scheduled" { // the copy in dead was met, and dropped
		t.Errorf("held is in %q", where)
	}
	if codes := w.settle(durable.Done, claims[0]); codes != "O" {
		t.Errorf("settled %q", codes)
	}
}

// Without the type check a queue whose completed key holds something else would lose jobs half-way.
func TestListRefusesToOperateOnKeysOfAnotherType(t *testing.T) {
	t.Parallel()
	b := setupList(t, nil)
	b.append("a")
	b.rdb.Set(b.ctx, b.key("completed"), "s", 0)
	_, err1 := b.list.Lookup(b.ctx, durable.LookupRequest{ID: "a"})
	_, err2 := b.list.Redrive(b.ctx, durable.Selection{All: true})
	err3 := b.list.Pause(b.ctx, durable.Intake, "ann")
	_, err4 := b.list.Purge(b.ctx, durable.PurgeRequest{Confirm: strings.Trim(b.prefix, "{}:")})
	for _, err := range []error{err1, err2, err3, err4} {
		if !errors.Is(err, durable.ErrBadKey) || !strings.Contains(err.Error(), b.key("completed")) {
			t.Error(err)
		}
	}
}

func TestListOfAFullServerCanBeOperated(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--maxmemory-policy", "noeviction")
	b := setupListAt(t, s.Addr(), s.Client(t), "q", nil)
	b.append("a", "b", "c")
	w := b.worker()
	w.settle(durable.Dead, w.take(2)...)
	b.rdb.ConfigSet(b.ctx, "maxmemory", "1")
	if _, err := b.list.OpenProducer(b.ctx); err == nil {
		t.Fatal("the server is not full")
	}
	if h, err := b.list.Discard(b.ctx, durable.Selection{IDs: []string{"a"}}); err != nil || len(h.IDs) != 1 {
		t.Error(h, err)
	}
	if h, err := b.list.Redrive(b.ctx, durable.Selection{IDs: []string{"b"}}); err != nil || len(h.IDs) != 1 {
		t.Error(h, err)
	}
	if err := b.list.Pause(b.ctx, durable.Intake, "ann"); err != nil {
		t.Error(err)
	}
	if r := b.lookup("b"); r.State != durable.StatePending {
		t.Error(r)
	}
	if p, err := b.list.Purge(b.ctx, durable.PurgeRequest{Confirm: "q"}); err != nil || p.Total() != 2 {
		t.Error(p, err)
	}
	b.places("0 0 0 0 0")
}

func TestListWarnsOfLimitsThatDiffer(t *testing.T) {
	t.Parallel()
	b := setupList(t, &durable.ListOptions{MaxBacklog: 10})
	name := strings.Trim(b.prefix, "{}:")
	warned := func(l durable.Inspector, want ...string) {
		t.Helper()
		warnings, err := l.Inspect(b.ctx)
		if err != nil || len(warnings) != len(want) {
			t.Fatalf("%q, %v; want %q", warnings, err, want)
		}
		for i, w := range want {
			if !strings.HasPrefix(warnings[i], w) {
				t.Errorf("%q, want %q", warnings[i], w)
			}
		}
	}
	warned(b.list) // nobody has opened it
	own := b.producer()
	if by := b.rdb.HGet(b.ctx, b.key("meta"), "limits_by").Val(); by != own.ID() {
		t.Errorf("set by %q, want %q", by, own.ID())
	}
	warned(b.list)
	other := b.another(b.addr, name, &durable.ListOptions{MaxBacklog: 20, MaxDead: 7, MaxCrashes: 1})
	warned(other,
		"MaxBacklog is 20 here, and was 10 ", "MaxCrashes is 1 here, and was 5 ", "MaxDead is 7 here, and was 10000 ")
	if _, err := other.OpenConsumer(b.ctx, long); err != nil {
		t.Fatal(err)
	}
	warned(other)
	warned(b.list, "MaxBacklog is 10 here, and was 20 ", "MaxCrashes is 5 here, and was 1 ", "MaxDead is 10000 here, and was 7 ")
	if err := b.list.Check(b.ctx); err != nil {
		t.Error(err)
	}
}

// What an operator sets by hand, as the table of keys says, is a pause too.
func TestListPausedByHand(t *testing.T) {
	t.Parallel()
	b := setupList(t, nil)
	p, w := b.producer(), b.worker()
	b.rdb.HSet(b.ctx, b.key("meta"), "pause_claims", "1", "pause_intake", "yes")
	if c := w.claim(1); c.Status != durable.ClaimPaused {
		t.Error(c)
	}
	if a, err := p.Append(b.ctx, 1, jobsOf("a")); err != nil || a.Taken != 0 || !a.Paused {
		t.Error(a, err)
	}
	if s := b.stats(); s.Intake.String() != "paused" || s.Consumption.String() != "paused" {
		t.Error(s.Intake, s.Consumption)
	}
	b.rdb.HSet(b.ctx, b.key("meta"), "pause_claims", "0", "pause_intake", "")
	if a, err := p.Append(b.ctx, 2, jobsOf("a")); err != nil || a.Taken != 1 || a.Paused {
		t.Error(a, err)
	}
	if c := w.claim(1); len(c.Jobs) != 1 {
		t.Error(c)
	}
}
