package bridge_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// refused expects a rejection for a reason, and nothing of the job anywhere.
func (b *bench) refused(t *testing.T, ticket *bridge.Ticket, err error, reason policy.Reason, says string) *policy.Rejection {
	t.Helper()
	rejection, ok := errors.AsType[*policy.Rejection](err)
	if ticket != nil || !ok {
		t.Fatalf("got %v, %v; want a rejection", ticket, err)
	}
	if rejection.Reason != reason || !strings.Contains(err.Error(), says) {
		t.Errorf("got %v, want %v that says %q", err, reason, says)
	}
	s, statsErr := b.q.Stats(t.Context())
	if statsErr != nil {
		t.Fatal(statsErr)
	}
	if s.Front.Rejected[reason] != 1 || s.Front.RejectedTotal() != 1 {
		t.Errorf("counted as %v", s.Front.Rejected)
	}
	if n := len(b.events.every(bridge.EventRejected)); n != 1 {
		t.Errorf("%d events of rejection", n)
	}
	b.conserved(t)
	return rejection
}

func TestSubmitRefusesAndTheCallerKeepsTheJob(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		job    bridge.Job[int]
		policy policy.Policy
		reason policy.Reason
		says   string
	}{
		{"an empty ID", bridge.Job[int]{}, policy.Reject(), policy.ReasonInvalid, "Job.ID is empty"},
		{"an ID of 257 bytes", bridge.Job[int]{ID: strings.Repeat("x", 257)}, policy.Reject(), policy.ReasonInvalid, "Job.ID has 257 bytes"},
		{"an ID with a line break", bridge.Job[int]{ID: "a\nb"}, policy.Reject(), policy.ReasonInvalid, "Job.ID has a control character"},
		{"an ID with a NUL", bridge.Job[int]{ID: "a\x00b"}, policy.Reject(), policy.ReasonInvalid, "Job.ID has a control character"},
		{"an ID that is not UTF-8", bridge.Job[int]{ID: "a\xff"}, policy.Reject(), policy.ReasonInvalid, "Job.ID is not valid UTF-8"},
		{"a negative delay", bridge.Job[int]{ID: "1", Delay: -1}, policy.Reject(), policy.ReasonInvalid, "Job.Delay"},
		{"negative attempts", bridge.Job[int]{ID: "1", MaxAttempts: -1}, policy.Reject(), policy.ReasonInvalid, "Job.MaxAttempts"},
		{"a negative retention", bridge.Job[int]{ID: "1", Retention: -1}, policy.Reject(), policy.ReasonInvalid, "Job.Retention"},
		{"a priority that is too high", bridge.Job[int]{ID: "1", Priority: 101}, policy.Reject(), policy.ReasonInvalid, "Job.Priority is 101"},
		{"a priority that is too low", bridge.Job[int]{ID: "1", Priority: -101}, policy.Reject(), policy.ReasonInvalid, "Job.Priority is -101"},
		{"a negative timeout", bridge.Job[int]{ID: "1", Timeout: -1}, policy.Reject(), policy.ReasonInvalid, "Job.Timeout"},
		{"a timeout that the store would take for none", bridge.Job[int]{ID: "1", Timeout: 1e6 - 1}, policy.Reject(), policy.ReasonInvalid, "Job.Timeout is 999.999µs, less than a millisecond"},
		{"a retention that the store would take for none", bridge.Job[int]{ID: "1", Retention: 1}, policy.Reject(), policy.ReasonInvalid, "Job.Retention is 1ns"},
		{"a negative expiry", bridge.Job[int]{ID: "1", Expiry: -1}, policy.Reject(), policy.ReasonInvalid, "Job.Expiry is negative"},
		{"an expiry that the store would take for none", bridge.Job[int]{ID: "1", Expiry: 1}, policy.Reject(), policy.ReasonInvalid, "Job.Expiry is 1ns"},
		{"a delay and a moment", bridge.Job[int]{ID: "1", Delay: 1, NotBefore: time.Now()}, policy.Reject(), policy.ReasonInvalid, "Job.Delay and Job.NotBefore"},
		{"a unique key that is empty", bridge.Job[int]{ID: "1", Unique: durable.Unique{Window: time.Hour}}, policy.Reject(), policy.ReasonInvalid, "Unique.Key"},
		{"a unique key that is too long", bridge.Job[int]{ID: "1", Unique: durable.Unique{Key: strings.Repeat("x", durable.MaxIDBytes+1)}}, policy.Reject(), policy.ReasonInvalid, "Unique.Key has"},
		{"a negative window", bridge.Job[int]{ID: "1", Unique: durable.Unique{Key: "k", Window: -1}}, policy.Reject(), policy.ReasonInvalid, "Job.Unique.Window"},
		{"a window that the store would take for none", bridge.Job[int]{ID: "1", Unique: durable.Unique{Key: "k", After: 1}}, policy.Reject(), policy.ReasonInvalid, "Job.Unique.After"},
		{"a key that would be kept for ever", bridge.Job[int]{ID: "1", Unique: durable.Unique{Key: "k", States: []durable.State{durable.StateCompleted}}}, policy.Reject(), policy.ReasonInvalid, "Job.Unique: field Unique.States"},
		{"a limit key that is too long", bridge.Job[int]{ID: "1", LimitKey: strings.Repeat("x", durable.MaxIDBytes+1)}, policy.Reject(), policy.ReasonInvalid, "Job.LimitKey has"},
		{"a wait without any deadline", bridge.Job[int]{ID: "1"}, policy.Wait(0), policy.ReasonInvalid, "deadline"},
		{"a negative wait", bridge.Job[int]{ID: "1"}, policy.Wait(-1), policy.ReasonInvalid, "negative"},
		{"a nil decision", bridge.Job[int]{ID: "1"}, policy.Func(nil), policy.ReasonInvalid, "decide is nil"},
		{"headers beyond MaxPayload", bridge.Job[int]{ID: "1", Headers: map[string]string{"h": strings.Repeat("x", 1000)}}, policy.Reject(), policy.ReasonTooLarge, "MaxPayload = 1000"},
	} {
		bubble(t, c.name, func(t *testing.T) {
			b := setup(t, &bridge.Options{MaxPayload: 1000})
			kind := bridge.NewKind[int](b.q, "count", nil)
			ticket, err := kind.SubmitJob(context.Background(), c.job, c.policy)
			b.refused(t, ticket, err, c.reason, c.says)
			synctest.Wait()
			if got := b.stored(t); got.Pending+got.Scheduled != 0 {
				t.Errorf("stored: %+v", got)
			}
		})
	}

	bubble(t, "a context that has ended", func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("why")
		cancel(why)
		ticket, err := kind.Submit(ctx, 1, policy.Reject())
		b.refused(t, ticket, err, policy.ReasonCancelled, "why")
		if !errors.Is(err, context.Canceled) || !errors.Is(err, why) || errors.Is(err, policy.ErrFull) {
			t.Errorf("got %v", err)
		}
	})
	bubble(t, "a context whose deadline has passed", func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		ctx, cancel := context.WithTimeout(t.Context(), -time.Second)
		defer cancel()
		ticket, err := kind.Submit(ctx, 1, policy.Wait(0))
		b.refused(t, ticket, err, policy.ReasonTimeout, "deadline")
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, policy.ErrFull) {
			t.Errorf("got %v", err)
		}
	})
}

