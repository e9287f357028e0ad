package durable_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

// TestListPartialScripts stops every script in the middle, wherever it first uses a command
// that was forbidden to the user meanwhile, and more than once. When the permission is back, the
// same numbers get their true answers and no job is lost, doubled or stuck; neither is one when
// nobody asks again, because who asked has died.
func TestListPartialScripts(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, of maker) {
		for _, limited := range []bool{false, true} {
			with := ""
			if limited {
				with = ", with limits and a follower"
			}
			t.Run("asked again"+with, func(t *testing.T) { t.Parallel(); stopScripts(t, of, false, limited) })
			t.Run("never asked again"+with, func(t *testing.T) { t.Parallel(); stopScripts(t, of, true, limited) })
		}
	})
}

func stopScripts(t *testing.T, of maker, died, limited bool) {
	s := redistest.Start(t)
	admin := s.Client(t)
	commands := []string{"DEL", "HSET", "LPUSH", "LREM", "LTRIM", "PEXPIRE", "RPUSH", "ZADD", "ZREM", "ZREMRANGEBYRANK"}
	for _, command := range commands {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			name := "q" + command
			b := setupQueueAt(t, of, s.Addr(), admin, name, nil)
			if !strings.Contains(b.list.ACLRule(name), "+"+strings.ToLower(command)+" ") {
				return // it has no such command
			}
			permit := b.confine(name)

			ids := make([]string, 30)
			for i := range ids {
				ids[i] = fmt.Sprint("job", i)
			}
			if limited { // as many claims of each key as there are to be, so that more have to wait
				b.limit(durable.Limits{Concurrency: 20, KeyConcurrency: 7, KeyRate: durable.Rate{Count: 1000, Burst: 100}})
				jobs := jobsOf(ids...)
				for i, j := range jobs {
					j.LimitKey = fmt.Sprint("key", i%2)
				}
				b.appendJobs(jobs)
			} else {
				b.append(ids...)
			}
			p, w, lost, leaver, heir := b.producer(), b.worker(), b.worker(), b.worker(), b.worker()
			claims := w.take(6)
			lost.take(4)
			leaver.take(4)
			later := &durable.Job{ID: "later", Delay: 1}
			if limited {
				f := b.follower()
				f.adopt(p.ID())
				if _, err := f.Follow(b.ctx, ids); err != nil {
					t.Fatal(err)
				}
			}
			late := append(jobsOf("late1", "late2"), later)
			outcomes := []durable.Outcome{}
			for i, v := range []durable.Verdict{durable.Done, durable.Retry, durable.Snooze, durable.Dead, durable.Release} {
				outcomes = append(outcomes, durable.Outcome{
					Ref: durable.Ref{ID: claims[i].ID, Token: claims[i].Token}, Verdict: v, MaxAttempts: 2, Reason: "r",
				})
			}
			b.expire(lost)

			permit("-" + command)
			failed := insist(t, func() []error {
				_, err1 := w.Settle(b.ctx, 1, outcomes)
				_, err2 := w.Claim(b.ctx, durable.ClaimRequest{N: w.claims + 1, Slots: 3, MaxBytes: 1 << 20, Held: 6})
				_, err3 := p.Append(b.ctx, 1, late)
				_, err4 := b.list.Sweep(b.ctx)
				_, err5 := leaver.Leave(b.ctx)
				return []error{err1, err2, err3, err4, err5}
			})
			if failed == 0 {
				t.Fatal("nothing was stopped")
			}
			permit("+" + command)

			if died {
				b.expire(leaver)
			} else {
				finish(b, p, w, leaver, late, outcomes, claims[5])
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
			if !died {
				b.places("0 0 0 1 0")
			}
			expected := append(slices.Clone(ids), "late1", "late2", "later")
			for _, id := range expected {
				switch {
				case id == claims[0].ID && runs[id] <= 1: // done by w, or after all by the heir
				case id == claims[3].ID && runs[id] <= 1 && died, id == claims[3].ID && runs[id] == 0: // dead
				case strings.HasPrefix(id, "late") && died && runs[id] == 0: // their append was never answered
				case runs[id] == 1:
				default:
					t.Errorf("%s was completed %d times", id, runs[id])
				}
			}
			if keys := b.keysLike("job:*"); !died && len(keys) != 1 {
				t.Error("left:", keys)
			}
			if keys := b.keysLike("processing:*"); len(keys) != 0 {
				t.Error("left:", keys)
			}
		})
	}
}

