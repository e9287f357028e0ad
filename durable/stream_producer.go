package durable

import (
	"context"
	"strconv"
)

// streamProducer is an identity that appends to a Stream.
type streamProducer struct {
	stream *Stream
	id     string
}

// OpenProducer obtains an identity for appending. It makes no group: what is appended before a
// group's first consumer is opened waits for it.
func (s *Stream) OpenProducer(ctx context.Context) (Producer, error) {
	id, err := s.open(ctx, "producer", 0)
	if err != nil {
		return nil, err
	}
	return &streamProducer{stream: s, id: id}, nil
}

// open obtains an identity of a kind.
func (s *Stream) open(ctx context.Context, kind string, lease int64) (string, error) {
	_, answer, err := s.run(ctx, s.redis.commands, streamScripts.open,
		kind, nonce(), lease, s.opts.MaxBacklog, s.opts.MaxCrashes, s.opts.MaxDead, s.opts.MaxCorrupt, s.opts.MaxCompleted)
	if err != nil {
		return "", err
	}
	return answer.text(), nil
}

func (p *streamProducer) ID() string { return p.id }

// streamJobWords is how many words describe one job of an append.
const streamJobWords = 10

func (p *streamProducer) Append(ctx context.Context, n uint64, jobs []*Job) (Appended, error) {
	s := p.stream
	if n == 0 {
		return Appended{}, s.misuse("append", "numbers start at 1")
	}
	if err := checkJobs(s.name, jobs, s.capabilities()); err != nil {
		return Appended{}, err
	}
	args := make([]any, 0, 4+streamJobWords*len(jobs))
	args = append(args, p.id, strconv.FormatUint(n, 10), s.opts.MaxBacklog, len(jobs))
	for _, j := range jobs {
		args = append(args, j.ID, j.Kind, j.Payload, j.Headers, millis(j.Delay), attempts(j.MaxAttempts),
			millis(j.Timeout), millis(j.Retention), millis(j.Expiry), j.Unique.words())
	}
	_, answer, err := s.run(ctx, s.redis.commands, streamScripts.append, args...)
	if err != nil {
		return Appended{}, err
	}
	appended, _, err := answer.appended()
	return appended, err
}

func (p *streamProducer) Close(ctx context.Context, n uint64) (Appended, error) {
	s := p.stream
	if n == 0 {
		return Appended{}, s.misuse("close", "numbers start at 1")
	}
	_, answer, err := s.run(ctx, s.redis.commands, streamScripts.close, p.id, strconv.FormatUint(n, 10))
	if err != nil {
		return Appended{}, err
	}
	appended, _, err := answer.appended()
	return appended, err
}
