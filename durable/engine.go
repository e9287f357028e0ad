package durable

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Engine is one durable queue as the bridge sees it: the seam between the
// bounded front and whatever keeps the jobs. Lists and Memory implement it;
// users hold those concrete types and meet this interface only when they write
// an engine or wrap one in a test.
//
// The contract, for whoever implements it:
//
//   - Every method is safe for concurrent use. A Producer or Consumer gets at
//     most one Append, one Claim and one Settle at a time, but these three, Renew
//     and Await may overlap.
//   - A method blocks for one exchange with the store at most and ends by the
//     context's deadline. It never retries: the caller does, and it can only do so
//     safely because of the next rule.
//   - One request, one number, one remembered answer. Append, Claim and Settle
//     carry a number that starts at 1 for a new identity and grows by one with
//     every answered request of the same kind. The engine applies a number once,
//     and gives a repeated number the first answer; a smaller one is ErrOutdated. A
//     caller repeats a number with the same content until it is answered.
//   - Errors are of few classes, told apart by errors.Is: ErrNotExecuted (nothing
//     happened), ErrInDoubt (it may have), ErrNoSender, ErrOutdated, ErrFenced,
//     ErrLeaseExpired (nothing happened, and why). An error that is none of these
//     counts as in doubt.
//   - The engine does not keep a slice or a payload it was given after it returns;
//     what it returns belongs to the caller.
//
// durabletest.Run checks all of it.
type Engine interface {
	// Info tells what the queue is. It does not block. The error is one of
	// construction: a bad name or option, by name.
	Info() (Info, error)

	// Check asks the store whether it can be used at all, and returns a *CheckError
	// that names everything that is wrong with it. Any other error means that the store
	// did not answer.
	Check(ctx context.Context) error

	// OpenProducer obtains an identity for appending, never used before. An open
	// whose answer was lost is simply done again.
	OpenProducer(ctx context.Context) (Producer, error)

	// OpenConsumer obtains an identity for claiming and registers it with a lease
	// that ends that long from now, by the store's clock.
	OpenConsumer(ctx context.Context, lease time.Duration) (Consumer, error)

	// Sweep returns to the queue what consumers with an expired lease still hold,
	// a bounded step at a time. Anybody may call it at any time.
	Sweep(ctx context.Context) (Swept, error)

	// Stats reads sizes and counters; they are consistent with each other.
	Stats(ctx context.Context) (Stats, error)

	// Close lets go of connections. It changes nothing durable and is idempotent.
	Close() error
}

// Producer is an identity that appends.
type Producer interface {
	// ID is the identity the store gave.
	ID() string

	// Append stores a prefix of jobs, as long as the backlog has room, in order.
	Append(ctx context.Context, n uint64, jobs []*Job) (Appended, error)

	// Close makes sure that number n-1 can never be applied from now on, and
	// returns its answer: what it had stored (nothing, if it was never executed). n is the
	// number after that of the last Append sent, answered or not; 1 if there was none.
	Close(ctx context.Context, n uint64) (Appended, error)
}

// DirectProducer is a Producer that can hand what it stores to a consumer in the same exchange.
type DirectProducer interface {
	Producer

	// AppendFor is Append(n, jobs). If nothing waits that would be claimed before, it is c's Claim(r) right behind
	// that as well, in one step: then the claims are not empty, and r.N is used. It may always be less, also
	// nothing. After ErrInDoubt both numbers are in doubt: the jobs are asked for again by Append, and the claims
	// by Claim under r.N. The claims have the payloads and headers of jobs, not copies of them.
	AppendFor(ctx context.Context, n uint64, jobs []*Job, c Consumer, r ClaimRequest) (Appended, []*Claim, error)
}

// Consumer is an identity that claims, under one lease for all its claims.
type Consumer interface {
	// ID is the identity the store gave.
	ID() string

	// Claim takes up to r.Slots jobs for this consumer. Without a live lease it
	// takes nothing: ErrFenced for good, ErrLeaseExpired until renewed.
	// A repeated number returns those of its jobs that are still claimed under it.
	Claim(ctx context.Context, r ClaimRequest) (Claimed, error)

	// Await blocks until there may be something to claim, at most about a second
	// (Park). It decides nothing: whatever it returns, the next step is a Claim.
	Await(ctx context.Context) error

	// Settle ends or returns claims, each only if its token is still the job's. It
	// needs no lease. Codes are in the order of the outcomes.
	Settle(ctx context.Context, n uint64, outcomes []Outcome) (Settled, error)

	// Renew extends the lease to that long from now, also when it has expired but was
	// not yet acted upon; ErrFenced otherwise.
	Renew(ctx context.Context, lease time.Duration) error

	// Leave gives the identity up, returns what it still holds without charging
	// anybody, a bounded step at a time, and reports whether there is more.
	Leave(ctx context.Context) (more bool, err error)
}