// TestListReleaseStopped stops a release after its first write; an operator purges what is claimed
// before anybody asks again. The job is never left without a place.
func TestListReleaseStopped(t *testing.T) {
	t.Parallel()
	onBoth(t, stopRelease)
}

func stopRelease(t *testing.T, of maker) {
	s := redistest.Start(t)
	admin := s.Client(t)
	for _, command := range []string{"HSET", "RPUSH", "ZADD", "LPUSH", "LREM", "PEXPIRE"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			name := "q" + command
			b := setupQueueAt(t, of, s.Addr(), admin, name, nil)
			free := b.list
			permit := b.confine(name)
			b.append("a")
			w := b.worker()
			c := w.take(1)[0]
			permit("-" + command)
			release := []durable.Outcome{{Ref: durable.Ref{ID: c.ID, Token: c.Token}, Verdict: durable.Release}}
			_, err := w.Settle(b.ctx, 1, release)
			if err == nil {
				if _, set := b.list.(*durable.SortedSet); set == (command == "RPUSH") || !set && (command == "ZADD" || command == "LPUSH") {
					return // the engine does without it
				}
				t.Fatal("nothing was stopped")
			}
			for purge := (durable.PurgeRequest{Confirm: name, States: []durable.State{durable.StateProcessing}}); ; {
				p, err := free.Purge(b.ctx, purge)
				if err != nil {
					t.Fatal(err)
				}
				if purge.Cursor = p.Cursor; p.Cursor == "" {
					break
				}
			}
			if b.rdb.Exists(b.ctx, b.key("job:a")).Val() == 1 && b.where("a") == "" {
				t.Error("the job is in no list")
			}
		})
	}
}

// TestListDirectStopped stops an append that hands its jobs over, after any of its writes. Asked again, by an append and
// a claim, it has stored each job once, and each is run once.
func TestListDirectStopped(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	admin := s.Client(t)
	for _, command := range []string{"LPUSH", "HSET", "PEXPIRE", "HINCRBY"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			name := "q" + command
			b := setupListAt(t, s.Addr(), admin, name, nil)
			permit := b.confine(name)
			w, p := b.worker(), b.producer()
			permit("-" + command)
			jobs := jobsOf("a", "b", "c")
			r := durable.ClaimRequest{N: 1, Slots: 9, MaxBytes: 1 << 20}
			if _, _, err := p.(durable.DirectProducer).AppendFor(b.ctx, 1, jobs, w.Consumer, r); command != "HINCRBY" && !is(err, durable.ErrInDoubt) {
				t.Fatal("nothing was stopped:", err)
			}
			permit("+" + command)
			if a, err := p.Append(b.ctx, 1, jobs); err != nil || a.Taken != 3 || len(a.Refused) > 0 {
				t.Fatalf("%+v, %v", a, err)
			}
			runs := map[string]int{}
			for r.Held < 3 {
				c, err := w.Claim(b.ctx, r)
				if err != nil || b.ctx.Err() != nil {
					t.Fatal(err, b.ctx.Err())
				}
				if r.N, r.Named = r.N+1, nil; c.Status == durable.ClaimReconcile {
					r.Named = []durable.Ref{}
				}
				for _, job := range c.Jobs {
					r.Held++
					runs[job.ID] += strings.Count(w.settle(durable.Done, job), "O")
				}
			}
			for _, id := range []string{"a", "b", "c"} {
				if runs[id] != 1 {
					t.Errorf("%s was completed %d times", id, runs[id])
				}
			}
			w.claims, w.held = r.N-1, 0
			for w.claim(9).Status != durable.ClaimEmpty {
			}
			b.places("0 0 0 0 0")
		})
	}
}

// finish asks everything again, under the same numbers.
func finish(b *bundle, p durable.Producer, w, leaver *worker, late []*durable.Job, outcomes []durable.Outcome, held *durable.Claim) {
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
