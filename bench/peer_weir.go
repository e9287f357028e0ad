package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/policy"
)

// engine is a durable engine of weir under test.
type engine struct {
	name string
	on   func(store *durable.Redis, queue string, backlog int64) durable.Engine
}

// engines are those of weir; the first is the default, and the one that is measured beside the peers. Add one here,
// and it has a side in the rows that compare engines.
var engines = []engine{
	{"list", func(s *durable.Redis, queue string, backlog int64) durable.Engine {
		return s.List(queue, &durable.ListOptions{MaxBacklog: backlog})
	}},
	{"sorted set", func(s *durable.Redis, queue string, backlog int64) durable.Engine {
		return s.SortedSet(queue, &durable.SortedSetOptions{MaxBacklog: backlog})
	}},
	{"stream", func(s *durable.Redis, queue string, backlog int64) durable.Engine {
		return s.Stream(queue, &durable.StreamOptions{MaxBacklog: backlog})
	}},
}

// side is the name of weir on this engine. The first is the default.
func (e engine) side() string {
	if e.name == engines[0].name {
		return weir
	}
	return weir + " " + e.name
}

// backlog is more than any row has at once: what a full queue costs is measured apart.
const backlog = 20_000_000

func (e engine) implementation() implementation {
	return implementation{
		name:   e.side(),
		module: "github.com/seed-9dec4fca/weir",
		config: "bridge on " + e.name + ": defaults, with Workers = workers, MaxBacklog raised, payloads as bytes; " +
			"producers submit with policy.Wait, which returns when the job is accepted (the rows that say so wait for enqueued)",
		open: func(env *env) (queue, error) {
			store, err := e.store(env)
			if err != nil {
				return nil, err
			}
			return newWeir(e.on(store, "bench", backlog))
		},
	}
}

func (e engine) store(env *env) (*durable.Redis, error) {
	// The store makes a client of its own from the options of this one.
	rdb := redis.NewClient(&redis.Options{Addr: env.addr})
	defer rdb.Close() //nolint:errcheck // it was never used
	return durable.NewRedis(rdb, &durable.RedisOptions{Hook: env.trips})
}

// engineOf finds the engine of an implementation.
func engineOf(name string) (engine, error) {
	for _, e := range engines {
		if e.side() == name {
			return e, nil
		}
	}
	return engine{}, errors.New("no engine of weir: " + name)
}

type weirQueue struct {
	q    *bridge.Queue
	kind *bridge.Kind[[]byte]
}

func newWeir(e durable.Engine) (*weirQueue, error) {
	q, err := bridge.Open(e, nil)
	if err != nil {
		return nil, err
	}
	kind := bridge.NewKind(q, "noop", &bridge.KindOptions[[]byte]{Codec: bridge.Bytes{}})
	return &weirQueue{q: q, kind: kind}, nil
}

// patience is longer than any measurement.
const patience = 10 * time.Minute

func (w *weirQueue) submit(ctx context.Context, payload []byte) error {
	_, err := w.kind.Submit(ctx, payload, policy.Wait(patience))
	return err
}

func (w *weirQueue) enqueue(ctx context.Context, payload []byte) error {
	t, err := w.kind.Submit(ctx, payload, policy.Wait(patience))
	if err != nil {
		return err
	}
	return t.WaitEnqueued(ctx)
}

func (w *weirQueue) flush(ctx context.Context) error { return w.q.Flush(ctx) }

func (w *weirQueue) consume(ctx context.Context, workers int, handle func([]byte)) error {
	err := w.kind.Handle(func(_ context.Context, d *bridge.Delivery[[]byte]) error {
		handle(d.Value)
		return nil
	})
	if err != nil {
		return err
	}
	go func() {
		if err := w.q.Run(ctx, &bridge.RunOptions{Workers: workers}); err != nil {
			panic(err) // nothing that is measured afterwards would mean anything
		}
	}()
	return nil
}

func (w *weirQueue) left(_ context.Context, n int64) (int64, error) {
	return n - int64(w.q.Counters().Completed), nil
}
