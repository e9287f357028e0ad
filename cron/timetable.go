package cron

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	parser "github.com/netresearch/go-cron"
)

// Timetable is a parsed expression in a time zone. It is immutable and safe for concurrent use.
type Timetable struct {
	expr  string
	zone  *time.Location
	civil *parser.SpecSchedule // matches what a wall clock shows, written as if it were in UTC
	every bool                 // hour after hour: it goes on through an hour that comes twice
}

// searchYears is how far the parser looks: 29 February can be eight years away.
const searchYears = 9

// Parse reads a crontab expression: minute, hour, day of month, month and weekday, with a field for
// seconds before them if there are six; or @yearly, @monthly, @weekly, @daily, @hourly. If both days are restricted,
// either suffices, as in crontab. A nil zone means UTC; time.Local is refused, for it differs between machines.
// So are @every, which has no place on a wall clock, and expressions that never match.
//
// When the wall clock is moved: what it would have shown in the gap happens once, at the first moment after the gap, and
// what it shows twice happens the first time. A timetable of every hour goes by what passes instead: it has no
// tick for what was not shown, and goes on through an hour that comes twice.
func Parse(expr string, zone *time.Location) (*Timetable, error) {
	if zone == nil {
		zone = time.UTC
	}
	if zone == time.Local {
		return nil, errors.New("cron: the zone is time.Local, which differs between machines; use time.LoadLocation")
	}
	if strings.Contains(expr, "TZ=") {
		return nil, fmt.Errorf("cron: expression %q names a zone, which is an option", expr)
	}
	p, err := parser.TryNewParser(parser.SecondOptional | parser.Minute | parser.Hour | parser.Dom | parser.Month |
		parser.Dow | parser.Descriptor | parser.DowOrDom)
	if err != nil {
		return nil, fmt.Errorf("cron: %w", err)
	}
	parsed, err := p.WithMaxSearchYears(searchYears).Parse(expr)
	if err != nil {
		return nil, fmt.Errorf("cron: expression %q: %w", expr, err)
	}
	spec, ok := parsed.(*parser.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("cron: expression %q has no place on a wall clock, so instances would not agree", expr)
	}
	civil := *spec
	civil.Location = time.UTC
	const day = 1<<24 - 1
	t := &Timetable{expr: expr, zone: zone, civil: &civil, every: civil.Hour&day == day}
	if t.civil.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, fmt.Errorf("cron: expression %q never matches", expr)
	}
	return t, nil
}

// String is the expression and the zone.
func (t *Timetable) String() string { return t.expr + " " + t.zone.String() }

// Next is the first tick after a moment, in whole seconds; zero if there is none within nine years.
//
// Between two changes of the zone's offset the wall clock runs evenly, so a search in one such period is a
// search in UTC. The parser is asked nothing else: it has no part in what happens when clocks are moved.
func (t *Timetable) Next(after time.Time) time.Time {
	at := after.In(t.zone)
	low := wall(at, offset(at)) // what is searched is after it
	if begin, moved := change(at.Add(-longestShift), at); moved && !t.every {
		low = later(low, wall(begin, offset(begin.Add(-1))).Add(-1)) // shown before the clock was put back
	}
	for {
		next := t.civil.Next(low)
		if next.IsZero() {
			return next
		}
		tick := next.Add(-offset(at)).In(t.zone)
		end, moved := change(at, tick)
		if !moved {
			return tick
		}
		was, is := wall(end, offset(at)), wall(end, offset(end))
		if !t.every && next.Before(is) {
			return end // in the gap
		}
		at, low = end, is.Add(-1)
		if !t.every {
			low = later(low, was.Add(-1))
		}
	}
}

// longestShift is longer than any clock was ever moved by.
const longestShift = 26 * time.Hour

// change finds the first change of the offset after one moment and not after another. It assumes that no two
// within a week undo each other. (Time.ZoneBounds is of no use: where a zone goes on by a rule it is wrong on the last
// day of leap years.)
func change(after, until time.Time) (at time.Time, found bool) {
	const week = 7 * 24 * time.Hour
	for from := after.Truncate(time.Second); from.Before(until); from = from.Add(week) {
		to := from.Add(week)
		if until.Before(to) {
			to = until
		}
		if was := offset(from); offset(to) != was {
			seconds := int(to.Sub(from)/time.Second) + 1
			at := from.Add(time.Duration(sort.Search(seconds, func(n int) bool {
				return offset(from.Add(time.Duration(n)*time.Second)) != was
			})) * time.Second)
			return at, !at.After(until)
		}
	}
	return time.Time{}, false
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// last finds the newest ticks after one moment and not after another, n at most, in their order. It does not
// look at all of them: there may be millions.
func (t *Timetable) last(after, until time.Time, n int) []time.Time {
	for window := time.Hour; ; window *= 4 {
		from := until.Add(-window)
		whole := !from.After(after)
		if whole {
			from = after
		}
		var found []time.Time
		for tick := t.Next(from); !tick.IsZero() && !tick.After(until); tick = t.Next(tick) {
			if found = append(found, tick); len(found) >= 2*n {
				found = append(found[:0], found[len(found)-n:]...)
			}
		}
		if whole || len(found) >= n {
			return found[max(0, len(found)-n):]
		}
	}
}

// offset is by how much the wall clock is ahead of UTC.
func offset(at time.Time) time.Duration {
	_, seconds := at.Zone()
	return time.Duration(seconds) * time.Second
}

// wall is what a wall clock shows, written as if it were in UTC.
func wall(at time.Time, offset time.Duration) time.Time { return at.UTC().Add(offset) }
