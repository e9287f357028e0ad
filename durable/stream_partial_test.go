package durable_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

// TestStreamPartialScripts stops every script in the middle, wherever it first uses a command
// that was forbidden to the user meanwhile, and more than once. When the permission is back, the
// same numbers get their true answers and no job is lost, doubled or stuck; neither is one when
// nobody asks again, because who asked has died.
func TestStreamPartialScripts(t *testing.T) {
	t.Parallel()
	t.Run("asked again", func(t *testing.T) { t.Parallel(); stopStreamScripts(t, false) })
	t.Run("never asked again", func(t *testing.T) { t.Parallel(); stopStreamScripts(t, true) })
}

func stopStreamScripts(t *testing.T, died bool) {
	s := redistest.Start(t)
	admin := s.Client(t)
	for _, command := range []string{
		"DEL", "HSET", "HDEL", "PEXPIRE", "XACK", "XADD", "XCLAIM", "XDEL", "XGROUP|DELCONSUMER", "XREADGROUP", "ZADD", "ZREM",
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			name := "q" + strings.ReplaceAll(command, "|", "-")
			b := setupStreamAt(t, s.Addr(), admin, name, nil)
			permit := b.confine()

			ids := make([]string, 30)
			for i := range ids {
				ids[i] = fmt.Sprint("job", i)
			}
			b.append(ids...)
			ids = slices.Concat(ids, []string{b.add("payload", "foreign"), b.add("payload", "foreign")})
			old := []string{
				b.add("payload", "foreign", "expires_at_ms", "1"), "old", "kept",
			}
			b.add("payload", "x", "id", "old", "expires_at_ms", "1")
			b.add("payload", "x", "id", "kept", "expires_at_ms", "1", "retention_ms", "600000")
			p, w, lost, leaver, heir := b.producer(), b.worker(), b.worker(), b.worker(), b.worker()
			claims := w.take(6)
			lostClaims := lost.take(4)
			leaver.take(4)
			later := &durable.Job{ID: "later", Delay: 1}
			late := append(jobsOf("late1", "late2"), later)
			late[0].Unique, later.Unique = &durable.Unique{Key: "one"}, &durable.Unique{Key: "two"}
			var outcomes []durable.Outcome
			for i, v := range []durable.Verdict{durable.Done, durable.Retry, durable.Snooze, durable.Dead, durable.Release} {
				outcomes = append(outcomes, durable.Outcome{
					Ref: durable.Ref{ID: claims[i].ID, Token: claims[i].Token}, Verdict: v, MaxAttempts: 2, Reason: "r",
				})
			}
			b.expire(lost)
			unwanted := []string{"job29", lostClaims[0].ID, claims[5].ID}
			cancel := func() (errs []error) {
				for _, id := range unwanted {
					if _, err := b.stream.Cancel(b.ctx, durable.CancelRequest{ID: id}); !is(err, durable.ErrNoJob) {
						errs = append(errs, err)
					}
				}
				return errs
			}

			permit("-" + strings.ToLower(command))
			failed := insist(t, func() []error {
				_, err1 := w.Settle(b.ctx, 1, outcomes)
				_, err2 := w.Claim(b.ctx, durable.ClaimRequest{N: w.claims + 1, Slots: 3, MaxBytes: 1 << 20, Held: 6})
				_, err3 := p.Append(b.ctx, 1, late)
				_, err4 := b.stream.Sweep(b.ctx)
				_, err5 := leaver.Leave(b.ctx)
				return append(cancel(), err1, err2, err3, err4, err5)
			})
			if failed == 0 && command != "HDEL" {
				t.Fatal("nothing was stopped")
			}
			permit("+" + strings.ToLower(command))

			if died {
				b.expire(leaver)
			} else {
				if err := errors.Join(cancel()...); err != nil {
					t.Error("cancel:", err)
				}
				finishStream(b, p, w, leaver, late, outcomes, claims[5])
			}
			b.expire(w)
			b.sweep()

			runs := map[string]int{}
			for range 200 {
				b.due()
				c := heir.claim(10)
				for _, job := range c.Jobs {
					runs[job.ID] += strings.Count(heir.settle(durable.Done, job), "O")
				}
				if c.Status == durable.ClaimEmpty && c.NextDue < 0 {
					break
				}
			}
			expected := append(slices.Clone(ids), "late1", "late2", "later")
			for _, id := range expected {
				switch {
				case id == claims[0].ID && runs[id] <= 1: // done by w, or after all by the heir
				case id == claims[3].ID && runs[id] <= 1 && died, id == claims[3].ID && runs[id] == 0: // dead
				case slices.Contains(unwanted, id) && (runs[id] == 0 || died && runs[id] == 1): // cancelled
				case strings.HasPrefix(id, "late") && died && runs[id] <= 1: // their append was never answered
				case runs[id] == 1:
				default:
					t.Errorf("%s was completed %d times", id, runs[id])
				}
			}
			for _, id := range old {
				if runs[id] > 0 {
					t.Error(id, "has run, and had expired")
				}
			}
			b.sweep() // what everybody is done with, and is there all the same
			if n := b.stats().Dead; !died || n == 1 {
				b.places("0 0 0 1 0")
				b.clean(claims[3].ID, "kept")
			} else {
				b.places("0 0 0 0 0")
				b.clean("kept")
			}
			if keys := b.keysLike("unique:*"); !died && len(keys) > 0 {
				t.Error("left:", keys)
			}
			if owners := b.owners("weir"); len(owners) > 2 {
				t.Error("consumers left:", owners)
			}
		})
	}
}

