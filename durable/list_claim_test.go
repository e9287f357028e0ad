package durable_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

func TestListClaim(t *testing.T) {
	t.Parallel()

	t.Run("a plain producer's job is processed like any other", func(t *testing.T) {
		t.Parallel()
		name := redistest.Name(t)
		for _, prefix := range []string{"", "queue:" + name + ":"} {
			b := setupListAt(t, redistest.Addr(t), redistest.Client(t), name, &durable.ListOptions{Prefix: prefix})
			b.rdb.Do(b.ctx, "HSET", b.key("job:job-9f2"), "payload", `{"kind":"email"}`, "status", "pending", "attempts", 0)
			b.rdb.Do(b.ctx, "LPUSH", b.key("pending"), "job-9f2")
			w := b.worker()
			c := w.take(1)[0]
			if c.ID != "job-9f2" || string(c.Payload) != `{"kind":"email"}` || c.Kind != "" || c.Life != "" || c.Attempts != 0 || c.Deliveries != 1 {
				t.Fatalf("%+v", c)
			}
			if b.field(c.ID, "status") != "processing" || b.field(c.ID, "claim_token") != c.Token {
				t.Fatal("not stamped:", b.rdb.HGetAll(b.ctx, b.key("job:job-9f2")).Val())
			}
			if got := w.settle(durable.Done, c); got != "O" {
				t.Fatal(got)
			}
			if n := b.rdb.Exists(b.ctx, b.key("job:job-9f2")).Val(); n != 0 {
				t.Fatal("the job is still there")
			}
		}
	})

	t.Run("absent fields mean pending, 0 and no kind", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		b.rdb.HSet(b.ctx, b.key("job:a"), "colour", "red")
		b.rdb.LPush(b.ctx, b.key("pending"), "a")
		if c := b.worker().take(1)[0]; len(c.Payload) != 0 || c.Attempts != 0 || c.Deliveries != 1 {
			t.Fatalf("%+v", c)
		}
	})

	t.Run("what is written into a job that waits counts, with its status", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		headers := []byte(`{"a":"b"}`)
		jobs := append(jobsOf("a", "b"), &durable.Job{ID: "c", Kind: "k", Headers: headers}, &durable.Job{ID: "d", Headers: headers}, &durable.Job{ID: "e", Kind: "k", Headers: headers})
		b.appendJobs(jobs)
		b.rdb.HSet(b.ctx, b.key("job:a"), "status", "pending", "max_attempts", "7")
		b.rdb.HSet(b.ctx, b.key("job:e"), "max_attempts", "8") // it has more than payload and kind, and so its status
		for i, c := range b.worker().take(5) {
			want := map[string]int{"a": 7, "e": 8}[c.ID]
			if c.MaxAttempts != want || string(c.Headers) != string(jobs[i].Headers) || c.Kind != jobs[i].Kind || string(c.Payload) != string(jobs[i].Payload) {
				t.Errorf("%+v", c)
			}
		}
	})

	t.Run("each claim has the life of its own job, none if that was made by hand", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		b.append("a", "b")
		b.rdb.HSet(b.ctx, b.key("job:hand"), "payload", "p")
		b.push("hand")
		b.append("c")
		b.overdue("b")
		w := b.worker()
		c := w.claim(10)
		if idsOf(c.Jobs) != "a hand c" || len(c.Expired) != 1 {
			t.Fatalf("%+v", c)
		}
		for _, j := range c.Jobs {
			if want := b.field(j.ID, "append"); j.Life != want || (want == "") != (j.ID == "hand") {
				t.Errorf("%s has the life %q, want %q", j.ID, j.Life, want)
			}
		}
	})

	t.Run("surplus copies of an ID are dropped and counted", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		b.append("a", "b")
		b.rdb.LPush(b.ctx, b.key("pending"), "a", "a", "nobody")
		b.rdb.LPush(b.ctx, b.key("arriving"), "b")
		w := b.worker()
		c := w.claim(10)
		if idsOf(c.Jobs) != "b a" || c.Dropped != 4 {
			t.Fatalf("%s, dropped %d", idsOf(c.Jobs), c.Dropped)
		}
		b.rdb.LPush(b.ctx, b.key("pending"), "a") // while it is processed
		if c := b.worker().claim(10); c.Status != durable.ClaimEmpty || c.Dropped != 1 {
			t.Fatalf("%+v", c)
		}
		for _, id := range []string{"a", "b"} {
			if got := b.where(id); got != "processing" {
				t.Fatal(id, "is in", got)
			}
		}
	})

	t.Run("story 22: what a late BLMOVE moved is claimed by anyone, first", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		b.append("a", "b")
		gone := b.worker()
		if _, err := gone.Leave(b.ctx); err != nil {
			t.Fatal(err)
		}
		b.rdb.LMove(b.ctx, b.key("pending"), b.key("arriving"), "right", "left")
		if got := idsOf(b.worker().take(2)); got != "a b" {
			t.Fatal(got)
		}
	})

	t.Run("an operator's DEL of a job is the end of it, wherever it is", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		w := b.worker()
		b.append("held", "waiting")
		held := w.take(1)
		b.rdb.Del(b.ctx, b.key("job:held"), b.key("job:waiting"))
		if c := w.claim(5); c.Status != durable.ClaimEmpty || c.Dropped != 1 {
			t.Fatalf("%+v", c)
		}
		if got := w.settle(durable.Done, held...); got != "G" {
			t.Fatal(got)
		}
		b.places("0 0 0 0 0")
	})

	t.Run("a claim is found again by its token, whatever somebody has written into the job meanwhile", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		b.append("a")
		w := b.worker()
		first := w.take(1)[0]
		b.rdb.HSet(b.ctx, b.key("job:a"), "retention_ms", "60000")
		again, err := w.Claim(b.ctx, durable.ClaimRequest{N: w.claims, Slots: 1, MaxBytes: 1 << 20})
		if err != nil || len(again.Jobs) != 1 || again.Jobs[0].Token != first.Token {
			t.Fatalf("%+v, %v", again, err)
		}
		if got := w.settle(durable.Done, again.Jobs...); got != "O" {
			t.Error(got)
		}
	})

	t.Run("an ID used again while its old claim is out makes neither two tokens nor a stuck entry", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		first, second := b.worker(), b.worker()
		b.append("a")
		old := first.take(1)
		b.rdb.Del(b.ctx, b.key("job:a"))
		b.append("a")
		again := second.take(1)
		before := b.field("a", "claim_token")
		if got := first.settle(durable.Done, old...); got != "S" {
			t.Fatal("the old claim's completion:", got)
		}
		if b.field("a", "claim_token") != before {
			t.Fatal("the old claim changed the new one")
		}
		// The entry that the old claim left is found by the count and dropped by its job.
		first.held = 0
		if c := first.claim(1); c.Status != durable.ClaimReconcile {
			t.Fatalf("%+v", c)
		}
		first.claims++
		if _, err := first.Claim(b.ctx, durable.ClaimRequest{N: first.claims, Slots: 1, Named: []durable.Ref{}}); err != nil {
			t.Fatal(err)
		}
		if got := b.where("a"); got != "processing" {
			t.Fatal("a is in", got)
		}
		if got := second.settle(durable.Done, again...); got != "O" {
			t.Fatal(got)
		}
		b.places("0 0 0 0 0")
	})

	t.Run("pause stops promotion and taking, and nothing else", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		w := b.worker()
		b.append("held", "waiting")
		held := w.take(1)
		b.rdb.HSet(b.ctx, b.key("meta"), "pause_claims", 1)
		b.rdb.HSet(b.ctx, b.key("job:due"), "status", "scheduled")
		b.rdb.ZAdd(b.ctx, b.key("scheduled"), redis.Z{Score: 1, Member: "due"})
		if c := w.claim(5); c.Status != durable.ClaimPaused || len(c.Jobs) > 0 || c.NextDue != 0 {
			t.Fatalf("%+v", c)
		}
		b.places("1 1 1 0 0")
		if got := w.settle(durable.Done, held...); got != "O" {
			t.Fatal(got)
		}
		b.rdb.HDel(b.ctx, b.key("meta"), "pause_claims")
		if got := idsOf(w.take(2)); got != "waiting due" {
			t.Fatal(got)
		}
	})

	t.Run("what others have scheduled for never, or given a timeout of ages, is not due at once", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		w := b.worker()
		for _, score := range []float64{math.Inf(1), 1e300, 1e15} {
			b.rdb.HSet(b.ctx, b.key("job:never"), "status", "scheduled", "payload", "x")
			b.rdb.ZAdd(b.ctx, b.key("scheduled"), redis.Z{Score: score, Member: "never"})
			if c := w.claim(1); c.Status != durable.ClaimEmpty || c.NextDue >= 0 && c.NextDue < 24*time.Hour {
				t.Errorf("with the score %v: %q, next due in %v", score, c.Status, c.NextDue)
			}
		}
		b.rdb.HSet(b.ctx, b.key("job:long"), "payload", "x", "timeout_ms", "999999999999999")
		b.rdb.LPush(b.ctx, b.key("pending"), "long")
		if c := w.take(1)[0]; c.Timeout < 24*time.Hour {
			t.Errorf("the timeout is %v", c.Timeout)
		}
	})

	t.Run("an entry twice in a consumer's list is repaired by the reconciliation", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		w := b.worker()
		b.append("a")
		c := w.take(1)[0]
		b.rdb.LPush(b.ctx, b.key("processing:"+w.ID()), "a")
		if got := w.claim(1); got.Status != durable.ClaimReconcile {
			t.Fatalf("%+v", got)
		}
		for range 2 {
			w.claims++
			r := durable.ClaimRequest{N: w.claims, Slots: 1, Held: 1, Named: []durable.Ref{{ID: "a", Token: c.Token}}}
			if got, err := w.Claim(b.ctx, r); err != nil || got.Status != durable.ClaimEmpty {
				t.Fatalf("%+v, %v", got, err)
			}
		}
		if got := b.where("a"); got != "processing" {
			t.Fatal("a is in", got)
		}
		if got := w.claim(1); got.Status != durable.ClaimEmpty {
			t.Fatalf("%+v", got)
		}
	})

	t.Run("story 40: payloads come back byte for byte", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		payloads := []string{`{"n":9007199254740993,"a":[],"o":{}}`, "\x00\xff\r\n$-1\r\n", "", strings.Repeat("ü", 1<<19), "1e400", "nil"}
		jobs := make([]*durable.Job, len(payloads))
		for i, p := range payloads {
			jobs[i] = &durable.Job{ID: fmt.Sprint(i), Payload: []byte(p)}
		}
		if _, err := b.producer().Append(b.ctx, 1, jobs); err != nil {
			t.Fatal(err)
		}
		w := b.worker()
		for i, c := range w.take(len(payloads)) {
			if string(c.Payload) != payloads[i] {
				t.Errorf("payload %d changed", i)
			}
		}
	})

	t.Run("many due entries without a job are cleared away in bounded steps", func(t *testing.T) {
		t.Parallel()
		b := setupList(t, nil)
		for i := range 1000 {
			b.rdb.ZAdd(b.ctx, b.key("scheduled"), redis.Z{Score: 1, Member: fmt.Sprint(i)})
		}
		w := b.worker()
		steps := 0
		for w.claim(1).Status == durable.ClaimMore {
			steps++
		}
		if steps < 2 || steps > 8 {
			t.Fatal(steps, "steps")
		}
		b.places("0 0 0 0 0")
	})
}
