package bridge

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/local"
)

// Ticket follows one job: WaitEnqueued until the store has it, Wait until it has ended; State, Err, ID; and
// Enqueued, Started and Done, which are channels. See local.Ticket, and local.State for the states and their errors.
type Ticket = local.Ticket

// Job is a value with settings of its own, for SubmitJob.
type Job[T any] struct {
	// ID names the job in the store: 1 to 256 bytes of UTF-8 without control characters.
	// It is required; Queue.NewID makes one. One that is there already makes the job a duplicate: it is not stored, and its
	// ticket follows the one that is there; see Ticket.Duplicate.
	ID string
	// Value is what the handler gets.
	Value T
	// Headers travel with the job, trace context for example. They are stored in clear.
	Headers map[string]string
	// Delay is how long the job must wait, from when it becomes durable on. Rounded up to whole milliseconds. 0: not at all.
	Delay time.Duration
	// NotBefore is until when the job must wait, by this machine's clock. Zero: not at all. It is refused together with Delay.
	// As with every time of a job, what is more than 200 years away counts as 200 years.
	NotBefore time.Time
	// Expiry is for how long the job is worth waiting, from Submit on, in the front and in the store: no run of it begins
	// later, but by the length of the exchange (10 s at most) that stored it; its ticket ends expired instead. What has begun
	// is not ended by it, but a failed run is not followed by another one.
	// Whole milliseconds. 0: as its kind says.
	Expiry time.Duration
	// Unique keeps a second job with the same Key from being stored while this one has it: that one is a duplicate, as one with
	// the same ID is. By default a job has its key until it has completed, is dead, or has ended otherwise. The
	// zero value: none.
	Unique durable.Unique
	// LimitKey is what the limits for keys count the job under (Operator.SetLimits), as a customer's name for that
	// customer's jobs. At most durable.MaxIDBytes. Empty: they do not apply.
	LimitKey string
	// MaxAttempts is after how many failed runs the job goes dead. 0: as its kind says
	// where it runs.
	MaxAttempts int
	// Timeout ends the context of one run. Whole milliseconds. 0: as its kind says where it runs.
	Timeout time.Duration
	// Retention is for how long the store keeps a record of the job once it is completed, without the
	// payload: until then Operator.Lookup finds it, and a job of the same ID is a duplicate. Whole
	// milliseconds. 0: as the kind says.
	Retention time.Duration
	// Priority is from -durable.MaxPriority to durable.MaxPriority: of the jobs that wait in the store, one of a
	// higher priority is run first. In the front the order is that of admission. What is not 0 needs an engine with
	// priorities (durable.Redis.SortedSet, durable.Memory): from others it is refused, with durable.ErrUnsupported.
	Priority int
}

const (
	maxIDLen = 256
	// longest bounds the times of a job, so that no sum of some can overflow: a time.Duration ends at 292 years.
	longest = 200 * 365 * 24 * time.Hour
)

// roundUp makes whole milliseconds of a time: the store would cut it short.
func roundUp(d time.Duration) time.Duration {
	return (min(d, longest) + time.Millisecond - 1).Truncate(time.Millisecond)
}

// job is a submitted job on its way to the store: the ticket and what will be
// written, in one allocation. The front owns it, then the shipper; wire is released when
// the job has ended or is durable, since a ticket may be held for long.
type job struct {
	local.Promise
	kind    string
	size    int64
	persist time.Duration // by when it must be durable, on the queue's clock
	slot    local.Slot[*job]
	wire    *wire
	// over is set once the slot was released: the job has ended, though the request it is part of
	// may still be asked about. Written by the shipper only.
	over bool
	// named: its ID or its key may be somebody else's already.
	named bool
}

func (j *job) id() string { return j.Ticket().ID() }

// wire is what will be written of a job.
type wire struct {
	durable.Job           // with Delay and Expiry as at Submit
	notBefore   time.Time // zero: nothing was said
}

// expires is when a job is not worth waiting for any more, on the clock of persist; 0: never.
func (q *Queue) expires(j *job) time.Duration {
	if j.wire == nil || j.wire.Expiry == 0 {
		return 0
	}
	return j.persist - q.opts.PersistWithin + j.wire.Expiry
}

