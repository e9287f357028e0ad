package durable

import (
	"context"
	"fmt"
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
	record.Result = answer.bytes()
	record.Progress = answer.bytes()
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
	_, answer, err := s.run(ctx, s.redis.commands, streamScripts.dead, sel.args(action, s.opts.MaxBacklog, n)...)
	if err != nil {
		return Handled{}, err
	}
	return answer.handled(), nil
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
	_, _, err := s.run(ctx, s.redis.commands, streamScripts.pause, sides.args(on, by)...)
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
	return answer.purged(), nil
}

// Cancel ends a job for all groups that have not finished it. Where nobody has claimed it and no other group
// wants it, it is over in this step; else every group is told, and those for which it waits pass it by. The answer
// is about this handle's group first, and about another one where only that runs it.
func (s *Stream) Cancel(ctx context.Context, r CancelRequest) (Cancelled, error) {
	_, answer, err := s.run(ctx, s.redis.commands, streamScripts.cancel, r.ID, r.Life, s.opts.MaxCompleted)
	if err != nil {
		return Cancelled{}, err
	}
	if len(answer) == 0 {
		return Cancelled{}, fmt.Errorf("%w: %q of stream %s", ErrNoJob, r.ID, s.name)
	}
	return Cancelled{Running: answer.int() == 1, Consumer: answer.text()}, nil
}

// SetLimits is not possible.
func (s *Stream) SetLimits(context.Context, Limits, string) error {
	return failed(s.name, "limits", ErrUnsupported, nil)
}

var (
	_ Operator  = (*Stream)(nil)
	_ Inspector = (*Stream)(nil)
)
