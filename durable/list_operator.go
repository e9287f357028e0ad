package durable

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Lookup tells all that is known of one job, of one instant; ErrNoJob if there is none. A job whose hash
// is there counts as pending also where a foreign producer has not pushed its ID yet.
func (l *List) Lookup(ctx context.Context, r LookupRequest) (Record, error) {
	payload := 0
	if r.Payload {
		payload = 1
	}
	_, answer, err := l.run(ctx, l.redis.commands, l.scripts.lookup, r.ID, payload)
	if err != nil {
		return Record{}, err
	}
	if len(answer) == 0 {
		return Record{}, fmt.Errorf("%w: %q of list %s", ErrNoJob, r.ID, l.name)
	}
	record := answer.listRecord()
	record.Headers = answer.bytes()
	record.Payload = answer.bytes()
	record.Result, record.Progress = answer.bytes(), answer.bytes()
	return record, nil
}

// Jobs shows one page of the jobs in one state; see Operator. Claims are those of the first 1,000
// registered consumers.
func (l *List) Jobs(ctx context.Context, r JobsRequest) (JobPage, error) {
	n, err := limit(r.Limit)
	if err == nil {
		err = r.State.valid()
	}
	if err == nil {
		err = r.Filter.valid(r.State)
	}
	if err != nil {
		return JobPage{}, l.misuse("jobs", err.Error())
	}
	args := append([]any{string(r.State), r.Cursor, n, pageLooks, statsMembers}, r.Filter.args()...)
	_, answer, err := l.run(ctx, l.redis.commands, l.scripts.jobs, args...)
	if err != nil {
		return JobPage{}, err
	}
	page := JobPage{Cursor: answer.text()}
	for len(answer) >= listRecordWords {
		page.Jobs = append(page.Jobs, answer.listRecord())
	}
	return page, nil
}

// args is a filter as scripts take it.
func (f *Filter) args() []any {
	args := make([]any, 0, 3+len(f.Kinds))
	args = append(args, len(f.Kinds))
	for _, kind := range f.Kinds {
		args = append(args, kind)
	}
	older := int64(-1)
	if f.OlderThan > 0 {
		older = millis(f.OlderThan)
	}
	return append(args, f.Reason, older)
}

// Redrive sends dead jobs back to the queue; see Operator.
func (l *List) Redrive(ctx context.Context, s Selection) (Handled, error) {
	return l.handle(ctx, "redrive", s)
}

// Discard deletes dead jobs for good.
func (l *List) Discard(ctx context.Context, s Selection) (Handled, error) {
	return l.handle(ctx, "discard", s)
}

func (l *List) handle(ctx context.Context, action string, s Selection) (Handled, error) {
	n, err := limit(s.Limit)
	if err == nil {
		err = s.valid()
	}
	if err != nil {
		return Handled{}, l.misuse(action, err.Error())
	}
	_, answer, err := l.run(ctx, l.redis.commands, l.scripts.dead, s.args(action, l.opts.MaxBacklog, n)...)
	if err != nil {
		return Handled{}, err
	}
	return answer.handled(), nil
}

// Pause stops what sides names until Resume, for all processes. by is required; 256 bytes of it are kept.
func (l *List) Pause(ctx context.Context, sides Side, by string) error {
	if by == "" {
		return l.misuse("pause", "it is not said who pauses")
	}
	return l.switchSides(ctx, "pause", sides, 1, by[:min(len(by), maxBy)])
}

// Resume lets what sides names go on.
func (l *List) Resume(ctx context.Context, sides Side) error {
	return l.switchSides(ctx, "resume", sides, 0, "")
}

func (l *List) switchSides(ctx context.Context, op string, sides Side, on int, by string) error {
	if err := sides.valid(); err != nil {
		return l.misuse(op, err.Error())
	}
	_, _, err := l.run(ctx, l.redis.commands, l.scripts.pause, sides.args(on, by)...)
	return err
}

// Purge deletes jobs by their state, at most 500 entries a step.
func (l *List) Purge(ctx context.Context, r PurgeRequest) (Purged, error) {
	asked, err := r.states()
	if err != nil {
		return Purged{}, l.misuse("purge", err.Error())
	}
	if err := r.confirmed(l.name); err != nil {
		return Purged{}, failed(l.name, "purge", err, nil)
	}
	left, err := purgeCursor(r.Cursor, asked)
	if err != nil {
		return Purged{}, l.misuse("purge", err.Error())
	}
	args := []any{purgeStep, statsMembers}
	for _, n := range left {
		args = append(args, n)
	}
	_, answer, err := l.run(ctx, l.redis.commands, l.scripts.purge, args...)
	if err != nil {
		return Purged{}, err
	}
	return answer.purged(), nil
}

