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

// expired waits for the end of a job that must expire after a time, within a while.
func (b *bench) expired(t *testing.T, ticket *bridge.Ticket, after, within time.Duration) {
	t.Helper()
	began := time.Now()
	err := ticket.Wait(t.Context())
	if took := time.Since(began); !errors.Is(err, local.ErrExpired) || took < after || took > after+within {
		t.Errorf("%v, after %v", err, took)
	}
	synctest.Wait()
	if e := b.events.of(ticket.ID()); !slices.Contains(e, bridge.EventExpired) {
		t.Errorf("events: %v", names(e))
	}
	if got := b.q.Counters(); got.Started != 0 {
		t.Errorf("it has run: %+v", got)
	}
	b.conserved(t)
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	hour := bridge.Job[int]{ID: "hour", Expiry: time.Hour}
	never := func(t *testing.T) func(context.Context, *bridge.Delivery[int]) error {
		t.Helper()
		return func(context.Context, *bridge.Delivery[int]) error { t.Error("run"); return nil }
	}
	bubble(t, "in the front: at its time, and never sent", func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "count", never(t))
		b.gate.Hold(durabletest.OpAppend)
		plug := submit(t, kind, 1)
		synctest.Wait()
		job := hour
		job.Expiry = 5 * time.Second
		b.expired(t, submitJob(t, kind, job), 5*time.Second, 0)
		b.gate.Release(durabletest.OpAppend)
		if err := plug.WaitEnqueued(t.Context()); err != nil || b.stored(t).Pending != 1 {
			t.Errorf("%v, %+v", err, b.stored(t))
		}
		if c := b.q.Counters(); c.Expired != 1 || c.FrontExpired != 1 {
			t.Errorf("%+v", c)
		}
	})
	bubble(t, "in the front: many, each when it is over or soon after, the others stay", func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind(b.q, "count", &bridge.KindOptions[int]{Expiry: 10 * time.Second})
		b.outage.begin(durabletest.Fault{Action: durabletest.Refuse})
		began := time.Now()
		late := time.Duration(0)
		tickets := make([]*bridge.Ticket, 500)
		for i := range tickets {
			tickets[i] = submit(t, kind, i)
			time.Sleep(time.Millisecond)
		}
		stays := submitJob(t, kind, hour)
		for i, ticket := range tickets {
			<-ticket.Done()
			late = max(late, time.Since(began)-10*time.Second-time.Duration(i)*time.Millisecond)
			if ticket.State() != local.Expired {
				t.Fatal(ticket.Err())
			}
		}
		if late > 100*time.Millisecond || stays.State() != local.Accepted {
			t.Errorf("%v late, the other one is %v", late, stays.State())
		}
		b.conserved(t)
		b.outage.end()
		if err := stays.WaitEnqueued(t.Context()); err != nil {
			t.Error(err)
		}
	})
	bubble(t, "taken from the front and not sent: at its time", func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "count", never(t))
		b.outage.begin(durabletest.Fault{Action: durabletest.Refuse})
		b.expired(t, submitJob(t, kind, hour), time.Hour, 0)
		b.outage.end()
	})
	bubble(t, "in the store: when a worker meets it", func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "count", never(t))
		ticket := submitJob(t, kind, hour)
		if err := ticket.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		b.run(t, nil)
		time.Sleep(time.Second) // who looks at the ticket has the store asked: that may be quicker
		b.expired(t, ticket, 0, time.Second)
		if c := b.q.Counters(); c.Expired != 1 || c.FrontExpired != 0 || c.Enqueued != 1 {
			t.Errorf("%+v", c)
		}
	})
	bubble(t, "in the store, with no worker at all: at its time, if somebody waits for it", func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		unwatched := submitJob(t, kind, bridge.Job[int]{ID: "unwatched", Expiry: time.Minute})
		watched, began := submitJob(t, kind, bridge.Job[int]{ID: "watched", Expiry: 10 * time.Minute}), time.Now()
		if err := watched.Wait(t.Context()); !errors.Is(err, local.ErrExpired) || time.Since(began) > 10*time.Minute+time.Second {
			t.Errorf("%v, after %v", err, time.Since(began))
		}
		if got := b.stored(t); unwatched.State() != local.Enqueued || got.Pending != 1 {
			t.Errorf("nobody looks at it: %v, %+v", unwatched.State(), got)
		}
		began = time.Now()
		if err := unwatched.Wait(t.Context()); !errors.Is(err, local.ErrExpired) || time.Since(began) > time.Second {
			t.Errorf("the first look, much later: %v, after %v", err, time.Since(began))
		}
	})
	bubble(t, "the time in the front counts", func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		b.outage.begin(durabletest.Fault{Action: durabletest.Refuse})
		ticket := submitJob(t, kind, hour)
		time.Sleep(20 * time.Minute)
		b.outage.end()
		if err := ticket.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		job, err := b.q.Operator().Lookup(t.Context(), "hour")
		if left := time.Until(job.Expires); err != nil || left > 40*time.Minute || left < 39*time.Minute {
			t.Errorf("%v are left, %v", left, err)
		}
	})
	bubble(t, "and the time in doubt, but for that of the last exchange", func(t *testing.T) {
		b := setup(t, nil)
		kind := bridge.NewKind[int](b.q, "count", nil)
		b.outage.begin(durabletest.Fault{Action: durabletest.Hang}, durabletest.OpAppend)
		ticket := submitJob(t, kind, hour)
		time.Sleep(20 * time.Minute)
		b.outage.end()
		if err := ticket.WaitEnqueued(t.Context()); err != nil {
			t.Fatal(err)
		}
		job, err := b.q.Operator().Lookup(t.Context(), "hour")
		if left := time.Until(job.Expires); err != nil || left > 40*time.Minute+10*time.Second || left < 39*time.Minute {
			t.Errorf("%v are left, %v", left, err)
		}
	})
	bubble(t, "what waits for a slot longer than it is worth is not sent either", func(t *testing.T) {
		b := setup(t, &bridge.Options{Capacity: 1})
		kind := bridge.NewKind[int](b.q, "count", nil)
		b.gate.Hold(durabletest.OpAppend)
		plug := submit(t, kind, 1)
		time.AfterFunc(5*time.Second, func() { b.gate.Release(durabletest.OpAppend) })
		ticket, err := kind.SubmitJob(t.Context(), bridge.Job[int]{ID: "a", Expiry: time.Second}, policy.Wait(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		b.expired(t, ticket, 0, 0)
		if err := plug.WaitEnqueued(t.Context()); err != nil || b.stored(t).Pending != 1 {
			t.Errorf("%v, %+v", err, b.stored(t))
		}
	})
}

func TestNotBefore(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]time.Duration{"at once": 0, "after an outage": 20 * time.Minute, "after an outage that was longer": 90 * time.Minute} {
		bubble(t, "it is run at the moment, or when it can be: sent "+name, func(t *testing.T) {
			b := setup(t, nil)
			var ran time.Time
			kind := b.handle(t, "count", func(context.Context, *bridge.Delivery[int]) error { ran = time.Now(); return nil })
			began := time.Now()
			moment := began.Add(time.Hour + time.Microsecond).Round(0)
			b.outage.begin(durabletest.Fault{Action: durabletest.Refuse})
			ticket := submitJob(t, kind, bridge.Job[int]{ID: "a", NotBefore: moment})
			b.run(t, nil)
			time.Sleep(away)
			b.outage.end()
			if err := ticket.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			earliest := moment
			if from := began.Add(away); from.After(moment) {
				earliest = from
			}
			if late := ran.Sub(earliest); late < 0 || late > 5*time.Second {
				t.Errorf("%v late", late)
			}
		})
	}
}

