package local_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// kind is what a Kind of a pool and one of a durable queue have in common. D is the Delivery.
type kind[T, D any] interface {
	Submit(ctx context.Context, value T, p policy.Policy) (*local.Ticket, error)
	TrySubmit(value T) (*local.Ticket, error)
	Handle(h func(ctx context.Context, d *D) error) error
}

// runner is what a pool and a durable queue have in common. O is the RunOptions, R the report.
type runner[O, R any] interface {
	Run(ctx context.Context, o *O) error
	Shutdown(ctx context.Context) (R, error)
	Pressure() float64
}

var (
	_ kind[string, local.Delivery[string]]       = (*local.Kind[string])(nil)
	_ kind[string, bridge.Delivery[string]]      = (*bridge.Kind[string])(nil)
	_ runner[local.RunOptions, local.PoolReport] = (*local.Pool)(nil)
	_ runner[bridge.RunOptions, bridge.Report]   = (*bridge.Queue)(nil)
	_ *bridge.Delivery[int]                      = (*local.Delivery[int])(nil) // one type
)

// letters is a program that does not know whether its queue is durable.
func letters[D, O, R any](t *testing.T, queue runner[O, R], kind kind[string, D], read func(*D) string) (got []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := kind.Handle(func(_ context.Context, d *D) error {
		got = append(got, read(d))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	running := make(chan error, 1)
	go func() { running <- queue.Run(ctx, nil) }()
	for _, value := range []string{"a", "b"} {
		ticket, err := kind.Submit(ctx, value, policy.Wait(time.Second))
		if err == nil {
			err = ticket.Wait(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := queue.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if err := <-running; err != nil && !errors.Is(err, policy.ErrClosed) { // closed: it had not even begun
		t.Error(err)
	}
	return got
}

func TestKind(t *testing.T) {
	t.Parallel()

	t.Run("the same program runs on a pool and on a durable queue", func(t *testing.T) {
		t.Parallel()
		pool := newPool(t, nil)
		pooled := letters(t, pool, local.NewKind[string](pool, "letter", nil), func(d *local.Delivery[string]) string { return d.Value })
		queue, err := bridge.Open(durable.NewMemory(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		stored := letters(t, queue, bridge.NewKind[string](queue, "letter", nil), func(d *bridge.Delivery[string]) string { return d.Value })
		if len(pooled) != 2 || len(stored) != 2 || pooled[0] != stored[0] || pooled[1] != stored[1] {
			t.Errorf("pool %v, queue %v", pooled, stored)
		}
	})

	t.Run("the handler learns what it is given", func(t *testing.T) {
		t.Parallel()
		p := newPool(t, &local.PoolOptions{Workers: 1})
		k := local.NewKind[int](p, "number", nil)
		var got []local.Delivery[int]
		if err := k.Handle(func(_ context.Context, d *local.Delivery[int]) error { got = append(got, *d); return nil }); err != nil {
			t.Fatal(err)
		}
		for n := range 2 {
			ticket, err := k.TrySubmit(10 * n)
			if err != nil {
				t.Fatal(err)
			}
			if err := ticket.Wait(t.Context()); err != nil || ticket.ID() != got[n].ID {
				t.Errorf("%v, ticket %q", err, ticket.ID())
			}
		}
		for n, d := range got {
			if d.Value != 10*n || d.Kind != "number" || d.Attempt != 1 || d.MaxAttempts != 1 || d.Deliveries != 1 || d.Headers != nil {
				t.Errorf("%d: %+v", n, d)
			}
		}
		if got[0].Fence >= got[1].Fence || got[0].ID == got[1].ID {
			t.Errorf("fences %d, %d; IDs %q, %q", got[0].Fence, got[1].Fence, got[0].ID, got[1].ID)
		}
	})

	t.Run("misuse is refused by name", func(t *testing.T) {
		t.Parallel()
		p := newPool(t, nil)
		k := local.NewKind[int](p, "number", nil)
		if _, err := k.TrySubmit(1); !errors.Is(err, policy.ErrInvalid) || !errors.Is(err, local.ErrNoHandler) {
			t.Errorf("without a handler: %v", err)
		}
		if err := k.Handle(nil); err == nil {
			t.Error("a nil handler was taken")
		}
		h := func(context.Context, *local.Delivery[int]) error { return nil }
		if err := errors.Join(k.Handle(h), k.Handle(h)); !errors.Is(err, local.ErrHandlerSet) {
			t.Errorf("a second handler: %v", err)
		}
	})

	t.Run("its values count with their size, and come back from Shutdown", func(t *testing.T) {
		t.Parallel()
		p, err := local.NewPool(&local.PoolOptions{Workers: 1, Bytes: 10})
		if err != nil {
			t.Fatal(err)
		}
		k := local.NewKind(p, "text", &local.KindOptions[string]{Size: func(s string) int64 { return int64(len(s)) }})
		other := local.NewKind[string](p, "text", nil)
		if err := k.Handle(func(context.Context, *local.Delivery[string]) error { return errors.New("run by the caller") }); err != nil {
			t.Fatal(err)
		}
		running := newGate()
		mustSubmit(t, p, running.task)
		within(t, running.begun, "it begins")
		if _, err := k.TrySubmit("0123456789a"); !errors.Is(err, policy.ErrTooLarge) {
			t.Error(err)
		}
		if _, err := k.TrySubmit("0123456"); err != nil {
			t.Error(err)
		}
		if _, err := k.TrySubmit("0123"); !errors.Is(err, policy.ErrFull) {
			t.Error(err)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		report, err := p.Shutdown(over)
		if !errors.Is(err, local.ErrStuck) || len(report.Returned) != 1 {
			t.Fatalf("%v, %v", report, err)
		}
		if value, ok := k.Returned(report.Returned[0]); !ok || value != "0123456" {
			t.Errorf("%q, %v", value, ok)
		}
		if _, ok := other.Returned(report.Returned[0]); ok {
			t.Error("the value of another kind")
		}
		if err := report.Returned[0].Do(t.Context()); err == nil || err.Error() != "run by the caller" {
			t.Error(err)
		}
		close(running.let)
		if _, err := p.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
