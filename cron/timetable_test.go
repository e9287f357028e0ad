package cron_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-9dec4fca/weir/cron"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// ticks are those after from and not after to, in UTC.
func ticks(t testing.TB, table *cron.Timetable, from, to time.Time) []string {
	t.Helper()
	var found []string
	for tick := table.Next(from); !tick.IsZero() && !tick.After(to); tick = table.Next(tick) {
		found = append(found, tick.UTC().Format("01-02 15:04:05"))
	}
	return found
}

func parse(t testing.TB, expr string, z *time.Location) *cron.Timetable {
	t.Helper()
	table, err := cron.Parse(expr, z)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestTimetable(t *testing.T) {
	t.Parallel()
	utc := func(text string) time.Time {
		at, err := time.Parse("2006-01-02 15:04", text)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for name, c := range map[string]struct {
		zone, expr, from, to string
		want                 []string
	}{
		"clocks go forward: what is in the gap happens at its end": {
			"Europe/Berlin", "30 2 * * *", "2026-03-28 00:00", "2026-03-30 12:00",
			[]string{"03-28 01:30:00", "03-29 01:00:00", "03-30 00:30:00"},
		},
		"several in one gap are one": {
			"Europe/Berlin", "0,20,40 2 * * *", "2026-03-29 00:00", "2026-03-29 12:00",
			[]string{"03-29 01:00:00"},
		},
		"clocks go forward: a timetable of every hour has no tick for what was not shown": {
			"Europe/Berlin", "30 * * * *", "2026-03-29 00:00", "2026-03-29 03:00",
			[]string{"03-29 00:30:00", "03-29 01:30:00", "03-29 02:30:00"},
		},
		"clocks go back: what is shown twice happens the first time": {
			"Europe/Berlin", "30 2 * * *", "2026-10-24 12:00", "2026-10-26 12:00",
			[]string{"10-25 00:30:00", "10-26 01:30:00"},
		},
		"clocks go back: a timetable of every hour goes on": {
			"Europe/Berlin", "*/30 * * * *", "2026-10-24 23:59", "2026-10-25 02:00",
			[]string{"10-25 00:00:00", "10-25 00:30:00", "10-25 01:00:00", "10-25 01:30:00", "10-25 02:00:00"},
		},
		"a search that begins in the repeated hour does not repeat": {
			"America/New_York", "30 1 * * *", "2026-11-01 06:10", "2026-11-02 12:00",
			[]string{"11-02 06:30:00"},
		},
		"a midnight that does not exist": {
			"America/Sao_Paulo", "0 0 4 11 *", "2018-11-03 00:00", "2018-11-05 00:00",
			[]string{"11-04 03:00:00"},
		},
		"a day whose midnight does not exist is found": { // nats-server#8543
			"America/Sao_Paulo", "0 1 4 11 *", "2018-11-03 00:00", "2018-11-05 00:00",
			[]string{"11-04 03:00:00"},
		},
		"half an hour of summer time": {
			"Australia/Lord_Howe", "15 2 * * *", "2026-10-03 00:00", "2026-10-04 20:00",
			[]string{"10-03 15:30:00", "10-04 15:15:00"},
		},
		"a date that a zone leapt over happens when it has": {
			"Pacific/Apia", "0 12 30 12 *", "2011-12-25 00:00", "2012-01-02 00:00",
			[]string{"12-30 10:00:00"},
		},
		"29 February": {
			"UTC", "0 12 29 2 *", "2026-01-01 00:00", "2033-01-01 00:00",
			[]string{"02-29 12:00:00", "02-29 12:00:00"},
		},
		"29 February, with eight years in between": {
			"Europe/Berlin", "0 12 29 2 *", "2096-03-01 00:00", "2104-12-31 00:00",
			[]string{"02-29 11:00:00"},
		},
		"the last day of a leap year": { // where Time.ZoneBounds goes round in circles
			"Europe/Berlin", "0 6 1 1 *", "2040-12-31 12:00", "2041-01-02 00:00",
			[]string{"01-01 05:00:00"},
		},
		"both days restricted: either suffices": {
			"UTC", "0 0 13 * FRI", "2026-02-01 00:00", "2026-02-21 00:00",
			[]string{"02-06 00:00:00", "02-13 00:00:00", "02-20 00:00:00"},
		},
		"seconds": {
			"UTC", "*/20 59 23 31 12 *", "2026-12-31 23:59", "2027-01-01 00:00",
			[]string{"12-31 23:59:20", "12-31 23:59:40"},
		},
		"a name": {
			"Asia/Kathmandu", "@weekly", "2026-01-01 00:00", "2026-01-12 00:00",
			[]string{"01-03 18:15:00", "01-10 18:15:00"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := parse(t, c.expr, zone(t, c.zone))
			if diff := cmp.Diff(c.want, ticks(t, table, utc(c.from), utc(c.to))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", table, diff)
			}
		})
	}

	t.Run("what has no place on a shared wall clock is refused, by name", func(t *testing.T) {
		t.Parallel()
		for expr, want := range map[string]string{
			"":                     "expression",
			"* * * *":              "5 to 6 fields",
			"61 * * * *":           "61",
			"* * * * * * *":        "5 to 6 fields",
			"@every 5m":            "no place on a wall clock",
			"@reboot":              "@reboot",
			"TZ=UTC 0 0 * * *":     "is an option",
			"CRON_TZ=UTC @daily":   "is an option",
			"0 0 30 2 *":           "never matches",
			"H * * * *":            "H",
			"*/0 * * * *":          "*/0",
			"0 0 * * MON#9":        "MON#9",
			"0 0 31 FEB,APR,JUN *": "never matches",
		} {
			if _, err := cron.Parse(expr, nil); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v", expr, err)
			}
		}
		if _, err := cron.Parse("@daily", time.Local); err == nil || !strings.Contains(err.Error(), "time.Local") {
			t.Error(err)
		}
	})
}

// The rule for clocks that are moved, done the slow way: look at the clock every minute.
func TestTimetableAgreesWithSomebodyWhoLooksAtTheClock(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(42, 7))
	some := func(n, from, to int) []int { // n of them, or all
		if n == 0 {
			n = to - from + 1
		}
		var set []int
		for _, v := range random.Perm(to - from + 1)[:n] {
			set = append(set, v+from)
		}
		slices.Sort(set)
		return set
	}
	list := func(set []int, all int) string {
		if len(set) == all {
			return "*"
		}
		return strings.Trim(strings.ReplaceAll(fmt.Sprint(set), " ", ","), "[]")
	}
	for _, place := range []struct{ zone, day string }{
		{"Europe/Berlin", "2026-03-29"},
		{"Europe/Berlin", "2026-10-25"},
		{"America/New_York", "2026-03-08"},
		{"America/New_York", "2026-11-01"},
		{"America/Sao_Paulo", "2018-11-04"},
		{"America/Sao_Paulo", "2018-02-18"},
		{"Australia/Lord_Howe", "2026-04-05"},
		{"Australia/Lord_Howe", "2026-10-04"},
		{"Antarctica/Troll", "2026-03-29"},
		{"Antarctica/Troll", "2026-10-25"},
		{"Africa/Cairo", "2026-04-24"},
		{"Africa/Cairo", "2026-10-30"},
		{"Pacific/Chatham", "2026-04-05"},
		{"America/Scoresbysund", "2024-03-31"}, // summer time, and another zone, in the same night
		{"Asia/Tokyo", "2026-05-05"},
	} {
		t.Run(place.zone+" "+place.day, func(t *testing.T) {
			z := zone(t, place.zone)
			day, err := time.Parse(time.DateOnly, place.day)
			if err != nil {
				t.Fatal(err)
			}
			from, to := day.Add(-36*time.Hour), day.Add(48*time.Hour)
			type minute struct{ at, wall time.Time }
			var looks []minute
			for at := from.Add(-24 * time.Hour); !at.After(to); at = at.Add(time.Minute) {
				looks = append(looks, minute{at, wallClock(at, z)})
			}
			for range 25 {
				minutes, hours := some(random.IntN(4), 0, 59), some(random.IntN(7), 0, 23)
				weekdays := some(random.IntN(4), 0, 6)
				expr := list(minutes, 60) + " " + list(hours, 24) + " * * " + list(weekdays, 7)
				matches := func(at time.Time) bool {
					return slices.Contains(minutes, at.Minute()) && slices.Contains(hours, at.Hour()) && slices.Contains(weekdays, int(at.Weekday()))
				}

				var want []string
				shown := map[time.Time]bool{}
				before := looks[0].wall
				for _, look := range looks[1:] {
					now, at := look.wall, look.at
					due := matches(now) && (len(hours) == 24 || !shown[now])
					for gap := before.Add(time.Minute); len(hours) < 24 && gap.Before(now); gap = gap.Add(time.Minute) {
						due = due || matches(gap)
					}
					if shown[now], before = true, now; due && at.After(from) {
						want = append(want, at.Format("01-02 15:04:05"))
					}
				}
				if diff := cmp.Diff(want, ticks(t, parse(t, expr, z), from, to)); diff != "" {
					t.Fatalf("%s (-want +got):\n%s", expr, diff)
				}
			}
		})
	}
}

func wallClock(at time.Time, z *time.Location) time.Time {
	at = at.In(z)
	return time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), 0, 0, time.UTC)
}

func BenchmarkNext(b *testing.B) {
	b.ReportAllocs()
	for name, expr := range map[string]string{"every minute": "* * * * *", "29 February": "0 0 29 2 *"} {
		b.Run(name, func(b *testing.B) {
			table := parse(b, expr, zone(b, "Europe/Berlin"))
			at := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
			for b.Loop() {
				_ = table.Next(at)
			}
		})
	}
}