func TestResultAndProgress(t *testing.T) {
	t.Parallel()
	bubble(t, "the ticket has the result, the store keeps it for as long as was said", func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "count", func(_ context.Context, d *bridge.Delivery[int]) error {
			return errors.Join(d.SetResult([]byte("first"), time.Minute), d.SetResult([]byte("last"), time.Duration(d.Value)*time.Hour))
		})
		b.run(t, nil)
		kept, gone, own := submit(t, kind, 1), submit(t, kind, 0), submitJob(t, kind, bridge.Job[int]{ID: "own", Retention: time.Hour})
		for _, ticket := range []*bridge.Ticket{kept, gone, own} {
			if err := ticket.Wait(t.Context()); err != nil || string(ticket.Result()) != "last" {
				t.Errorf("%v, %q", err, ticket.Result())
			}
			job, err := b.q.Operator().Fetch(t.Context(), ticket.ID())
			if ticket == gone {
				if !errors.Is(err, durable.ErrNoJob) {
					t.Errorf("%+v, %v", job, err)
				}
			} else if err != nil || string(job.Result) != "last" {
				t.Errorf("%q, %v", job.Result, err)
			}
		}
		time.Sleep(time.Hour)
		if _, err := b.q.Operator().Fetch(t.Context(), kept.ID()); !errors.Is(err, durable.ErrNoJob) {
			t.Error(err)
		}
	})
	bubble(t, "of a run that fails there is none", func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "count", func(_ context.Context, d *bridge.Delivery[int]) error {
			if d.Attempt == 1 {
				return errors.Join(d.SetResult([]byte("bad"), time.Hour), errors.New("boom"))
			}
			return nil
		})
		b.run(t, nil)
		if ticket := submit(t, kind, 1); ticket.Wait(t.Context()) != nil || ticket.Result() != nil {
			t.Errorf("%v, %q", ticket.Err(), ticket.Result())
		}
	})
	bubble(t, "what cannot be kept is refused by name", func(t *testing.T) {
		for name, b := range map[string]*bench{
			"all":  setup(t, &bridge.Options{MaxPayload: 100}),
			"none": setupOn(t, lacking{durable.NewMemory(nil), func(has *durable.Capabilities) { has.Results = false }}, nil),
		} {
			kind := b.handle(t, "count", func(_ context.Context, d *bridge.Delivery[int]) error {
				if name == "none" {
					if errs := []error{d.SetResult(nil, 0), d.Progress(nil)}; !errors.Is(errs[0], durable.ErrUnsupported) || !errors.Is(errs[1], durable.ErrUnsupported) {
						t.Error(errs)
					}
					return nil
				}
				for says, err := range map[string]error{
					"MaxPayload":              d.SetResult(make([]byte, 101), 0),
					"retention is negative":   d.SetResult(nil, -1),
					"less than a millisecond": d.SetResult(nil, 1),
					"MaxNoticed":              d.Progress(make([]byte, durable.MaxNoticed+1)),
				} {
					if err == nil || !strings.Contains(err.Error(), says) {
						t.Errorf("%s: %v", says, err)
					}
				}
				return errors.Join(d.SetResult(make([]byte, 100), 0), d.Progress(make([]byte, durable.MaxNoticed)))
			})
			b.run(t, nil)
			if err := submit(t, kind, 1).Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	bubble(t, "progress is on the ticket at once, and in the store about ten times a second", func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "count", func(_ context.Context, d *bridge.Delivery[int]) error {
			for i := range 10_000 {
				if err := d.Progress([]byte{byte(i >> 8), byte(i)}); err != nil {
					return err
				}
				time.Sleep(time.Millisecond)
			}
			time.Sleep(time.Second)
			job, err := b.q.Operator().Lookup(context.Background(), d.ID)
			if last := []byte{9999 >> 8, 9999 & 0xff}; string(job.Progress) != string(last) {
				t.Errorf("the store has %v, want %v", job.Progress, last)
			}
			return err
		})
		b.run(t, nil)
		tickets := []*bridge.Ticket{submit(t, kind, 1), submit(t, kind, 2)}
		for range 3 {
			_, next := tickets[0].Progress()
			<-next
		}
		report, _ := tickets[0].Progress()
		if len(report) != 2 || report[0] != 0 || report[1] > 4 {
			t.Errorf("the ticket has %v", report)
		}
		for _, ticket := range tickets {
			if err := ticket.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if n := b.outage.Calls(durabletest.OpTell); n < 90 || n > 110 {
			t.Errorf("told %d times in ten seconds", n)
		}
	})
	bubble(t, "progress that the store did not take is told later", func(t *testing.T) {
		b := setup(t, nil)
		kind := b.handle(t, "count", func(_ context.Context, d *bridge.Delivery[int]) error {
			b.outage.begin(durabletest.Fault{Action: durabletest.Refuse}, durabletest.OpTell)
			err := d.Progress([]byte("half"))
			time.Sleep(5 * time.Second)
			b.outage.end()
			time.Sleep(10 * time.Second)
			job, failed := b.q.Operator().Lookup(context.Background(), d.ID)
			if string(job.Progress) != "half" {
				t.Errorf("the store has %q", job.Progress)
			}
			return errors.Join(err, failed)
		})
		b.run(t, nil)
		if err := submit(t, kind, 1).Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
	bubble(t, "large results are told in several exchanges", func(t *testing.T) {
		b := setup(t, nil)
		const n = 16
		var all [n]chan struct{}
		release := make(chan struct{})
		kind := b.handle(t, "count", func(_ context.Context, d *bridge.Delivery[int]) error {
			close(all[d.Value])
			<-release
			return d.SetResult(make([]byte, 300<<10), time.Hour)
		})
		b.run(t, &bridge.RunOptions{Workers: n})
		var tickets [n]*bridge.Ticket
		for i := range n {
			all[i] = make(chan struct{})
			tickets[i] = submit(t, kind, i)
		}
		for i := range n {
			<-all[i]
		}
		before := b.outage.Calls(durabletest.OpSettle)
		close(release)
		for _, ticket := range tickets {
			if err := ticket.Wait(t.Context()); err != nil || len(ticket.Result()) != 300<<10 {
				t.Errorf("%v, %d bytes", err, len(ticket.Result()))
			}
		}
		if calls := b.outage.Calls(durabletest.OpSettle) - before; calls < n/3 {
			t.Errorf("%d exchanges", calls)
		}
	})
}
