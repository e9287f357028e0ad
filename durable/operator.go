package durable

import (
	"context"
	"fmt"
	"time"
)

// Operator is the side of an engine that people look and act through: beside the hot path, and
// optional. List and Memory have it; what an engine without it is asked for is ErrNoOperator.
//
// The contract, for whoever implements it:
//
//   - Every method is safe for concurrent use, blocks for one exchange with the store at most, ends
//     by the context's deadline, and never retries. Classes of errors are those of Engine.
//   - Every call looks at a bounded number of entries, whatever the size of the queue, and says
//     where to go on. What it does, it does atomically with everything else that happens to a
//     job: no call touches a job that is not, at that instant, what the caller means.
//   - A call whose answer was lost may simply be made again: it finds done what was done. (One that
//     a frozen store executes late acts on what it then finds.)
//   - Times are the store's.
//
// durabletest.RunOperator checks all of it.
type Operator interface {
	// Lookup tells all that is known of one job; ErrNoJob if there is none.
	Lookup(ctx context.Context, r LookupRequest) (Record, error)

	// Jobs shows one page of the jobs in one state. The order is that in which they are claimed,
	// fall due, died, or will be forgotten; claimed ones are shown by consumer, the first claimed
	// first. A page is true at its instant; of what moves between two pages some may be seen twice,
	// and some not at all. A page can be short, or empty, and not be the last.
	Jobs(ctx context.Context, r JobsRequest) (JobPage, error)

	// Redrive sends dead jobs back to the queue, behind all others, with attempts and crashes at 0;
	// ID and deliveries stay. It stops where the backlog has reached its bound. Paused intake
	// does not stop it: that is for producers. One whose Unique.Key another job has stays dead (Handled.Missed, if it was asked
	// for by ID); where the key is free, it has it again.
	Redrive(ctx context.Context, s Selection) (Handled, error)

	// Discard deletes dead jobs for good.
	Discard(ctx context.Context, s Selection) (Handled, error)

	// Pause stops what sides names, for all processes, until Resume; by says who. While the intake is
	// paused an append takes nothing and says so; while consumption is, a claim does. Claims
	// under way go on and can be settled. What is paused already stays noted as it is.
	Pause(ctx context.Context, sides Side, by string) error

	// Resume lets what sides names go on.
	Resume(ctx context.Context, sides Side) error

	// Cancel ends a job that waits, pending or scheduled, as cancelled, in this step; one that is claimed is marked, its consumer
	// told (Teller.Cancels), and it never waits again: if its run ends with anything but Done or Dead, or its consumer is
	// lost, it is cancelled then. Again is harmless. ErrNoJob when there is none of that life, or when it has ended, dead ones
	// included (Record.State says how).
	Cancel(ctx context.Context, r CancelRequest) (Cancelled, error)

	// SetLimits sets the limits of the queue for all processes, instead of those before; by says who, and must not be empty.
	SetLimits(ctx context.Context, l Limits, by string) error

	// Purge deletes jobs by their state, the oldest first, a bounded step at a time.
	Purge(ctx context.Context, r PurgeRequest) (Purged, error)
}

// Inspector is implemented by engines whose check also finds what is doubtful but usable.
type Inspector interface {
	// Inspect is Engine.Check, with warnings. It blocks as Check does.
	Inspect(ctx context.Context) (CheckWarnings, error)
}

// State is where a job is in the store.
type State string

// States. Their names are those of the field status.
const (
	StatePending    State = "pending"    // waits for a worker
	StateScheduled  State = "scheduled"  // waits for its time: a delay, or a retry
	StateProcessing State = "processing" // claimed
	StateDead       State = "dead"       // failed for good
	StateCorrupt    State = "corrupt"    // nobody can run it
	StateCompleted  State = "completed"  // its record is kept for its retention
	// Likewise, and Job.Retention only: Outcome.Retention is for what has completed. All three are in one place, by when they are
	// forgotten: that is StateCompleted in a JobsRequest, in a PurgeRequest, in Stats, and for the bound of records. Record.State tells
	// them apart.
	StateCancelled State = "cancelled"
	StateExpired   State = "expired"
)

// CancelRequest asks for the end of one job.
type CancelRequest struct {
	ID string
	// Life, if not empty, is Record.Life of the job that is meant: another one that has got its ID since is left alone.
	Life string
}

