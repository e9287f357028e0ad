package cron

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/policy"
)

// Missed says what becomes of ticks that could not be fired in time.
type Missed uint8

// What becomes of missed ticks. RunLatest and RunAll need Notes.
const (
	Skip      Missed = iota // nothing: the next tick is the next to fire
	RunLatest               // the newest fires, late, unless a later one is on time by then
	RunAll                  // the newest ScheduleOptions.MaxMissed fire, the oldest first
)

// ScheduleOptions configures one schedule. The zero value of a field means its default; a negative one is refused
// by name.
type ScheduleOptions struct {
	// Zone is that of the wall clock the expression is about. UTC; time.Local is refused.
	Zone *time.Location
	// Jitter spreads the ticks of many schedules: each fires up to that much later, by an amount that is made of its
	// ID, the same in every instance. 0: not at all.
	Jitter time.Duration
	// Late is by how much a tick, its jitter included, may be late without being missed. One minute.
	Late time.Duration
	// Missed says what becomes of missed ticks. Skip.
	Missed Missed
	// MaxMissed is how many missed ticks RunAll fires; older ones are skipped. 100; at most 10,000.
	MaxMissed int
	// Retention is for how long the store keeps the record of a completed tick, and so refuses it when
	// somebody submits it again. It must cover all by which instances may differ: Late, Jitter, clocks, and
	// bridge.Options.PersistWithin, for which a job may wait in the memory of an instance that cannot reach the
	// store. 24 hours; more than Late and Jitter together.
	Retention time.Duration
	// Headers, MaxAttempts and Timeout are those of each job; see bridge.Job. None, and as the kind says.
	Headers     map[string]string
	MaxAttempts int
	Timeout     time.Duration
}

const (
	defaultLate      = time.Minute
	defaultMaxMissed = 100
	defaultRetention = 24 * time.Hour
	maxMaxMissed     = 10_000

	idPrefix   = "cron:"
	maxNameLen = 200 // of the 256 bytes of an ID

	// submitWithin is how long one attempt to submit waits for room in the front.
	submitWithin = 10 * time.Second
)

// ErrNameTaken is returned by Add when the scheduler has a schedule of this name already.
var ErrNameTaken = errors.New("cron: there is a schedule of this name already")

// schedule is one of a Scheduler: what was asked for, and, owned by Run, how far it is.
type schedule struct {
	name   string
	table  *Timetable
	opts   ScheduleOptions
	submit func(ctx context.Context, id string) (*bridge.Ticket, error)

	cursor  time.Time // all ticks up to here are dealt with; zero: not known yet
	tick    time.Time // the next one
	at      time.Time // when to look at it again: tick and jitter, or the time of a retry
	read    time.Time // when the cursor was compared with the note
	retries int
	index   int // in the heap; -1: not in it
}

// Add gives s a schedule: from its next tick on, value is submitted to kind at each one. It may be called before Run or
// while it is going on, and does not block. Every instance adds the same schedules. value is encoded at each
// tick, so what it points to must not change; a handler learns which tick it is from its ID (see Tick).
//
// name is the schedule's identity in its queue, 1 to 200 bytes of UTF-8 without control characters: ticks of the same name
// and moment are the same job, and the note of missed ticks is kept under it. ErrNameTaken if s has it already.
func Add[T any](s *Scheduler, kind *bridge.Kind[T], name, expr string, value T, opts *ScheduleOptions) error {
	if s == nil {
		return errors.New("cron: scheduler is nil")
	}
	if kind == nil {
		return fmt.Errorf("cron: schedule %q: kind is nil", name)
	}
	if err := validateName(name); err != nil {
		return err
	}
	o, err := opts.withDefaults(s.notes != nil)
	if err != nil {
		return fmt.Errorf("cron: schedule %q: %w", name, err)
	}
	table, err := Parse(expr, o.Zone)
	if err != nil {
		return fmt.Errorf("cron: schedule %q: %w", name, err)
	}
	return s.add(&schedule{
		name: name, table: table, opts: o, index: -1,
		submit: func(ctx context.Context, id string) (*bridge.Ticket, error) {
			return kind.SubmitJob(ctx, bridge.Job[T]{
				ID: id, Value: value, Headers: o.Headers, MaxAttempts: o.MaxAttempts, Timeout: o.Timeout, Retention: o.Retention,
			}, policy.Wait(submitWithin))
		},
	})
}