// request is the job as it goes to the store now: it has waited in the front for some time.
func (q *Queue) request(j *job) *durable.Job {
	if j.wire.Expiry == 0 && j.wire.notBefore.IsZero() {
		return &j.wire.Job
	}
	left := j.wire.Job
	if left.Expiry > 0 {
		left.Expiry = max(q.expires(j)-q.now(), time.Millisecond)
	}
	if until := time.Until(j.wire.notBefore); !j.wire.notBefore.IsZero() && until > 0 {
		left.Delay = roundUp(until)
	}
	return &left
}

// underWay finds the jobs of the request that is under way by ID. They are not watched before
// they are durable, but a worker of this process may be quicker than the store's answer.
type underWay struct {
	mu   sync.Mutex // guards jobs
	jobs map[string]*job
}

// set replaces them all.
func (u *underWay) set(jobs []*job) {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.jobs)
	for _, j := range jobs {
		if u.jobs == nil {
			u.jobs = map[string]*job{}
		}
		if u.jobs[j.id()] == nil { // else refused, for being there already
			u.jobs[j.id()] = j
		}
	}
}

// find is the promise of one of them; nil: it is none.
func (u *underWay) find(id string) *local.Promise {
	u.mu.Lock()
	defer u.mu.Unlock()
	if j := u.jobs[id]; j != nil {
		return &j.Promise
	}
	return nil
}

// promise finds the ticket of a job; nil if it was not submitted here, or nobody holds it. If a living ticket of the same
// ID is watched the job is that one's: then the one under way will be refused. But if a worker of this process has that one, and
// the store speaks of a job that nobody has, then that one has ended, and is about to be told.
func (q *Queue) promise(id string) *local.Promise {
	sent := q.sent.find(id) // first: a job leaves it after it is watched
	if p := q.watched.Find(id); sent == nil || p != nil && !p.Claimed() {
		return p
	}
	return sent
}

// claimed finds the ticket of the very job that a worker of this process has, which is noted; nil likewise. superseded is for
// Queue.superseded, when no mutex is held.
func (q *Queue) claimed(id string, life uint64) (ticket, superseded *local.Promise) {
	sent := q.sent.find(id) // first
	return q.watched.Claim(id, life, sent)
}

// headerCodec: headers are one JSON object, readable in any language, so that a job needs
// one field for all of them.
func encodeHeaders(headers map[string]string) ([]byte, error) {
	if len(headers) == 0 {
		return nil, nil
	}
	return json.Marshal(headers)
}

func decodeHeaders(raw []byte) (map[string]string, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var headers map[string]string // escapes: not before it is needed
	if err := json.Unmarshal(raw, &headers); err != nil {
		return nil, fmt.Errorf("headers: %w", err)
	}
	return headers, nil
}

func validateID(what, id string) error {
	if err := validateLength(what, id, maxIDLen); err != nil {
		return err
	}
	return validateName(what, id)
}

// validateLength is all that is asked of an ID that others may have made.
func validateLength(what, id string, most int) error {
	switch {
	case id == "":
		return fmt.Errorf("bridge: %s is empty", what)
	case len(id) > most:
		return fmt.Errorf("bridge: %s has %d bytes, more than %d", what, len(id), most)
	}
	return nil
}

// validateName refuses what would be unreadable in a key, a log or a terminal.
func validateName(what, name string) error {
	if !utf8.ValidString(name) {
		return fmt.Errorf("bridge: %s is not valid UTF-8: %q", what, name)
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return fmt.Errorf("bridge: %s has a control character: %q", what, name)
		}
	}
	return nil
}

// idSource makes IDs that are unique across processes: a random prefix for each queue
// and a counter.
type idSource struct {
	prefix string
	next   atomic.Uint64
}

func (s *idSource) init() {
	s.prefix = strconv.FormatUint(rand.Uint64()|1<<63, 36) + "-"
}

func (s *idSource) new() string {
	buf := make([]byte, 0, 24)
	buf = append(buf, s.prefix...)
	return string(strconv.AppendUint(buf, s.next.Add(1), 36))
}
