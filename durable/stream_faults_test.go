package durable_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

func TestStreamLostReplies(t *testing.T) {
	t.Parallel()
	// through is a queue whose client goes through a proxy.
	through := func(t *testing.T) (*streamBundle, *redistest.Proxy, *durable.Stream) {
		t.Helper()
		b := setupStream(t, nil)
		p := redistest.NewProxy(t, b.addr)
		s := store(t, &redis.Options{Addr: p.Addr()}, &durable.RedisOptions{Timeout: 200 * time.Millisecond}).Stream(b.name, nil)
		t.Cleanup(func() { _ = s.Close() })
		return b, p, s
	}
	hows := map[string]redistest.Action{"swallowed": redistest.Swallow, "cut": redistest.FIN, "reset": redistest.RST}
	for name, how := range hows {
		t.Run("an append whose reply was "+name+" is stored once, also after completion", func(t *testing.T) {
			t.Parallel()
			b, proxy, s := through(t)
			p, err := s.OpenProducer(b.ctx)
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
			b.clean()
		})

		t.Run("a claim whose reply was "+name+" gives the same jobs again", func(t *testing.T) {
			t.Parallel()
			b, proxy, s := through(t)
			b.append("a", "b", "c")
			w := b.workerOf(s, long)
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
			b, proxy, s := through(t)
			b.append("a", "b")
			w := b.workerOf(s, long)
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
			got, err := w.Settle(b.ctx, 1, outcomes)
			if err != nil || codes(got) != "OXSG" {
				t.Fatalf("%+v, %v", got, err)
			}
			b.places("0 0 0 1 0")
		})

		t.Run("an XREAD whose reply was "+name+" has taken nothing", func(t *testing.T) {
			t.Parallel()
			b, proxy, s := through(t)
			w := b.workerOf(s, long)
			lost := proxy.Lose(1, redistest.With("xread"), how)
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
}

func TestStreamOutages(t *testing.T) {
	t.Parallel()

	t.Run("what was sent to a frozen server is harmless", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		b := setupStreamAt(t, s.Addr(), s.Client(t), "q", nil)
		p, w := b.producer(), b.worker()
		if err := s.Freeze(); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			ctx, cancel := context.WithTimeout(b.ctx, 100*time.Millisecond)
			if _, err := p.Append(ctx, 1, jobsOf("a")); err == nil {
				t.Fatal("answered")
			}
			if _, err := w.Claim(ctx, durable.ClaimRequest{N: 1, Slots: 1, MaxBytes: 1}); err == nil {
				t.Fatal("answered")
			}
			if err := w.Await(ctx); err == nil {
				t.Fatal("answered")
			}
			cancel()
		}
		if err := s.Thaw(); err != nil {
			t.Fatal(err)
		}
		a, err := p.Append(b.ctx, 1, jobsOf("a"))
		if err != nil || a.Taken != 1 || len(a.Refused) > 0 {
			t.Fatalf("%+v, %v", a, err)
		}
		if n := b.length(); n != 1 {
			t.Fatal(n, "entries")
		}
		c, err := w.Claim(b.ctx, durable.ClaimRequest{N: 1, Slots: 1, MaxBytes: 1})
		if err != nil {
			t.Fatal(err)
		}
		w.claims, w.held = 1, len(c.Jobs)
		if len(c.Jobs) == 0 { // the frozen claim came before the frozen append
			c.Jobs = w.take(1)
		}
		w.settle(durable.Done, c.Jobs...)
		b.clean()
	})

	t.Run("a restart and SCRIPT FLUSH are not noticed", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
		b := setupStreamAt(t, s.Addr(), s.Client(t), "q", nil)
		b.append("a", "b")
		w := b.worker()
		held := w.take(1)
		if err := b.rdb.ScriptFlush(b.ctx).Err(); err != nil {
			t.Fatal(err)
		}
		s.Kill()
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
		if !eventually(b.ctx, func() bool { _, err := b.stream.Stats(b.ctx); return err == nil }) {
			t.Fatal("no answer")
		}
		if !eventually(b.ctx, func() bool { return w.Renew(b.ctx, long) == nil }) {
			t.Fatal("no renewal")
		}
		w.settle(durable.Done, append(held, w.take(1)...)...)
		b.clean()
	})

	t.Run("a restart without its data is a new queue, and late settles write no ghost", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		b := setupStreamAt(t, s.Addr(), s.Client(t), "q", nil)
		b.append("a")
		w := b.worker()
		c := w.take(1)[0]
		if err := b.rdb.FlushAll(b.ctx).Err(); err != nil { //nolint:forbidigo // a server of its own
			t.Fatal(err)
		}
		if _, err := w.Settle(b.ctx, 1, []durable.Outcome{{Ref: durable.Ref{ID: "a", Token: c.Token}, Verdict: durable.Done}}); !is(err, durable.ErrNoSender) {
			t.Error(err)
		}
		if _, err := w.Claim(b.ctx, durable.ClaimRequest{N: 2, Slots: 1}); !is(err, durable.ErrFenced) {
			t.Error(err)
		}
		if keys := b.keysLike("*"); len(keys) != 0 {
			t.Error("ghosts:", keys)
		}
		b.append("b")
		heir := b.worker()
		heir.settle(durable.Done, heir.take(1)...)
		b.clean()
	})

	t.Run("a full server refuses producers, and drains", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		b := setupStreamAt(t, s.Addr(), s.Client(t), "q", nil)
		ids := make([]string, 1000)
		for i := range ids {
			ids[i] = fmt.Sprint("job", i)
		}
		b.append(ids...)
		p, lost := b.producer(), b.worker()
		lost.take(50)
		b.rdb.ConfigSet(b.ctx, "maxmemory", "1")
		if _, err := p.Append(b.ctx, 1, jobsOf("more")); !is(err, durable.ErrOutOfMemory) || !is(err, durable.ErrNotExecuted) {
			t.Fatal(err)
		}
		if _, err := b.stream.OpenProducer(b.ctx); !is(err, durable.ErrOutOfMemory) {
			t.Fatal(err)
		}
		w := b.worker()
		if err := b.stream.Check(b.ctx); err != nil {
			t.Fatal("check:", err)
		}
		b.expire(lost)
		b.sweep()
		for {
			if err := w.Renew(b.ctx, long); err != nil {
				t.Fatal(err)
			}
			b.due()
			r := durable.ClaimRequest{N: w.claims + 1, Slots: 100, MaxBytes: 1 << 20, Held: w.held}
			c := w.claim(100)
			if c.Status == durable.ClaimEmpty && c.NextDue < 0 {
				break
			}
			if again, err := w.Claim(b.ctx, r); err != nil || len(again.Jobs) != len(c.Jobs) {
				t.Fatal("again:", len(again.Jobs), "of", len(c.Jobs), err)
			}
			if len(c.Jobs) > 10 && c.Jobs[9].Deliveries == 1 {
				for i, v := range []durable.Verdict{durable.Retry, durable.Snooze, durable.Release, durable.Dead} {
					w.settle(v, c.Jobs[5+i])
				}
				c.Jobs = slices.Delete(c.Jobs, 5, 9)
			}
			w.settle(durable.Done, c.Jobs...)
		}
		if s := b.stats(); s.Pending+s.Scheduled+s.Processing != 0 || s.Dead == 0 {
			t.Errorf("%+v", s)
		}
		if more, err := w.Leave(b.ctx); more || err != nil {
			t.Error(more, err)
		}
	})
}

func TestStreamStall(t *testing.T) {
	t.Parallel()
	b := setupStream(t, nil)
	b.append("a")
	w := b.worker()
	c := w.take(1)
	b.sweep()
	// As if the server had executed nothing for an hour.
	b.rdb.HIncrBy(b.ctx, b.key("meta"), "seen_ms", -time.Hour.Milliseconds())
	b.expire(w)
	if s := b.sweep(); s.Fenced != 0 {
		t.Fatalf("%+v: a living worker is fenced before it could renew", s)
	}
	if err := w.Renew(b.ctx, long); err != nil {
		t.Fatal(err)
	}
	if got := w.settle(durable.Done, c...); got != "O" {
		t.Fatal(got)
	}
	b.clean()
}