func (o *ScheduleOptions) withDefaults(noted bool) (ScheduleOptions, error) {
	var out ScheduleOptions
	if o != nil {
		out = *o
	}
	for _, f := range []struct {
		name       string
		value, def time.Duration
		field      *time.Duration
	}{
		{"Jitter", out.Jitter, 0, &out.Jitter},
		{"Late", out.Late, defaultLate, &out.Late},
		{"Retention", out.Retention, defaultRetention, &out.Retention},
		{"Timeout", out.Timeout, 0, &out.Timeout},
	} {
		switch {
		case f.value < 0:
			return out, fmt.Errorf("%s is negative: %v", f.name, f.value)
		case f.value > 0 && f.value < time.Millisecond:
			return out, fmt.Errorf("%s is %v, less than a millisecond", f.name, f.value)
		case f.value == 0:
			*f.field = f.def
		}
	}
	switch {
	case out.MaxMissed < 0:
		return out, fmt.Errorf("MaxMissed is negative: %d", out.MaxMissed)
	case out.MaxMissed > maxMaxMissed:
		return out, fmt.Errorf("MaxMissed is %d, more than %d", out.MaxMissed, maxMaxMissed)
	case out.MaxAttempts < 0:
		return out, fmt.Errorf("MaxAttempts is negative: %d", out.MaxAttempts)
	case out.Missed > RunAll:
		return out, fmt.Errorf("there is no choice Missed %d", out.Missed)
	case out.Missed != Skip && !noted:
		return out, errors.New("option Missed is RunLatest or RunAll, and the scheduler has no Notes to know by what was missed")
	case out.Retention <= out.Late+out.Jitter:
		return out, fmt.Errorf("option Retention is %v, not more than Late and Jitter together, %v", out.Retention, out.Late+out.Jitter)
	}
	if out.MaxMissed == 0 {
		out.MaxMissed = defaultMaxMissed
	}
	return out, nil
}

func validateName(name string) error {
	switch {
	case name == "":
		return errors.New("cron: name of the schedule is empty")
	case len(name) > maxNameLen:
		return fmt.Errorf("cron: name of the schedule has %d bytes, more than %d", len(name), maxNameLen)
	case !utf8.ValidString(name):
		return fmt.Errorf("cron: name of the schedule is not valid UTF-8: %q", name)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("cron: name of the schedule has a control character: %q", name)
	}
	return nil
}

// ID is that of the job of one tick: "cron:nightly:2026-03-01T01:30:00Z", whatever the zone.
func ID(name string, tick time.Time) string {
	return idPrefix + name + ":" + tick.UTC().Format(time.RFC3339)
}

// Tick reads the ID of a job: which schedule it is of, and which tick. ok is false if it is not of one.
func Tick(id string) (name string, tick time.Time, ok bool) {
	const stamp = len("2006-01-02T15:04:05Z")
	rest, found := strings.CutPrefix(id, idPrefix)
	at := len(rest) - stamp
	if !found || at < 2 || rest[at-1] != ':' {
		return "", time.Time{}, false
	}
	tick, err := time.Parse(time.RFC3339, rest[at:])
	return rest[:at-1], tick, err == nil
}

// fires is when a tick fires: after its jitter.
func (e *schedule) fires(tick time.Time) time.Time {
	if e.opts.Jitter == 0 {
		return tick
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(ID(e.name, tick)))
	sum := h.Sum64()
	sum ^= sum >> 32 // the last bytes have reached the low bits only
	return tick.Add(time.Duration(sum % uint64(e.opts.Jitter)))
}

// moveTo notes that all ticks up to cursor are dealt with.
func (e *schedule) moveTo(cursor time.Time) {
	e.cursor = cursor
	e.tick = e.table.Next(cursor)
	e.at = e.tick
	if !e.tick.IsZero() {
		e.at = e.fires(e.tick)
	}
}

// maxBatch is how many ticks of one schedule are submitted at once, those of RunAll apart.
const maxBatch = 1000

// plan says which ticks to fire now, the oldest first, and which were skipped: the first and the last of them, zero
// if none was. It looks at a bounded number of ticks, however long nobody has.
func (e *schedule) plan(now time.Time) (fire []time.Time, skippedFrom, skippedTo time.Time) {
	edge := now.Add(-e.opts.Late - e.opts.Jitter) // what is before it is missed
	from := e.cursor
	if e.missed(now) {
		edge = edge.Add(-1)
		from = edge
	}
	for t := e.table.Next(from); !t.IsZero() && !e.fires(t).After(now) && len(fire) < maxBatch; t = e.table.Next(t) {
		fire = append(fire, t)
	}
	if !e.missed(now) {
		return fire, time.Time{}, time.Time{}
	}
	switch {
	case e.opts.Missed == RunAll:
		fire = append(e.table.last(e.cursor, edge, e.opts.MaxMissed), fire...)
	case e.opts.Missed == RunLatest && len(fire) == 0:
		fire = e.table.last(e.cursor, edge, 1)
	}
	upTo := edge
	if len(fire) > 0 && !fire[0].After(edge) {
		upTo = fire[0].Add(-1)
	}
	if e.tick.After(upTo) {
		return fire, time.Time{}, time.Time{}
	}
	return fire, e.tick, e.table.last(e.cursor, upTo, 1)[0]
}

// missed tells whether the next tick is one that was missed.
func (e *schedule) missed(now time.Time) bool {
	return e.tick.Before(now.Add(-e.opts.Late - e.opts.Jitter))
}