// Info describes a queue.
type Info struct {
	Name       string // as in logs and errors
	MaxBacklog int64  // bound of pending plus scheduled
	// Replicas is how many replicas of the store an Append waits for, a while; 0: none.
	Replicas int
	// Capabilities is what the engine can do. One that declares none is not checked: durabletest refuses it.
	Capabilities Capabilities
}

// Capabilities tell what an engine can do of what not every engine can. The package comment has a row for
// each, and for each that an engine lacks the reason. What is asked of an engine that lacks it is
// ErrUnsupported, never something less.
type Capabilities struct {
	FIFO         bool // jobs without a delay are claimed in the order in which they were appended
	ReturnsFirst bool // what is released, or returned uncharged, is claimed before what waits, in its order
	Delay        bool // Job.Delay, and Outcome.Delay of Retry and Snooze
	Retention    bool // Job.Retention
	Priority     bool // jobs of a higher priority are claimed before others
	FanOut       bool // several groups of consumers, each of which gets every job
	Expiry       bool // Job.Expiry
	Unique       bool // Job.Unique
	Limits       bool // Operator.SetLimits, and Job.LimitKey
	Cancel       bool // Operator.Cancel, and Teller.Cancels
	Results      bool // Outcome.Result, and Telling.Progress
	Follow       bool // FollowEngine
}

// Job is what a producer appends.
type Job struct {
	ID          string
	Kind        string
	Payload     []byte
	Headers     []byte        // a JSON object of strings, or empty; opaque here
	Delay       time.Duration // not before; from the append on; whole milliseconds
	MaxAttempts int           // 0: the consumer's choice
	Timeout     time.Duration // of one run of the handler; 0: the consumer's choice; whole milliseconds
	// Retention is for how long a record of the job is kept when it is completed, without its payload;
	// whole milliseconds. 0: it is gone at once. While it is kept, its ID is taken: a duplicate.
	Retention time.Duration
	// Priority is from -MaxPriority to MaxPriority: of the jobs that wait, one of a higher priority is claimed
	// first. What is not 0 needs Capabilities.Priority: else it is ErrUnsupported.
	Priority int
	// Expiry is for how long the job is worth waiting, from the append on: no run of it begins later; it ends expired
	// instead, when a claim or a follower meets it. Whole milliseconds. 0: for ever.
	Expiry time.Duration
	// Unique refuses the job while another one has its key: RefusedUnique. Nil: it has none.
	Unique *Unique
	// LimitKey is what Limits.KeyConcurrency and KeyRate count the job under; empty: nothing. At most MaxIDBytes bytes.
	LimitKey string
}

// MaxPriority is the highest priority of a job, and -MaxPriority the lowest.
const MaxPriority = 100

// checkJobs refuses jobs that ask for what the engine lacks, or that it could not keep.
func checkJobs(queue string, jobs []*Job, has Capabilities) error {
	for _, j := range jobs {
		var lacks string
		switch {
		case j.Priority != 0 && !has.Priority:
			lacks = fmt.Sprintf("Job.Priority of %q is %d, and all jobs of this engine have the same", j.ID, j.Priority)
		case j.Expiry != 0 && !has.Expiry:
			lacks = fmt.Sprintf("Job.Expiry of %q is %v, and jobs of this engine do not expire", j.ID, j.Expiry)
		case j.Unique != nil && !has.Unique:
			lacks = fmt.Sprintf("Job.Unique of %q is set, and this engine has no keys", j.ID)
		case j.LimitKey != "" && !has.Limits:
			lacks = fmt.Sprintf("Job.LimitKey of %q is set, and this engine has no limits", j.ID)
		}
		if lacks != "" {
			return failed(queue, "append", ErrUnsupported, errors.New(lacks))
		}
		if err := j.valid(); err != nil {
			return failed(queue, "append", ErrNotExecuted, err)
		}
	}
	return nil
}

