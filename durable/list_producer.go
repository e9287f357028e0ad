package durable

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// nonceLength characters of base 32 make an identity's nonce.
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
	appended, _, err := p.append(ctx, n, jobs, "", 0, 0, 0)
	return appended, err
}

// AppendFor is Append, and claims for c what is stored, if nothing waits that would be claimed first.
func (p *listProducer) AppendFor(ctx context.Context, n uint64, jobs []*Job, c Consumer, r ClaimRequest) (Appended, []*Claim, error) {
	consumer, ok := c.(*listConsumer)
	if !ok || consumer.list.keys.prefix != p.list.keys.prefix || r.N == 0 || r.Slots < 1 {
		appended, err := p.Append(ctx, n, jobs)
		return appended, nil, err
	}
	appended, first, err := p.append(ctx, n, jobs, consumer.id, r.N, min(r.Slots, claimStep), r.Held)
	if err != nil || first.jobs == 0 {
		return appended, nil, err
	}
	token := consumer.id + ":" + strconv.FormatUint(r.N, 10)
	life := p.id + ":" + strconv.FormatUint(n, 10)
	claims := make([]*Claim, 0, first.jobs)
	refused := appended.Refused
	for i, j := range jobs[:appended.Taken] {
		switch {
		case len(refused) > 0 && refused[0].Pos == i:
			refused = refused[1:]
		case millis(j.Delay) == 0 && len(claims) < first.jobs:
			own := token
			if millis(j.Retention) > 0 || j.Unique != nil {
				own += boundToken
			}
			claims = append(claims, &Claim{
				ID: j.ID, Token: own, Kind: j.Kind, Payload: j.Payload, Headers: j.Headers, Deliveries: 1,
				Fence: first.fence + int64(len(claims)), MaxAttempts: int(attempts(j.MaxAttempts)), Timeout: j.Timeout.Truncate(millisecond),
				Life: life,
			})
		}
	}
	if len(claims) != first.jobs {
		return Appended{}, nil, failed(p.list.name, "append", ErrInDoubt, errDirect)
	}
	return appended, claims, nil
}

// errDirect is an answer that hands over more than was sent.
var errDirect = errors.New("the answer hands over more jobs than were stored")

// handed is how many jobs were claimed in the same request, and the fence of the first.
type handed struct {
	jobs  int
	fence int64
}

// append sends one request; consumer may be empty.
func (p *listProducer) append(ctx context.Context, n uint64, jobs []*Job, consumer string, claim uint64, slots, held int) (Appended, handed, error) {
	l := p.list
	if n == 0 {
		return Appended{}, handed{}, l.misuse("append", "numbers start at 1")
	}
	if err := checkJobs(l.name, jobs, l.capabilities()); err != nil {
		return Appended{}, handed{}, err
	}
	args := make([]any, 0, 8+3*len(jobs))
	args = append(args, p.id, strconv.FormatUint(n, 10), l.opts.MaxBacklog, consumer, strconv.FormatUint(claim, 10), slots, held, len(jobs))
	for _, j := range jobs {
		args = append(args, j.ID, j.Payload, j.Kind)
	}
	for i, j := range jobs { // what most leave empty
		if j.plain() {
			continue
		}
		args = append(args, i+1, j.Headers, fmt.Sprintf("%d %d %d %d %d %d",
			millis(j.Delay), attempts(j.MaxAttempts), millis(j.Timeout), millis(j.Retention), j.Priority, millis(j.Expiry)),
			j.Unique.words(), j.LimitKey)
	}
	_, answer, err := l.run(ctx, l.redis.commands, l.scripts.append, args...)
	if err != nil {
		return Appended{}, handed{}, err
	}
	return answer.appended()
}

// plain reports whether a job has nothing but an ID, a kind and a payload.
func (j *Job) plain() bool {
	return len(j.Headers) == 0 && j.Delay == 0 && j.MaxAttempts <= 0 && j.Timeout == 0 && j.Retention == 0 &&
		j.Priority == 0 && j.Expiry == 0 && j.Unique == nil && j.LimitKey == ""
}

// words is a unique key as scripts take it: states, window, after, key.
func (u *Unique) words() string {
	if u == nil {
		return ""
	}
	var states strings.Builder
	for _, s := range []struct {
		state State
		name  string
	}{{StatePending, "p"}, {StateScheduled, "s"}, {StateProcessing, "r"}, {StateDead, "d"}} {
		if u.blocks(s.state) {
			states.WriteString(s.name)
		}
	}
	return fmt.Sprintf("%s %d %d %s", states.String(), millis(u.Window), millis(u.After), u.Key)
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
	appended, _, err := answer.appended()
	return appended, err
}
