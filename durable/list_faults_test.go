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

func is(err, class error) bool { return errors.Is(err, class) }

// proxied is a queue whose client goes through a proxy.
func proxied(t testing.TB, of maker, timeout time.Duration) (*bundle, *redistest.Proxy, listQueue) {
	t.Helper()
	b := setupQueue(t, of, nil)
	p := redistest.NewProxy(t, b.addr)
	info, _ := b.list.Info()
	l := of(store(t, &redis.Options{Addr: p.Addr()}, &durable.RedisOptions{Timeout: timeout}), info.Name, nil)
	t.Cleanup(func() { _ = l.Close() })
	return b, p, l
}

func TestListLostReplies(t *testing.T) {
	t.Parallel()
	onBoth(t, loseReplies)
}

func loseReplies(t *testing.T, of maker) {
	hows := map[string]redistest.Action{"swallowed": redistest.Swallow, "cut": redistest.FIN, "reset": redistest.RST}

	for name, how := range hows {
		t.Run("story 16: an append whose reply was "+name+" is stored once, also after completion", func(t *testing.T) {
			t.Parallel()
			b, proxy, list := proxied(t, of, 200*time.Millisecond)
			p, err := list.OpenProducer(b.ctx)
			if err != nil {
				t.Fatal(err)
			}
			lost := proxy.Lose(1, redistest.With("append"), how)
			if _, err := p.Append(b.ctx, 1, jobsOf("a", "b")); !is(err, durable.ErrInDoubt) {
				t.Fatal("a lost reply:", err)
			}
			<-lost
			b.places("2 0 0 0 0")
			w := b.worker()
			w.settle(durable.Done, w.take(2)...)
			a, err := p.Append(b.ctx, 1, jobsOf("a", "b"))
			if err != nil || a.Taken != 2 || len(a.Refused) > 0 {
				t.Fatalf("%+v, %v", a, err)
			}
			b.places("0 0 0 0 0")
		})

		t.Run("a claim whose reply was "+name+" gives the same jobs again", func(t *testing.T) {
			t.Parallel()
			b, proxy, list := proxied(t, of, 200*time.Millisecond)
			b.append("a", "b", "c")
			w := b.workerOf(list, long)
			lost := proxy.Lose(1, redistest.With("claim"), how)
			r := durable.ClaimRequest{N: 1, Slots: 2, MaxBytes: 1 << 20}
			if _, err := w.Claim(b.ctx, r); !is(err, durable.ErrInDoubt) {
				t.Fatal("a lost reply:", err)
			}
			<-lost
			c, err := w.Claim(b.ctx, r)
			if err != nil || idsOf(c.Jobs) != "a b" || c.Jobs[0].Deliveries != 1 {
				t.Fatalf("%+v, %v", c, err)
			}
			b.places("1 0 2 0 0")
		})

		t.Run("a settle whose reply was "+name+" gives the same codes again", func(t *testing.T) {
			t.Parallel()
			b, proxy, list := proxied(t, of, 200*time.Millisecond)
			b.append("a", "b")
			w := b.workerOf(list, long)
			c := w.take(2)
			lost := proxy.Lose(1, redistest.With("settle"), how)
			outcomes := []durable.Outcome{
				{Ref: durable.Ref{ID: "a", Token: c[0].Token}, Verdict: durable.Done},
				{Ref: durable.Ref{ID: "b", Token: c[1].Token}, Verdict: durable.Retry, MaxAttempts: 1, Reason: "x"},
				{Ref: durable.Ref{ID: "b", Token: "other"}, Verdict: durable.Done},
				{Ref: durable.Ref{ID: "c", Token: "other"}, Verdict: durable.Done},
			}
			if _, err := w.Settle(b.ctx, 1, outcomes); !is(err, durable.ErrInDoubt) {
				t.Fatal("a lost reply:", err)
			}
			<-lost
			s, err := w.Settle(b.ctx, 1, outcomes)
			if err != nil || codes(s) != "OXSG" {
				t.Fatalf("%+v, %v", s, err)
			}
		})

		t.Run("a BLMOVE or BLPOP whose reply was "+name+" leaves its job to the next claim of anyone", func(t *testing.T) {
			t.Parallel()
			b, proxy, list := proxied(t, of, 200*time.Millisecond)
			w := b.workerOf(list, long)
			lost := proxy.Lose(1, func(e redistest.Exchange) bool { return redistest.With("blmove")(e) || redistest.With("blpop")(e) }, how)
			ended := make(chan error, 1)
			go func() { ended <- w.Await(b.ctx) }()
			b.append("a")
			<-lost
			if got := idsOf(b.worker().take(1)); got != "a" {
				t.Fatal(got)
			}
			<-ended
		})
	}

	t.Run("a renewal whose reply was lost is renewed again", func(t *testing.T) {
		t.Parallel()
		b, proxy, list := proxied(t, of, 200*time.Millisecond)
		w := b.workerOf(list, long)
		proxy.Lose(1, redistest.With("renew"), redistest.RST)
		if err := w.Renew(b.ctx, long); !is(err, durable.ErrInDoubt) {
			t.Fatal(err)
		}
		if err := w.Renew(b.ctx, long); err != nil {
			t.Fatal(err)
		}
	})
}

func TestListOutages(t *testing.T) {
	t.Parallel()
	onBoth(t, outages)
}