// Cancelled says what a Cancel has done: either the job has ended, or its run was asked to.
type Cancelled struct {
	Running  bool   // it is claimed; asked for
	Consumer string // who has it, then
}

// purgeOrder is the order of states in a purge.
var purgeOrder = [...]State{StatePending, StateScheduled, StateDead, StateCorrupt, StateCompleted, StateProcessing}

func (s State) valid() error {
	for _, known := range purgeOrder {
		if s == known {
			return nil
		}
	}
	return fmt.Errorf("the state %q is unknown", string(s))
}

// LookupRequest asks for one job.
type LookupRequest struct {
	ID      string
	Payload bool // with its payload
}

// Record is what the store knows of a job.
type Record struct {
	ID, Kind string
	State    State
	// Since is when it came into its state: claimed, died, was quarantined, was completed, was cancelled, expired. Zero
	// where that is not kept: pending, scheduled.
	Since time.Time
	// Due is when a scheduled job may be claimed, and when the record of an ended one is forgotten; else zero.
	Due time.Time
	// Consumer is the identity that holds the job, or has completed it; else empty.
	Consumer string
	// Reason is why a job is dead or corrupt; else that of its last failure, if any.
	Reason                        string
	Attempts, Crashes, Deliveries int // failed runs, claims lost with their consumer, claims
	MaxAttempts                   int
	Timeout, Retention            time.Duration
	Priority                      int
	Size                          int64  // bytes of the payload; also when it is not kept any more
	Headers                       []byte // of Lookup; a completed job keeps up to 4 KiB
	Payload                       []byte // of Lookup, when asked for; a completed job keeps none
	Result                        []byte // of Lookup and Follow: what a completed job has left
	Progress                      []byte // of Lookup and Follow: what its handler has reported last
	// Life tells this job from others that have had, or will have, its ID. For one that a Producer has stored it is the
	// producer's ID, a colon and the number of the Append; an engine may add to that, after another colon.
	Life                string
	LimitKey, UniqueKey string
	Expires             time.Time // no run begins after that; zero: never
	Cancelling          bool      // it is claimed, and asked to be cancelled
}

// Filter says which jobs are meant. Its zero value means all.
type Filter struct {
	Kinds     []string      // one of these; "" is the kind of jobs without one. Empty: any
	Reason    string        // a part of Record.Reason
	OlderThan time.Duration // for at least so long in its state; of states that have a Since only; whole milliseconds
}

// JobsRequest asks for one page.
type JobsRequest struct {
	State  State
	Filter Filter
	Cursor string // of the page before; empty: the first page
	Limit  int    // jobs of the page at most; 0: 100, at most MaxPage
}

// MaxPage is how many jobs one call of an Operator shows or moves, and how many IDs it takes.
const MaxPage = 500

const (
	defaultPage = 100
	pageLooks   = 1000 // entries that one call looks at
	purgeStep   = 500  // entries that one step of a purge deletes
	maxBy       = 256  // bytes kept of who has paused
)

// JobPage is one page.
type JobPage struct {
	Jobs   []Record
	Cursor string // for the next page; empty: this was the last
}

// Selection says which dead jobs to act on: either IDs, or a Filter, or All.
type Selection struct {
	IDs    []string // these, and no others; at most MaxPage
	Filter Filter
	All    bool   // instead of a filter that happens to be empty
	Cursor string // of the call before: a filter goes on from there; empty: from the oldest
	Limit  int    // jobs to act on at most; 0: 100, at most MaxPage
}

// Handled is what a Redrive or Discard has done.
type Handled struct {
	IDs    []string // what was acted on
	Missed []string // of Selection.IDs: those that are not dead (any more), or not there, or may not come back (Redrive)
	// Full is set when a redrive stopped because the backlog is at its bound. What is neither in IDs
	// nor in Missed is still dead.
	Full bool
	// Cursor is where to go on; empty: all that were dead at the first call have been looked at.
	Cursor string
}

// More reports whether there is more to do: call again with h.Cursor.
func (h *Handled) More() bool { return h.Cursor != "" }

// Side is what can be paused. Both together: Intake|Consumption.
type Side uint8

// Sides of a queue.
const (
	Intake      Side = 1 << iota // appends
	Consumption                  // claims
)

func (s Side) valid() error {
	if s == 0 || s&^(Intake|Consumption) != 0 {
		return fmt.Errorf("there is no side %d: it is Intake, Consumption, or both", uint8(s))
	}
	return nil
}

