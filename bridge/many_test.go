package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
	"github.com/seed-9dec4fca/weir/policy"
)

// tell writes what became of each: the state of its ticket, or the reason of its rejection.
func tell(t *testing.T, all []bridge.Submitted) (told []string) {
	t.Helper()
	for i, one := range all {
		if (one.Ticket == nil) == (one.Err == nil) {
			t.Fatalf("%d has a ticket and an error, or none: %+v", i, one)
		}
		if one.Err == nil {
			told = append(told, one.Ticket.State().String())
			continue
		}
		rejection, ok := errors.AsType[*policy.Rejection](one.Err)
		if !ok {
			t.Fatalf("%d: %v", i, one.Err)
		}
		told = append(told, rejection.Reason.String())
	}
	return told
}

// upTo is 0, 1 … n-1.
func upTo(n int) (values []int) {
	for i := range n {
		values = append(values, i)
	}
	return values
}

// times repeats words: 2, "full", 1, "shed" is "full", "full", "shed".
func times(pairs ...any) (told []string) {
	for i := 0; i < len(pairs); i += 2 {
		told = append(told, slices.Repeat([]string{pairs[i+1].(string)}, pairs[i].(int))...)
	}
	return told
}

// The front has room for four, and the store answers to nothing.
func TestSubmitManyDecidesForEachByItself(t *testing.T) {
	t.Parallel()
	const capacity = 4
	for _, c := range []struct {
		name   string
		policy policy.Policy
		asks   policy.Policy // the queue's own
		want   []string
		takes  time.Duration
	}{
		{name: "reject", policy: policy.Reject(), want: times(4, "accepted", 3, "full")},
		{name: "the queue's own policy", asks: policy.DropIncoming(), want: times(4, "accepted", 3, "dropped")},
		{name: "drop the incoming", policy: policy.DropIncoming(), want: times(4, "accepted", 3, "dropped")},
		// The shipper has the first: it is on its way, and stays.
		{name: "drop the oldest", policy: policy.DropOldest(), want: times(1, "accepted", 3, "evicted", 3, "accepted")},
		{name: "wait, for all together", policy: policy.Wait(time.Second), want: times(4, "accepted", 3, "timeout"), takes: time.Second},
		{name: "the queue's own wait, for all together", asks: policy.Wait(time.Second), want: times(4, "accepted", 3, "timeout"), takes: time.Second},
		{name: "shed", policy: policy.Shed(), want: times(7, "shed")},
		{name: "a function", policy: policy.Func(func(s policy.Snapshot) policy.Policy {
			if s.Length >= 2 {
				return policy.Shed()
			}
			return policy.Reject()
		}), want: times(2, "accepted", 5, "shed")},
		{name: "a mistake", policy: policy.Wait(-1), want: times(7, "invalid")},
		{name: "a wait without any deadline", policy: policy.Wait(0), want: times(7, "invalid")},
	} {
		bubble(t, c.name, func(t *testing.T) {
			b := setup(t, &bridge.Options{Capacity: capacity, Policy: c.asks})
			b.gate.Hold(durabletest.OpAppend)
			defer b.gate.Release(durabletest.OpAppend)
			kind := bridge.NewKind[int](b.q, "count", nil)
			began := time.Now()
			var all []bridge.Submitted
			if c.name == "drop the oldest" {
				all = append(all, kind.SubmitMany(context.Background(), upTo(1), c.policy)...)
				synctest.Wait() // the shipper has taken it
				all = append(all, kind.SubmitMany(context.Background(), upTo(6), c.policy)...)
			} else {
				all = kind.SubmitMany(context.Background(), upTo(7), c.policy)
			}
			if took := time.Since(began); took < c.takes || took > c.takes+time.Millisecond {
				t.Errorf("it took %v", took)
			}
			if got := tell(t, all); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if s, err := b.q.Stats(t.Context()); err != nil || s.Front.Submitted != 7 {
				t.Errorf("counted as %+v, %v", s.Front, err)
			}
			b.gate.Release(durabletest.OpAppend)
			if err := b.q.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.conserved(t)
		})
	}
}