func outages(t *testing.T, of maker) {
	t.Run("an unreachable server means not executed, at once", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		b := setupQueueAt(t, of, s.Addr(), s.Client(t), "q", nil)
		p := b.producer()
		s.Kill()
		if _, err := p.Append(b.ctx, 1, jobsOf("a")); err == nil { // the open connection breaks
			t.Fatal("no error")
		}
		if _, err := p.Append(b.ctx, 1, jobsOf("a")); !is(err, durable.ErrNotExecuted) {
			t.Fatal(err)
		}
		if _, err := b.list.Sweep(b.ctx); !is(err, durable.ErrNotExecuted) {
			t.Fatal(err)
		}
	})

	t.Run("a frozen server ends every call by its deadline, and what was sent is harmless", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		b := setupQueueAt(t, of, s.Addr(), s.Client(t), "q", nil)
		p, w := b.producer(), b.worker()
		if err := s.Freeze(); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for range 5 {
			ctx, cancel := context.WithTimeout(b.ctx, 100*time.Millisecond)
			if _, err := p.Append(ctx, 1, jobsOf("a")); err == nil {
				t.Fatal("answered")
			}
			if err := w.Await(ctx); err == nil {
				t.Fatal("answered")
			}
			cancel()
		}
		if d := time.Since(start); d > 3*time.Second {
			t.Fatal("took", d)
		}
		if err := s.Thaw(); err != nil {
			t.Fatal(err)
		}
		a, err := p.Append(b.ctx, 1, jobsOf("a"))
		if err != nil || a.Taken != 1 || len(a.Refused) > 0 {
			t.Fatalf("%+v, %v", a, err)
		}
		b.places("1 0 0 0 0")
	})

	t.Run("a restart and SCRIPT FLUSH are not noticed", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
		b := setupQueueAt(t, of, s.Addr(), s.Client(t), "q", nil)
		b.append("a")
		if err := b.rdb.ScriptFlush(b.ctx).Err(); err != nil {
			t.Fatal(err)
		}
		b.append("b")
		s.Kill()
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
		var w *worker
		for w == nil { // connections of before break one by one
			if c, err := b.list.OpenConsumer(b.ctx, long); err == nil {
				w = &worker{bundle: b, claimer: claimer{Consumer: c, at: &b.site}}
			} else if b.ctx.Err() != nil {
				t.Fatal(err)
			}
		}
		w.settle(durable.Done, w.take(2)...)
	})

	t.Run("a full server refuses producers, and drains", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		b := setupQueueAt(t, of, s.Addr(), s.Client(t), "q", nil)
		ids := make([]string, 1000)
		for i := range ids {
			ids[i] = fmt.Sprint("job", i)
		}
		b.append(ids...)
		p, lost := b.producer(), b.worker()
		lost.take(50)
		b.rdb.ConfigSet(b.ctx, "maxmemory", "1")
		before := b.stats()
		if _, err := p.Append(b.ctx, 1, jobsOf("more")); !is(err, durable.ErrOutOfMemory) || !is(err, durable.ErrNotExecuted) {
			t.Fatal(err)
		}
		if _, err := b.list.OpenProducer(b.ctx); !is(err, durable.ErrOutOfMemory) {
			t.Fatal(err)
		}
		if after := b.stats(); after.Pending != before.Pending {
			t.Fatal(before, after)
		}
		w := b.worker()
		if _, set := b.list.(*durable.SortedSet); set {
			if err := w.Await(b.ctx); err != nil { // which nothing grows by
				t.Fatal("await:", err)
			}
		} else if err := w.Await(b.ctx); !is(err, durable.ErrOutOfMemory) {
			t.Fatal("await:", err)
		}
		if err := b.list.Check(b.ctx); err != nil {
			t.Fatal("check:", err)
		}
		b.expire(lost)
		b.sweep()
		for {
			if err := w.Renew(b.ctx, long); err != nil {
				t.Fatal(err)
			}
			b.due()
			c := w.claim(100)
			if c.Status == durable.ClaimEmpty && c.NextDue < 0 {
				break
			}
			// A retry, a snooze and a release are possible too; then everything is done.
			if len(c.Jobs) > 0 && c.Jobs[0].Deliveries == 1 && c.Jobs[0].Crashes == 0 {
				for i, v := range []durable.Verdict{durable.Retry, durable.Snooze, durable.Release} {
					if i < len(c.Jobs) {
						w.settle(v, c.Jobs[i])
					}
				}
				c.Jobs = c.Jobs[min(3, len(c.Jobs)):]
			}
			w.settle(durable.Done, c.Jobs...)
		}
		b.places("0 0 0 0 0")
	})

	t.Run("a replica is refused by name", func(t *testing.T) {
		t.Parallel()
		primary := redistest.Start(t)
		replica := redistest.Start(t, "--replicaof", fmt.Sprint("127.0.0.1 ", primary.Port()))
		b := setupQueueAt(t, of, replica.Addr(), replica.Client(t), "q", nil)
		for {
			err := b.list.Check(b.ctx)
			if err != nil && strings.Contains(err.Error(), "read-only replica") {
				break
			}
			if b.ctx.Err() != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.list.OpenProducer(b.ctx); !is(err, durable.ErrNotExecuted) {
			t.Fatal(err)
		}
	})
}

func eventually(ctx context.Context, done func() bool) bool {
	for !done() {
		if ctx.Err() != nil {
			return false
		}
	}
	return true
}
