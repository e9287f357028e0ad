package durable_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

func setupSortedSet(t testing.TB) *bundle {
	t.Helper()
	return setupQueue(t, sortedSet, nil)
}

// score is an ID's in pending.
func (b *bundle) score(id string) float64 {
	b.Helper()
	score, err := b.rdb.ZScore(b.ctx, b.key("pending"), id).Result()
	if err != nil {
		b.Fatal(id, err)
	}
	return score
}

func TestSortedSetOrder(t *testing.T) {
	t.Parallel()

	t.Run("a plain producer's job is processed like any other, where its score says", func(t *testing.T) {
		t.Parallel()
		b := setupSortedSet(t)
		b.append("a", "b")
		for _, id := range []string{"first", "now", "last"} {
			b.rdb.HSet(b.ctx, b.key("job:"+id), "payload", id, "status", "pending", "attempts", 0)
		}
		micros := b.rdb.Time(b.ctx).Val().UnixMicro()
		b.rdb.Do(b.ctx, "ZADD", b.key("pending"), "-inf", "first")
		b.rdb.Do(b.ctx, "ZADD", b.key("pending"), micros, "now")
		b.rdb.Do(b.ctx, "ZADD", b.key("pending"), "+inf", "last")
		b.append("c")
		w := b.worker()
		c := w.take(6)
		if got := idsOf(c); got != "first a b now c last" {
			t.Fatal(got)
		}
		if c[0].Deliveries != 1 || string(c[0].Payload) != "first" {
			t.Errorf("%+v", c[0])
		}
		if got := w.settle(durable.Release, c...); got != "OOOOOO" { // also by scores that are no numbers to count with
			t.Fatal(got)
		}
		if c = w.take(6); idsOf(c) != "first a b now c last" {
			t.Fatal(idsOf(c))
		}
		w.settle(durable.Done, c...)
		b.places("0 0 0 0 0")
	})

	t.Run("what is returned comes back to its old place, in whatever order", func(t *testing.T) {
		t.Parallel()
		b := setupSortedSet(t)
		b.append("a", "b", "c", "d")
		one, two, leaver, lost := b.worker(), b.worker(), b.worker(), b.worker()
		before := b.score("a")
		a, bb := one.take(1), two.take(1)
		leaver.take(1)
		lost.take(1)
		b.rdb.HSet(b.ctx, b.key("sender:"+lost.ID()), "charge", "-")
		one.settle(durable.Release, a...)
		two.settle(durable.Release, bb...)
		if after := b.score("a"); after != before {
			t.Errorf("%.0f became %.0f", before, after)
		}
		b.expire(lost)
		b.sweep()
		if _, err := leaver.Leave(b.ctx); err != nil {
			t.Fatal(err)
		}
		if got := idsOf(b.worker().take(4)); got != "a b c d" {
			t.Fatal(got)
		}
	})

	t.Run("a clock that goes back, or a spoilt counter, does not change the order", func(t *testing.T) {
		t.Parallel()
		b := setupSortedSet(t)
		ahead := time.Now().Add(time.Hour).UnixMicro()
		b.append("a")
		b.rdb.HSet(b.ctx, b.key("counters"), "arrived", ahead) // as a clock an hour ahead has left it
		b.append("b")
		b.append("c", "d")
		if got := b.score("b") - float64(ahead); got != 1 {
			t.Errorf("b is %v after the last arrival", got)
		}
		w := b.worker()
		if got := idsOf(w.take(4)); got != "a b c d" {
			t.Fatal(got)
		}
		for _, spoilt := range []string{"x", "", "-5", "inf", "nan", "1e300", "0x10"} {
			b.rdb.HSet(b.ctx, b.key("counters"), "arrived", spoilt)
			b.append("e" + spoilt)
			if age := float64(time.Now().UnixMicro()) - b.score("e"+spoilt); math.Abs(age) > float64(patience.Microseconds()) {
				t.Errorf("after %q a job arrives %.0f µs ago", spoilt, age)
			}
		}
	})

	t.Run("scores are exact at the ends of their range", func(t *testing.T) {
		t.Parallel()
		b := setupSortedSet(t)
		var jobs []*durable.Job
		for _, p := range []int{-durable.MaxPriority, 0, durable.MaxPriority} {
			for i := range 300 {
				jobs = append(jobs, &durable.Job{ID: fmt.Sprint(p, ".", i), Priority: p})
			}
		}
		if a, err := b.producer().Append(b.ctx, 1, jobs); err != nil || a.Taken != len(jobs) {
			t.Fatal(a, err)
		}
		w := b.worker()
		for _, p := range []int{durable.MaxPriority, 0, -durable.MaxPriority} {
			for i, c := range w.take(300) {
				if want := fmt.Sprint(p, ".", i); c.ID != want {
					t.Fatalf("%s in place of %s", c.ID, want)
				}
			}
		}
	})

	t.Run("a place or a priority that is none does no harm", func(t *testing.T) {
		t.Parallel()
		b := setupSortedSet(t)
		w := b.worker()
		for i, spoilt := range []string{"x", "", "nan", "-nan", "0x", "1 2", "\x00", strings.Repeat("9", 400), "99999999"} {
			id := strconv.Itoa(i)
			b.append(id)
			c := w.take(1)
			b.rdb.HSet(b.ctx, b.key("job:"+id), "place", spoilt, "priority", spoilt)
			if got := w.settle(durable.Release, c...); got != "O" {
				t.Fatal(spoilt, got)
			}
			if c = w.take(1); c[0].ID != id || w.settle(durable.Snooze, c...) != "O" {
				t.Fatal(spoilt, c[0])
			}
			b.due()
			w.settle(durable.Done, w.take(1)...)
		}
		b.places("0 0 0 0 0")
	})

	t.Run("an entry of a dead job is dropped, and the ID used again has a new place", func(t *testing.T) {
		t.Parallel()
		b := setupSortedSet(t)
		b.append("a", "b")
		b.rdb.Del(b.ctx, b.key("job:a"))
		b.append("a")
		if got := idsOf(b.worker().take(2)); got != "b a" {
			t.Fatal(got)
		}
	})
}

