package local_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// drained is a front with that many slots held, from which one is released every interval,
// in the time given, while it is kept full.
func drained(t *testing.T, f *local.Front[int], interval, during time.Duration, batch int) {
	t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); {
		time.Sleep(interval)
		slots := f.TryTake(nil, batch, 1<<20)
		f.Release(slots...)
		for range slots {
			mustAdmit(t, f, 1, 0)
		}
	}
}

func filled(t *testing.T, n int) *local.Front[int] {
	t.Helper()
	f := newFront(t, &local.FrontOptions[int]{Capacity: n, MaxRetryAfter: time.Hour})
	for i := range n {
		mustAdmit(t, f, 1, i)
	}
	return f
}

// retryAfter is the mean of some, for they are jittered.
func retryAfter(t *testing.T, f *local.Front[int]) time.Duration {
	t.Helper()
	const n = 50
	total := time.Duration(0)
	for range n {
		total += mustReject(t.Context(), t, f, 0, 1, policy.Reject(), policy.ReasonFull).RetryAfter
	}
	return total / n
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		slots    int // so few that twice the truth is below the limit
		interval time.Duration
		batch    int
	}{
		"one every 10 ms":           {1000, 10 * time.Millisecond, 1},
		"256 every 100 ms":          {1000, 100 * time.Millisecond, 256},
		"one every 3 s":             {300, 3 * time.Second, 1},
		"three at once every 2 min": {30, 2 * time.Minute, 3},
	} {
		t.Run("doubles when the drain rate is halved: "+name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := filled(t, c.slots)
				before := 20 * c.interval
				drained(t, f, c.interval, max(before, 5*time.Second), c.batch)
				fast := retryAfter(t, f)
				truth := c.interval * time.Duration(c.slots) / time.Duration(c.batch)
				if r := ratio(fast, truth); r < 0.9 || r > 1.1 {
					t.Errorf("retry after %v, the truth is %v", fast, truth)
				}
				drained(t, f, 2*c.interval, max(before, 5*time.Second), c.batch)
				if r := ratio(retryAfter(t, f), fast); r < 1.4 || r > 2.6 {
					t.Errorf("it grew by %.2f", r)
				}
			})
		})
	}
	t.Run("is the limit while nothing has drained", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newFront(t, &local.FrontOptions[int]{Capacity: 1, MaxRetryAfter: 7 * time.Second})
			mustAdmit(t, f, 1, 0)
			time.Sleep(time.Hour)
			if d := retryAfter(t, f); d != 7*time.Second {
				t.Errorf("%v", d)
			}
		})
	})
	t.Run("is spread, and stays between a millisecond and the limit", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := filled(t, 100)
			drained(t, f, 10*time.Millisecond, 5*time.Second, 1)
			seen := map[time.Duration]bool{}
			for range 100 {
				d := mustReject(t.Context(), t, f, 0, 1, policy.Reject(), policy.ReasonFull).RetryAfter
				if d < 850*time.Millisecond || d > 1150*time.Millisecond {
					t.Errorf("%v, about a second is right", d)
				}
				seen[d] = true
			}
			if len(seen) < 90 {
				t.Errorf("only %d different of 100", len(seen))
			}
			f.Release(f.Drain()...) // all in no time
			if d := mustReject(t.Context(), t, f, 0, 1, policy.Shed(), policy.ReasonShed).RetryAfter; d != time.Millisecond {
				t.Errorf("%v from an empty front", d)
			}
		})
	})
	t.Run("grows while the drain stands still", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := filled(t, 100)
			drained(t, f, time.Millisecond, 5*time.Second, 1)
			last := retryAfter(t, f)
			for range 6 {
				time.Sleep(5 * time.Second)
				next := retryAfter(t, f)
				if next <= last {
					t.Errorf("from %v to %v", last, next)
				}
				last = next
			}
			if last < 20*time.Second {
				t.Errorf("after half a minute without a release: %v", last)
			}
			if rate := f.Stats().DrainRate; rate < 1.0/30 {
				t.Errorf("it looks slower than can be known: %v", rate)
			}
		})
	})
	t.Run("stands still after any speed alike", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := filled(t, 1000)
			drained(t, f, time.Millisecond, time.Second, 500)
			time.Sleep(20 * time.Second)
			if rate := f.Stats().DrainRate; rate < 1.0/20 || rate > 1.0/10 {
				t.Errorf("20 seconds after half a million a second: %v", rate)
			}
		})
	})
	t.Run("idleness is no slowness", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := filled(t, 10)
			drained(t, f, 10*time.Millisecond, 5*time.Second, 1)
			busy := f.Stats().DrainRate
			f.Release(f.Drain()...)
			after := f.Stats().DrainRate
			time.Sleep(24 * time.Hour)
			if rate := f.Stats().DrainRate; rate != after || busy < 90 || busy > 110 {
				t.Errorf("busy %v, emptied %v, a day later %v", busy, after, rate)
			}
		})
	})
}

