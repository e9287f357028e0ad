package durable

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Lookup tells all that is known of one job to this handle's group, of one instant; ErrNoJob if there is none, or
// this group is done with it. The ID of a job that a foreign producer added without one is that of its entry.
func (s *Stream) Lookup(ctx context.Context, r LookupRequest) (Record, error) {
	payload := 0
	if r.Payload {
		payload = 1
	}
	_, answer, err := s.run(ctx, s.redis.commands, streamScripts.lookup, r.ID, payload)
	if err != nil {
		return Record{}, err
	}
	if len(answer) == 0 {
		return Record{}, fmt.Errorf("%w: %q of stream %s", ErrNoJob, r.ID, s.name)
	}
	record := answer.streamRecord()
	record.Headers = answer.bytes()
	record.Payload = answer.bytes()
	return record, nil
}

// Jobs shows one page of the jobs in one state; see Operator. Claims are those of the first 1,000
// registered consumers.
func (s *Stream) Jobs(ctx context.Context, r JobsRequest) (JobPage, error) {
	n, err := limit(r.Limit)
	if err == nil {
		err = r.State.valid()
	}
	if err == nil {
		err = r.Filter.valid(r.State)
	}
	if err != nil {
		return JobPage{}, s.misuse("jobs", err.Error())
	}
	args := append([]any{string(r.State), r.Cursor, n, pageLooks, statsMembers}, r.Filter.args()...)
	_, answer, err := s.run(ctx, s.redis.commands, streamScripts.jobs, args...)
	if err != nil {
		return JobPage{}, err
	}
	page := JobPage{Cursor: answer.text()}
	for len(answer) >= streamRecordWords {
		page.Jobs = append(page.Jobs, answer.streamRecord())
	}
	return page, nil
}

// Redrive sends dead jobs back to this handle's group; see Operator.
func (s *Stream) Redrive(ctx context.Context, sel Selection) (Handled, error) {
	return s.handle(ctx, "redrive", sel)
}

// Discard deletes dead jobs of this handle's group for good.
func (s *Stream) Discard(ctx context.Context, sel Selection) (Handled, error) {
	return s.handle(ctx, "discard", sel)
}

func (s *Stream) handle(ctx context.Context, action string, sel Selection) (Handled, error) {
	n, err := limit(sel.Limit)
	if err == nil {
		err = sel.valid()
	}
	if err != nil {
		return Handled{}, s.misuse(action, err.Error())
	}
	args := append([]any{action, s.opts.MaxBacklog, sel.Cursor, n, pageLooks}, sel.Filter.args()...)
	args = append(args, len(sel.IDs))
	for _, id := range sel.IDs {
		args = append(args, id)
	}
	_, answer, err := s.run(ctx, s.redis.commands, streamScripts.dead, args...)
	if err != nil {
		return Handled{}, err
	}
	h := Handled{Cursor: answer.text(), Full: answer.int() == 1}
	for range answer.int() {
		h.IDs = append(h.IDs, answer.text())
	}
	for len(answer) > 0 {
		h.Missed = append(h.Missed, answer.text())
	}
	return h, nil
}

// Pause stops what sides names until Resume, for all processes and all groups. by is required; 256 bytes of
// it are kept.
func (s *Stream) Pause(ctx context.Context, sides Side, by string) error {
	if by == "" {
		return s.misuse("pause", "it is not said who pauses")
	}
	return s.switchSides(ctx, "pause", sides, 1, by[:min(len(by), maxBy)])
}

// Resume lets what sides names go on.
func (s *Stream) Resume(ctx context.Context, sides Side) error {
	return s.switchSides(ctx, "resume", sides, 0, "")
}

func (s *Stream) switchSides(ctx context.Context, op string, sides Side, on int, by string) error {
	if err := sides.valid(); err != nil {
		return s.misuse(op, err.Error())
	}
	var names []any
	if sides&Intake != 0 {
		names = append(names, "intake")
	}
	if sides&Consumption != 0 {
		names = append(names, "claims")
	}
	args := append([]any{on, by, len(names)}, names...)
	_, _, err := s.run(ctx, s.redis.commands, streamScripts.pause, args...)
	return err
}

// Purge deletes jobs by their state, at most 500 entries a step. What other groups have not done stays for
// them, but for delayed jobs, which are nobody's yet.
func (s *Stream) Purge(ctx context.Context, r PurgeRequest) (Purged, error) {
	asked, err := r.states()
	if err != nil {
		return Purged{}, s.misuse("purge", err.Error())
	}
	if err := r.confirmed(s.name); err != nil {
		return Purged{}, failed(s.name, "purge", err, nil)
	}
	left, err := purgeCursor(r.Cursor, asked)
	if err != nil {
		return Purged{}, s.misuse("purge", err.Error())
	}
	args := []any{s.opts.MaxCorrupt, purgeStep, statsMembers}
	for _, n := range left {
		args = append(args, n)
	}
	_, answer, err := s.run(ctx, s.redis.commands, streamScripts.purge, args...)
	if err != nil {
		return Purged{}, err
	}
	p := Purged{Deleted: make(map[State]int)}
	for _, state := range purgeOrder {
		if n := answer.int(); n > 0 {
			p.Deleted[state] = int(n)
		}
	}
	words, more := make([]string, len(purgeOrder)), false
	for i := range purgeOrder {
		n := answer.int()
		words[i] = strconv.FormatInt(n, 10)
		more = more || n > 0
	}
	if more {
		p.Cursor = strings.Join(words, ",")
	}
	return p, nil
}

// streamRecordWords is how many words of an answer describe one record.
const streamRecordWords = 14

// streamRecord takes one record.
func (r *reply) streamRecord() Record {
	return Record{
		ID:          r.text(),
		State:       State(r.text()),
		Kind:        r.text(),
		Attempts:    int(r.int()),
		Crashes:     int(r.int()),
		Deliveries:  int(r.int()),
		MaxAttempts: int(r.int()),
		Timeout:     time.Duration(r.int()) * millisecond,
		Retention:   time.Duration(r.int()) * millisecond,
		Size:        r.int(),
		Since:       r.time(),
		Due:         r.time(),
		Consumer:    r.text(),
		Reason:      r.text(),
	}
}

var (
	_ Operator  = (*Stream)(nil)
	_ Inspector = (*Stream)(nil)
)
