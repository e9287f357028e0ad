package local_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

func TestFrontOptions(t *testing.T) {
	t.Parallel()
	bad := map[string]*local.FrontOptions[int]{
		"FrontOptions.Capacity":               {Capacity: -1},
		"FrontOptions.Bytes":                  {Bytes: -1},
		"FrontOptions.MaxRetryAfter":          {MaxRetryAfter: -1},
		"FrontOptions.Policy: policy: Wait":   {Policy: policy.Wait(-1)},
		"FrontOptions.Policy: policy: Func: ": {Policy: policy.Func(nil)},
	}
	for field, o := range bad {
		t.Run("refused by name: "+field, func(t *testing.T) {
			t.Parallel()
			if _, err := local.NewFront(o); err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("NewFront: %v", err)
			}
		})
	}
	t.Run("nil and zero are the defaults", func(t *testing.T) {
		t.Parallel()
		for _, o := range []*local.FrontOptions[int]{nil, {}} {
			f := newFront(t, o)
			for i := range local.DefaultCapacity {
				mustAdmit(t, f, 1<<40, i) // not bounded by bytes
			}
			rej := mustReject(t.Context(), t, f, 0, 0, policy.Policy{}, policy.ReasonFull)
			if rej.Capacity != local.DefaultCapacity || rej.Depth != rej.Capacity || rej.RetryAfter != local.DefaultMaxRetryAfter {
				t.Errorf("%+v", rej)
			}
		}
	})
}

