package bridge_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

func TestOutageOfAnHourLosesNothingAndStaysQuiet(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]durabletest.Fault{
		"refused":    {Action: durabletest.Refuse},
		"unanswered": {Action: durabletest.Hang},
		"lost":       {Action: durabletest.Lose},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				engine, log := newOutage(durable.NewMemory(nil)), &bytes.Buffer{}
				q, err := bridge.Open(engine, &bridge.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
				if err != nil {
					t.Fatal(err)
				}
				kind := bridge.NewKind[int](q, "count", nil)
				var ran []int
				_ = kind.Handle(func(_ context.Context, d *bridge.Delivery[int]) error {
					ran = append(ran, d.Value)
					return nil
				})
				done := make(chan error, 1)
				go func() { done <- q.Run(t.Context(), &bridge.RunOptions{Workers: 1}) }()
				first, err := kind.TrySubmit(0)
				if err != nil {
					t.Fatal(err)
				}
				if err := first.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}

				engine.begin(fault)
				before := engine.total()
				tickets := []*bridge.Ticket{first}
				for i := 1; i <= 300; i++ {
					ticket, err := kind.TrySubmit(i)
					if err != nil {
						t.Fatal(err)
					}
					tickets = append(tickets, ticket)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				// Five loops, each at two seconds at most between tries once it has backed off.
				if calls := engine.total() - before; calls > 5*3600 {
					t.Errorf("%d calls in an hour of outage", calls)
				}
				if lines := bytes.Count(log.Bytes(), []byte("\n")); lines > 5*3600/10*2 {
					t.Errorf("%d log lines in an hour of outage", lines)
				}

				engine.end()
				for i, ticket := range tickets {
					if err := ticket.Wait(t.Context()); err != nil {
						t.Fatalf("job %d: %v", i, err)
					}
				}
				want := make([]int, 301)
				for i := range want {
					want[i] = i
				}
				if name == "lost" {
					slices.Sort(ran) // the job in hand came back with the delay of one whose worker was lost
				}
				if diff := cmp.Diff(want, ran); diff != "" {
					t.Errorf("each job once, in order (-want +got):\n%s", diff)
				}
				if _, err := q.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestPersistDeadlineEndsJobsAbandonedOrUncertain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault durabletest.Fault
		want  error
	}{
		"never sent":         {durabletest.Fault{Action: durabletest.Refuse}, local.ErrAbandoned},
		"sent, not answered": {durabletest.Fault{Action: durabletest.Lose}, local.ErrUncertain},
		"nothing answered":   {durabletest.Fault{Action: durabletest.Hang}, local.ErrUncertain}, // the check neither
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				engine := newOutage(durable.NewMemory(nil))
				q, err := bridge.Open(engine, &bridge.Options{PersistWithin: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				defer shutdown(t, q)
				kind := bridge.NewKind[int](q, "count", nil)
				first, _ := kind.TrySubmit(0)
				if err := first.WaitEnqueued(t.Context()); err != nil {
					t.Fatal(err)
				}
				engine.begin(c.fault)
				start := time.Now()
				second, _ := kind.TrySubmit(1)
				time.Sleep(30 * time.Second)
				third, _ := kind.TrySubmit(2)
				if err := second.WaitEnqueued(t.Context()); !errors.Is(err, c.want) {
					t.Fatalf("got %v, want %v", err, c.want)
				}
				if late := time.Since(start) - time.Minute; late < 0 || late > 100*time.Millisecond {
					t.Errorf("told %v after its deadline", late)
				}
				engine.end()
				if err := third.WaitEnqueued(t.Context()); err != nil {
					t.Errorf("the job behind it: %v", err)
				}
				if got := q.Counters(); got.Enqueued != 2 || got.Abandoned+got.Uncertain != 1 {
					t.Errorf("counters %+v", got)
				}
			})
		})
	}
}

func TestShutdownInAnOutageHandsBackExactlyWhatIsNotDurable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := newOutage(durable.NewMemory(nil))
		q, err := bridge.Open(engine, nil)
		if err != nil {
			t.Fatal(err)
		}
		kind := bridge.NewKind[int](q, "count", nil)
		safe, _ := kind.TrySubmit(0)
		if err := safe.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		engine.begin(durabletest.Fault{Action: durabletest.Refuse})
		tickets := map[string]*bridge.Ticket{}
		for i := range 500 {
			ticket, err := kind.TrySubmit(i)
			if err != nil {
				t.Fatal(err)
			}
			tickets[ticket.ID()] = ticket
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		report, err := q.Shutdown(ctx)
		if err != nil || ctx.Err() != nil {
			t.Fatalf("shutdown: %v, %v", err, ctx.Err())
		}
		if len(report.Returned) != 500 || len(report.Uncertain) != 0 {
			t.Fatalf("%d returned, %d uncertain; want 500, 0", len(report.Returned), len(report.Uncertain))
		}
		for _, back := range report.Returned {
			if err := tickets[back.ID].Err(); !errors.Is(err, local.ErrAbandoned) || !errors.Is(err, policy.ErrClosed) {
				t.Fatalf("ticket of %s: %v", back.ID, err)
			}
		}
		if got := safe.State(); got != local.Detached {
			t.Errorf("the durable one is %v, want detached", got)
		}
		if _, err := kind.TrySubmit(1); !errors.Is(err, policy.ErrClosed) {
			t.Errorf("submit after shutdown: %v", err)
		}
	})
}

func TestShutdownAsksWhatBecameOfARequestInDoubt(t *testing.T) {
	t.Parallel()
	inDoubt := durabletest.Fault{Action: durabletest.Refuse, Err: durable.ErrInDoubt}
	for name, c := range map[string]struct {
		fault                         durabletest.Fault
		ops                           []durabletest.Op // none: all
		enqueued, returned, uncertain int
	}{
		"it was stored":     {durabletest.Fault{Action: durabletest.Lose}, []durabletest.Op{durabletest.OpAppend}, 1, 0, 0},
		"it was not stored": {inDoubt, []durabletest.Op{durabletest.OpAppend}, 0, 1, 0},
		"nobody answers":    {inDoubt, nil, 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				engine := newOutage(durable.NewMemory(nil))
				q, err := bridge.Open(engine, nil)
				if err != nil {
					t.Fatal(err)
				}
				kind := bridge.NewKind[int](q, "count", nil)
				first, _ := kind.TrySubmit(0)
				if err := first.WaitEnqueued(t.Context()); err != nil {
					t.Fatal(err)
				}
				engine.begin(c.fault, c.ops...)
				second, _ := kind.TrySubmit(1)
				synctest.Wait()

				ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
				defer cancel()
				report, err := q.Shutdown(ctx)
				if err != nil {
					t.Fatal(err)
				}
				got := []int{report.Enqueued, len(report.Returned), len(report.Uncertain)}
				if diff := cmp.Diff([]int{c.enqueued, c.returned, c.uncertain}, got); diff != "" {
					t.Errorf("enqueued, returned, uncertain (-want +got):\n%s", diff)
				}
				want := map[bool]error{c.returned == 1: local.ErrAbandoned, c.uncertain == 1: local.ErrUncertain}[true]
				if err := second.WaitEnqueued(t.Context()); !errors.Is(err, want) {
					t.Errorf("ticket: %v, want %v", err, want)
				}
			})
		})
	}
}
