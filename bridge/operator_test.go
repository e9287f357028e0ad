package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
	"github.com/seed-9dec4fca/weir/policy"
)

// plain is an engine without anything beside the hot path.
type plain struct{ durable.Engine }

func TestOperatorLooksAJobUp(t *testing.T) {
	t.Parallel()
	bubble(t, "from accepted to completed, and for its retention", func(t *testing.T) {
		b := setup(t, nil)
		release := make(chan struct{})
		kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { <-release; return nil })
		op := b.q.Operator()
		ticket := submitJob(t, kind, bridge.Job[int]{
			ID: "a", Value: 7, Headers: map[string]string{"h": "1"}, Retention: time.Hour, Delay: time.Minute,
		})
		if err := ticket.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		job, err := op.Fetch(t.Context(), "a")
		if err != nil || job.State != durable.StateScheduled || job.Kind != "count" || job.Headers["h"] != "1" || string(job.Payload) != "7" ||
			time.Until(job.Due) != time.Minute {
			t.Errorf("scheduled: %+v, %v", job, err)
		}
		b.run(t, nil)
		<-ticket.Started()
		if job, err = op.Lookup(t.Context(), "a"); err != nil || job.State != durable.StateProcessing || job.Consumer == "" || job.Payload != nil {
			t.Errorf("processing: %+v, %v", job, err)
		}
		close(release)
		if err := ticket.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if job, err = op.Lookup(t.Context(), "a"); err != nil || job.State != durable.StateCompleted || time.Until(job.Due) != time.Hour {
			t.Errorf("completed: %+v, %v", job, err)
		}
		again := submitJob(t, kind, bridge.Job[int]{ID: "a"})
		if err := again.Wait(t.Context()); err != nil || again.Duplicate() != "a" {
			t.Errorf("the same ID while it is kept: %v, a duplicate of %q", err, again.Duplicate())
		}
		time.Sleep(time.Hour)
		if _, err = op.Lookup(t.Context(), "a"); !errors.Is(err, durable.ErrNoJob) {
			t.Errorf("after its retention: %v", err)
		}
		if err := submitJob(t, kind, bridge.Job[int]{ID: "a"}).Wait(t.Context()); err != nil {
			t.Errorf("the same ID afterwards: %v", err)
		}
	})
	bubble(t, "with the retention of the job, or its kind, or the queue", func(t *testing.T) {
		b := setup(t, &bridge.Options{Retention: time.Hour})
		kinds := map[string]*bridge.Kind[int]{
			"queue": bridge.NewKind[int](b.q, "queue", nil),
			"kind":  bridge.NewKind(b.q, "kind", &bridge.KindOptions[int]{Retention: 2 * time.Hour}),
		}
		for name, want := range map[string]time.Duration{"queue": time.Hour, "kind": 2 * time.Hour} {
			for id, own := range map[string]time.Duration{name: 0, name + " own": 3 * time.Hour} {
				if err := submitJob(t, kinds[name], bridge.Job[int]{ID: id, Retention: own}).WaitEnqueued(t.Context()); err != nil {
					t.Fatal(err)
				}
				job, err := b.q.Operator().Lookup(t.Context(), id)
				if err != nil || job.Retention != max(want, own) {
					t.Errorf("%s: %+v, %v", id, job, err)
				}
			}
		}
	})
}

func TestOperatorTendsTheDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		broken := true
		kind := b.handle(t, "count", func(_ context.Context, d *bridge.Delivery[int]) error {
			if broken {
				return bridge.Permanent(fmt.Errorf("broken by %d", d.Value%3))
			}
			return nil
		})
		b.run(t, nil)
		for i := range 300 {
			submitJob(t, kind, bridge.Job[int]{ID: fmt.Sprint("job-", i), Value: i})
		}
		synctest.Wait()
		op := b.q.Operator()
		seen := 0
		for job, err := range op.Each(t.Context(), durable.JobsRequest{State: durable.StateDead, Filter: durable.Filter{Reason: "by 1"}}) {
			if err != nil || job.State != durable.StateDead || !strings.HasSuffix(job.Reason, "by 1") {
				t.Fatalf("%+v, %v", job, err)
			}
			seen++
		}
		if seen != 100 {
			t.Errorf("%d seen", seen)
		}
		broken = false
		if h, err := op.Redrive(t.Context(), durable.Selection{IDs: []string{"job-1", "nobody"}}); err != nil || len(h.IDs) != 1 || len(h.Missed) != 1 {
			t.Errorf("redrive of one: %+v, %v", h, err)
		}
		s := durable.Selection{Filter: durable.Filter{Kinds: []string{"count"}, Reason: "by 2"}, Limit: 30}
		redriven := 0
		for more := true; more; {
			h, err := op.Redrive(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			redriven += len(h.IDs)
			s.Cursor, more = h.Cursor, h.More()
		}
		synctest.Wait()
		if got := b.stored(t); redriven != 100 || got.Dead != 199 || got.Pending+got.Processing != 0 {
			t.Errorf("%d redriven, stored %+v", redriven, got)
		}
		h, err := op.Discard(t.Context(), durable.Selection{All: true, Limit: 500})
		if err != nil || len(h.IDs) != 199 || h.More() {
			t.Errorf("discard: %d, %v", len(h.IDs), err)
		}
		if c := b.q.Counters(); c.Completed != 101 || c.Dead != 300 {
			t.Errorf("counters %+v", c)
		}
	})
}