func TestAdmit(t *testing.T) {
	t.Parallel()
	full := func(t *testing.T, o local.FrontOptions[string]) *local.Front[string] {
		t.Helper()
		o.Capacity = 2
		f := newFront(t, &o)
		mustAdmit(t, f, 10, "a", "b")
		return f
	}
	t.Run("Reject refuses at once and says how full it is", func(t *testing.T) {
		t.Parallel()
		f := full(t, local.FrontOptions[string]{Bytes: 100})
		rej := mustReject(t.Context(), t, f, "c", 5, policy.Reject(), policy.ReasonFull)
		if rej.Stage != policy.StageFront || rej.Depth != 2 || rej.Capacity != 2 || rej.Bytes != 20 || rej.ByteCapacity != 100 {
			t.Errorf("%+v", rej)
		}
		balanced(t, f)
	})
	t.Run("DropIncoming discards the new one without an error", func(t *testing.T) {
		t.Parallel()
		f := full(t, local.FrontOptions[string]{})
		if ok, err := f.Admit(t.Context(), "c", 5, policy.DropIncoming()); ok || err != nil {
			t.Errorf("%v, %v", ok, err)
		}
		if s := balanced(t, f); s.Dropped != 1 || s.Length != 2 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("the zero policy is the front's", func(t *testing.T) {
		t.Parallel()
		f := full(t, local.FrontOptions[string]{Policy: policy.DropIncoming()})
		if ok, err := f.Admit(t.Context(), "c", 5, policy.Policy{}); ok || err != nil {
			t.Errorf("%v, %v", ok, err)
		}
	})
	t.Run("a slot is held until Release, not until Take", func(t *testing.T) {
		t.Parallel()
		f := full(t, local.FrontOptions[string]{})
		slots, jobs := takeAll(f)
		if !slices.Equal(jobs, []string{"a", "b"}) || slots[0].Size() != 10 {
			t.Fatalf("took %v", slots)
		}
		mustReject(t.Context(), t, f, "c", 5, policy.Reject(), policy.ReasonFull)
		f.Release(slots[1])
		mustAdmit(t, f, 5, "c")
		mustReject(t.Context(), t, f, "d", 5, policy.Reject(), policy.ReasonFull)
		if s := balanced(t, f); s.Length != 2 || s.Queued != 1 || s.HighWater != 2 || s.Bytes != 15 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("the bytes bound together, also when there are slots", func(t *testing.T) {
		t.Parallel()
		f := newFront(t, &local.FrontOptions[string]{Capacity: 10, Bytes: 100})
		mustAdmit(t, f, 60, "a")
		mustReject(t.Context(), t, f, "b", 41, policy.Reject(), policy.ReasonFull)
		mustAdmit(t, f, 40, "b")
		mustAdmit(t, f, 0, "c")
		if s := balanced(t, f); s.Bytes != 100 || s.Length != 3 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("what makes no sense is refused whether or not there is room", func(t *testing.T) {
		t.Parallel()
		for name, f := range map[string]*local.Front[string]{
			"empty": newFront[string](t, nil), "full": full(t, local.FrontOptions[string]{}),
		} {
			for text, p := range map[string]policy.Policy{
				"a wait needs a deadline": policy.Wait(0),
				"negative":                policy.Wait(-1),
				"decide is nil":           policy.Func(nil),
				"another Func": policy.Func(func(policy.Snapshot) policy.Policy {
					return policy.Func(func(policy.Snapshot) policy.Policy { return policy.Reject() })
				}),
				"a wait needs a deadline: give": policy.Func(func(policy.Snapshot) policy.Policy { return policy.Wait(0) }),
			} {
				rej := mustReject(context.Background(), t, f, "c", 1, p, policy.ReasonInvalid)
				if !errors.Is(rej, policy.ErrInvalid) || !strings.Contains(rej.Error(), text) || rej.RetryAfter != 0 {
					t.Errorf("%s: %v, want %q", name, rej, text)
				}
			}
			rej := mustReject(context.Background(), t, f, "c", -1, policy.Reject(), policy.ReasonInvalid)
			if !strings.Contains(rej.Error(), "size is negative") {
				t.Error(rej)
			}
			balanced(t, f)
		}
	})
	t.Run("Shed refuses although there is room", func(t *testing.T) {
		t.Parallel()
		f := newFront[string](t, nil)
		if rej := mustReject(t.Context(), t, f, "a", 1, policy.Shed(), policy.ReasonShed); !errors.Is(rej, policy.ErrFull) {
			t.Error(rej)
		}
	})
	t.Run("Refuse counts what the caller refuses", func(t *testing.T) {
		t.Parallel()
		f := full(t, local.FrontOptions[string]{Bytes: 50, MaxRetryAfter: 7 * time.Second})
		cause := errors.New("boom")
		for reason := range policy.NumReasons {
			rej := f.Refuse(reason, policy.StageDurable, cause)
			if rej.Reason != reason || rej.Stage != policy.StageDurable || rej.Depth != 2 || rej.Bytes != 20 || !errors.Is(rej, cause) {
				t.Errorf("%+v", rej)
			}
			final := reason == policy.ReasonClosed || reason == policy.ReasonTooLarge ||
				reason == policy.ReasonInvalid || reason == policy.ReasonCancelled
			if want := 7 * time.Second; final && rej.RetryAfter != 0 || !final && rej.RetryAfter != want {
				t.Errorf("%v: retry after %v", reason, rej.RetryAfter)
			}
		}
		s := balanced(t, f)
		for reason, n := range s.Rejected {
			if n != 1 {
				t.Errorf("%v is counted %d times", policy.Reason(reason), n)
			}
		}
	})
}

func TestAdmitAllocatesOnlyErrors(t *testing.T) { //nolint:paralleltest // allocations are counted per process
	f := newFront(t, &local.FrontOptions[int]{Capacity: 1, Bytes: 100})
	ctx := t.Context()
	buf := make([]local.Slot[int], 0, 1)
	if n := testing.AllocsPerRun(100, func() {
		mustAdmit(t, f, 10, 1)
		buf = f.TryTake(buf[:0], 1, 100)
		f.Release(buf...)
	}); n != 0 {
		t.Errorf("an accept allocates %v times", n)
	}
	mustAdmit(t, f, 10, 1)
	if n := testing.AllocsPerRun(100, func() {
		if ok, err := f.Admit(ctx, 1, 10, policy.Reject()); ok || err == nil {
			t.Error("accepted by a full front")
		}
	}); n > 1 {
		t.Errorf("a rejection allocates %v times, not only its error", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		if ok, err := f.Admit(ctx, 1, 10, policy.DropOldest()); !ok {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("displacing one job allocates %v times", n)
	}
}

func TestFunc(t *testing.T) {
	t.Parallel()
	always := func(p policy.Policy) policy.Policy {
		return policy.Func(func(policy.Snapshot) policy.Policy { return p })
	}
	t.Run("is asked once, before, and told what there is", func(t *testing.T) {
		t.Parallel()
		f := newFront(t, &local.FrontOptions[int]{Capacity: 4, Bytes: 100, Backlog: func() float64 { return 0.25 }})
		mustAdmit(t, f, 30, 1, 2)
		var got []policy.Snapshot
		p := policy.Func(func(s policy.Snapshot) policy.Policy {
			got = append(got, s)
			return policy.Reject()
		})
		if ok, err := f.Admit(t.Context(), 3, 7, p); !ok || err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 {
			t.Fatalf("asked %d times", len(got))
		}
		s := got[0]
		if s.Length != 2 || s.Capacity != 4 || s.Bytes != 60 || s.ByteCapacity != 100 || s.Size != 7 || s.Waiting != 0 ||
			s.Backlog != 0.25 || s.DrainRate != 0 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("a free slot is taken whatever the plan, except Shed", func(t *testing.T) {
		t.Parallel()
		f := newFront[int](t, nil)
		for _, p := range []policy.Policy{policy.Reject(), policy.DropIncoming(), policy.DropOldest(), policy.Wait(time.Second), {}} {
			if ok, err := f.Admit(t.Context(), 1, 1, always(p)); !ok || err != nil {
				t.Errorf("%v: %v, %v", p, ok, err)
			}
		}
		mustReject(t.Context(), t, f, 1, 1, always(policy.Shed()), policy.ReasonShed)
	})
	t.Run("the plan is done when there is no room", func(t *testing.T) {
		t.Parallel()
		f := newFront(t, &local.FrontOptions[int]{Capacity: 1, Policy: policy.DropIncoming()})
		mustAdmit(t, f, 1, 1)
		mustReject(t.Context(), t, f, 2, 1, always(policy.Reject()), policy.ReasonFull)
		for _, p := range []policy.Policy{policy.DropIncoming(), {}} { // {}: the front's own
			if ok, err := f.Admit(t.Context(), 2, 1, always(p)); ok || err != nil {
				t.Errorf("%v: %v, %v", p, ok, err)
			}
		}
		if ok, err := f.Admit(t.Context(), 3, 1, always(policy.DropOldest())); !ok || err != nil {
			t.Error(err)
		}
		if s := balanced(t, f); s.Evicted != 1 || s.Dropped != 2 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("a default Func that returns the default is refused", func(t *testing.T) {
		t.Parallel()
		f := newFront(t, &local.FrontOptions[int]{Policy: always(policy.Policy{})})
		mustReject(t.Context(), t, f, 1, 1, policy.Policy{}, policy.ReasonInvalid)
	})
	t.Run("may look at the front, and panic, without harm", func(t *testing.T) {
		t.Parallel()
		f := newFront[int](t, nil)
		p := policy.Func(func(policy.Snapshot) policy.Policy {
			if f.Pressure() == 0 {
				panic("boom")
			}
			return policy.Reject()
		})
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_, _ = f.Admit(t.Context(), 1, 1, p)
		}()
		mustAdmit(t, f, 1, 1)
		if s := balanced(t, f); s.Submitted != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestPressure(t *testing.T) {
	t.Parallel()
	backlog := 0.0
	f := newFront(t, &local.FrontOptions[int]{Capacity: 4, Bytes: 100, Backlog: func() float64 { return backlog }})
	want := func(p float64) {
		t.Helper()
		if got := f.Pressure(); got != p {
			t.Errorf("pressure %v, want %v", got, p)
		}
	}
	want(0)
	mustAdmit(t, f, 1, 1)
	want(0.25) // jobs
	mustAdmit(t, f, 89, 1)
	want(0.9) // bytes
	backlog = 0.95
	want(0.95)
	backlog = 7
	want(1)
	backlog = -1
	want(0.9)
}

func TestTake(t *testing.T) {
	t.Parallel()
	jobsOf := func(slots []local.Slot[int]) (jobs []int) {
		for _, s := range slots {
			jobs = append(jobs, s.Job)
		}
		return jobs
	}
	setup := func(t *testing.T) *local.Front[int] {
		t.Helper()
		f := newFront(t, &local.FrontOptions[int]{Capacity: 10})
		for i := range 6 {
			mustAdmit(t, f, 10, i)
		}
		return f
	}
	t.Run("ends at the number", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		for _, want := range [][]int{{0, 1, 2, 3}, {4, 5}} {
			got, err := f.Take(t.Context(), nil, 4, 1000)
			if err != nil || !slices.Equal(jobsOf(got), want) {
				t.Errorf("took %v, %v, want %v", got, err, want)
			}
		}
	})
	t.Run("ends before the bytes, and what did not fit comes next", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		for _, step := range []struct {
			bytes int64
			want  []int
		}{{20, []int{0, 1}}, {19, []int{2}}, {0, []int{3}}, {1000, []int{4, 5}}} {
			got, err := f.Take(t.Context(), nil, 9, step.bytes)
			if err != nil || !slices.Equal(jobsOf(got), step.want) {
				t.Errorf("took %v, %v, want %v", got, err, step.want)
			}
		}
		if s := balanced(t, f); s.Queued != 0 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("appends, and gives the buffer back with an error", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		buf, err := f.Take(t.Context(), nil, 1, 1000)
		if err == nil {
			buf, err = f.Take(t.Context(), buf, 2, 1000)
		}
		if err != nil || !slices.Equal(jobsOf(buf), []int{0, 1, 2}) {
			t.Errorf("%v, %v", buf, err)
		}
		boom := errors.New("boom")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(boom)
		got, err := f.Take(ctx, buf, 1, 1000)
		if len(got) != 3 || !errors.Is(err, context.Canceled) || !errors.Is(err, boom) {
			t.Errorf("%v, %v", got, err)
		}
		if rest := f.TryTake(nil, 1, 0); !slices.Equal(jobsOf(rest), []int{3}) {
			t.Errorf("something was lost: %v", rest)
		}
	})
	t.Run("a job and the context's end in the same instant: one of them holds", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f, taken := newFront(t, &local.FrontOptions[int]{Capacity: 1}), 0
			for i := range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				var slots []local.Slot[int]
				var err error
				go func() { slots, err = f.Take(ctx, nil, 1, 0) }()
				synctest.Wait()
				if i%2 == 0 {
					mustAdmit(t, f, 1, i)
					cancel()
				} else {
					cancel()
					mustAdmit(t, f, 1, i)
				}
				synctest.Wait()
				if (err == nil) != (len(slots) == 1) {
					t.Fatalf("took %v, %v", slots, err)
				}
				taken += len(slots)
				slots = append(slots, f.Drain()...)
				if len(slots) != 1 || slots[0].Job != i {
					t.Fatalf("job %d: %v", i, slots)
				}
				f.Release(slots...)
			}
			if s := balanced(t, f); s.Released != 200 {
				t.Errorf("%+v, %d taken", s, taken)
			}
		})
	})
	t.Run("what was handed over is not evicted, and comes before what it left behind", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newFront(t, &local.FrontOptions[int]{Capacity: 3})
			var slots []local.Slot[int]
			go func() {
				var err error
				if slots, err = f.Take(t.Context(), nil, 2, 100); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
			mustAdmit(t, f, 1, 1) // handed over
			mustAdmit(t, f, 1, 2, 3)
			if ok, err := f.Admit(t.Context(), 4, 1, policy.DropOldest()); !ok { // evicts 2 if Take is not awake yet
				t.Error(err)
			}
			synctest.Wait()
			slots = append(slots, f.Drain()...)
			var got []int
			for _, s := range slots {
				got = append(got, s.Job)
			}
			if s := f.Stats(); !slices.IsSorted(got) || got[0] != 1 || int64(len(got)) != 4-s.Evicted {
				t.Errorf("took %v, %+v", got, s)
			}
		})
	})
	t.Run("TryTake takes nothing where nothing is", func(t *testing.T) {
		t.Parallel()
		if got := newFront[int](t, nil).TryTake(nil, 5, 5); got != nil {
			t.Errorf("%v", got)
		}
		if got := setup(t).TryTake(nil, 0, 5); got != nil {
			t.Errorf("%v", got)
		}
	})
	t.Run("releasing more than was taken panics", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		slots := f.TryTake(nil, 1, 0)
		f.Release(slots...)
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
			balanced(t, f)
		}()
		f.Release(slots...)
	})
}
