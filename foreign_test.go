// Producers in other languages: a hash and an entry, and what they can do wrong.
package weir_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// cli runs redis-cli with these words, or sends the command as it is where there is none.
func cli(t *testing.T, server *redistest.Server, words ...string) string {
	t.Helper()
	binary, err := exec.LookPath("redis-cli")
	if err != nil {
		args := make([]any, len(words))
		for i, w := range words {
			args[i] = w
		}
		return fmt.Sprint(server.Client(t).Do(patient(t), args...).Val())
	}
	out, err := exec.CommandContext(patient(t), binary, append([]string{"-p", fmt.Sprint(server.Port())}, words...)...).Output()
	if err != nil {
		t.Fatalf("redis-cli %q: %v", words, err)
	}
	return strings.TrimSuffix(string(out), "\n")
}

func TestForeignProducerIsProcessedLikeAnyOther(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ queue, prefix, option string }{
		"literal prefix": {"mail", "queue:", "queue:"},
		"default prefix": {"mail", "{mail}:", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			rdb := server.Client(t)
			q := open(t, rdb, c.queue, &durable.ListOptions{Prefix: c.option}, nil)
			kind := plain(q, "")
			got, release := make(chan bridge.Delivery[string], 1), make(chan struct{})
			_ = kind.Handle(func(_ context.Context, d *bridge.Delivery[string]) error {
				got <- *d
				<-release
				return nil
			})

			// As in the article, word for word.
			if out := cli(t, server, "HSET", c.prefix+"job:job-9f2", "payload", `{"kind":"email"}`, "status", "pending", "attempts", "0"); out != "3" {
				t.Fatalf("HSET said %q", out)
			}
			cli(t, server, "LPUSH", c.prefix+"pending", "job-9f2")
			if out := cli(t, server, "LLEN", c.prefix+"pending"); out != "1" {
				t.Fatalf("LLEN said %q", out)
			}
			run(t, q, nil)
			d := await(t, "the job runs", got)
			if d.ID != "job-9f2" || d.Kind != "" || d.Value != `{"kind":"email"}` || d.Attempt != 1 || d.Deliveries != 1 || len(d.Headers) != 0 {
				t.Errorf("delivery %+v", d)
			}
			hash := rdb.HGetAll(patient(t), c.prefix+"job:job-9f2").Val()
			if hash["status"] != "processing" || hash["claim_token"] == "" || hash["claimed_at_ms"] == "" || hash["payload"] != `{"kind":"email"}` {
				t.Errorf("while it runs: %q", hash)
			}
			close(release)
			eventually(t, "it completes", func() bool { return q.Counters().Completed == 1 })
			if out := cli(t, server, "EXISTS", c.prefix+"job:job-9f2"); out != "0" {
				t.Error("its hash is still there")
			}

			// One of ours in the same queue is as visible to them.
			mine := plain(open(t, rdb, c.queue, &durable.ListOptions{Prefix: c.option}, nil), "unknown here")
			ticket, err := mine.SubmitJob(patient(t), bridge.Job[string]{ID: "ours", Value: "v", Delay: time.Hour}, policy.Reject())
			if err != nil {
				t.Fatal(err)
			}
			if err := ticket.WaitEnqueued(patient(t)); err != nil {
				t.Fatal(err)
			}
			if out := cli(t, server, "HMGET", c.prefix+"job:ours", "payload", "status", "attempts", "kind"); out != "v\nscheduled\n\nunknown here" {
				t.Errorf("HMGET said %q", out)
			}
		})
	}
}