func TestSortedSetIsNoList(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]maker{"a list": list, "a sorted set": sortedSet} {
		t.Run(name+" is refused by the other engine, also while nothing waits", func(t *testing.T) {
			t.Parallel()
			b := setupQueue(t, first, nil)
			second := sortedSet
			if _, set := b.list.(*durable.SortedSet); set {
				second = list
			}
			info, _ := b.list.Info()
			other := second(store(t, &redis.Options{Addr: b.addr}, nil), info.Name, nil)
			t.Cleanup(func() { _ = other.Close() })
			refused := func(when string) {
				t.Helper()
				before := b.dump()
				_, err1 := other.OpenProducer(b.ctx)
				_, err2 := other.OpenConsumer(b.ctx, long)
				_, err3 := other.Stats(b.ctx)
				_, err4 := other.Redrive(b.ctx, durable.Selection{All: true})
				for _, err := range []error{err1, err2, err3, err4, other.Check(b.ctx)} {
					if err == nil || !strings.Contains(err.Error(), b.prefix) {
						t.Errorf("%s: %v", when, err)
					}
				}
				if b.dump() != before {
					t.Errorf("%s: something was changed", when)
				}
			}
			b.producer()
			refused("nothing waits")
			b.append("a")
			refused("something waits")
			if got := idsOf(b.worker().take(1)); got != "a" {
				t.Error(got)
			}
		})
	}
}

