package local_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

func TestDropOldest(t *testing.T) {
	t.Parallel()
	type sized struct {
		name string
		size int64
	}
	setup := func(t *testing.T, o local.FrontOptions[string], jobs ...sized) (*local.Front[string], *[]string) {
		t.Helper()
		var told []string
		o.Evicted = func(job string) { told = append(told, job) }
		f := newFront(t, &o)
		for _, j := range jobs {
			mustAdmit(t, f, j.size, j.name)
		}
		return f, &told
	}
	admit := func(t *testing.T, f *local.Front[string], job string, size int64) {
		t.Helper()
		if ok, err := f.Admit(t.Context(), job, size, policy.DropOldest()); !ok || err != nil {
			t.Fatalf("%s: %v, %v", job, ok, err)
		}
	}
	three := []sized{{"a", 30}, {"b", 30}, {"c", 30}}

	t.Run("takes a free slot without evicting", func(t *testing.T) {
		t.Parallel()
		f, told := setup(t, local.FrontOptions[string]{Capacity: 4}, three...)
		admit(t, f, "d", 1)
		if len(*told) != 0 {
			t.Errorf("evicted %v", *told)
		}
	})
	t.Run("evicts the oldest, and tells before it returns", func(t *testing.T) {
		t.Parallel()
		f, told := setup(t, local.FrontOptions[string]{Capacity: 3}, three...)
		admit(t, f, "d", 30)
		if !slices.Equal(*told, []string{"a"}) {
			t.Errorf("told of %v", *told)
		}
		if _, jobs := takeAll(f); !slices.Equal(jobs, []string{"b", "c", "d"}) {
			t.Errorf("left %v", jobs)
		}
		if s := balanced(t, f); s.Evicted != 1 || s.Accepted != 4 || s.HighWater != 3 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("evicts as many as the bytes need, and no more", func(t *testing.T) {
		t.Parallel()
		f, told := setup(t, local.FrontOptions[string]{Capacity: 9, Bytes: 100}, three...)
		admit(t, f, "d", 70) // 10 are free
		if !slices.Equal(*told, []string{"a", "b"}) {
			t.Errorf("told of %v", *told)
		}
		if s := balanced(t, f); s.Bytes != 100 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("evicts nothing if it would not fit even so", func(t *testing.T) {
		t.Parallel()
		f, told := setup(t, local.FrontOptions[string]{Capacity: 3, Bytes: 90}, three...)
		held := f.TryTake(nil, 1, 0)
		mustReject(t.Context(), t, f, "d", 61, policy.DropOldest(), policy.ReasonFull)
		held = f.TryTake(held, 9, 99)
		mustReject(t.Context(), t, f, "d", 1, policy.DropOldest(), policy.ReasonFull)
		if len(*told) != 0 {
			t.Errorf("told of %v", *told)
		}
		f.Release(held...)
		if s := balanced(t, f); s.Evicted != 0 || s.Length != 0 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("reaches a job that a Take left because of its size", func(t *testing.T) {
		t.Parallel()
		f, told := setup(t, local.FrontOptions[string]{Capacity: 3}, three...)
		f.TryTake(nil, 9, 30) // b has been looked at, and put back
		admit(t, f, "d", 1)
		if !slices.Equal(*told, []string{"b"}) {
			t.Errorf("told of %v", *told)
		}
		if _, jobs := takeAll(f); !slices.Equal(jobs, []string{"c", "d"}) {
			t.Errorf("left %v", jobs)
		}
	})
	t.Run("passes the slot in place: no waiter is overtaken, no waiter gains", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f, told := setup(t, local.FrontOptions[string]{Capacity: 3}, three...)
			w := admitting(t.Context(), f, "waiter", 30, policy.Wait(time.Hour))
			admit(t, f, "d", 30)
			synctest.Wait()
			if w.done() || !slices.Equal(*told, []string{"a"}) {
				t.Errorf("%v, told of %v", w, *told)
			}
			f.Release(f.TryTake(nil, 1, 0)...)
			synctest.Wait()
			if _, jobs := takeAll(f); !w.accepted() || !slices.Equal(jobs, []string{"c", "d", "waiter"}) {
				t.Errorf("left %v", jobs)
			}
		})
	})
	t.Run("free bytes belong to the one who waits for them", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f, told := setup(t, local.FrontOptions[string]{Capacity: 9, Bytes: 100}, three...)
			w := admitting(t.Context(), f, "waiter", 35, policy.Wait(time.Hour)) // of which 10 are there
			admit(t, f, "d", 35)
			if !slices.Equal(*told, []string{"a", "b"}) { // a alone and the 10 would have done
				t.Errorf("told of %v", *told)
			}
			synctest.Wait()
			if !w.accepted() { // what b left over is enough now
				t.Errorf("the waiter did not get what was left over: %v", w)
			}
			if s := balanced(t, f); s.Bytes != 100 || s.HighWater != 3 {
				t.Errorf("%+v", s)
			}
		})
	})
	t.Run("in a front of one the front never looks empty", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f, _ := setup(t, local.FrontOptions[string]{Capacity: 1}, sized{"a", 1})
			time.Sleep(time.Second)
			admit(t, f, "b", 1)
			var since time.Duration
			p := policy.Func(func(s policy.Snapshot) policy.Policy {
				since = s.SinceEmpty
				return policy.Shed()
			})
			mustReject(t.Context(), t, f, "c", 1, p, policy.ReasonShed)
			if since != time.Second {
				t.Errorf("since empty: %v", since)
			}
		})
	})
	t.Run("the callback may use the front", func(t *testing.T) {
		t.Parallel()
		var f *local.Front[int]
		var depth []int
		f = newFront(t, &local.FrontOptions[int]{Capacity: 1, Evicted: func(int) { depth = append(depth, f.Stats().Length) }})
		mustAdmit(t, f, 1, 1)
		if ok, err := f.Admit(t.Context(), 2, 1, policy.DropOldest()); !ok || !slices.Equal(depth, []int{1}) {
			t.Errorf("%v, %v, %v", ok, err, depth)
		}
	})
}
