package local_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

func TestFrontTellsFullAndNotFull(t *testing.T) {
	t.Parallel()

	// told makes a front of four that notes what it tells.
	told := func(t *testing.T, o local.FrontOptions[int]) (*local.Front[int], *[]bool) {
		t.Helper()
		var turns []bool
		o.Full = func(full bool) { turns = append(turns, full) }
		return newFront(t, &o), &turns
	}
	expect := func(t *testing.T, turns *[]bool, when string, want ...bool) {
		t.Helper()
		if !slices.Equal(*turns, want) {
			t.Errorf("%s: %v, want %v", when, *turns, want)
		}
	}

	t.Run("once each, with a distance between them", func(t *testing.T) {
		t.Parallel()
		f, turns := told(t, local.FrontOptions[int]{Capacity: 4})
		mustAdmit(t, f, 0, 1, 2, 3)
		expect(t, turns, "at 3 of 4")
		mustAdmit(t, f, 0, 4)
		expect(t, turns, "at 4", true)
		mustReject(t.Context(), t, f, 5, 0, policy.Reject(), policy.ReasonFull)
		f.Release(f.TryTake(nil, 1, 0)...)
		mustAdmit(t, f, 0, 5)
		expect(t, turns, "between the marks", true)
		f.Release(f.TryTake(nil, 2, 0)...)
		expect(t, turns, "at 2", true, false)
		mustAdmit(t, f, 0, 6)
		expect(t, turns, "between the marks again", true, false)
		mustAdmit(t, f, 0, 7)
		expect(t, turns, "at 4 again", true, false, true)
		mustDisplace := func() {
			if ok, err := f.Admit(t.Context(), 8, 0, policy.DropOldest()); !ok || err != nil {
				t.Error(ok, err)
			}
		}
		mustDisplace()
		f.Release(f.Drain()...)
		expect(t, turns, "empty", true, false, true, false)
	})

	t.Run("of bytes too, and when a job finds no room before the mark", func(t *testing.T) {
		t.Parallel()
		f, turns := told(t, local.FrontOptions[int]{Capacity: 100, Bytes: 100})
		mustAdmit(t, f, 70, 1)
		expect(t, turns, "at 70 of 100")
		if ok, err := f.Admit(t.Context(), 2, 40, policy.DropIncoming()); ok || err != nil {
			t.Fatal(ok, err)
		}
		expect(t, turns, "no room for 40", true)
		f.Release(f.Drain()...)
		expect(t, turns, "empty", true, false)
	})

	t.Run("a job too large for what is left of a nearly empty front is not worth telling", func(t *testing.T) {
		t.Parallel()
		f, turns := told(t, local.FrontOptions[int]{Capacity: 100, Bytes: 100})
		mustAdmit(t, f, 30, 1)
		mustReject(t.Context(), t, f, 2, 90, policy.Reject(), policy.ReasonFull)
		expect(t, turns, "at 30 of 100")
	})

	t.Run("not full is not told while somebody waits", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f, turns := told(t, local.FrontOptions[int]{Capacity: 100, Bytes: 100})
			mustAdmit(t, f, 40, 1, 2)
			o := admitting(t.Context(), f, 3, 90, policy.Wait(time.Minute))
			synctest.Wait()
			expect(t, turns, "90 waits", true)
			f.Release(f.TryTake(nil, 1, 0)...)
			expect(t, turns, "at 40, 90 waits", true)
			f.Release(f.Drain()...)
			synctest.Wait()
			if !o.accepted() {
				t.Errorf("%v", o)
			}
			expect(t, turns, "at 90", true)
			f.Release(f.Drain()...)
			expect(t, turns, "empty", true, false)
		})
	})

	t.Run("the hook may call the front", func(t *testing.T) {
		t.Parallel()
		var f *local.Front[int]
		var turns []bool
		f = newFront(t, &local.FrontOptions[int]{Capacity: 2, Full: func(full bool) {
			turns = append(turns, full)
			if full {
				f.Release(f.Drain()...) // it makes room by itself
			}
		}})
		mustAdmit(t, f, 0, 1, 2)
		if !slices.Equal(turns, []bool{true, false}) || f.Stats().Length != 0 {
			t.Errorf("%v, %+v", turns, f.Stats())
		}
	})

	t.Run("under races they come in turns, and the last one is true", func(t *testing.T) {
		t.Parallel()
		var mu sync.Mutex
		var turns []bool
		f := newFront(t, &local.FrontOptions[int]{Capacity: 3, Full: func(full bool) {
			if !mu.TryLock() {
				t.Error("told by two at once")
				return
			}
			turns = append(turns, full)
			runtime.Gosched() // others get a chance to be told meanwhile
			mu.Unlock()
		}})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 5000 {
					if rand.IntN(2) == 0 {
						f.Admit(context.Background(), 0, 0, policy.Reject()) //nolint:errcheck // either will do
					} else {
						f.Release(f.TryTake(nil, rand.IntN(3), 0)...)
					}
				}
			})
		}
		wg.Wait()
		f.Release(f.Drain()...)
		if len(turns) == 0 || turns[len(turns)-1] {
			t.Errorf("%d turns, the last one: full", len(turns))
		}
		for i, full := range turns {
			if full != (i%2 == 0) {
				t.Fatalf("turn %d: %v", i, full)
			}
		}
	})

	t.Run("bad marks are refused by name", func(t *testing.T) {
		t.Parallel()
		_, err := local.NewFront(&local.FrontOptions[int]{Marks: policy.Marks{High: 2}})
		if err == nil || !strings.Contains(err.Error(), "FrontOptions.Marks") || !strings.Contains(err.Error(), "Marks.High") {
			t.Error(err)
		}
	})
}
