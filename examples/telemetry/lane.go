package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// lane is one queue, with one policy, on which the samples of all owners travel.
type lane struct {
	policy    policy.Policy
	queue     *bridge.Queue
	owners    [len(owners)]*owner
	collector *collector
	end       bridge.Stats // after all
}

// owner is a part of the program that measures, and what it is told about its samples.
type owner struct {
	kind    *bridge.Kind[measure]
	samples []sample
	refused int
	// hooked counts what the event hook said was lost, as it was lost.
	hooked atomic.Int64
}

// sample is what an owner keeps of one: the ticket tells its fate.
type sample struct {
	measure
	ticket *bridge.Ticket
}

func newLane(engine durable.Engine, p policy.Policy) (*lane, error) {
	l := &lane{policy: p}
	byKind := map[string]*owner{}
	for i, name := range owners {
		l.owners[i] = &owner{}
		byKind[name] = l.owners[i]
	}
	var err error
	l.queue, err = bridge.Open(engine, &bridge.Options{
		Capacity: capacity, Policy: p,
		OnEvent: func(e bridge.Event) {
			if e.Type == bridge.EventDropped || e.Type == bridge.EventEvicted {
				byKind[e.Kind].hooked.Add(1)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	l.collector = newCollector()
	for i, name := range owners {
		l.owners[i].kind = bridge.NewKind[measure](l.queue, name, nil)
		err = errors.Join(err, l.owners[i].kind.Handle(func(_ context.Context, d *bridge.Delivery[measure]) error {
			return l.collector.add(d)
		}))
	}
	return l, err
}

// emit hands a sample in. It does not wait, whatever the collector or Redis do.
func (l *lane) emit(who int, m measure) {
	o := l.owners[who]
	ticket, err := o.kind.SubmitJob(context.Background(), bridge.Job[measure]{
		ID: owners[who] + "-" + strconv.Itoa(m.N), Value: m,
	}, policy.Policy{})
	if err != nil {
		o.refused++
		return
	}
	o.samples = append(o.samples, sample{m, ticket})
}

// settle waits until every sample has met its end.
func (l *lane) settle(ctx context.Context) error {
	for _, o := range l.owners {
		for _, s := range o.samples {
			select {
			case <-s.ticket.Done():
			case <-ctx.Done():
				return fmt.Errorf("sample %s is still %s: %w", s.ticket.ID(), s.ticket.State(), context.Cause(ctx))
			}
		}
	}
	var err error
	l.end, err = l.queue.Stats(ctx)
	return err
}

func (l *lane) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	report, err := l.queue.Shutdown(ctx)
	if left := len(report.Returned) + len(report.Uncertain); left > 0 && err == nil {
		err = fmt.Errorf("%s: %d samples were handed back at the end", l.policy, left)
	}
	return errors.Join(err, l.collector.close())
}

// front is what the counters say of the front, without asking Redis.
func (l *lane) front() local.FrontStats {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	stats, _ := l.queue.Stats(ctx) // of its own it knows all the same
	return stats.Front
}

// fate is what became of samples, by the tickets of their owner.
type fate struct {
	emitted, collected, lost            int
	emittedNanos, lostNanos             int64
	newest, newestCollected, lastInLine int
}

// fate looks at the tickets. Of the last samples of all, from number recent on, it counts
// those that were collected.
func (o *owner) fate(recent int) (f fate) {
	for _, s := range o.samples {
		f.emitted++
		f.emittedNanos += s.Nanos
		state := s.ticket.State()
		if s.N >= recent {
			f.newest++
		}
		switch state {
		case local.Completed:
			f.collected++
			f.lastInLine = s.N
			if s.N >= recent {
				f.newestCollected++
			}
		case local.Dropped, local.Evicted:
			f.lost++
			f.lostNanos += s.Nanos
		default:
		}
	}
	return f
}

func (f *fate) add(g fate) {
	f.emitted += g.emitted
	f.collected += g.collected
	f.lost += g.lost
	f.emittedNanos += g.emittedNanos
	f.lostNanos += g.lostNanos
	f.newest += g.newest
	f.newestCollected += g.newestCollected
	f.lastInLine = max(f.lastInLine, g.lastInLine)
}