func TestPrediction(t *testing.T) {
	t.Parallel()
	t.Run("a hopeless wait is refused at once, a hopeful one waits", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := filled(t, 10)
			drained(t, f, 100*time.Millisecond, 5*time.Second, 1)
			rej := mustReject(t.Context(), t, f, 0, 1, policy.Wait(50*time.Millisecond), policy.ReasonPredicted)
			if rej.Waited != 0 || !errors.Is(rej, policy.ErrFull) || ratio(rej.RetryAfter, time.Second) < 0.8 {
				t.Errorf("%+v", rej)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			mustReject(ctx, t, f, 0, 1, policy.Wait(0), policy.ReasonPredicted)
			mustReject(ctx, t, f, 0, 1, policy.Wait(time.Hour), policy.ReasonPredicted)

			first := admitting(t.Context(), f, 1, 1, policy.Wait(150*time.Millisecond))
			mustReject(t.Context(), t, f, 0, 1, policy.Wait(150*time.Millisecond), policy.ReasonPredicted) // the second in line
			second := admitting(t.Context(), f, 2, 1, policy.Wait(250*time.Millisecond))
			if first.done() || second.done() {
				t.Fatalf("%+v, %v", first, second)
			}
			for range 2 {
				time.Sleep(100 * time.Millisecond)
				f.Release(f.TryTake(nil, 1, 0)...)
			}
			synctest.Wait()
			if !first.accepted() || !second.accepted() {
				t.Errorf("%+v, %v", first, second)
			}
			balanced(t, f)
		})
	})
	t.Run("nothing is predicted before anything has drained", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f, _ := fullFront(t)
			time.Sleep(time.Hour)
			o := admitting(t.Context(), f, 1, 1, policy.Wait(time.Nanosecond))
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if o.reason(t) != policy.ReasonTimeout {
				t.Errorf("%v", o)
			}
		})
	})
	// A drain estimate that fades to nothing between two releases refuses waits that succeed.
	t.Run("a drain of one a minute does not look dead", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := filled(t, 2)
			drained(t, f, time.Minute, 5*time.Minute, 1)
			for range 5 {
				o := admitting(t.Context(), f, 1, 1, policy.Wait(2*time.Minute))
				time.Sleep(59 * time.Second)
				late := admitting(t.Context(), f, 2, 1, policy.Wait(2*time.Minute+time.Second))
				if o.done() || late.done() {
					t.Fatalf("%+v, %v", o, late)
				}
				time.Sleep(time.Second)
				f.Release(f.TryTake(nil, 1, 0)...)
				time.Sleep(time.Minute)
				f.Release(f.TryTake(nil, 1, 0)...)
				synctest.Wait()
				if !o.accepted() || !late.accepted() {
					t.Fatalf("%+v, %v", o, late)
				}
			}
		})
	})
}

func TestSnapshotTimes(t *testing.T) {
	t.Parallel()
	look := func(t *testing.T, f *local.Front[int]) (got policy.Snapshot) {
		t.Helper()
		p := policy.Func(func(s policy.Snapshot) policy.Policy {
			got = s
			return policy.Shed()
		})
		mustReject(t.Context(), t, f, 0, 1, p, policy.ReasonShed)
		return got
	}
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, &local.FrontOptions[int]{Capacity: 10})
		want := func(what string, head, smallest, since time.Duration) {
			t.Helper()
			s := look(t, f)
			if s.HeadSojourn != head || s.MinSojourn != smallest || s.SinceEmpty != since {
				t.Errorf("%s: head %v, smallest %v, since empty %v; want %v, %v, %v",
					what, s.HeadSojourn, s.MinSojourn, s.SinceEmpty, head, smallest, since)
			}
		}
		time.Sleep(time.Hour)
		want("empty", 0, 0, 0)
		mustAdmit(t, f, 1, 1)
		time.Sleep(30 * ms)
		want("one waits, none was ever taken", 30*ms, 30*ms, 30*ms)
		mustAdmit(t, f, 1, 2, 3)
		slots := f.TryTake(nil, 1, 0)
		want("taken after 30 ms", 30*ms, 30*ms, 30*ms)
		time.Sleep(10 * ms)
		slots = f.TryTake(slots, 1, 0)
		want("the next after 10", 10*ms, 10*ms, 40*ms)
		time.Sleep(50 * ms)
		want("nothing for 50", 50*ms, 10*ms, 90*ms)
		slots = f.TryTake(slots, 1, 0)
		want("the third after 60", 60*ms, 10*ms, 90*ms)
		time.Sleep(70 * ms)
		want("the second is out of the window", 70*ms, 60*ms, 160*ms)
		time.Sleep(200 * ms)
		want("all are", 270*ms, 270*ms, 360*ms)
		f.Release(slots...)
		want("emptied", 0, 0, 0)
		time.Sleep(time.Hour)
		mustAdmit(t, f, 1, 4)
		time.Sleep(5 * ms)
		want("a long idle time and an old sojourn do not count", 5*ms, 5*ms, 5*ms)
	})
}

// Nobody looks at sojourns but a Func, and accepts do not read the clock for nobody.
func TestSojournsCountFromTheFirstFuncOn(t *testing.T) {
	t.Parallel()
	var got policy.Snapshot
	look := policy.Func(func(s policy.Snapshot) policy.Policy {
		got = s
		return policy.Reject()
	})
	for _, c := range []struct {
		name    string
		initial policy.Policy
		unseen  time.Duration // of the hour before the first call with it
	}{
		{"that a call has", policy.Reject(), 0},
		{"that is the default", look, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) { // one after the other: both write got
			synctest.Test(t, func(t *testing.T) {
				p := newPool(t, &local.PoolOptions{Workers: 1, Capacity: 2, Policy: c.initial})
				g := occupy(t, p)
				mustSubmit(t, p, noTask)
				time.Sleep(time.Hour)
				seen := func(want time.Duration) {
					t.Helper()
					if _, err := p.Submit(t.Context(), noTask, look); got.HeadSojourn != want || got.MinSojourn != want {
						t.Errorf("%+v, want %v; %v", got, want, err)
					}
				}
				seen(c.unseen)
				time.Sleep(time.Second)
				seen(c.unseen + time.Second)
				close(g.let)
				synctest.Wait()
				seen(c.unseen + time.Second)
			})
		})
	}
}
