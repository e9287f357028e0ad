package durable

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// How many exchanges each lane lets through at once.
const (
	commandLane = 2
	renewalLane = 1
	awaitLane   = 1 // of each consumed queue, and of each that is followed
)

// lane lets a bounded number of exchanges be under way at once; each has a connection, so the pool never makes anybody wait.
//
// Commands that have to wait go together: whoever gets a place takes those along that wait behind, in one pipeline. So many
// queues of one process cost few exchanges, and one that is alone never waits for company.
type lane struct {
	mu      sync.Mutex // guards what follows
	free    int
	waiting []*passenger // in the order in which they came; none while there is a free place
}

// passenger waits for a place in a lane.
type passenger struct {
	ctx  context.Context
	q    *queue
	cmd  *redis.Cmd    // nil: it goes alone
	turn chan struct{} // gets a token when the wait is over
	gone bool          // cmd went with another one, and has its answer
}

const (
	company     = 31          // how many go with a command, at most
	amplePeriod = time.Second // nobody travels with one that has less time left, whose end would be that of the exchange
)

func newLane(places int) *lane { return &lane{free: places} }

// enter waits for a place, or for ctx. Nobody gets in whose ctx has ended: its call would
// make a client that was closed connect anew.
func (l *lane) enter(ctx context.Context) error { return l.board(&passenger{ctx: ctx}) }

// board is enter for a passenger, who may have gone with another one when it returns: then there is nothing to leave.
func (l *lane) board(p *passenger) error {
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	l.mu.Lock()
	if l.free > 0 {
		l.free--
		l.mu.Unlock()
		return nil
	}
	p.turn = make(chan struct{}, 1)
	l.waiting = append(l.waiting, p)
	l.mu.Unlock()
	select {
	case <-p.turn:
	case <-p.ctx.Done():
		if l.quit(p) {
			return context.Cause(p.ctx)
		}
		<-p.turn
	}
	if !p.gone && p.ctx.Err() != nil { // both at once
		l.leave()
		return context.Cause(p.ctx)
	}
	return nil
}

// quit takes back the wait of one whose turn has not come.
func (l *lane) quit(p *passenger) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, p)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	return i >= 0
}

// leave gives the place to the first one that waits.
func (l *lane) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.free++
		return
	}
	l.waiting[0].turn <- struct{}{}
	l.waiting = slices.Delete(l.waiting, 0, 1)
}

// others takes those off the line that go with p, and tells by when all of them want an answer.
func (l *lane) others(p *passenger) (with []*passenger, by time.Time) {
	ample := time.Now().Add(amplePeriod)
	by, _ = p.ctx.Deadline() // there is one: see bound
	if by.Before(ample) {
		return nil, by
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.waiting[:min(len(l.waiting), company)] {
		if o.cmd == nil || o.ctx.Err() != nil {
			break
		}
		its, _ := o.ctx.Deadline()
		if its.Before(ample) {
			break
		}
		if its.Before(by) {
			by = its
		}
		with = append(with, o)
	}
	l.waiting = slices.Delete(l.waiting, 0, len(with))
	return with, by
}

// send executes a command of q when there is a place for it, alone or with others. ctx has a deadline.
func (l *lane) send(ctx context.Context, q *queue, cmd *redis.Cmd) error {
	p := &passenger{ctx: ctx, q: q, cmd: cmd}
	if q.redis.cluster { // a pipeline would be sent again where a node does not answer
		p.cmd = nil
	}
	if err := l.board(p); err != nil {
		return fmt.Errorf("%w: %w", ErrNotExecuted, err)
	}
	if p.gone {
		return cmd.Err()
	}
	defer l.leave()
	client, _ := q.redis.hold(q)
	if p.cmd != nil {
		if with, by := l.others(p); len(with) > 0 {
			p.take(client, with, by)
			return cmd.Err()
		}
	}
	return once{cmd}.send(ctx, client)
}

// take executes the command of p and those of others, who have their turn then.
func (p *passenger) take(client redis.UniversalClient, with []*passenger, by time.Time) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(p.ctx), by) // that p gives up is not the others' end
	defer cancel()
	defer func() {
		for _, o := range with {
			o.gone = true
			o.turn <- struct{}{}
		}
	}()
	cmds := []*redis.Cmd{p.cmd}
	for _, o := range with {
		o.q.redis.hold(o.q)
		cmds = append(cmds, o.cmd)
	}
	together(ctx, client, cmds)
}

// together executes commands in one pipeline. Afterwards each has its answer, or its error.
func together(ctx context.Context, client redis.UniversalClient, cmds []*redis.Cmd) {
	var err error
	defer func() {
		for _, cmd := range cmds {
			if cmd.Err() == nil && cmd.Val() == nil { // a hook has let none through
				cmd.SetErr(err)
			}
		}
	}()
	pipe := client.Pipeline()
	for _, cmd := range cmds {
		_ = pipe.Process(ctx, cmd) // queued
	}
	_, err = pipe.Exec(ctx)
}