func TestSortedSetWakes(t *testing.T) {
	t.Parallel()

	wake := func(b *bundle) int64 { return b.rdb.LLen(b.ctx, b.key("wake")).Val() }

	t.Run("wake holds one entry while something waits, and none otherwise", func(t *testing.T) {
		t.Parallel()
		b := setupSortedSet(t)
		w := b.worker()
		looks := func(when string, want int64) {
			t.Helper()
			if got := wake(b); got != want {
				t.Errorf("%s: %d entries in wake, want %d", when, got, want)
			}
		}
		b.append("a", "b")
		b.append("c")
		looks("appended", 1)
		for range 5 {
			b.rdb.LPush(b.ctx, b.key("wake"), "foreign")
		}
		c := w.take(2)
		looks("one left", 1)
		c = append(c, w.take(1)...)
		looks("all claimed", 0)
		w.settle(durable.Release, c[0])
		looks("released", 1)
		w.settle(durable.Dead, w.take(1)...)
		looks("claimed again", 0)
		if _, err := b.list.Redrive(b.ctx, durable.Selection{All: true}); err != nil {
			t.Fatal(err)
		}
		looks("redriven", 1)
		if _, err := b.list.Purge(b.ctx, durable.PurgeRequest{Confirm: strings.Trim(b.prefix, "{}:")}); err != nil {
			t.Fatal(err)
		}
		looks("purged", 0)
		w.settle(durable.Snooze, c[1])
		b.due()
		b.append("d", "e")
		w.take(2)
		looks("promoted, and one left", 1)
	})

	t.Run("a claim that leaves something wakes the next who is parked", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		b := setupQueueAt(t, sortedSet, s.Addr(), s.Client(t), "q", nil)
		parked, w := b.worker(), b.worker()
		for range 10 { // one Await that ran its full time by chance is not enough to pass
			b.append("a", "b")
			b.rdb.Del(b.ctx, b.key("wake")) // its entry is taken by who then claims but one
			start := time.Now()
			ended := make(chan time.Duration, 1)
			go func() {
				if err := parked.Await(b.ctx); err != nil {
					t.Error(err)
				}
				ended <- time.Since(start)
			}()
			eventually(b.ctx, func() bool {
				return strings.Contains(b.rdb.Info(b.ctx, "clients").Val(), "blocked_clients:1") || len(ended) > 0
			})
			waited := len(ended) == 0
			c := w.take(1)
			d := <-ended
			w.settle(durable.Done, append(c, w.take(1)...)...)
			if waited && d < durable.Park*3/4 {
				return
			}
		}
		t.Error("10 times nobody was woken")
	})

	t.Run("an entry that is lost costs a second, no more", func(t *testing.T) {
		t.Parallel()
		b := setupSortedSet(t)
		b.append("a")
		b.rdb.Del(b.ctx, b.key("wake")) // taken by a process that died then
		w := b.worker()
		_ = w.Await(b.ctx)
		if got := idsOf(w.claim(1).Jobs); got != "a" {
			t.Error(got)
		}
	})
}

func TestSortedSetOptions(t *testing.T) {
	t.Parallel()
	s := store(t, &redis.Options{Addr: redistest.Addr(t)}, nil)
	for name, opts := range map[string]durable.SortedSetOptions{
		"SortedSetOptions.MaxBacklog": {MaxBacklog: -1},
		"SortedSetOptions.MaxCrashes": {MaxCrashes: -1},
		"SortedSetOptions.Prefix":     {Prefix: strings.Repeat("x", 300)},
		"SortedSetOptions.Ageing is":  {Ageing: -1},
		"Ageing is 1ns":               {Ageing: 1},
		"Ageing is 9000h":             {Ageing: 9000 * time.Hour},
	} {
		if _, err := s.SortedSet("q", &opts).Info(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := durable.NewMemory(&durable.MemoryOptions{Ageing: -1})
	if _, err := m.Info(); err == nil || !strings.Contains(err.Error(), "MemoryOptions.Ageing") {
		t.Error(err)
	}

	b := setupSortedSet(t)
	b.producer()
	name := strings.Trim(b.prefix, "{}:")
	other := s.SortedSet(name, &durable.SortedSetOptions{Ageing: time.Minute})
	if warnings, err := other.Inspect(b.ctx); err != nil || len(warnings) != 1 || !strings.HasPrefix(warnings[0], "Ageing is 1m0s here, and was 8784h0m0s ") {
		t.Errorf("%q, %v", warnings, err)
	}
	if warnings, err := b.list.Inspect(b.ctx); err != nil || len(warnings) != 0 {
		t.Errorf("%q, %v", warnings, err)
	}
	_ = other.Close()
}
