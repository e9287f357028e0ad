// Three failures of the loop that docs/blmove.md is about, each shown on the loop itself, and the same scenario here.
package weir_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
	"github.com/seed-9dec4fca/weir/policy"
)

// What the loop is compared with does what it is meant to when nothing goes wrong, and when a worker dies after its stamp.
func TestLoopAroundBLMOVEWorksOnAGoodDay(t *testing.T) {
	t.Parallel()
	q := newLoop(t)
	id := q.enqueue(t, "pay")
	for range q.maxAttempts - 2 {
		if !q.fail(t, q.claim(t)) {
			t.Fatal("a failure was refused")
		}
	}
	dead := q.claim(t)
	if swept := q.sweep(t); len(swept) != 0 {
		t.Fatalf("a healthy claim was swept: %q", swept)
	}
	q.advance(q.visibility + time.Second)
	if swept := q.sweep(t); !slices.Equal(swept, []string{id}) {
		t.Fatalf("swept %q", swept)
	}
	last := q.claim(t)
	if q.complete(t, dead) {
		t.Error("the token of a dead worker was taken")
	}
	if !q.fail(t, last) {
		t.Error("the last failure was refused")
	}
	for list, want := range map[string][]string{"pending": {}, "processing": {}, "failed": {id}} {
		if got := q.entries(t, list); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", list, got, want)
		}
	}
	q.enqueue(t, "pay")
	if !q.complete(t, q.claim(t)) {
		t.Error("a completion was refused")
	}
}

// A sweep came after a job was moved and before it was stamped.
func TestSweepBetweenTheMoveAndTheStamp(t *testing.T) {
	t.Parallel()
	t.Run("the loop runs a healthy job twice at once", func(t *testing.T) {
		t.Parallel()
		q, ctx := newLoop(t), patient(t)
		id := q.enqueue(t, "pay")
		q.advance(11 * time.Second) // behind others, and nobody is to blame
		taken := q.take(t)
		if swept := q.sweep(t); !slices.Equal(swept, []string{id}) {
			t.Fatalf("the sweep put back %q", swept)
		}
		first := q.stamp(t, taken) // and its handler is called
		second := q.claim(t)       // and so is that of somebody else
		if first.id != id || second.id != id || first.payload != "pay" || second.payload != "pay" {
			t.Fatalf("the first worker has %+v, the second %+v", first, second)
		}
		if q.complete(t, first) || !q.complete(t, second) {
			t.Error("want the work of the first one refused, and that of the second one taken")
		}
		if attempts := q.rdb.HGet(ctx, q.hash(id), "attempts").Val(); attempts != "2" {
			t.Errorf("%s attempts", attempts)
		}
	})

	for name, rival := range map[string]bool{"weir runs it once": false, "weir runs it once, whoever is first": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBetween(t)
			ticket := b.moved(t)
			b.sweeps(t)
			if got := places(t, b.rdb, b.queue, ticket.ID()); !slices.Equal(got, []string{"arriving"}) {
				t.Errorf("after the sweeps it is in %v", got)
			}
			if rival {
				other := open(t, b.rdb, b.queue, nil, nil)
				b.runs.consume(t, plain(other, "n"))
				run(t, other, nil)
				if err := ticket.WaitEnqueued(patient(t)); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the rival runs it", func() bool { return b.runs.total() == 1 })
			}
			b.release()
			b.ended(t, ticket.ID())
			b.sweeps(t)
			b.runs.once(t, ticket.ID())
		})
	}
}