func TestPausedIntakeRefusesSubmitAndSaysWhy(t *testing.T) {
	t.Parallel()
	bubble(t, "of every process, whatever the policy, until it is resumed", func(t *testing.T) {
		memory := durable.NewMemory(nil)
		one, two := setupOn(t, memory, nil), setupOn(t, memory, nil)
		kind := bridge.NewKind[int](two.q, "count", nil)
		if err := submit(t, kind, 1).WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := one.q.Operator().Pause(t.Context(), durable.Intake, "ann"); err != nil {
			t.Fatal(err)
		}
		early := submit(t, kind, 2) // nobody has told this process yet
		synctest.Wait()
		for _, p := range []policy.Policy{policy.Reject(), policy.Wait(time.Minute), policy.DropIncoming(), policy.DropOldest()} {
			_, err := kind.Submit(t.Context(), 3, p)
			rejection, ok := errors.AsType[*policy.Rejection](err)
			if !ok || rejection.Stage != policy.StageDurable || !errors.Is(err, durable.ErrPaused) || !errors.Is(err, policy.ErrUnusable) || errors.Is(err, policy.ErrFull) {
				t.Errorf("%v: %v", p, err)
			}
		}
		time.Sleep(time.Second)
		_, _ = kind.TrySubmit(3) // looks again
		time.Sleep(time.Second)
		if _, err := kind.TrySubmit(3); err == nil || !strings.Contains(err.Error(), "by ann") {
			t.Errorf("it is not said who: %v", err)
		}
		s, err := two.q.Stats(t.Context())
		if err != nil || !s.Durable.Intake.Active || s.Durable.Intake.By != "ann" || s.Durable.Consumption.Active || two.q.Pressure() != 1 {
			t.Errorf("stats: %+v, %v; pressure %v", s.Durable, err, two.q.Pressure())
		}
		select {
		case <-early.Enqueued():
			t.Error("enqueued while intake is paused")
		default:
		}
		if err := one.q.Operator().Resume(t.Context(), durable.Intake); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := submit(t, kind, 4).WaitEnqueued(t.Context()); err != nil {
			t.Error(err)
		}
		if err := early.WaitEnqueued(t.Context()); err != nil {
			t.Errorf("what was accepted before it was known: %v", err)
		}
		if a, z := len(two.events.every(bridge.EventIntakePaused)), len(two.events.every(bridge.EventIntakeResumed)); a != 1 || z != 1 {
			t.Errorf("%d events paused, %d resumed", a, z)
		}
		if two.q.Pressure() == 1 {
			t.Error("the pressure stays")
		}
		two.conserved(t)
	})
	// Nothing is in the front, so no append tells that the intake is resumed.
	bubble(t, "is noticed to be resumed by calls of Submit alone", func(t *testing.T) {
		memory := durable.NewMemory(nil)
		b := setupOn(t, memory, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		if err := b.q.Operator().Pause(t.Context(), durable.Intake, "ann"); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			if _, err := kind.TrySubmit(1); !errors.Is(err, durable.ErrPaused) {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := b.outage.Calls(durabletest.OpStats); n < 10 || n > 30 {
			t.Errorf("the store was asked %d times in 10 s", n)
		}
		if err := memory.Resume(t.Context(), durable.Intake); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		_, _ = kind.TrySubmit(1)
		time.Sleep(time.Second)
		if err := submit(t, kind, 1).WaitEnqueued(t.Context()); err != nil {
			t.Error(err)
		}
	})
	bubble(t, "hands back at Shutdown what has waited for it", func(t *testing.T) {
		memory := durable.NewMemory(nil)
		b := open(t, memory, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		if err := memory.Pause(t.Context(), durable.Intake, "ann"); err != nil {
			t.Fatal(err)
		}
		submit(t, kind, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if report, err := b.q.Shutdown(ctx); err != nil || len(report.Returned) != 1 || len(report.Uncertain) != 0 {
			t.Errorf("%+v, %v", report, err)
		}
		if _, err := kind.TrySubmit(1); !errors.Is(err, policy.ErrClosed) {
			t.Errorf("after Shutdown: %v", err)
		}
	})
}

func TestPausedConsumptionStartsNoHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := durable.NewMemory(nil)
		one, two := setupOn(t, memory, nil), setupOn(t, memory, nil)
		var started atomic.Int64
		kind := two.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { started.Add(1); return nil })
		two.run(t, nil)
		if err := submit(t, kind, 1).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // it is parked
		if err := one.q.Operator().Pause(t.Context(), durable.Consumption, "ann"); err != nil {
			t.Fatal(err)
		}
		var tickets []*bridge.Ticket
		for i := range 50 {
			tickets = append(tickets, submit(t, kind, i))
		}
		time.Sleep(time.Hour)
		if n := started.Load(); n != 1 {
			t.Errorf("%d handlers were started", n)
		}
		if n := two.outage.Calls(durabletest.OpClaim); n > 4*3600 {
			t.Errorf("%d claims in an hour", n)
		}
		if err := one.q.Operator().Resume(t.Context(), durable.Consumption); err != nil {
			t.Fatal(err)
		}
		resumed := time.Now()
		for _, ticket := range tickets {
			if err := ticket.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if d := time.Since(resumed); d > time.Second {
			t.Errorf("resumed after %v", d)
		}
		if a, z := len(two.events.every(bridge.EventConsumptionPaused)), len(two.events.every(bridge.EventConsumptionResumed)); a != 1 || z != 1 {
			t.Errorf("%d events paused, %d resumed", a, z)
		}
	})
}

func TestPurgeIsLoudAndNeedsTheName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		for i := range 1000 {
			submitJob(t, kind, bridge.Job[int]{ID: fmt.Sprint(i), Delay: time.Duration(i%2) * time.Hour})
		}
		synctest.Wait()
		op := b.q.Operator()
		if p, err := op.Purge(t.Context(), durable.PurgeRequest{Confirm: "mail"}); !errors.Is(err, durable.ErrUnconfirmed) || p.Total() != 0 {
			t.Errorf("unconfirmed: %+v, %v", p, err)
		}
		p, err := op.Purge(t.Context(), durable.PurgeRequest{Confirm: "memory"})
		if err != nil || p.Deleted[durable.StatePending] != 500 || p.Deleted[durable.StateScheduled] != 500 || p.Cursor != "" {
			t.Errorf("purged: %+v, %v", p, err)
		}
		events := b.events.every(bridge.EventPurged)
		if len(events) != 1 || !strings.Contains(events[0].Err.Error(), "500 pending, 500 scheduled") {
			t.Errorf("events: %+v", events)
		}
		if got := b.stored(t); got.Pending+got.Scheduled != 0 {
			t.Errorf("stored: %+v", got)
		}
	})
}