// valid refuses settings that no engine could keep.
func (j *Job) valid() error {
	switch {
	case j.Priority < -MaxPriority || j.Priority > MaxPriority:
		return fmt.Errorf("Job.Priority of %q is %d, must be from %d to %d", j.ID, j.Priority, -MaxPriority, MaxPriority)
	case j.Expiry < 0 || j.Expiry > 0 && j.Expiry < time.Millisecond:
		return fmt.Errorf("Job.Expiry of %q is %v, must be 0 or at least a millisecond", j.ID, j.Expiry)
	case len(j.LimitKey) > MaxIDBytes:
		return fmt.Errorf("Job.LimitKey of %q has %d bytes, more than %d", j.ID, len(j.LimitKey), MaxIDBytes)
	case j.Unique != nil:
		if err := j.Unique.Validate(); err != nil {
			return fmt.Errorf("job %q: %w", j.ID, err)
		}
	}
	return nil
}

// Appended is the answer to an append.
type Appended struct {
	// Taken is the length of the prefix that was dealt with; the rest found no room.
	Taken int
	// Refused are positions within that prefix that were not stored, for good.
	Refused []Refusal
	// Replicas is how many replicas had all of it, if Info.Replicas asks for some. Fewer is no failure: what was
	// taken is stored.
	Replicas int
	// Gap is set when the store has not seen the number before this one: it lost writes.
	Gap bool
	// Backlog is pending plus scheduled, now.
	Backlog int64
	// Paused is set while an operator has stopped the intake: then there is room for nothing.
	Paused bool
}

// Refusal says why the job at a position was not stored.
type Refusal struct {
	Pos  int
	Code RefusalCode
	// Holder is the ID of the job that has the key, for RefusedUnique.
	Holder string
}

// RefusalCode is a reason to refuse one job for good.
type RefusalCode byte

// Reasons to refuse a job.
const (
	RefusedDuplicate RefusalCode = 'D' // a job with this ID is already there
	RefusedBadKey    RefusalCode = 'K' // the job's key holds something else
	RefusedBadID     RefusalCode = 'I' // the engine cannot store an ID like that: empty, or too long
	RefusedUnique    RefusalCode = 'U' // another job has its Unique.Key
)

// ClaimRequest asks for jobs.
type ClaimRequest struct {
	N        uint64
	Slots    int // how many jobs can be run; at least 1
	MaxBytes int // of payloads together; the first job is given whatever its size
	// Held is how many claims the caller holds, settles in flight included. If the
	// store knows of more it answers ClaimReconcile, and the caller asks again, under the
	// next number, with all it holds in Named (not nil, if empty): what is not in there is
	// returned to the queue uncharged.
	Held  int
	Named []Ref
}

// Ref names one claim.
type Ref struct{ ID, Token string }

// Claimed is the answer to a claim.
type Claimed struct {
	Status ClaimStatus
	// Drained is set with ClaimJobs when nothing was left that can be claimed now: what comes next is an Await,
	// as after ClaimEmpty. An engine may leave it out.
	Drained bool
	Jobs    []*Claim
	// Expired are jobs that this claim has ended, having waited longer than they were worth. A repeated number gives them
	// again: whoever waits for them in this process is told by nothing else.
	Expired []string
	// NextDue is how long until the next scheduled job is due, or with ClaimLimited until it is worth asking again;
	// negative when none is known.
	NextDue time.Duration
	// Dropped counts entries that were surplus copies or had lost their job, and
	// Corrupt those that were quarantined because nobody could run them.
	Dropped, Corrupt int
	// Gap is set when the store has not seen the number before this one: it lost writes.
	Gap bool
}

// ClaimStatus says what kind of answer a claim got.
type ClaimStatus byte

// Answers to a claim.
const (
	ClaimJobs      ClaimStatus = 'J' // Jobs is not empty
	ClaimEmpty     ClaimStatus = 'E' // nothing to claim: Await, then claim
	ClaimMore      ClaimStatus = 'M' // stopped early, by its bound: claim again
	ClaimPaused    ClaimStatus = 'P' // an operator stopped consumption: claim again, with back-off
	ClaimReconcile ClaimStatus = 'R' // see ClaimRequest.Held
	ClaimLimited   ClaimStatus = 'T' // something waits, and Limits forbid to claim it now: claim again after NextDue
)

