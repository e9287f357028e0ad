package cron_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/cron"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
	"github.com/seed-9dec4fca/weir/policy"
)

func TestTicks(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 10} {
		for _, notes := range []cron.Notes{cron.NewMemoryNotes(), nil} {
			bubble(t, fmt.Sprintf("%d instances fire each tick once, notes %t", n, notes != nil), func(t *testing.T) {
				w := newWorld()
				w.work(t)
				for range n {
					w.startWith(t, notes, func(i *instance) { add(t, i, "five", "*/5 * * * *", nil) })
				}
				time.Sleep(time.Hour + time.Minute)
				synctest.Wait()
				if ran := w.jobs(t); len(ran) != 12 || ran[0] != "cron:five:2000-01-01T00:05:00Z" {
					t.Error(ran)
				}
				if fired, more := len(w.fired.ticks(cron.EventFired)), len(w.fired.ticks(cron.EventDuplicate)); fired != 12 || more != 12*(n-1) {
					t.Errorf("%d fired, %d duplicates", fired, more)
				}
			})
		}
	}

	bubble(t, "a tick is fired when it is due, across a change of clocks, once", func(t *testing.T) {
		time.Sleep(85 * 24 * time.Hour) // to 2000-03-26, when Berlin's clocks go forward at 01:00 UTC
		w := newWorld()
		for range 2 {
			w.start(t, func(i *instance) {
				add(t, i, "nightly", "30 2 * * *", &cron.ScheduleOptions{Zone: zone(t, "Europe/Berlin")})
			})
		}
		time.Sleep(48 * time.Hour)
		synctest.Wait()
		if diff := cmp.Diff([]string{"01:00", "00:30"}, w.fired.ticks(cron.EventFired)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		w.fired.mu.Lock()
		defer w.fired.mu.Unlock()
		for i, e := range w.fired.events {
			if by := w.fired.at[i].Sub(e.Tick); by < 0 || by > time.Second {
				t.Errorf("%v came %v late", e, by)
			}
		}
	})

	bubble(t, "29 February", func(t *testing.T) {
		time.Sleep(57 * 24 * time.Hour)
		w := newWorld()
		w.start(t, func(i *instance) { add(t, i, "leap", "0 12 29 2 *", nil) })
		time.Sleep(7 * 24 * time.Hour)
		synctest.Wait()
		if diff := cmp.Diff([]string{"12:00"}, w.fired.ticks(cron.EventFired)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})

	bubble(t, "jitter is within its bound, spread, and the same for all", func(t *testing.T) {
		w := newWorld()
		for range 2 {
			w.start(t, func(i *instance) {
				for n := range 100 {
					add(t, i, fmt.Sprint("s", n), "0 * * * *", &cron.ScheduleOptions{Jitter: 10 * time.Minute})
				}
			})
		}
		time.Sleep(time.Hour + 11*time.Minute)
		synctest.Wait()
		w.fired.mu.Lock()
		defer w.fired.mu.Unlock()
		if len(w.fired.events) != 200 {
			t.Fatal(len(w.fired.events), "events")
		}
		when, minutes := map[string]time.Time{}, map[int]bool{}
		for i, e := range w.fired.events {
			at := w.fired.at[i]
			if by := at.Sub(e.Tick); by < 0 || by >= 10*time.Minute+time.Second {
				t.Errorf("%s fired %v late", e.Schedule, by)
			}
			if other, ok := when[e.Schedule]; ok && at.Sub(other).Abs() > time.Second {
				t.Errorf("%s fired at %v and at %v", e.Schedule, other, at)
			}
			when[e.Schedule], minutes[at.Minute()] = at, true
		}
		if len(minutes) != 10 {
			t.Error("in these minutes:", minutes)
		}
	})

	bubble(t, "added and removed while it runs", func(t *testing.T) {
		w := newWorld()
		i := w.start(t, func(*instance) {})
		time.Sleep(30 * time.Second)
		add(t, i, "minute", "* * * * *", nil)
		time.Sleep(2 * time.Minute)
		if !i.s.Remove("minute") || i.s.Remove("minute") {
			t.Error("it was there, once")
		}
		time.Sleep(5 * time.Minute)
		add(t, i, "minute", "* * * * *", nil) // what went by meanwhile was missed
		time.Sleep(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]string{"00:01", "00:02", "00:07", "00:08"}, w.fired.ticks(cron.EventFired)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})

	bubble(t, "thousands of schedules cost one timer", func(t *testing.T) {
		before := runtime.NumGoroutine()
		w := newWorld()
		w.start(t, func(i *instance) {
			for n := range 5000 {
				add(t, i, fmt.Sprint("s", n), "0 * * * *", nil)
			}
		})
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if more := runtime.NumGoroutine() - before; more > 50 { // of other tests, mostly
			t.Error(more, "goroutines")
		}
		time.Sleep(31 * time.Minute)
		synctest.Wait()
		if n := len(w.fired.ticks(cron.EventFired)); n != 5000 {
			t.Error(n, "fired")
		}
	})

	bubble(t, "a value that cannot be encoded fails its tick, and no other", func(t *testing.T) {
		w := newWorld()
		w.start(t, func(i *instance) {
			bad := bridge.NewKind[func()](i.q, "bad", nil)
			if err := cron.Add(i.s, bad, "bad", "0 * * * *", func() {}, nil); err != nil {
				t.Fatal(err)
			}
			add(t, i, "good", "30 * * * *", nil)
		})
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if diff := cmp.Diff([]string{"01:00", "02:00"}, w.fired.ticks(cron.EventFailed)); diff != "" {
			t.Errorf("failed (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"00:30", "01:30"}, w.fired.ticks(cron.EventFired)); diff != "" {
			t.Errorf("fired (-want +got):\n%s", diff)
		}
	})
}

func TestRun(t *testing.T) {
	t.Parallel()
	bubble(t, "ends with its context while the store is away, and fires when it is back", func(t *testing.T) {
		w := newWorld()
		gate := durabletest.NewGate(w.store)
		w.store = gate
		gate.Hold(durabletest.OpAppend)
		i := w.start(t, func(i *instance) { add(t, i, "five", "*/5 * * * *", nil) })
		time.Sleep(7 * time.Minute)
		begun := time.Now()
		i.stop()
		if took := time.Since(begun); took > 5*time.Second {
			t.Error("ended after", took)
		}
		gate.Release(durabletest.OpAppend)
		w.start(t, func(i *instance) { add(t, i, "five", "*/5 * * * *", &cron.ScheduleOptions{Missed: cron.RunLatest}) })
		time.Sleep(time.Second)
		synctest.Wait()
		fired := append(w.fired.ticks(cron.EventFired), w.fired.ticks(cron.EventDuplicate)...) // the request held may have gone through
		if diff := cmp.Diff([]string{"00:05"}, fired); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})

	bubble(t, "twice at once is refused", func(t *testing.T) {
		i := newWorld().start(t, func(*instance) {})
		synctest.Wait()
		if err := i.s.Run(t.Context()); !errors.Is(err, cron.ErrRunning) {
			t.Error(err)
		}
	})

	bubble(t, "ends when the queue was shut down", func(t *testing.T) {
		q, err := bridge.Open(durable.NewMemory(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		s := cron.New(nil, nil)
		if err := cron.Add(s, bridge.NewKind[int](q, "k", nil), "n", "* * * * *", 1, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := q.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Run(t.Context()); !errors.Is(err, policy.ErrClosed) {
			t.Error(err)
		}
	})

	for name, notes := range map[string]cron.Notes{"with notes": cron.NewMemoryNotes(), "without": nil} {
		bubble(t, "a restart fires nothing twice, "+name, func(t *testing.T) {
			w := newWorld()
			w.work(t)
			plan := func(i *instance) { add(t, i, "minute", "* * * * *", nil) }
			i := w.startWith(t, notes, plan)
			time.Sleep(time.Minute + time.Second)
			for range 5 {
				i.stop()
				i = w.startWith(t, notes, plan)
				time.Sleep(time.Second)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if ran := w.jobs(t); len(ran) != 2 {
				t.Error(ran)
			}
			if diff := cmp.Diff([]string{"00:01", "00:02"}, w.fired.ticks(cron.EventFired)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if more := w.fired.ticks(cron.EventDuplicate); len(more) > 0 {
				t.Error("submitted again:", more)
			}
		})
	}

	bubble(t, "a full front delays a tick, and it fires when there is room", func(t *testing.T) {
		w := newWorld()
		w.store = durable.NewMemory(&durable.MemoryOptions{MaxBacklog: 1})
		q, err := bridge.Open(w.store, &bridge.Options{Capacity: 1})
		if err != nil {
			t.Fatal(err)
		}
		kind := bridge.NewKind[int](q, "count", nil)
		s := cron.New(w.notes, &cron.Options{OnEvent: w.fired.add})
		if err := cron.Add(s, kind, "one", "30 * * * *", 1, &cron.ScheduleOptions{Late: 20 * time.Minute}); err != nil {
			t.Fatal(err)
		}
		for range 2 { // one in the store, one in the front
			if _, err := kind.Submit(t.Context(), 0, policy.Wait(time.Second)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(35 * time.Minute)
		synctest.Wait()
		if len(w.fired.ticks(cron.EventDelayed)) == 0 || len(w.fired.ticks(cron.EventFired)) > 0 {
			t.Error("fired without room:", w.fired.all())
		}
		w.work(t)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]string{"00:30"}, w.fired.ticks(cron.EventFired)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := q.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAddRefusesByName(t *testing.T) {
	t.Parallel()
	q, err := bridge.Open(durable.NewMemory(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	kind := bridge.NewKind[int](q, "k", nil)
	noted, alone := cron.New(cron.NewMemoryNotes(), nil), cron.New(nil, nil)
	for what, c := range map[string]struct {
		s    *cron.Scheduler
		kind *bridge.Kind[int]
		name string
		expr string
		opts cron.ScheduleOptions
		want string
	}{
		"no scheduler":      {nil, kind, "n", "@daily", cron.ScheduleOptions{}, "scheduler is nil"},
		"no kind":           {noted, nil, "n", "@daily", cron.ScheduleOptions{}, "kind is nil"},
		"no name":           {noted, kind, "", "@daily", cron.ScheduleOptions{}, "empty"},
		"a long name":       {noted, kind, strings.Repeat("n", 201), "@daily", cron.ScheduleOptions{}, "201 bytes"},
		"a bad name":        {noted, kind, "a\nb", "@daily", cron.ScheduleOptions{}, "control"},
		"a name of no text": {noted, kind, "a\xff", "@daily", cron.ScheduleOptions{}, "UTF-8"},
		"a bad expression":  {noted, kind, "n", "x", cron.ScheduleOptions{}, `schedule "n"`},
		"this machine":      {noted, kind, "n", "@daily", cron.ScheduleOptions{Zone: time.Local}, "time.Local"},
		"jitter":            {noted, kind, "n", "@daily", cron.ScheduleOptions{Jitter: -1}, "Jitter"},
		"late":              {noted, kind, "n", "@daily", cron.ScheduleOptions{Late: -1}, "Late"},
		"retention":         {noted, kind, "n", "@daily", cron.ScheduleOptions{Retention: -1}, "Retention"},
		"too short":         {noted, kind, "n", "@daily", cron.ScheduleOptions{Retention: time.Minute}, "Late and Jitter"},
		"next to nothing":   {noted, kind, "n", "@daily", cron.ScheduleOptions{Late: 1}, "millisecond"},
		"timeout":           {noted, kind, "n", "@daily", cron.ScheduleOptions{Timeout: -1}, "Timeout"},
		"attempts":          {noted, kind, "n", "@daily", cron.ScheduleOptions{MaxAttempts: -1}, "MaxAttempts"},
		"max missed":        {noted, kind, "n", "@daily", cron.ScheduleOptions{MaxMissed: -1}, "MaxMissed"},
		"many missed":       {noted, kind, "n", "@daily", cron.ScheduleOptions{MaxMissed: 10_001}, "MaxMissed"},
		"missed":            {noted, kind, "n", "@daily", cron.ScheduleOptions{Missed: 9}, "Missed 9"},
		"missed, not noted": {alone, kind, "n", "@daily", cron.ScheduleOptions{Missed: cron.RunAll}, "no Notes"},
		"latest, not noted": {alone, kind, "n", "@daily", cron.ScheduleOptions{Missed: cron.RunLatest}, "no Notes"},
	} {
		if err := cron.Add(c.s, c.kind, c.name, c.expr, 1, &c.opts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := cron.Add(noted, kind, "n", "@daily", 1, nil); err != nil {
		t.Error(err)
	}
	if err := cron.Add(noted, kind, "n", "@hourly", 1, nil); !errors.Is(err, cron.ErrNameTaken) {
		t.Error(err)
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 2, 30, 0, 0, zone(t, "Europe/Berlin"))
	id := cron.ID("a:b", at)
	if id != "cron:a:b:2026-03-01T01:30:00Z" {
		t.Error(id)
	}
	if name, tick, ok := cron.Tick(id); name != "a:b" || !tick.Equal(at) || !ok {
		t.Error(name, tick, ok)
	}
	for _, id := range []string{"", "cron:", "cron:2026-03-01T01:30:00Z", "cron::2026-03-01T01:30:00Z", "x:a:2026-03-01T01:30:00Z", "cron:a:2026-13-01T01:30:00Z"} {
		if _, _, ok := cron.Tick(id); ok {
			t.Errorf("%q is the ID of a tick", id)
		}
	}
}