// A duplicate of a job that was enqueued by hand shared the end of an earlier job with the ID, whose ticket this process still had.
func TestDuplicateOfAForeignJob(t *testing.T) {
	t.Parallel()
	rdb, name := redistest.Client(t), redistest.Name(t)
	q, other := open(t, rdb, name, nil, nil), open(t, rdb, name, nil, nil)
	kind := plain(q, "k")
	if err := plain(other, "k").Handle(func(context.Context, *bridge.Delivery[string]) error { return nil }); err != nil {
		t.Fatal(err)
	}
	submit := func() *bridge.Ticket {
		ticket, err := kind.SubmitJob(patient(t), bridge.Job[string]{ID: "a"}, policy.Reject())
		if err == nil {
			err = ticket.WaitEnqueued(patient(t))
		}
		if err != nil {
			t.Fatal(err)
		}
		return ticket
	}
	first := submit()
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- other.Run(ctx, nil) }()
	eventually(t, "it is done elsewhere", func() bool { return other.Counters().Completed == 1 })
	stop()
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	push(t, rdb, "{"+name+"}:", "a", "payload", "by hand", "kind", "k")
	second := submit()
	if second.Duplicate() != "a" {
		t.Fatalf("a duplicate of %q", second.Duplicate())
	}
	if err := first.Wait(patient(t)); err != nil {
		t.Error("the first:", err)
	}
	if s := second.State(); s != local.Enqueued {
		t.Errorf("the duplicate of what waits is %v: %v", s, second.Err())
	}
}

func TestForeignJobsNeedNoFields(t *testing.T) {
	t.Parallel()
	rdb, name := redistest.Client(t), redistest.Name(t)
	prefix := "{" + name + "}:"
	q := open(t, rdb, name, nil, nil)
	kind, named := plain(q, ""), plain(q, "named")
	got := make(chan bridge.Delivery[string], 1)
	take := func(_ context.Context, d *bridge.Delivery[string]) error { got <- *d; return nil }
	_, _ = kind.Handle(take), named.Handle(take)
	run(t, q, nil)
	for _, c := range []struct {
		id     string
		fields []any
		want   bridge.Delivery[string]
	}{
		{"only a payload", []any{"payload", "p"}, bridge.Delivery[string]{Value: "p", Attempt: 1, Deliveries: 1}},
		{"only a status", []any{"status", "pending"}, bridge.Delivery[string]{Attempt: 1, Deliveries: 1}},
		{"only fields of its own", []any{"tenant", "x"}, bridge.Delivery[string]{Attempt: 1, Deliveries: 1}},
		{"empty fields", []any{"payload", "", "status", "", "attempts", "", "kind", "", "claim_token", ""}, bridge.Delivery[string]{Attempt: 1, Deliveries: 1}},
		{"attempts and deliveries", []any{"payload", "p", "attempts", "2", "deliveries", "7"}, bridge.Delivery[string]{Value: "p", Attempt: 3, Deliveries: 8}},
		{
			"a kind, headers, a bound",
			[]any{"payload", "p", "kind", "named", "headers", `{"trace":"t"}`, "max_attempts", "3"},
			bridge.Delivery[string]{Value: "p", Kind: "named", Headers: map[string]string{"trace": "t"}, Attempt: 1, Deliveries: 1, MaxAttempts: 3},
		},
	} {
		push(t, rdb, prefix, c.id, c.fields...)
		d := await(t, "the job runs", got)
		c.want.ID, c.want.Fence = c.id, d.Fence
		d.Reporter = nil
		if c.want.MaxAttempts == 0 {
			c.want.MaxAttempts = d.MaxAttempts
		}
		if diff := cmp.Diff(c.want, d); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.id, diff)
		}
	}
	eventually(t, "nothing is left", func() bool { return q.Counters().Completed == 6 })
}

