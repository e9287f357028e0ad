package local_test

import (
	"testing"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

func TestBarrier(t *testing.T) {
	t.Parallel()
	t.Run("is down when the front is empty", func(t *testing.T) {
		t.Parallel()
		f := newFront[int](t, nil)
		if !isClosed(f.Barrier()) {
			t.Error("it stands")
		}
		mustAdmit(t, f, 1, 1)
		f.Release(f.Drain()...)
		if !isClosed(f.Barrier()) {
			t.Error("it stands though all is released")
		}
	})
	t.Run("falls with the last of those before it, whatever comes after", func(t *testing.T) {
		t.Parallel()
		f := newFront[int](t, nil)
		mustAdmit(t, f, 1, 1, 2)
		b := f.Barrier()
		mustAdmit(t, f, 1, 3)
		s := f.Drain()
		f.Release(s[0])
		f.Release(s[2]) // not before it
		if isClosed(b) {
			t.Error("down with one still held")
		}
		f.Release(s[1])
		if !isClosed(b) {
			t.Error("it stands")
		}
	})
	t.Run("a second one at the same place falls with the first", func(t *testing.T) {
		t.Parallel()
		f := newFront[int](t, nil)
		mustAdmit(t, f, 1, 1)
		b1, b2 := f.Barrier(), f.Barrier()
		f.Release(f.Drain()...)
		if !isClosed(b1) || !isClosed(b2) {
			t.Error("one stands")
		}
	})
	t.Run("a later one waits for the earlier, though its own are gone", func(t *testing.T) {
		t.Parallel()
		f := newFront[int](t, nil)
		mustAdmit(t, f, 1, 1)
		b1 := f.Barrier()
		mustAdmit(t, f, 1, 2)
		b2 := f.Barrier()
		s := f.Drain()
		f.Release(s[1])
		if b3 := f.Barrier(); isClosed(b2) || isClosed(b3) {
			t.Error("down before the first")
		}
		f.Release(s[0])
		if !isClosed(b1) || !isClosed(b2) || !isClosed(f.Barrier()) {
			t.Error("one stands")
		}
	})
	t.Run("evictions around a job that is held count for the evicted, not for it", func(t *testing.T) {
		t.Parallel()
		f := newFront(t, &local.FrontOptions[int]{Capacity: 2})
		mustAdmit(t, f, 1, 1, 2)
		held := f.TryTake(nil, 1, 0)
		b := f.Barrier()
		for i := range 5 {
			if ok, err := f.Admit(t.Context(), i, 1, policy.DropOldest()); !ok {
				t.Fatal(err)
			}
		}
		if isClosed(b) {
			t.Error("down while the first is held")
		}
		f.Release(held...)
		if !isClosed(b) {
			t.Error("it stands for a job that came after it")
		}
	})
}
