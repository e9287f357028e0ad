package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// queue is a durable job queue under test, as one process sees it. It ends with the process: stopping in good order
// is not measured, and takes some of them seconds.
type queue interface {
	// submit hands a job over. It returns as soon as the implementation lets go of its caller.
	submit(ctx context.Context, payload []byte) error
	// enqueue hands a job over and returns when Redis has it.
	enqueue(ctx context.Context, payload []byte) error
	// flush returns when Redis has all that was submitted.
	flush(ctx context.Context) error
	// consume starts that many workers.
	consume(ctx context.Context, workers int, handle func(payload []byte)) error
	// left is how many jobs have not been completed for good, once all n were handled.
	left(ctx context.Context, n int64) (int64, error)
}

// implementation is a queue and how it was set up.
type implementation struct {
	name   string
	module string // whose version counts
	config string
	open   func(e *env) (queue, error)
}

// env is what an implementation is given to open itself.
type env struct {
	addr  string
	load  load
	trips *trips // counts the exchanges of each client
}

// client makes a client for a peer. Its pool has room for all that wants to talk at once.
func (e *env) client() *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: e.addr, PoolSize: e.load.Workers + max(e.load.Producers, producers) + 16})
	c.AddHook(e.trips)
	return c
}

// implementations is who takes part. A new peer is a line here, a new engine one in engines.
func implementations() []implementation {
	all := []implementation{asynqPeer, watermillPeer, baselinePeer}
	for _, e := range engines {
		all = append(all, e.implementation())
	}
	return all
}

func open(e *env, name string) (queue, error) {
	for _, i := range implementations() {
		if i.name == name {
			return i.open(e)
		}
	}
	return nil, fmt.Errorf("no implementation is called %q", name)
}