// An append that stops half-way and is sent again stores each job once, also if workers ask in between.
func TestStreamAppendThatStoppedRunsNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	admin := s.Client(t)
	for _, command := range []string{"zadd", "xadd", "hset"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			b := setupStreamAt(t, s.Addr(), admin, command, nil)
			w := b.worker()
			permit := b.confine()
			p := b.producer()
			jobs := append(jobsOf("a"), &durable.Job{ID: "later", Delay: time.Millisecond}, &durable.Job{ID: "b"})
			jobs[2].Unique = &durable.Unique{Key: "key", Window: time.Hour}
			permit("-" + command)
			if _, err := p.Append(b.ctx, 1, jobs); !is(err, durable.ErrInDoubt) {
				t.Fatal(err)
			}
			runs := map[string]int{}
			work := func() {
				b.due()
				for range 3 {
					for _, c := range w.claim(8).Jobs {
						runs[c.ID] += strings.Count(w.settle(durable.Done, c), "O")
					}
				}
			}
			work()
			permit("+" + command)
			if a, err := p.Append(b.ctx, 1, jobs); err != nil || a.Taken != 3 || len(a.Refused) > 0 {
				t.Error(a, err)
			}
			work()
			if runs["a"] != 1 || runs["b"] != 1 || runs["later"] != 1 {
				t.Error("completed:", runs)
			}
			if till, _ := b.rdb.HGet(b.ctx, b.key("unique:key"), "until_ms").Int64(); till == 0 {
				t.Error("the key is not kept after its job")
			}
			b.sweep()
			b.places("0 0 0 0 0")
			b.clean()
		})
	}
}

// A key that is kept beyond its job expires when that has ended, not before; and is kept for as long when what ends the job is
// asked again, because the script has stopped before.
func TestStreamPartialAfter(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	admin := s.Client(t)
	for _, c := range []struct {
		forbidden string
		retention time.Duration
		ended     bool // when it was stopped
	}{{"-del", 0, false}, {"-xdel", time.Hour, true}} {
		t.Run(fmt.Sprint(c.forbidden, c.retention), func(t *testing.T) {
			t.Parallel()
			name := fmt.Sprint("q", c.forbidden, c.retention)
			b := setupStreamAt(t, s.Addr(), admin, name, nil)
			free, rule := b.stream, strings.Fields(b.stream.ACLRule(name))[1:]
			permit := b.confine()
			w := b.worker()
			if by := b.holder(&durable.Job{ID: "a", Retention: c.retention, Unique: &durable.Unique{Key: "k", After: time.Hour}}); by != "" {
				t.Fatal("the key is", by)
			}
			claim := w.take(1)[0]
			done := []durable.Outcome{{Ref: durable.Ref{ID: claim.ID, Token: claim.Token}, Verdict: durable.Done}}
			permit(c.forbidden)
			if _, err := w.Settle(b.ctx, 1, done); !is(err, durable.ErrInDoubt) {
				t.Fatal("it was not stopped:", err)
			}
			if ttl := b.rdb.PTTL(b.ctx, b.key("unique:k")).Val(); !c.ended && ttl != -1 {
				t.Error("the key of a job that is there expires in", ttl)
			}
			permit(rule...)
			if _, err := w.Settle(b.ctx, 1, done); err != nil {
				t.Error(err)
			}
			b.stream = free
			by, ttl := b.holder(unique("b", "k")), b.rdb.PTTL(b.ctx, b.key("unique:k")).Val()
			if by != "a" || ttl <= 50*time.Minute || ttl > time.Hour {
				t.Errorf("after its end the key is %q's, and expires in %v", by, ttl)
			}
		})
	}
}

// finishStream asks everything again, under the same numbers.
func finishStream(b *streamBundle, p durable.Producer, w, leaver *streamWorker, late []*durable.Job, outcomes []durable.Outcome, held *durable.Claim) {
	b.Helper()
	settled, err := w.Settle(b.ctx, 1, outcomes)
	// What was applied before the script stopped is not under its token any more.
	if got := codes(settled); err != nil || len(got) != len(outcomes) || strings.Trim(got, "OGS") != "" {
		b.Error("settle:", got, err)
	}
	if a, err := p.Append(b.ctx, 1, late); err != nil || a.Taken != 3 || len(a.Refused) > 0 {
		b.Error("append:", a, err)
	}
	if more, err := leaver.Leave(b.ctx); err != nil || more {
		b.Error("leave:", more, err)
	}
	again, err := w.Claim(b.ctx, durable.ClaimRequest{N: w.claims + 1, Slots: 3, MaxBytes: 1 << 20, Held: 6})
	if err != nil {
		b.Error("claim:", err)
	}
	if again.Status == durable.ClaimReconcile {
		r := durable.ClaimRequest{N: w.claims + 2, Slots: 3, MaxBytes: 1 << 20, Held: 1, Named: []durable.Ref{{ID: held.ID, Token: held.Token}}}
		if _, err = w.Claim(b.ctx, r); err != nil {
			b.Error("reconciling claim:", err)
		}
	}
}