// Claim is one job in the hands of one consumer.
type Claim struct {
	ID, Token   string
	Kind        string
	Payload     []byte
	Headers     []byte
	Attempts    int   // failed runs so far
	Crashes     int   // claims that ended with their consumer
	Deliveries  int   // claims, this one included
	Fence       int64 // grows with every claim of the queue
	MaxAttempts int
	Timeout     time.Duration
	Followed    bool // another process wants to be told of it: Teller.Tell
	// Life is Record.Life of the job: which of those it is that have had, or will have, its ID. Whoever has appended it knows it by that.
	Life string
}

// Outcome is what a worker makes of a claim.
type Outcome struct {
	Ref
	Verdict     Verdict
	Delay       time.Duration // Retry and Snooze: not before; whole milliseconds
	MaxAttempts int           // Retry: go dead when this many runs have failed; at least 1
	Reason      string        // Retry and Dead: kept with the job for the operator
	// Result, of Done, is kept with the record of the job, for Retention if that is not 0, else for that of the job. Without either
	// only those are told who follow the job, where it has at most MaxNoticed bytes.
	Result    []byte
	Retention time.Duration // whole milliseconds
}

// checkOutcomes refuses outcomes that ask for what the engine lacks, or that it could not keep.
func checkOutcomes(queue string, outcomes []Outcome, has Capabilities) error {
	for i := range outcomes {
		switch o := &outcomes[i]; {
		case o.Result == nil && o.Retention == 0:
		case !has.Results:
			return failed(queue, "settle", ErrUnsupported, fmt.Errorf("Outcome.Result or Retention of %q is set, and this engine keeps no results", o.ID))
		case o.Retention < 0 || o.Retention > 0 && o.Retention < time.Millisecond:
			return failed(queue, "settle", ErrNotExecuted, fmt.Errorf("Outcome.Retention of %q is %v, must be 0 or at least a millisecond", o.ID, o.Retention))
		}
	}
	return nil
}

// Verdict is how a claim ends.
type Verdict byte

// Verdicts.
const (
	Done Verdict = 'D' // completed: the job is gone, or its record kept (Job.Retention)
	// Retry, Snooze and Release of a job whose cancellation was asked for end it instead: CodeCancelled.
	Retry   Verdict = 'R' // failed: again after Delay, or dead when attempts are used up
	Snooze  Verdict = 'S' // again after Delay, no attempt charged
	Dead    Verdict = 'X' // failed for good: kept for the operator
	Release Verdict = 'L' // back to the head of the queue, nothing charged
)

// Settled is the answer to a settle.
type Settled struct {
	Codes []Code // one for each outcome
	// Trimmed counts dead letters that were discarded to stay within the bound.
	Trimmed int
	// Gap is set when the store has not seen the number before this one: it lost writes.
	Gap bool
}

// Code is what became of one outcome.
type Code byte

// Codes.
const (
	CodeOK    Code = 'O' // applied as asked
	CodeDead  Code = 'X' // a Retry that used the attempts up: the job is dead
	CodeGone  Code = 'G' // there is no such job any more
	CodeStale Code = 'S' // the job is not under this token: nothing was changed
	// CodeCancelled: it was to be cancelled, and would have waited again: it has ended cancelled.
	CodeCancelled Code = 'C'
)

// Swept tells what one step of a sweep did.
type Swept struct {
	Fenced   int  // consumers newly found without a lease
	Returned int  // claims returned to the queue
	Dead     int  // claims whose crashes were used up
	Ended    int  // claims that ended cancelled, or expired
	Trimmed  int  // dead letters discarded to stay within the bound
	More     bool // stopped early, by its bound: sweep again
}

// Stats is the state of a queue.
type Stats struct {
	Pending    int64 // pending and arriving
	Scheduled  int64 // delayed, or waiting for a retry
	Processing int64 // claimed
	Dead       int64
	Corrupt    int64
	Completed  int64 // records kept for their retention
	Consumers  int64 // registered, their lease expired or not
	// Intake and Consumption tell whether an operator has paused them.
	Intake, Consumption Pause
	Limits              Limits
	LimitedBy           LimitsBy
	Counters            map[string]int64
}

// Park is how long Await blocks at most, where the store is asked to block.
const Park = time.Second
