package main

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/policy"
)

// roleVariable is the environment variable that tells a child what to be.
const roleVariable = "WEIR_TORTURE_ROLE"

// role is what a child process is told to do: produce, work, or both.
type role struct {
	Name   string
	Dir    string // of its ledger and its log
	Queue  string
	Queues int // so many queues, Queue-1 and so on, each with a Run of its own; 0: Queue alone
	Seed   uint64
	Engine string

	Addr       string
	Nodes      []string // of a cluster, in place of Addr
	User, Pass string
	Odd        bool          // the user's own client has a pool of one, retries, and no patience
	Timeout    time.Duration // of one exchange
	Replicas   int           // that are to have a job before it is reported enqueued
	List       durable.ListOptions

	// Work.
	Workers      int
	Lease        time.Duration
	SweepEvery   time.Duration
	Grace        time.Duration
	UnknownDelay time.Duration
	Kinds        []string // with a handler; "drill" if empty; "" is for jobs of other languages
	Retry        policy.Retry

	// Produce.
	Jobs          int     // 0: until told to stop
	Producers     int     // goroutines; 0: none
	Rate          float64 // jobs a second, of all together; 0: as fast as they are taken
	Policy        string  // wait, reject, drop-incoming, drop-oldest
	Wait          time.Duration
	Kind          string // "drill" if empty
	Task          task
	WorkMax       int           // a run takes Task.Work to WorkMax ms
	DelayMax      int           // every tenth job waits up to so many ms
	Capacity      int           // of the front
	Terse         bool          // offers and refusals are counted, not noted
	IDs           string        // that its IDs begin with; its name if empty
	First         int           // jobs are numbered from the one after this
	Keys          int           // job n has one of so many unique keys; 0: none
	Expiries      []int         // ms; job n has one of these; 0: none
	Retention     time.Duration // of the records of two jobs in three
	Mixed         bool          // some fail, for good or once, and some ignore their contexts
	Watch         bool          // the end of every ticket is noted
	Again         bool          // what ends uncertain is offered again
	PersistWithin time.Duration

	// Cancel, and follow, jobs of others.
	Cancels    float64  // so many a second; 0: none
	Follows    float64  // likewise
	Others     []string // what their IDs begin with
	OthersRate float64  // how many jobs a second each of these has

	// Patience is how long Shutdown may take.
	Patience time.Duration
}

// task is the payload of a job: it says what its run does.
type task struct {
	Work int    `json:"work,omitempty"` // ms that it takes
	Deaf bool   `json:"deaf,omitempty"` // takes no notice of its context
	Fail int    `json:"fail,omitempty"` // so many runs fail
	Do   string `json:"do,omitempty"`   // exit, panic, goexit, alloc, permanent, shutdown
	Look bool   `json:"look,omitempty"` // notes when it was claimed, and when the job expires
	Sign bool   `json:"sign,omitempty"` // leaves its fence as the result
	Pad  string `json:"pad,omitempty"`
}

const drill = "drill"

func (r *role) withDefaults() {
	orElse(&r.Timeout, 2*time.Second)
	orElse(&r.Lease, 2*time.Second)
	orElse(&r.SweepEvery, r.Lease/2)
	orElse(&r.Grace, 5*time.Second)
	orElse(&r.UnknownDelay, 500*time.Millisecond)
	orElse(&r.Wait, 2*time.Minute)
	orElse(&r.Kind, drill)
	orElse(&r.Policy, "wait")
	orElse(&r.Capacity, 1024)
	orElse(&r.Patience, 10*time.Second)
	orElse(&r.List.MaxBacklog, 10_000_000)
	if r.Retry == (policy.Retry{}) {
		r.Retry = policy.Retry{MaxAttempts: 10, Initial: 50 * time.Millisecond, Max: time.Second}
	}
	if len(r.Kinds) == 0 {
		r.Kinds = []string{drill}
	}
}

func orElse[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// client is the user's client.
func (r *role) client() redis.UniversalClient {
	if len(r.Nodes) > 0 {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: r.Nodes})
	}
	o := &redis.Options{Addr: r.Addr, Username: r.User, Password: r.Pass}
	if r.Odd {
		o.PoolSize, o.PoolTimeout, o.MaxRetries = 1, 100*time.Millisecond, 3
		o.ContextTimeoutEnabled = false
	}
	return redis.NewClient(o)
}

// policy is what each call of Submit wants.
func (r *role) policy() policy.Policy {
	switch r.Policy {
	case "reject":
		return policy.Reject()
	case "drop-incoming":
		return policy.DropIncoming()
	case "drop-oldest":
		return policy.DropOldest()
	}
	return policy.Wait(r.Wait)
}
