package cron_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-9dec4fca/weir/cron"
)

func TestMissedTicks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts    cron.ScheduleOptions
		want    []string
		skipped [][2]string
	}{
		"skipped":                    {cron.ScheduleOptions{}, nil, [][2]string{{"00:20", "01:10"}}},
		"the latest runs":            {cron.ScheduleOptions{Missed: cron.RunLatest}, []string{"01:10"}, [][2]string{{"00:20", "01:00"}}},
		"all run":                    {cron.ScheduleOptions{Missed: cron.RunAll}, []string{"00:20", "00:30", "00:40", "00:50", "01:00", "01:10"}, nil},
		"all run up to a bound":      {cron.ScheduleOptions{Missed: cron.RunAll, MaxMissed: 2}, []string{"01:00", "01:10"}, [][2]string{{"00:20", "00:50"}}},
		"the bound is just enough":   {cron.ScheduleOptions{Missed: cron.RunAll, MaxMissed: 6}, []string{"00:20", "00:30", "00:40", "00:50", "01:00", "01:10"}, nil},
		"late enough is not missed":  {cron.ScheduleOptions{Late: 25 * time.Minute}, []string{"01:00", "01:10"}, [][2]string{{"00:20", "00:50"}}},
		"one on time replaces older": {cron.ScheduleOptions{Missed: cron.RunLatest, Late: 10 * time.Minute}, []string{"01:10"}, [][2]string{{"00:20", "01:00"}}},
	} {
		bubble(t, name, func(t *testing.T) {
			w := newWorld()
			plan := func(i *instance) { add(t, i, "ten", "*/10 * * * *", &c.opts) }
			one, two := w.start(t, plan), w.start(t, plan)
			time.Sleep(11 * time.Minute)
			one.stop()
			two.stop()
			time.Sleep(65 * time.Minute) // to 01:16, more or less
			w.fired.forget()
			w.start(t, plan)
			w.start(t, plan)
			time.Sleep(time.Minute)
			synctest.Wait()
			fired := w.fired.ticks(cron.EventFired)
			slices.Sort(fired) // two instances tell in any order who was first with which
			if diff := cmp.Diff(c.want, fired); diff != "" {
				t.Errorf("fired (-want +got):\n%s", diff)
			}
			var skipped [][2]string
			for _, e := range w.fired.all() {
				if e.Type == cron.EventSkipped {
					skipped = append(skipped, [2]string{e.Tick.Format("15:04"), e.Until.Format("15:04")})
				}
			}
			for len(skipped) > len(c.skipped) && len(c.skipped) > 0 && cmp.Equal(skipped[len(skipped)-1], c.skipped[0]) {
				skipped = skipped[:len(skipped)-1] // the other one has noticed too
			}
			if diff := cmp.Diff(c.skipped, skipped); diff != "" {
				t.Errorf("skipped (-want +got):\n%s", diff)
			}
		})
	}

	bubble(t, "years of seconds are not counted one by one", func(t *testing.T) {
		w := newWorld()
		plan := func(i *instance) {
			add(t, i, "second", "* * * * * *", &cron.ScheduleOptions{Missed: cron.RunAll, MaxMissed: 3, Late: time.Second})
		}
		w.see(t, plan)
		time.Sleep(5 * 365 * 24 * time.Hour)
		w.fired.forget()
		i := w.start(t, plan)
		time.Sleep(100 * time.Millisecond)
		i.stop()
		if n := len(w.fired.all()); n < 4 || n > 8 { // one skip, three missed, and those on time
			t.Error(n, "events", w.fired.all())
		}
	})

	bubble(t, "a schedule that has never ticked has missed what was due since it was first seen", func(t *testing.T) {
		w := newWorld()
		plan := func(i *instance) { add(t, i, "noon", "0 12 * * *", &cron.ScheduleOptions{Missed: cron.RunLatest}) }
		i := w.start(t, plan)
		time.Sleep(time.Minute)
		i.stop()
		time.Sleep(13 * time.Hour)
		w.start(t, plan)
		time.Sleep(time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{"12:00"}, w.fired.ticks(cron.EventFired)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})

	bubble(t, "a new schedule has missed nothing", func(t *testing.T) {
		time.Sleep(30*time.Hour + 30*time.Second)
		w := newWorld()
		w.start(t, func(i *instance) { add(t, i, "minute", "* * * * *", &cron.ScheduleOptions{Missed: cron.RunAll}) })
		time.Sleep(time.Second)
		synctest.Wait()
		if events := w.fired.all(); len(events) > 0 {
			t.Error(events)
		}
	})

	bubble(t, "a crash after a tick is enqueued and before it is noted repeats nothing and loses nothing", func(t *testing.T) {
		w := newWorld()
		w.work(t)
		plan := func(i *instance) { add(t, i, "ten", "*/10 * * * *", &cron.ScheduleOptions{Missed: cron.RunAll}) }
		w.see(t, plan)
		broken := &oddNotes{Notes: w.notes, how: how{noNote: true}}
		i := w.startWith(t, broken, plan)
		time.Sleep(11 * time.Minute)
		i.stop() // and its note of 00:10 never came
		time.Sleep(10 * time.Minute)
		w.start(t, plan)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		want := []string{"cron:ten:2000-01-01T00:10:00Z", "cron:ten:2000-01-01T00:20:00Z", "cron:ten:2000-01-01T00:30:00Z"}
		if diff := cmp.Diff(want, w.jobs(t)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"00:10"}, w.fired.ticks(cron.EventDuplicate)); diff != "" {
			t.Errorf("duplicates (-want +got):\n%s", diff)
		}
	})

	bubble(t, "an instance that slept looks at the notes before it makes up for anything", func(t *testing.T) {
		// Its tickets would not be duplicates any more: the records of what the other one fired are gone.
		w := newWorld()
		w.work(t)
		plan := func(i *instance) {
			add(t, i, "ten", "*/10 * * * *", &cron.ScheduleOptions{Missed: cron.RunAll, Retention: 5 * time.Minute})
		}
		w.start(t, plan)
		sleepy := &oddNotes{Notes: w.notes}
		w.startWith(t, sleepy, plan)
		time.Sleep(time.Minute)
		sleepy.be(how{behind: 24 * time.Hour}) // its clock stands still, as it were
		time.Sleep(5 * time.Hour)
		sleepy.be(how{})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n := len(w.fired.ticks(cron.EventFired)); n != 30 {
			t.Error(n, "fired")
		}
		w.jobs(t)
	})

	bubble(t, "notes that cannot be read hold a schedule back, and nothing is lost", func(t *testing.T) {
		w := newWorld()
		plan := func(i *instance) { add(t, i, "ten", "*/10 * * * *", &cron.ScheduleOptions{Missed: cron.RunAll}) }
		w.see(t, plan)
		away := &oddNotes{Notes: w.notes, how: how{noRead: true}}
		w.startWith(t, away, plan)
		time.Sleep(35 * time.Minute)
		if events := w.fired.all(); len(events) > 0 {
			t.Error(events)
		}
		away.be(how{})
		time.Sleep(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]string{"00:10", "00:20", "00:30"}, w.fired.ticks(cron.EventFired)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})

	bubble(t, "notes that cannot be written are written later", func(t *testing.T) {
		w := newWorld()
		away := &oddNotes{Notes: w.notes, how: how{noNote: true}}
		w.startWith(t, away, func(i *instance) { add(t, i, "hour", "0 * * * *", nil) })
		time.Sleep(time.Hour + 10*time.Minute)
		away.be(how{})
		time.Sleep(time.Minute)
		if last, err := w.notes.Last(t.Context(), []string{"hour"}); err != nil || last["hour"].Format("15:04") != "01:00" {
			t.Error(last, err)
		}
	})

	bubble(t, "time is that of the notes, not that of the machine", func(t *testing.T) {
		w := newWorld()
		w.startWith(t, &oddNotes{Notes: w.notes, how: how{behind: -20 * time.Minute}}, func(i *instance) { add(t, i, "hour", "0 * * * *", nil) })
		time.Sleep(39 * time.Minute)
		synctest.Wait()
		if events := w.fired.all(); len(events) > 0 {
			t.Error("early:", events)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]string{"01:00"}, w.fired.ticks(cron.EventFired)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// oddNotes fail in parts, or tell another time.
type oddNotes struct {
	cron.Notes
	mu sync.Mutex // guards how
	how
}

type how struct {
	noNote, noRead bool
	behind         time.Duration
}

var errOdd = errors.New("odd notes")

func (n *oddNotes) be(h how) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.how = h
}

func (n *oddNotes) is() how {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.how
}

func (n *oddNotes) Now(ctx context.Context) (time.Time, error) {
	now, err := n.Notes.Now(ctx)
	return now.Add(-n.is().behind), err
}

func (n *oddNotes) Last(ctx context.Context, names []string) (map[string]time.Time, error) {
	if n.is().noRead {
		return nil, errOdd
	}
	return n.Notes.Last(ctx, names)
}

func (n *oddNotes) Note(ctx context.Context, ticks map[string]time.Time) error {
	if n.is().noNote {
		return errOdd
	}
	return n.Notes.Note(ctx, ticks)
}