// args is a selection as scripts take it.
func (s *Selection) args(action string, maxBacklog int64, limit int) []any {
	args := append([]any{action, maxBacklog, s.Cursor, limit, pageLooks}, s.Filter.args()...)
	args = append(args, len(s.IDs))
	for _, id := range s.IDs {
		args = append(args, id)
	}
	return args
}

// handled decodes what became of a selection.
func (r *reply) handled() Handled {
	h := Handled{Cursor: r.text(), Full: r.int() == 1}
	for range r.int() {
		h.IDs = append(h.IDs, r.text())
	}
	for len(*r) > 0 {
		h.Missed = append(h.Missed, r.text())
	}
	return h
}

// args is a switch of sides as scripts take it.
func (s Side) args(on int, by string) []any {
	var names []any
	if s&Intake != 0 {
		names = append(names, "intake")
	}
	if s&Consumption != 0 {
		names = append(names, "claims")
	}
	return append([]any{on, by, len(names)}, names...)
}

// purged decodes what a step of a purge has done.
func (r *reply) purged() Purged {
	p := Purged{Deleted: make(map[State]int)}
	for _, s := range purgeOrder {
		if n := r.int(); n > 0 {
			p.Deleted[s] = int(n)
		}
	}
	words, more := make([]string, len(purgeOrder)), false
	for i := range purgeOrder {
		n := r.int()
		words[i] = strconv.FormatInt(n, 10)
		more = more || n > 0
	}
	if more {
		p.Cursor = strings.Join(words, ",")
	}
	return p
}

// purgeCursor is how many entries of each state are still to be looked at; -1: all.
func purgeCursor(cursor string, asked [len(purgeOrder)]bool) (left [len(purgeOrder)]int64, err error) {
	words := strings.Split(cursor, ",")
	if cursor != "" && len(words) != len(left) {
		return left, fmt.Errorf("PurgeRequest.Cursor %q is no cursor of a purge", cursor)
	}
	for i := range left {
		switch {
		case !asked[i]:
		case cursor == "":
			left[i] = -1
		default:
			if left[i], err = strconv.ParseInt(words[i], 10, 64); err != nil || left[i] < 0 {
				return left, fmt.Errorf("PurgeRequest.Cursor %q is no cursor of a purge", cursor)
			}
		}
	}
	return left, nil
}

// recordWords is how many words of an answer describe one record.
const recordWords = 14

// record takes one record.
func (r *reply) record() Record {
	return Record{
		ID:          r.text(),
		State:       State(r.text()),
		Kind:        r.text(),
		Attempts:    int(r.int()),
		Crashes:     int(r.int()),
		Deliveries:  int(r.int()),
		MaxAttempts: int(r.int()),
		Timeout:     span(r.int()),
		Retention:   span(r.int()),
		Size:        r.int(),
		Since:       r.time(),
		Due:         r.time(),
		Consumer:    r.text(),
		Reason:      r.text(),
	}
}

// listRecordWords is how many it takes of a list or a sorted set.
const listRecordWords = recordWords + 6

// listRecord takes one record of a list or a sorted set.
func (r *reply) listRecord() Record {
	record := r.record()
	record.Priority = int(r.int())
	record.Expires = r.time()
	record.Cancelling = r.int() == 1
	record.Life, record.UniqueKey, record.LimitKey = r.text(), r.text(), r.text()
	return record
}

// time takes a time in ms; 0 is none.
func (r *reply) time() time.Time {
	if ms := r.int(); ms != 0 {
		return time.UnixMilli(ms)
	}
	return time.Time{}
}

// bytes takes a string; nil where it is empty.
func (r *reply) bytes() []byte {
	if s := r.text(); s != "" {
		return []byte(s)
	}
	return nil
}

// pause takes whether a side is paused, by whom and since when.
func (r *reply) pause() Pause {
	return Pause{Active: r.int() == 1, By: r.text(), Since: r.time()}
}

// Cancel ends a job that waits, and asks for the end of one that is claimed; see Operator. What is left of a job that waited
// is its entry, which counts as pending until a claim comes upon it.
func (l *List) Cancel(ctx context.Context, r CancelRequest) (Cancelled, error) {
	_, answer, err := l.run(ctx, l.redis.commands, l.scripts.cancel, r.ID, r.Life, l.opts.MaxCompleted)
	if err != nil {
		return Cancelled{}, err
	}
	if answer.int() == 0 {
		return Cancelled{}, fmt.Errorf("%w: %q of list %s, or it has ended", ErrNoJob, r.ID, l.name)
	}
	return Cancelled{Running: answer.int() == 1, Consumer: answer.text()}, nil
}

var (
	_ Operator  = (*List)(nil)
	_ Inspector = (*List)(nil)
)
