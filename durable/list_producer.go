package durable

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
)

// nonceBytes of randomness make an identity's nonce, in base 32.
const nonceLength = 12

func nonce() string { return rand.Text()[:nonceLength] }

// listProducer is an identity that appends to a List.
type listProducer struct {
	list *List
	id   string
}

// OpenProducer obtains an identity for appending.
func (l *List) OpenProducer(ctx context.Context) (Producer, error) {
	id, err := l.open(ctx, "producer", 0)
	if err != nil {
		return nil, err
	}
	return &listProducer{list: l, id: id}, nil
}

// open obtains an identity of a kind.
func (l *List) open(ctx context.Context, kind string, lease int64) (string, error) {
	_, answer, err := l.run(ctx, l.redis.commands, l.scripts.open,
		kind, nonce(), lease, l.opts.MaxBacklog, l.opts.MaxCrashes, l.opts.MaxDead, l.opts.MaxCorrupt, l.opts.MaxCompleted)
	if err != nil {
		return "", err
	}
	return answer.text(), nil
}

func (p *listProducer) ID() string { return p.id }

func (p *listProducer) Append(ctx context.Context, n uint64, jobs []*Job) (Appended, error) {
	l := p.list
	if n == 0 {
		return Appended{}, l.misuse("append", "numbers start at 1")
	}
	if err := checkPriorities(l.name, jobs, l.step > 0); err != nil {
		return Appended{}, err
	}
	args := make([]any, 0, 4+3*len(jobs))
	args = append(args, p.id, strconv.FormatUint(n, 10), l.opts.MaxBacklog, len(jobs))
	for _, j := range jobs {
		args = append(args, j.ID, j.Payload, j.Kind)
	}
	for i, j := range jobs { // what most leave empty
		if len(j.Headers) > 0 || j.Delay != 0 || j.MaxAttempts > 0 || j.Timeout != 0 || j.Retention != 0 || j.Priority != 0 {
			args = append(args, i+1, j.Headers, fmt.Sprintf("%d %d %d %d %d",
				millis(j.Delay), max(0, j.MaxAttempts), millis(j.Timeout), millis(j.Retention), j.Priority))
		}
	}
	_, answer, err := l.run(ctx, l.redis.commands, l.scripts.append, args...)
	if err != nil {
		return Appended{}, err
	}
	return answer.appended()
}

func (p *listProducer) Close(ctx context.Context, n uint64) (Appended, error) {
	l := p.list
	if n == 0 {
		return Appended{}, l.misuse("close", "numbers start at 1")
	}
	_, answer, err := l.run(ctx, l.redis.commands, l.scripts.close, p.id, strconv.FormatUint(n, 10))
	if err != nil {
		return Appended{}, err
	}
	return answer.appended()
}