// After that sweep the job completed, and its ID was still in the list.
func TestCompletedJobWhoseIDIsStillInTheList(t *testing.T) {
	t.Parallel()
	t.Run("the loop runs it again, and keeps its ID for ever", func(t *testing.T) {
		t.Parallel()
		q, ctx := newLoop(t), patient(t)
		id := q.enqueue(t, "pay")
		q.advance(11 * time.Second)
		taken := q.take(t)
		q.sweep(t)
		if first := q.stamp(t, taken); !q.complete(t, first) {
			t.Fatal("not completed")
		}
		if status := q.rdb.HGet(ctx, q.hash(id), "status").Val(); status != "completed" {
			t.Fatalf("its status is %q", status)
		}
		second := q.claim(t)
		if second.id != id || second.payload != "pay" {
			t.Fatalf("the next worker has %+v", second)
		}

		// The claim has not taken back that the hash expires. It does, while the second one works.
		if ttl := q.rdb.PTTL(ctx, q.hash(id)).Val(); ttl <= 0 {
			t.Fatalf("the hash expires in %v", ttl)
		}
		q.rdb.PExpireAt(ctx, q.hash(id), time.UnixMilli(1))
		q.advance(q.keep)
		if q.complete(t, second) {
			t.Error("completed without a hash")
		}
		for range 10 {
			q.advance(24 * time.Hour)
			if swept := q.sweep(t); len(swept) != 0 {
				t.Fatalf("the sweep put back %q", swept)
			}
		}
		if left := q.entries(t, "processing"); !slices.Equal(left, []string{id}) {
			t.Errorf("in processing: %q", left)
		}
	})

	t.Run("weir does not run it again, and forgets its ID", func(t *testing.T) {
		t.Parallel()
		b := newBetween(t)
		ticket := b.moved(t)
		b.sweeps(t)
		b.release()
		b.ended(t, ticket.ID())
		dropped := func(want string) {
			t.Helper()
			push(t, b.rdb, "{"+b.queue+"}:", ticket.ID()) // what the loop's sweep has done
			eventually(t, "the entry is dropped", func() bool {
				return b.rdb.HGet(patient(t), "{"+b.queue+"}:counters", "dropped").Val() == want
			})
			b.sweeps(t)
			b.ended(t, ticket.ID())
		}
		if status := b.rdb.HGet(patient(t), b.hash(ticket.ID()), "status").Val(); status != "completed" {
			t.Fatalf("its status is %q", status)
		}
		dropped("1")
		if n := b.rdb.PExpireAt(patient(t), b.hash(ticket.ID()), time.UnixMilli(1)).Val(); !n {
			t.Fatal("there was no record")
		}
		dropped("2")
		b.runs.once(t, ticket.ID())
	})

	t.Run("weir forgets the ID of a dead worker's job whose hash has expired", func(t *testing.T) {
		t.Parallel()
		w := newMortal(t, nil)
		w.dies(t)
		if n := w.rdb.PExpireAt(patient(t), w.hash(w.id), time.UnixMilli(1)).Val(); !n {
			t.Fatal("there was no hash")
		}
		eventually(t, "it is nowhere", func() bool {
			w.sweep(t)
			return len(places(t, w.rdb, w.queue, w.id)) == 0 && w.rdb.Exists(patient(t), "{"+w.queue+"}:consumers").Val() == 0
		})
		if left := leftovers(t, w.rdb, "{"+w.queue+"}:"); len(left) != 0 {
			t.Errorf("left behind: %q", left)
		}
	})
}

// A job killed its worker each time, before anything could be counted as a failed run.
func TestJobThatKillsItsWorkerEachTime(t *testing.T) {
	t.Parallel()
	const limit = 3
	t.Run("the loop sweeps it back for ever", func(t *testing.T) {
		t.Parallel()
		q, ctx := newLoop(t), patient(t)
		id := q.enqueue(t, "kill")
		for death := range 10 * limit {
			if job := q.claim(t); job.id != id || job.attempts != death+1 {
				t.Fatalf("worker %d has %+v", death, job)
			}
			q.advance(q.visibility + time.Second)
			if swept := q.sweep(t); !slices.Equal(swept, []string{id}) {
				t.Fatalf("the sweep put back %q", swept)
			}
		}
		if failed := q.entries(t, "failed"); len(failed) != 0 {
			t.Errorf("given up: %q", failed)
		}
		if attempts := q.rdb.HGet(ctx, q.hash(id), "attempts").Val(); attempts != "30" {
			t.Errorf("%s attempts, the limit was %d", attempts, q.maxAttempts)
		}
	})

	t.Run("weir gives it up at the limit", func(t *testing.T) {
		t.Parallel()
		w := newMortal(t, &durable.ListOptions{MaxCrashes: limit})
		for death := range limit {
			w.dies(t)
			eventually(t, "what it held comes back, or is given up", func() bool {
				w.sweep(t)
				got := places(t, w.rdb, w.queue, w.id)
				return len(got) == 1 && !strings.HasPrefix(got[0], "processing")
			})
			dead := slices.Equal(places(t, w.rdb, w.queue, w.id), []string{"dead"})
			if last := death == limit-1; dead != last {
				t.Fatalf("after %d deaths: dead %v, want %v", death+1, dead, last)
			}
		}
		fields := w.rdb.HGetAll(patient(t), w.hash(w.id)).Val()
		if fields["status"] != "dead" || fields["reason"] != "worker lost" || fields["crashes"] != "3" || fields["attempts"] > "0" {
			t.Errorf("its hash: %q", fields)
		}
	})
}