// String names the sides.
func (s Side) String() string {
	switch s {
	case Intake:
		return "intake"
	case Consumption:
		return "consumption"
	case Intake | Consumption:
		return "intake and consumption"
	}
	return fmt.Sprintf("side(%d)", uint8(s))
}

// Pause tells whether a side is paused.
type Pause struct {
	Active bool
	By     string    // as given to Operator.Pause; empty if it was set by other means
	Since  time.Time // by the store's clock; zero likewise
}

// String says who has paused and when, or that nobody has.
func (p Pause) String() string {
	return said(p.Active, "not paused", "paused", p.By, p.Since)
}

// said tells whether something was done, by whom and when.
func said(active bool, not, done, by string, since time.Time) string {
	switch {
	case !active:
		return not
	case by == "":
		return done
	}
	return fmt.Sprintf("%s by %s since %s", done, by, since.UTC().Format(time.RFC3339))
}

// PurgeRequest asks to delete jobs.
type PurgeRequest struct {
	// Confirm must be the queue's name (Info.Name): ErrUnconfirmed otherwise.
	Confirm string
	// States to delete. Empty: all but processing, which must be named. Whoever runs a job that is
	// purged hears that it is gone when it settles.
	States []State
	Cursor string // of the step before; empty: the first step
}

// Purged is what one step of a purge has done.
type Purged struct {
	Deleted map[State]int // jobs deleted by this step
	// Cursor is where to go on; empty: what was there at the first step is gone. What has come
	// since then may still be there.
	Cursor string
}

// Total is how many jobs the step has deleted.
func (p *Purged) Total() int {
	total := 0
	for _, n := range p.Deleted {
		total += n
	}
	return total
}

// limit is the limit of one call.
func limit(asked int) (int, error) {
	switch {
	case asked < 0:
		return 0, fmt.Errorf("a Limit of %d is negative", asked)
	case asked == 0:
		return defaultPage, nil
	}
	return min(asked, MaxPage), nil
}

func (f *Filter) empty() bool { return len(f.Kinds) == 0 && f.Reason == "" && f.OlderThan == 0 }

// valid refuses what could never match, in a state.
func (f *Filter) valid(s State) error {
	switch {
	case f.OlderThan < 0:
		return fmt.Errorf("Filter.OlderThan is %v, must not be negative", f.OlderThan)
	case f.OlderThan > 0 && (s == StatePending || s == StateScheduled):
		return fmt.Errorf("Filter.OlderThan: it is not kept since when a job is %s", s)
	case len(f.Kinds) > MaxPage:
		return fmt.Errorf("Filter.Kinds has %d kinds, at most %d are possible", len(f.Kinds), MaxPage)
	}
	return nil
}

// valid refuses a selection that does not say what it means.
func (s *Selection) valid() error {
	switch {
	case len(s.IDs) > MaxPage:
		return fmt.Errorf("Selection.IDs has %d IDs, at most %d are possible", len(s.IDs), MaxPage)
	case len(s.IDs) > 0 && (s.All || !s.Filter.empty() || s.Cursor != ""):
		return fmt.Errorf("Selection has IDs, and All, a Filter or a Cursor besides")
	case len(s.IDs) == 0 && !s.All && s.Filter.empty():
		return fmt.Errorf("Selection is empty: give IDs, a Filter, or All")
	case s.All && !s.Filter.empty():
		return fmt.Errorf("Selection has All, and a Filter besides")
	}
	return s.Filter.valid(StateDead)
}

// states are those of a purge, in the order of purgeOrder.
func (r *PurgeRequest) states() ([len(purgeOrder)]bool, error) {
	var asked [len(purgeOrder)]bool
	for i, known := range purgeOrder {
		asked[i] = len(r.States) == 0 && known != StateProcessing
	}
	for _, s := range r.States {
		if err := s.valid(); err != nil {
			return asked, fmt.Errorf("PurgeRequest.States: %w", err)
		}
		for i, known := range purgeOrder {
			asked[i] = asked[i] || s == known
		}
	}
	return asked, nil
}

// confirmed checks that the caller knows what is about to be deleted.
func (r *PurgeRequest) confirmed(name string) error {
	if r.Confirm != name {
		return fmt.Errorf("%w: PurgeRequest.Confirm is %q, the queue is %q", ErrUnconfirmed, r.Confirm, name)
	}
	return nil
}