func TestForeignJobsAreRetriedAndBuriedLikeAnyOther(t *testing.T) {
	t.Parallel()
	rdb, name := redistest.Client(t), redistest.Name(t)
	prefix := "{" + name + "}:"
	q, runs := open(t, rdb, name, nil, nil), newLedger()
	kind := bridge.NewKind(q, "", &bridge.KindOptions[string]{
		Codec: raw{}, Retry: policy.Retry{MaxAttempts: 3, Initial: time.Millisecond, Max: 2 * time.Millisecond},
	})
	_ = kind.Handle(func(_ context.Context, d *bridge.Delivery[string]) error {
		runs.note(d.ID, d.Deliveries)
		if d.Value == "recovers" && d.Attempt == 2 {
			return nil
		}
		if d.Value == "snoozes" && d.Deliveries == 1 {
			return bridge.Snooze(time.Millisecond)
		}
		if d.Value == "snoozes" {
			return nil
		}
		return errors.New("no luck")
	})
	run(t, q, nil)
	push(t, rdb, prefix, "fails", "payload", "fails", "status", "pending", "attempts", "0")
	push(t, rdb, prefix, "has one left", "payload", "fails", "attempts", "2")
	push(t, rdb, prefix, "bounds itself", "payload", "fails", "max_attempts", "1")
	push(t, rdb, prefix, "recovers", "payload", "recovers")
	push(t, rdb, prefix, "snoozes", "payload", "snoozes")
	eventually(t, "each has ended", func() bool { c := q.Counters(); return c.Dead == 3 && c.Completed == 2 })
	for id, want := range map[string][]int{
		"fails": {1, 2, 3}, "has one left": {1}, "bounds itself": {1}, "recovers": {1, 2}, "snoozes": {1, 2},
	} {
		if diff := cmp.Diff(want, runs.of(id)); diff != "" {
			t.Errorf("%s: deliveries (-want +got):\n%s", id, diff)
		}
	}
	for id, attempts := range map[string]string{"fails": "3", "has one left": "3", "bounds itself": "1"} {
		hash := rdb.HGetAll(patient(t), prefix+"job:"+id).Val()
		if hash["status"] != "dead" || hash["reason"] != "no luck" || hash["attempts"] != attempts {
			t.Errorf("%s: %q", id, hash)
		}
		if got := places(t, rdb, name, id); !cmp.Equal(got, []string{"dead"}) {
			t.Errorf("%s is in %v", id, got)
		}
	}
}

func TestMalformedForeignJobsAreSetAsideAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	rdb, name := redistest.Client(t), redistest.Name(t)
	prefix := "{" + name + "}:"
	q, runs := open(t, rdb, name, nil, nil), newLedger()
	runs.consume(t, plain(q, ""))
	ctx := patient(t)
	entry := func(id string) { push(t, rdb, prefix, id) }
	var innocents []string
	innocent := func(id string) {
		push(t, rdb, prefix, id, "payload", "x")
		innocents = append(innocents, id)
	}
	key := func(id string) string { return prefix + "job:" + id }

	innocent("first")
	quarantined := []string{"", "a list", "a string", "status", "claim"}
	rdb.HSet(ctx, key(""), "payload", "empty ID")
	entry("")
	rdb.RPush(ctx, key("a list"), "x")
	entry("a list")
	rdb.Set(ctx, key("a string"), "x", 0)
	entry("a string")
	push(t, rdb, prefix, "status", "status", "half-done", "payload", "of a future version")
	push(t, rdb, prefix, "claim", "payload", "x", "deliveries", "-1")
	for _, field := range []string{"attempts", "crashes", "deliveries", "max_attempts", "timeout_ms"} {
		for _, word := range []string{"many", "1.5", "9999999999999999999", " 1", "0x10", "nan", "1e3"} {
			id := field + "=" + word
			push(t, rdb, prefix, id, "payload", "x", field, word)
			quarantined = append(quarantined, id)
		}
		innocent("after " + field)
	}
	huge := strings.Repeat("h", 512<<10)
	entry(huge)                             // its hash, if there is one, is never looked at
	entry(strings.Repeat("h", 1<<20) + "2") // noted by its beginning and its hash
	const absurd = 2
	dropped := []string{"no hash", "no hash", "claimed elsewhere", "dead", "done"}
	entry("no hash")
	entry("no hash")
	push(t, rdb, prefix, "claimed elsewhere", "payload", "x", "status", "processing", "claim_token", "someone:1")
	push(t, rdb, prefix, "dead", "payload", "x", "status", "dead")
	push(t, rdb, prefix, "done", "payload", "x", "status", "completed")
	innocent("twice")
	entry("twice")
	entry("twice")
	dropped = append(dropped, "twice", "twice")
	for _, id := range []string{"nul\x00inside", "\xff\xfe", "{braces}", "☃", "a:b:c", "line\nbreak", strings.Repeat("l", 1024), "*", "last"} {
		innocent(id)
	}

	run(t, q, nil)
	eventually(t, "the others complete", func() bool { return q.Counters().Completed >= uint64(len(innocents)) })
	var s bridge.Stats
	eventually(t, "the queue is empty", func() bool {
		var err error
		s, err = q.Stats(ctx)
		return err == nil && s.Durable.Pending+s.Durable.Processing+s.Durable.Scheduled == 0
	})
	runs.once(t, innocents...)
	if want := int64(len(quarantined) + absurd); s.Durable.Corrupt != want || s.Durable.Counters["corrupt"] != want {
		t.Errorf("%d quarantined, %d counted, want %d", s.Durable.Corrupt, s.Durable.Counters["corrupt"], want)
	}
	if got, want := s.Durable.Counters["dropped"], int64(len(dropped)); got != want {
		t.Errorf("%d dropped, want %d", got, want)
	}
	for _, id := range quarantined {
		if err := rdb.ZScore(ctx, prefix+"corrupt", id).Err(); err != nil {
			t.Errorf("%q is not in quarantine: %v", id, err)
		}
		if reason := rdb.HGet(ctx, prefix+"reasons", id).Val(); reason == "" {
			t.Errorf("%q is in quarantine without a reason", id)
		}
	}
	if v := rdb.Get(ctx, key("a string")).Val(); v != "x" {
		t.Errorf("a key that is not ours was changed: %q", v)
	}
	if n := rdb.LLen(ctx, key("a list")).Val(); n != 1 {
		t.Errorf("a key that is not ours was changed: %d", n)
	}
	if n := rdb.MemoryUsage(ctx, prefix+"corrupt").Val(); n > 64<<10 {
		t.Errorf("quarantine of absurd IDs takes %d bytes", n)
	}

	// It is over: nobody looks at them again.
	before := s.Durable.Counters
	push(t, rdb, prefix, "another", "payload", "x")
	eventually(t, "another one completes", func() bool { return len(runs.of("another")) == 1 })
	eventually(t, "it is counted", func() bool { s, _ = q.Stats(ctx); return s.Durable.Counters["completed"] == before["completed"]+1 })
	for _, counter := range []string{"corrupt", "dropped"} {
		if s.Durable.Counters[counter] != before[counter] {
			t.Errorf("%s went on from %d to %d", counter, before[counter], s.Durable.Counters[counter])
		}
	}
}

// A key of the queue itself holds something else: the error names it, and no job leaves.
func TestKeyOfAnotherTypeIsNamedAndLosesNothing(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"pending", "arriving", "scheduled", "dead", "corrupt", "reasons", "consumers", "counters", "meta"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			rdb, name := redistest.Client(t), redistest.Name(t)
			prefix := "{" + name + "}:"
			ctx := patient(t)
			rdb.Set(ctx, prefix+key, "not ours", 0)
			q := open(t, rdb, name, nil, nil)
			kind, runs := plain(q, ""), newLedger()
			runs.consume(t, kind)
			err := q.Run(t.Context(), nil)
			if !errors.Is(err, policy.ErrUnusable) || !strings.Contains(err.Error(), prefix+key) {
				t.Fatalf("run: %v", err)
			}
			if _, err := kind.TrySubmit("x"); !errors.Is(err, policy.ErrUnusable) || !strings.Contains(err.Error(), prefix+key) {
				t.Errorf("submit: %v", err)
			}
			if v := rdb.Get(ctx, prefix+key).Val(); v != "not ours" {
				t.Errorf("the key was changed: %q", v)
			}
			rdb.Del(ctx, prefix+key)
			if err := q.Check(ctx); err != nil {
				t.Fatal(err)
			}
			run(t, q, nil)
			ticket, err := kind.TrySubmit("x")
			if err != nil {
				t.Fatal(err)
			}
			if err := ticket.Wait(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}