// withoutPriority is an engine that has none.
type withoutPriority struct{ durable.Engine }

func (e withoutPriority) Info() (durable.Info, error) {
	info, err := e.Engine.Info()
	info.Capabilities.Priority = false
	return info, err
}

func TestPriority(t *testing.T) {
	t.Parallel()
	bubble(t, "what an engine without priorities cannot keep is refused by name", func(t *testing.T) {
		q, err := bridge.Open(withoutPriority{durable.NewMemory(nil)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = q.Shutdown(t.Context()) }()
		kind := bridge.NewKind[int](q, "count", nil)
		_, err = kind.SubmitJob(t.Context(), bridge.Job[int]{ID: "1", Priority: 1}, policy.Reject())
		if !errors.Is(err, policy.ErrInvalid) || !errors.Is(err, durable.ErrUnsupported) || !strings.Contains(err.Error(), "Job.Priority is 1") {
			t.Errorf("got %v", err)
		}
		if ticket, err := kind.SubmitJob(t.Context(), bridge.Job[int]{ID: "1"}, policy.Reject()); err != nil || ticket.WaitEnqueued(t.Context()) != nil {
			t.Errorf("without a priority: %v", err)
		}
	})
	bubble(t, "the highest runs first", func(t *testing.T) {
		q, err := bridge.Open(durable.NewMemory(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		kind := bridge.NewKind[int](q, "count", nil)
		var order []int
		if err := kind.Handle(func(_ context.Context, d *bridge.Delivery[int]) error {
			order = append(order, d.Value)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for i, priority := range []int{0, -1, 5, 0, durable.MaxPriority} {
			ticket, err := kind.SubmitJob(t.Context(), bridge.Job[int]{ID: q.NewID(), Value: i, Priority: priority}, policy.Reject())
			if err != nil || ticket.WaitEnqueued(t.Context()) != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := q.Run(ctx, &bridge.RunOptions{Workers: 1}); err != nil {
			t.Error(err)
		}
		if want := []int{4, 2, 0, 3, 1}; !slices.Equal(order, want) {
			t.Errorf("ran %v, want %v", order, want)
		}
		if _, err := q.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestPayloadOfMaxPayloadIsAcceptedAndOneByteMoreIsNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, &bridge.Options{MaxPayload: 100})
		kind := bridge.NewKind(b.q, "bytes", &bridge.KindOptions[[]byte]{Codec: bridge.Bytes{}})
		fits, err := kind.TrySubmit(make([]byte, 100))
		if err != nil {
			t.Fatal(err)
		}
		if err := fits.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		ticket, err := kind.TrySubmit(make([]byte, 101))
		rejection := b.refused(t, ticket, err, policy.ReasonTooLarge, "101 bytes")
		if rejection.RetryAfter != 0 || !errors.Is(err, policy.ErrTooLarge) {
			t.Errorf("trying again is of no use: %v", err)
		}
	})
}

func TestDuplicateIDFollowsTheFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		release := make(chan struct{})
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { <-release; return nil })
		job := bridge.Job[int]{ID: "the same", Value: 1}
		first := submitJob(t, kind, job)
		if err := first.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := submitJob(t, kind, job)
		if err := second.WaitEnqueued(t.Context()); err != nil || second.Duplicate() != "the same" || first.Duplicate() != "" {
			t.Errorf("the second: %v, a duplicate of %q", err, second.Duplicate())
		}
		if got := first.State(); got != local.Enqueued {
			t.Errorf("the first lost its watch: %v", got)
		}
		// Both in one batch.
		b.gate.Hold(durabletest.OpAppend)
		plug := submit(t, kind, 0)
		synctest.Wait()
		third, fourth := submitJob(t, kind, bridge.Job[int]{ID: "another"}), submitJob(t, kind, bridge.Job[int]{ID: "another"})
		b.gate.Release(durabletest.OpAppend)
		if err := third.WaitEnqueued(t.Context()); err != nil {
			t.Errorf("the first of a batch: %v", err)
		}
		if err := fourth.WaitEnqueued(t.Context()); err != nil || fourth.Duplicate() != "another" {
			t.Errorf("the second of a batch: %v, a duplicate of %q", err, fourth.Duplicate())
		}

		b.run(t, nil)
		close(release)
		for _, ticket := range []*bridge.Ticket{first, second, third, fourth, plug} {
			if err := ticket.Wait(t.Context()); err != nil {
				t.Errorf("%s: %v", ticket.ID(), err)
			}
		}
		again := submitJob(t, kind, job)
		if err := again.Wait(t.Context()); err != nil {
			t.Errorf("the ID of a completed job, used again: %v", err)
		}
		synctest.Wait() // the worker can be quicker than the answer to the append
		if got := b.q.Counters(); got.Duplicate != 2 || got.Enqueued != 4 || got.Started != 4 || got.Refused != 0 {
			t.Errorf("counters %+v", got)
		}
		b.conserved(t)
	})
}

// pairCodec fails for odd values: at encoding below 100, at decoding above.
type pairCodec struct{ bridge.JSON[int] }

var errOdd = errors.New("odd")

func (c pairCodec) Encode(v int) ([]byte, error) {
	if v%2 != 0 && v < 100 {
		return nil, errOdd
	}
	return c.JSON.Encode(v)
}

func (c pairCodec) Decode(p []byte) (int, error) {
	v, err := c.JSON.Decode(p)
	if err == nil && v%2 != 0 {
		err = errOdd
	}
	return v, err
}

func TestCodecThatFails(t *testing.T) {
	t.Parallel()
	bubble(t, "to encode: the caller keeps the job, counted as invalid", func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind(b.q, "even", &bridge.KindOptions[int]{Codec: pairCodec{}})
		ticket, err := kind.TrySubmit(1)
		b.refused(t, ticket, err, policy.ReasonInvalid, `encode kind "even": odd`)
		if !errors.Is(err, errOdd) || !errors.Is(err, policy.ErrInvalid) {
			t.Errorf("got %v", err)
		}
	})
	bubble(t, "to decode: dead with the reason, the others go on", func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind(b.q, "even", &bridge.KindOptions[int]{Codec: pairCodec{}})
		var ran []int
		if err := kind.Handle(func(_ context.Context, d *bridge.Delivery[int]) error { ran = append(ran, d.Value); return nil }); err != nil {
			t.Fatal(err)
		}
		b.run(t, &bridge.RunOptions{Workers: 1})
		before, bad, after := submit(t, kind, 100), submit(t, kind, 101), submit(t, kind, 102)
		if err := bad.Wait(t.Context()); !errors.Is(err, local.ErrDead) || !errors.Is(err, errOdd) {
			t.Errorf("got %v", err)
		}
		if errors.Join(before.Wait(t.Context()), after.Wait(t.Context())) != nil || len(ran) != 2 {
			t.Errorf("before %v, after %v, ran %v", before.Err(), after.Err(), ran)
		}
		if got := b.q.Counters(); got.Dead != 1 || got.Retried != 0 || b.stored(t).Dead != 1 {
			t.Errorf("counters %+v", got)
		}
	})
}
