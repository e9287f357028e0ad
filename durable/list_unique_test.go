package durable_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

// unique is a job with a key.
func unique(id, key string) *durable.Job {
	return job(id, func(j *durable.Job) { j.Unique = &durable.Unique{Key: key} })
}

// holderOf appends a job, and gives the ID of whoever has its key already; "" when it was stored.
func holderOf(ctx context.Context, t testing.TB, p durable.Producer, j *durable.Job) string {
	t.Helper()
	a, err := p.Append(ctx, 1, []*durable.Job{j})
	switch {
	case err != nil || a.Taken != 1:
		t.Fatalf("append: %+v, %v", a, err)
	case len(a.Refused) == 0:
		return ""
	case a.Refused[0].Code != durable.RefusedUnique:
		t.Fatalf("refused: %+v", a.Refused)
	}
	return a.Refused[0].Holder
}

func (b *bundle) holder(j *durable.Job) string {
	b.Helper()
	return holderOf(b.ctx, b, b.producer(), j)
}

func (b *bundle) noKeys() {
	b.Helper()
	if keys := b.keysLike("unique:*"); len(keys) != 0 {
		b.Error("left:", keys)
	}
}

func TestListUnique(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, of maker) {
		setup := func(t *testing.T) *bundle {
			t.Parallel()
			return setupQueue(t, of, nil)
		}

		t.Run("one at a time, also in a batch, and the answer is remembered", func(t *testing.T) {
			b := setup(t)
			p := b.producer()
			jobs := []*durable.Job{unique("a,1U", "k"), unique("b", "k"), unique("c", "other k"), jobsOf("d")[0], unique("a,1U", "k"), unique("e", "other k")}
			for range 2 {
				a, err := p.Append(b.ctx, 1, jobs)
				want := "[{1 U a,1U} {4 D } {5 U c}]"
				got := strings.NewReplacer("68", "D", "85", "U").Replace(fmt.Sprint(a.Refused))
				if err != nil || a.Taken != 6 || got != want {
					t.Errorf("%+v, %v; want %s", a, err, want)
				}
			}
			if r := b.lookup("c"); r.UniqueKey != "other k" {
				t.Errorf("%+v", r)
			}
			b.places("3 0 0 0 0")
			if n := b.stats().Counters["duplicate"]; n != 3 {
				t.Error(n, "counted")
			}
		})

		t.Run("it is free when the job has ended, in whatever way", func(t *testing.T) {
			t.Parallel()
			for name, end := range map[string]func(b *bundle, w *worker, c *durable.Claim){
				"done": func(_ *bundle, w *worker, c *durable.Claim) { w.settle(durable.Done, c) },
				"dead": func(_ *bundle, w *worker, c *durable.Claim) { w.settle(durable.Dead, c) },
				"discarded": func(b *bundle, w *worker, c *durable.Claim) {
					w.settle(durable.Dead, c)
					if _, err := b.list.Discard(b.ctx, durable.Selection{All: true}); err != nil {
						b.Error(err)
					}
					b.noKeys()
				},
				"purged": func(b *bundle, _ *worker, _ *durable.Claim) {
					r := durable.PurgeRequest{Confirm: b.info().Name, States: []durable.State{durable.StateProcessing}}
					if _, err := b.list.Purge(b.ctx, r); err != nil {
						b.Error(err)
					}
					b.noKeys()
				},
				"cancelled": func(b *bundle, w *worker, c *durable.Claim) {
					b.cancel("a")
					w.settle(durable.Release, c)
					b.noKeys()
				},
				"cancelled while it waits": func(b *bundle, w *worker, c *durable.Claim) {
					w.settle(durable.Release, c)
					b.cancel("a")
					b.noKeys()
				},
				"expired": func(b *bundle, w *worker, c *durable.Claim) {
					w.settle(durable.Release, c)
					b.overdue("a")
					w.claim(1)
					b.noKeys()
				},
				"deleted by hand": func(b *bundle, _ *worker, _ *durable.Claim) { b.rdb.Del(b.ctx, b.key("job:a")) },
				"corrupt": func(b *bundle, w *worker, c *durable.Claim) {
					w.settle(durable.Release, c)
					b.rdb.HSet(b.ctx, b.key("job:a"), "attempts", "many")
					w.claim(1)
				},
			} {
				t.Run(name, func(t *testing.T) {
					b := setup(t)
					b.store(unique("a", "k"))
					w := b.worker()
					c := w.take(1)
					if got := b.holder(unique("b", "k")); got != "a" {
						t.Errorf("held by %q", got)
					}
					end(b, w, c[0])
					if got := b.holder(unique("b", "k")); got != "" {
						t.Errorf("held by %q", got)
					}
					if got := b.holder(unique("c", "k")); got != "b" {
						t.Errorf("held by %q", got)
					}
				})
			}
		})

		t.Run("it is kept through retries, releases and lost workers", func(t *testing.T) {
			b := setup(t)
			b.store(unique("a", "k"))
			w := b.worker()
			for _, v := range []durable.Verdict{durable.Retry, durable.Snooze, durable.Release} {
				w.settle(v, w.take(1)...)
				if got := b.holder(unique("b", "k")); got != "a" {
					t.Errorf("held by %q", got)
				}
				b.due()
			}
			lost := b.worker()
			lost.take(1)
			b.expire(lost)
			b.sweep()
			if got := b.holder(unique("b", "k")); got != "a" {
				t.Errorf("held by %q", got)
			}
			b.due()
			w.settle(durable.Done, w.take(1)...)
			b.noKeys()
		})

		t.Run("it is kept in the states that are asked for", func(t *testing.T) {
			t.Parallel()
			for states, want := range map[string]string{"pending": "a---", "scheduled": "-a--", "processing": "--a-", "dead": "---a", "pending dead": "a--a"} {
				t.Run(states, func(t *testing.T) {
					b := setup(t)
					with := func(id string, delay time.Duration) *durable.Job {
						return job(id, func(j *durable.Job) {
							j.Delay, j.Unique = delay, &durable.Unique{Key: "k"}
							for s := range strings.FieldsSeq(states) {
								j.Unique.States = append(j.Unique.States, durable.State(s))
							}
						})
					}
					b.store(with("a", 0))
					w := b.worker()
					got := ""
					ask := func(n int) {
						who := b.holder(with(fmt.Sprint("other", n), 0))
						if who == "" { // it has the key now: give it back
							who = "-"
							b.cancel(fmt.Sprint("other", n))
							b.rdb.HSet(b.ctx, b.key("unique:k"), "holder", "a")
						}
						got += who
					}
					ask(0)
					c := w.take(1)
					w.settle(durable.Snooze, c...)
					ask(1)
					b.due()
					c = w.take(1)
					ask(2)
					w.settle(durable.Dead, c...)
					ask(3)
					if got != want {
						t.Errorf("pending, scheduled, processing, dead: %s, want %s", got, want)
					}
				})
			}
		})

		t.Run("a window keeps it, whatever becomes of the job", func(t *testing.T) {
			b := setup(t)
			windowed := func(id string) *durable.Job {
				return job(id, func(j *durable.Job) { j.Unique = &durable.Unique{Key: "k", Window: time.Hour} })
			}
			b.store(windowed("a"))
			if ttl := b.rdb.PTTL(b.ctx, b.key("unique:k")).Val(); ttl != -1 {
				t.Error("it expires while the job lives:", ttl)
			}
			w := b.worker()
			w.settle(durable.Done, w.take(1)...)
			if got := b.holder(windowed("b")); got != "a" {
				t.Errorf("held by %q", got)
			}
			if ttl := b.rdb.PTTL(b.ctx, b.key("unique:k")).Val(); ttl <= 0 || ttl > time.Hour {
				t.Error("of what is left:", ttl)
			}
			b.rdb.HSet(b.ctx, b.key("unique:k"), "until_ms", "1") // it is over
			if got := b.holder(windowed("b")); got != "" {
				t.Errorf("held by %q", got)
			}
			if ttl := b.rdb.PTTL(b.ctx, b.key("unique:k")).Val(); ttl != -1 {
				t.Error("what is taken over expires:", ttl)
			}
			w.settle(durable.Done, w.take(1)...)
			b.rdb.Del(b.ctx, b.key("unique:k"))
		})

		t.Run("a completed job keeps it for a while, and no other", func(t *testing.T) {
			b := setup(t)
			after := func(id string, retention time.Duration) *durable.Job {
				return job(id, func(j *durable.Job) {
					j.Retention, j.Unique = retention, &durable.Unique{Key: "k", After: time.Hour}
				})
			}
			w := b.worker()
			b.store(after("x", 0))
			b.cancel("x")
			b.noKeys()
			for i, retention := range []time.Duration{0, time.Minute} {
				id := fmt.Sprint("a", i)
				b.store(after(id, retention))
				w.settle(durable.Done, w.take(1)...)
				if got := b.holder(after("b", 0)); got != id {
					t.Errorf("held by %q", got)
				}
				if ttl := b.rdb.PTTL(b.ctx, b.key("unique:k")).Val(); ttl <= 50*time.Minute || ttl > time.Hour {
					t.Error("of what is left:", ttl)
				}
				b.rdb.Del(b.ctx, b.key("unique:k"))
			}
		})

		t.Run("a dead job comes back with its key, if that is free", func(t *testing.T) {
			b := setup(t)
			w := b.worker()
			b.store(unique("a", "k"))
			w.settle(durable.Dead, w.take(1)...)
			redrive := func(s durable.Selection) string {
				h, err := b.list.Redrive(b.ctx, s)
				if err != nil || h.More() {
					t.Error(h, err)
				}
				return fmt.Sprint(h.IDs, h.Missed)
			}
			b.store(unique("b", "k"))
			if got := redrive(durable.Selection{IDs: []string{"a"}}); got != "[] [a]" {
				t.Error(got)
			}
			if got := redrive(durable.Selection{All: true}); got != "[] []" {
				t.Error(got)
			}
			b.places("1 0 0 1 0")
			w.settle(durable.Done, w.take(1)...)
			if got := redrive(durable.Selection{All: true}); got != "[a] []" {
				t.Error(got)
			}
			if got := b.holder(unique("c", "k")); got != "a" {
				t.Errorf("held by %q", got)
			}
			w.settle(durable.Done, w.take(1)...)
			b.noKeys()
		})

		t.Run("a trimmed dead letter that kept it frees it", func(t *testing.T) {
			t.Parallel()
			b := setupQueue(t, of, &durable.ListOptions{MaxDead: 1})
			dead := func(id string) *durable.Job {
				return job(id, func(j *durable.Job) {
					j.Unique = &durable.Unique{Key: "k", States: []durable.State{durable.StatePending, durable.StateDead}}
				})
			}
			w := b.worker()
			b.store(dead("a"))
			w.settle(durable.Dead, w.take(1)...)
			if got := b.holder(dead("b")); got != "a" {
				t.Errorf("held by %q", got)
			}
			b.append("x")
			w.settle(durable.Dead, w.take(1)...)
			b.noKeys()
			if got := b.holder(dead("b")); got != "" {
				t.Errorf("held by %q", got)
			}
		})

		t.Run("a job whose key was given to another does not free that", func(t *testing.T) {
			b := setup(t)
			w := b.worker()
			b.store(unique("a", "k"))
			w.settle(durable.Dead, w.take(1)...)
			b.store(unique("b", "k"))
			if _, err := b.list.Discard(b.ctx, durable.Selection{All: true}); err != nil {
				t.Error(err)
			}
			if got := b.holder(unique("c", "k")); got != "b" {
				t.Errorf("held by %q", got)
			}
		})

		t.Run("it is judged by the job, whoever wrote that", func(t *testing.T) {
			b := setup(t)
			b.rdb.HSet(b.ctx, b.key("job:a"), "payload", "p", "unique", "psr 0 k")
			b.rdb.HSet(b.ctx, b.key("unique:k"), "holder", "a")
			b.push("a")
			if got := b.holder(unique("b", "k")); got != "a" {
				t.Errorf("held by %q", got)
			}
			for _, wrong := range []string{"psr 0 another", "psr k", "sr 0 k", ""} {
				b.rdb.HSet(b.ctx, b.key("job:a"), "unique", wrong)
				if got := b.holder(unique("b"+wrong, "k")); got != "" {
					t.Errorf("with %q it is held by %q", wrong, got)
				}
				b.cancel("b" + wrong)
				b.rdb.HSet(b.ctx, b.key("unique:k"), "holder", "a")
			}
			b.rdb.Set(b.ctx, b.key("unique:text"), "x", 0)
			a, err := b.producer().Append(b.ctx, 1, []*durable.Job{unique("c", "text"), unique("d", "fine")})
			if err != nil || a.Taken != 2 || len(a.Refused) != 1 || a.Refused[0].Code != durable.RefusedBadKey {
				t.Errorf("%+v, %v", a, err)
			}
		})

		t.Run("late copies of requests change nothing", func(t *testing.T) {
			b := setup(t)
			p, w := b.producer(), b.worker()
			first := []*durable.Job{unique("a", "k"), unique("b", "k")}
			for range 2 { // the second one after the job is gone, and its key is another's
				a, err := p.Append(b.ctx, 1, first)
				if err != nil || a.Taken != 2 || len(a.Refused) != 1 || a.Refused[0].Holder != "a" {
					t.Errorf("%+v, %v", a, err)
				}
				if b.where("a") != "" {
					c := w.take(1)
					b.cancel("a")
					w.settle(durable.Snooze, c...)
					for range 2 {
						late := []durable.Outcome{{Ref: durable.Ref{ID: "a", Token: c[0].Token}, Verdict: durable.Done}}
						if s, err := w.Settle(b.ctx, w.settles+1, late); err != nil || codes(s) != "G" {
							t.Error(s, err)
						}
					}
					w.settles++
					b.store(unique("other", "k"))
				}
			}
			if a, err := p.Append(b.ctx, 2, jobsOf("c")); err != nil || a.Taken != 1 {
				t.Error(a, err)
			}
			if _, err := p.Append(b.ctx, 1, first); !is(err, durable.ErrOutdated) {
				t.Error(err)
			}
			b.places("2 0 0 0 0")
			if got := b.holder(unique("d", "k")); got != "other" {
				t.Errorf("held by %q", got)
			}
		})

		t.Run("a thousand at once are one", func(t *testing.T) {
			b := setup(t)
			const clients, each = 8, 125
			var group sync.WaitGroup
			stored := make(chan string, clients*each)
			for c := range clients {
				q := b.another(b.addr, b.info().Name, nil)
				group.Go(func() {
					p, err := q.OpenProducer(b.ctx)
					if err != nil {
						t.Error(err)
						return
					}
					for i := range each {
						id := fmt.Sprintf("%d-%d", c, i)
						a, err := p.Append(b.ctx, uint64(i+1), []*durable.Job{unique(id, "k")})
						switch {
						case err != nil || a.Taken != 1:
							t.Errorf("%+v, %v", a, err)
						case len(a.Refused) == 0:
							stored <- id
						}
					}
				})
			}
			group.Wait()
			if len(stored) != 1 {
				t.Fatal(len(stored), "were stored")
			}
			b.places("1 0 0 0 0")
		})
	})
}

// TestListDirectUnique hands over what has a key, and an end.
func TestListDirectUnique(t *testing.T) {
	t.Parallel()
	b := setupList(t, nil)
	w, p := b.worker(), b.producer()
	both := func(id string) *durable.Job {
		return job(id, func(j *durable.Job) {
			j.Expiry, j.Unique = time.Hour, &durable.Unique{Key: "k"}
		})
	}
	a, claims := w.direct(p, 1, 9, []*durable.Job{both("a"), both("b"), jobsOf("c")[0]})
	if idsOf(claims) != "a c" || len(a.Refused) != 1 || a.Refused[0].Holder != "a" {
		t.Fatalf("%q, %+v", idsOf(claims), a)
	}
	if b.lookup("a").Expires.IsZero() {
		t.Error("it never expires")
	}
	if got := b.holder(both("d")); got != "a" {
		t.Errorf("held by %q", got)
	}
	b.cancel("a")
	if got := w.cancels(); got != "a="+claims[0].Token {
		t.Error(got)
	}
	if got := w.settle(durable.Release, claims...); got != "CO" {
		t.Error(got)
	}
	b.noKeys()
	b.places("1 0 0 0 0")
}
