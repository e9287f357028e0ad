package durable

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisOptions tune the one client that a Redis makes for itself. The zero value of each
// field means its default; negative values are refused by name.
type RedisOptions struct {
	// Timeout bounds one exchange, the wait for a connection included, for calls whose
	// context has no earlier deadline; default 15 s.
	Timeout time.Duration
	// DialTimeout bounds the making of one connection; default 2 s.
	DialTimeout time.Duration
	// AllowEviction makes Check accept a server that may delete keys when it is full
	// (maxmemory-policy allkeys-*); jobs are lost then. Default false.
	AllowEviction bool
	// Replicas is how many replicas are to have a job before it is reported enqueued: each append is followed
	// by a WAIT on its connection. It waits ReplicaWait at most; then the job is enqueued all the same, and its
	// ticket tells how many have it. With fewer replicas than that every append takes so long. Default 0, none.
	Replicas int
	// ReplicaWait bounds the wait for replicas; default 1 s.
	ReplicaWait time.Duration
	// Hook sees every command, for metrics and traces, alone or in a pipeline with others; a script's name is
	// its first argument after the keys. Default none.
	Hook redis.Hook
}

const (
	defaultTimeout     = 15 * time.Second
	defaultDialTimeout = 2 * time.Second
	defaultReplicaWait = time.Second
)

func (o *RedisOptions) validate() error {
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"Timeout", o.Timeout},
		{"DialTimeout", o.DialTimeout},
		{"ReplicaWait", o.ReplicaWait},
	} {
		if f.value < 0 {
			return fmt.Errorf("durable: RedisOptions.%s is %v, must not be negative", f.name, f.value)
		}
	}
	if o.Replicas < 0 {
		return fmt.Errorf("durable: RedisOptions.Replicas is %d, must not be negative", o.Replicas)
	}
	return nil
}

// Redis makes queues on one Redis server, Sentinel group or cluster. All its queues share
// one client, made from a copy of the user's options, with at most three connections, one
// more for each queue that is consumed, and one more for each of which jobs are followed
// (on a cluster: to each node). It is safe for concurrent use and starts no goroutine of its own.
type Redis struct {
	opts    RedisOptions
	cluster bool
	db      int
	named   bool // connections are given a name
	connect func(*gate) redis.UniversalClient

	// commands is the lane of everything that does not block, renewals that of lease renewals:
	// they never wait for anything else.
	commands, renewals *lane

	mu     sync.Mutex // guards what follows
	client redis.UniversalClient
	gate   *gate
	holds  map[*queue]struct{}
}

// NewRedis takes the address, the credentials and the dialer of rdb, which is a
// *redis.Client (of a server or of a Sentinel group) or a *redis.ClusterClient; others are
// refused by name. It does not touch the network, and rdb stays the caller's: with Sentinel
// it must stay open. Nil options mean the defaults.
func NewRedis(rdb redis.UniversalClient, opts *RedisOptions) (*Redis, error) {
	r := &Redis{
		commands: newLane(commandLane),
		renewals: newLane(renewalLane),
		holds:    make(map[*queue]struct{}),
	}
	if opts != nil {
		r.opts = *opts
	}
	if err := r.opts.validate(); err != nil {
		return nil, err
	}
	if r.opts.Timeout == 0 {
		r.opts.Timeout = defaultTimeout
	}
	if r.opts.ReplicaWait == 0 {
		r.opts.ReplicaWait = defaultReplicaWait
	}
	if r.opts.DialTimeout == 0 {
		r.opts.DialTimeout = defaultDialTimeout
	}
	switch c := rdb.(type) {
	case nil:
		return nil, errors.New("durable: NewRedis: the client is nil")
	case *redis.Client:
		if c == nil {
			return nil, errors.New("durable: NewRedis: the *redis.Client is nil")
		}
		theirs := *c.Options()
		r.db, r.named = theirs.DB, theirs.ClientName != ""
		r.connect = func(g *gate) redis.UniversalClient { return redis.NewClient(ownOptions(theirs, &r.opts, g)) }
	case *redis.ClusterClient:
		if c == nil {
			return nil, errors.New("durable: NewRedis: the *redis.ClusterClient is nil")
		}
		theirs := *c.Options()
		r.cluster, r.named = true, theirs.ClientName != ""
		r.connect = func(g *gate) redis.UniversalClient {
			return redis.NewClusterClient(ownClusterOptions(theirs, &r.opts, g))
		}
	default:
		return nil, fmt.Errorf("durable: NewRedis: %T is not supported, only *redis.Client and *redis.ClusterClient are", rdb)
	}
	return r, nil
}

// hold gives a queue the client, which stays open until the queue lets it go.
func (r *Redis) hold(q *queue) (redis.UniversalClient, *gate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open()
	r.holds[q] = struct{}{}
	return r.client, r.gate
}

// use gives the client to a call that does not keep it open.
func (r *Redis) use() redis.UniversalClient {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open()
	return r.client
}

// open makes the client where there is none. r.mu is held.
func (r *Redis) open() {
	if r.client != nil {
		return
	}
	r.gate = newGate(commandLane + renewalLane)
	r.client = r.connect(r.gate)
	if r.opts.Hook != nil {
		r.client.AddHook(r.opts.Hook)
	}
}

// drop lets a queue's hold go; the last one closes the client.
func (r *Redis) drop(q *queue) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.holds, q)
	if len(r.holds) > 0 {
		return nil
	}
	return r.close()
}

// Close closes the client, whichever queues still use it, and with it every call that is
// under way. A later call connects anew. It is idempotent and does not block.
func (r *Redis) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.holds)
	return r.close()
}

// close closes the client. r.mu is held.
func (r *Redis) close() error {
	if r.client == nil {
		return nil
	}
	client, gate := r.client, r.gate
	r.client, r.gate = nil, nil
	gate.close()
	return client.Close()
}