func TestOperatorCallsThatCannotBe(t *testing.T) {
	t.Parallel()
	calls := func(ctx context.Context, q *bridge.Queue) map[string]error {
		op := q.Operator()
		errs := map[string]error{"each": nil} // also where it yields nothing
		_, errs["lookup"] = op.Lookup(ctx, "a")
		_, errs["jobs"] = op.Jobs(ctx, durable.JobsRequest{State: durable.StateDead})
		_, errs["redrive"] = op.Redrive(ctx, durable.Selection{All: true})
		_, errs["discard"] = op.Discard(ctx, durable.Selection{All: true})
		errs["pause"] = op.Pause(ctx, durable.Intake, "ann")
		errs["resume"] = op.Resume(ctx, durable.Intake)
		_, errs["purge"] = op.Purge(ctx, durable.PurgeRequest{Confirm: "memory"})
		for _, err := range op.Each(ctx, durable.JobsRequest{State: durable.StateDead}) {
			errs["each"] = err
		}
		return errs
	}
	bubble(t, "of an engine without them are refused by name", func(t *testing.T) {
		q, err := bridge.Open(plain{durable.NewMemory(nil)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for what, err := range calls(t.Context(), q) {
			if !errors.Is(err, durable.ErrNoOperator) || !strings.Contains(err.Error(), "plain") {
				t.Errorf("%s: %v", what, err)
			}
		}
		gated := setupOn(t, durabletest.NewGate(plain{durable.NewMemory(nil)}), nil)
		for what, err := range calls(t.Context(), gated.q) {
			if !errors.Is(err, durable.ErrNoOperator) {
				t.Errorf("%s, behind a gate: %v", what, err)
			}
		}
	})
	bubble(t, "never outlast their contexts", func(t *testing.T) {
		b := setup(t, nil)
		b.outage.begin(durabletest.Fault{Action: durabletest.Hang})
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for what, err := range calls(ctx, b.q) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if d := time.Since(start); d != time.Second {
			t.Errorf("it took %v", d)
		}
	})
	bubble(t, "after Shutdown ask nothing", func(t *testing.T) {
		b := setup(t, nil)
		calls(t.Context(), b.q)
		shutdown(t, b.q)
		asked := b.outage.total()
		for what, err := range calls(t.Context(), b.q) {
			if !errors.Is(err, policy.ErrClosed) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if n := b.outage.total() - asked; asked == 0 || n != 0 {
			t.Errorf("%d calls of the engine, and %d before", n, asked)
		}
	})
}

// doubtful has a warning, which changes.
type doubtful struct {
	*durable.Memory
	warnings durable.CheckWarnings
}

func (d *doubtful) Inspect(context.Context) (durable.CheckWarnings, error) { return d.warnings, nil }

func TestDoubtsAreLoggedOnceAndShownByStats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := &doubtful{Memory: durable.NewMemory(nil), warnings: durable.CheckWarnings{"MaxBacklog is 5 here"}}
		lines := &lineCounter{}
		b := setupOn(t, engine, &bridge.Options{Logger: slog.New(slog.NewTextHandler(lines, nil))})
		for range 5 {
			if err := b.q.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if s, err := b.q.Stats(t.Context()); err != nil || len(s.Warnings) != 1 || s.Warnings[0] != engine.warnings[0] {
			t.Errorf("%+v, %v", s.Warnings, err)
		}
		if lines.lines.Load() != 1 {
			t.Errorf("%d lines", lines.lines.Load())
		}
		engine.warnings = nil
		if err := b.q.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s, _ := b.q.Stats(t.Context()); len(s.Warnings) != 0 {
			t.Errorf("%+v", s.Warnings)
		}
	})
}