// between is a consumer of a queue that is held where the loop's worker is between its two commands: the server has
// moved a job for its BLMOVE, and it does not know, and cannot claim.
type between struct {
	rdb     *redis.Client
	queue   string
	swept   *durable.List
	kind    *bridge.Kind[string]
	runs    *ledger
	release func()
}

func newBetween(t *testing.T) *between {
	t.Helper()
	server := redistest.Start(t)
	b := &between{rdb: server.Client(t), queue: "q", runs: newLedger()}
	store, err := durable.NewRedis(b.rdb, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.swept = store.List(b.queue, nil)
	t.Cleanup(func() { _ = b.swept.Close() })
	b.kind = plain(open(t, b.rdb, b.queue, nil, nil), "n")

	proxy := redistest.NewProxy(t, server.Addr())
	held := open(t, proxy.Client(t), b.queue, nil, nil)
	b.runs.consume(t, plain(held, "n"))
	run(t, held, nil)
	parked(t, b.rdb, 1)
	releaseClaims, gate := hold(t, proxy, "claim"), make(chan struct{})
	proxy.OnReply(func(e redistest.Exchange) redistest.Action {
		if redistest.With("blmove")(e) {
			<-gate
		}
		return redistest.Pass
	})
	b.release = func() { releaseClaims(); close(gate) }
	return b
}

// moved submits a job and waits until the server has moved it.
func (b *between) moved(t *testing.T) *bridge.Ticket {
	t.Helper()
	job := bridge.Job[string]{ID: "job", Value: "pay", Retention: time.Hour}
	ticket, err := b.kind.SubmitJob(patient(t), job, policy.Reject())
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is moved", func() bool {
		return slices.Equal(places(t, b.rdb, b.queue, "job"), []string{"arriving"})
	})
	return ticket
}

// sweeps expects sweeps to find nothing.
func (b *between) sweeps(t *testing.T) {
	t.Helper()
	for range 3 {
		if swept, err := b.swept.Sweep(patient(t)); err != nil || swept != (durable.Swept{}) {
			t.Errorf("a sweep: %+v, %v", swept, err)
		}
	}
}

// ended waits until a job is in no list.
func (b *between) ended(t *testing.T, id string) {
	t.Helper()
	eventually(t, "it is nowhere", func() bool { return b.runs.total() > 0 && len(places(t, b.rdb, b.queue, id)) == 0 })
}

func (b *between) hash(id string) string { return "{" + b.queue + "}:job:" + id }

// mortal is a queue with one job, and workers that die with it.
type mortal struct {
	rdb       *redis.Client
	queue, id string
	list      *durable.List
}

func newMortal(t *testing.T, opts *durable.ListOptions) *mortal {
	t.Helper()
	m := &mortal{rdb: redistest.Client(t), queue: redistest.Name(t), id: "job"}
	store, err := durable.NewRedis(m.rdb, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.list = store.List(m.queue, opts)
	t.Cleanup(func() { _ = m.list.Close() })
	push(t, m.rdb, "{"+m.queue+"}:", m.id, "payload", "kill")
	return m
}

// dies has a worker claim the job, and its lease end.
func (m *mortal) dies(t *testing.T) {
	t.Helper()
	ctx := patient(t)
	worker, err := m.list.OpenConsumer(ctx, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for n := uint64(1); ; n++ {
		claimed, err := worker.Claim(ctx, durable.ClaimRequest{N: n, Slots: 1, MaxBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if len(claimed.Jobs) == 1 {
			break
		}
		<-time.After(max(claimed.NextDue, time.Millisecond)) // what lost its worker comes back with a delay
	}
	if err := worker.Renew(ctx, time.Millisecond); err != nil { // the last sign of life
		t.Fatal(err)
	}
}

func (m *mortal) sweep(t *testing.T) {
	t.Helper()
	if _, err := m.list.Sweep(patient(t)); err != nil {
		t.Fatal(err)
	}
}

func (m *mortal) hash(id string) string { return "{" + m.queue + "}:job:" + id }
