package durable_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

func (b *streamBundle) holder(j *durable.Job) string {
	b.Helper()
	return holderOf(b.ctx, b, b.producer(), j)
}

// free checks that nobody has the key k, and that nothing is left of it.
func (b *streamBundle) free(when string) {
	b.Helper()
	if keys := b.keysLike("unique:*"); len(keys) > 0 {
		b.Errorf("%s: left: %q", when, keys)
	}
	j := unique(fmt.Sprint("after ", when), "k")
	if by := b.holder(j); by != "" {
		b.Errorf("%s: the key is %q's", when, by)
	}
}

func TestStreamUnique(t *testing.T) {
	t.Parallel()

	t.Run("one at a time, also in a batch, and the answer is remembered", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		b.worker()
		p := b.producer()
		for range 2 {
			a, err := p.Append(b.ctx, 1, []*durable.Job{unique("a", "k"), unique("b,", "other"), unique("c", "k"), unique("d", "other")})
			if err != nil || a.Taken != 4 || !slices.Equal(a.Refused, []durable.Refusal{{Pos: 2, Code: 'U', Holder: "a"}, {Pos: 3, Code: 'U', Holder: "b,"}}) {
				t.Fatal(a, err)
			}
		}
		if by := b.holder(unique("e", "k")); by != "a" {
			t.Error("the key is", by)
		}
		if r, err := b.stream.Lookup(b.ctx, durable.LookupRequest{ID: "a"}); err != nil || r.UniqueKey != "k" {
			t.Error(r, err)
		}
	})

	t.Run("whatever ends the holder frees its key", func(t *testing.T) {
		t.Parallel()
		run := func(v durable.Verdict) func(*streamBundle, *streamWorker) {
			return func(_ *streamBundle, w *streamWorker) { w.settle(v, w.take(1)...) }
		}
		purge := func(s durable.State) func(*streamBundle, *streamWorker) {
			return func(b *streamBundle, _ *streamWorker) {
				if _, err := b.stream.Purge(b.ctx, durable.PurgeRequest{Confirm: b.name, States: []durable.State{s}}); err != nil {
					t.Error(err)
				}
			}
		}
		cancel := func(b *streamBundle, _ *streamWorker) { b.cancel("a") }
		dead := []durable.State{durable.StatePending, durable.StateDead}
		for _, end := range []struct {
			when string
			job  durable.Job
			end  func(*streamBundle, *streamWorker)
		}{
			{"done", durable.Job{}, run(durable.Done)},
			{"done, and its record kept", durable.Job{Retention: time.Hour}, run(durable.Done)},
			{"dead", durable.Job{}, run(durable.Dead)},
			{"cancelled", durable.Job{}, cancel},
			{"cancelled, and its record kept", durable.Job{Retention: time.Hour}, cancel},
			{"cancelled before it was due", durable.Job{Delay: time.Hour}, cancel},
			{"cancelled before it was due, and its record kept", durable.Job{Delay: time.Hour, Retention: time.Hour}, cancel},
			{"cancelled while it ran", durable.Job{}, func(b *streamBundle, w *streamWorker) {
				c := w.take(1)
				b.cancel("a")
				w.settle(durable.Release, c...)
			}},
			{"expired", durable.Job{Expiry: time.Millisecond}, func(b *streamBundle, w *streamWorker) {
				b.outlive("a")
				w.nothing()
			}},
			{"lost too often", durable.Job{}, func(b *streamBundle, w *streamWorker) {
				w.take(1)
				b.expire(w)
				b.sweep()
			}},
			{"purged", durable.Job{}, purge(durable.StatePending)},
			{"purged before it was due", durable.Job{Delay: time.Hour}, purge(durable.StateScheduled)},
			{"purged when dead", durable.Job{Unique: &durable.Unique{States: dead}}, func(b *streamBundle, w *streamWorker) {
				w.settle(durable.Dead, w.take(1)...)
				purge(durable.StateDead)(b, w)
			}},
			{"discarded", durable.Job{Unique: &durable.Unique{States: dead}}, func(b *streamBundle, w *streamWorker) {
				w.settle(durable.Dead, w.take(1)...)
				if by := b.holder(unique("b", "k")); by != "a" {
					t.Error("a dead one has lost its key to", by)
				}
				if h, err := b.stream.Discard(b.ctx, durable.Selection{IDs: []string{"a"}}); err != nil || len(h.IDs) != 1 {
					t.Error(h, err)
				}
			}},
		} {
			b := setupStream(t, &durable.StreamOptions{MaxCrashes: 1})
			w, j := b.worker(), end.job
			j.ID = "a"
			if j.Unique == nil {
				j.Unique = &durable.Unique{}
			}
			j.Unique.Key = "k"
			if by := b.holder(&j); by != "" || b.holder(unique("b", "k")) != "a" {
				t.Fatal("the key is not a's but", by)
			}
			end.end(b, w)
			b.free(end.when)
		}
	})

	t.Run("it is kept until the last group is done with the holder", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		other, third := b.group("other", durable.StreamOptions{}), b.group("third", durable.StreamOptions{})
		w, o, x := b.worker(), other.worker(), third.worker()
		b.holder(unique("a", "k"))
		w.settle(durable.Done, w.take(1)...)
		c := o.take(1)
		x.settle(durable.Dead, x.take(1)...)
		if by := b.holder(unique("b", "k")); by != "a" {
			t.Errorf("the key is %q's", by)
		}
		o.settle(durable.Retry, c...)
		if by := b.holder(unique("b", "k")); by != "a" {
			t.Errorf("the key is %q's", by)
		}
		other.due()
		o.settle(durable.Done, o.take(1)...)
		b.free("the last group")
	})

	t.Run("it is kept for its window, and after completion", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		w := b.worker()
		for _, u := range []durable.Unique{{Key: "window", Window: time.Hour}, {Key: "after", After: time.Hour}} {
			b.holder(&durable.Job{ID: u.Key, Unique: &u})
			w.settle(durable.Done, w.take(1)...)
			if by := b.holder(unique("b", u.Key)); by != u.Key {
				t.Errorf("%s: the key is %q's", u.Key, by)
			}
			if ttl := b.rdb.PTTL(b.ctx, b.key("unique:"+u.Key)).Val(); ttl <= 0 || ttl > time.Hour {
				t.Error("time to live:", ttl)
			}
		}
	})

	t.Run("a redriven job has it again, if nobody else has it", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		w := b.worker()
		b.holder(unique("a", "k"))
		w.settle(durable.Dead, w.take(1)...)
		b.holder(unique("b", "k"))
		sel := durable.Selection{IDs: []string{"a"}}
		if h, err := b.stream.Redrive(b.ctx, sel); err != nil || !slices.Equal(h.Missed, sel.IDs) {
			t.Error(h, err)
		}
		w.settle(durable.Done, w.take(1)...)
		if h, err := b.stream.Redrive(b.ctx, sel); err != nil || !slices.Equal(h.IDs, sel.IDs) {
			t.Error(h, err)
		}
		if by := b.holder(unique("c", "k")); by != "a" {
			t.Errorf("the key is %q's", by)
		}
		w.settle(durable.Done, w.take(1)...)
		b.free("redriven, and done")
	})

	t.Run("a redriven job has it beyond its window", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		w := b.worker()
		b.holder(&durable.Job{ID: "a", Unique: &durable.Unique{Key: "k", Window: time.Hour}})
		w.settle(durable.Dead, w.take(1)...)
		if _, err := b.stream.Redrive(b.ctx, durable.Selection{All: true}); err != nil {
			t.Fatal(err)
		}
		if ttl := b.rdb.PTTL(b.ctx, b.key("unique:k")).Val(); ttl != -1 {
			t.Error("the key of a job that is there expires in", ttl)
		}
		if till, _ := b.rdb.HGet(b.ctx, b.key("unique:k"), "until_ms").Int64(); till == 0 {
			t.Error("its window is forgotten")
		}
		b.rdb.HSet(b.ctx, b.key("unique:k"), "until_ms", "1") // it is over
		if by := b.holder(unique("b", "k")); by != "a" {
			t.Errorf("the key is %q's", by)
		}
		w.settle(durable.Done, w.take(1)...)
		b.free("done")
	})

	t.Run("who has vanished keeps nothing", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		b.worker()
		b.holder(unique("a", "k"))
		b.rdb.Del(b.ctx, b.key("job:a"))
		if by := b.holder(unique("b", "k")); by != "" {
			t.Errorf("the key is %q's", by)
		}
		b.rdb.XTrimMaxLen(b.ctx, b.key("stream"), 0)
		if by := b.holder(unique("c", "k")); by != "" {
			t.Errorf("the key is %q's", by)
		}
	})
}