func TestSubmitMany(t *testing.T) {
	t.Parallel()
	bubble(t, "a wait goes on with what is left of it, and in order", func(t *testing.T) {
		b := setup(t, &bridge.Options{Capacity: 1})
		b.outage.begin(durabletest.Fault{Delay: 300 * time.Millisecond}, durabletest.OpAppend)
		kind := bridge.NewKind[int](b.q, "count", nil)
		all := kind.SubmitMany(t.Context(), upTo(10), policy.Wait(time.Second))
		// One at once, one each 300 ms, and the rest when the second is over.
		told := tell(t, all)
		if got := told[:4]; !slices.Equal(got, []string{"enqueued", "enqueued", "enqueued", "accepted"}) {
			t.Errorf("got %v", told)
		}
		for _, reason := range told[4:] {
			if reason != "timeout" && reason != "predicted" {
				t.Errorf("got %v", told)
			}
		}
	})

	bubble(t, "what has room when the wait is over is accepted", func(t *testing.T) {
		b := setup(t, &bridge.Options{Capacity: 2, CapacityBytes: 100})
		b.gate.Hold(durabletest.OpAppend)
		defer b.gate.Release(durabletest.OpAppend)
		kind := bridge.NewKind(b.q, "bytes", &bridge.KindOptions[[]byte]{Codec: bridge.Bytes{}})
		all := kind.SubmitMany(t.Context(), [][]byte{make([]byte, 60), make([]byte, 50), make([]byte, 40), make([]byte, 101)}, policy.Wait(time.Second))
		if got := tell(t, all); !slices.Equal(got, []string{"accepted", "timeout", "accepted", "too large"}) {
			t.Errorf("got %v", got)
		}
	})

	bubble(t, "its context ends in the middle", func(t *testing.T) {
		b := setup(t, &bridge.Options{Capacity: 2})
		b.gate.Hold(durabletest.OpAppend)
		defer b.gate.Release(durabletest.OpAppend)
		kind := bridge.NewKind[int](b.q, "count", nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		all := kind.SubmitMany(ctx, upTo(5), policy.Wait(0))
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %v", took)
		}
		if got := tell(t, all); !slices.Equal(got, times(2, "accepted", 3, "timeout")) {
			t.Errorf("got %v", got)
		}
		if !errors.Is(all[4].Err, context.DeadlineExceeded) {
			t.Errorf("got %v", all[4].Err)
		}
	})

	bubble(t, "more than there is room for, as the store takes them", func(t *testing.T) {
		b := setup(t, &bridge.Options{Capacity: 3})
		kind := bridge.NewKind[int](b.q, "count", nil)
		all := kind.SubmitMany(t.Context(), upTo(1000), policy.Wait(time.Minute))
		for i, one := range all {
			if one.Err != nil {
				t.Fatal(i, one.Err)
			}
			if err := one.Ticket.WaitEnqueued(t.Context()); err != nil {
				t.Fatal(i, err)
			}
		}
		b.conserved(t)
	})

	bubble(t, "none", func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		if got := kind.SubmitMany(t.Context(), nil, policy.Policy{}); len(got) != 0 {
			t.Errorf("got %v", got)
		}
	})

	bubble(t, "after Shutdown", func(t *testing.T) {
		b := open(t, durable.NewMemory(nil), nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		shutdown(t, b.q)
		if got := tell(t, kind.SubmitMany(t.Context(), upTo(3), policy.Wait(time.Second))); !slices.Equal(got, times(3, "closed")) {
			t.Errorf("got %v", got)
		}
	})
}

func TestSubmitJobs(t *testing.T) {
	t.Parallel()
	bubble(t, "each has its settings, and its own error", func(t *testing.T) {
		b := setup(t, &bridge.Options{MaxPayload: 100})
		kind := bridge.NewKind[int](b.q, "count", nil)
		all := kind.SubmitJobs(t.Context(), []bridge.Job[int]{
			{ID: "a", Value: 1},
			{Value: 2},
			{ID: "a", Value: 3},
			{ID: "b", Value: 4, Delay: time.Hour},
			{ID: "c", Headers: map[string]string{"h": strings.Repeat("x", 100)}},
		}, policy.Reject())
		if err := b.q.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := tell(t, all), []string{"enqueued", "invalid", "enqueued", "enqueued", "too large"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if got := all[2].Ticket.Duplicate(); got != "a" || all[0].Ticket.Duplicate() != "" {
			t.Errorf("a duplicate of %q", got)
		}
		if got := b.stored(t); got.Pending != 1 || got.Scheduled != 1 {
			t.Errorf("stored: %+v", got)
		}
		b.conserved(t)
	})
}

// BenchmarkSubmitMany compares it with a loop of the caller's, which is the least that n decisions can cost.
func BenchmarkSubmitMany(b *testing.B) {
	const n = 256
	values := upTo(n)
	for _, many := range []bool{true, false} {
		b.Run(fmt.Sprintf("many=%v", many), func(b *testing.B) {
			q, err := bridge.Open(durable.NewMemory(&durable.MemoryOptions{MaxBacklog: 1 << 40}), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _, _ = q.Shutdown(context.Background()) }()
			kind := bridge.NewKind[int](q, "count", nil)
			b.ReportAllocs()
			for range b.N / n {
				if many {
					kind.SubmitMany(b.Context(), values, policy.Wait(time.Minute))
					continue
				}
				for _, v := range values {
					_, _ = kind.Submit(b.Context(), v, policy.Wait(time.Minute))
				}
			}
		})
	}
}
