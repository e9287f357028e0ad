package bridge

import (
	"sync/atomic"
	"time"
)

// Event tells of one transition of one job, as this process saw it.
//
// The contract of Options.OnEvent: it is called synchronously, on the goroutine that made
// the transition, after the counters and the ticket have moved; so it must not block, must
// not panic, and must be safe for concurrent use. It may call Submit with a policy that
// does not wait. Events of one job may come from different goroutines: Accepted is told by
// the goroutine of Submit, and can be overtaken by what follows; Enqueued is told when the
// store's answer has come, and can be overtaken by what a worker of this process makes of the
// job meanwhile. Nothing else is reordered, nothing is left out.
type Event struct {
	Type       EventType
	ID         string // empty for Rejected and for those about the queue
	Kind       string
	Deliveries int           // from Started on
	Delay      time.Duration // Retried, Snoozed, Unhandled: how long until it may run again
	Of         string        // Duplicate: the ID of the job that it follows
	Err        error         // why, where there is a why
	Time       time.Time
}

// EventType says which transition.
type EventType uint8

// Transitions of a job.
const (
	EventAccepted     EventType = iota // holds a slot of the front
	EventRejected                      // Submit returned an error; the caller still owns the job
	EventDropped                       // discarded by the policy of its own call
	EventEvicted                       // displaced from the front by another job
	EventEnqueued                      // the store has it
	EventDuplicate                     // not stored: another job has its ID or its key, and its ticket follows that one
	EventRefused                       // the store refused it for good
	EventAbandoned                     // never became durable, and never will
	EventUncertain                     // sent, and not answered in time
	EventStarted                       // its handler is called
	EventCompleted                     // its completion was confirmed by the store
	EventRetried                       // failed; will run again
	EventSnoozed                       // asked to run later
	EventReleased                      // returned to the queue without having been charged
	EventUnhandled                     // put back: no handler for its kind here
	EventDead                          // failed for good; kept for the operator
	EventCancelled                     // ended because its cancellation was asked for
	EventExpired                       // ended because it has waited longer than it was worth; from the store its kind is not known
	EventStale                         // its claim had passed to somebody else; nothing was changed
	EventGone                          // its record was removed while it ran
	EventUnsettled                     // its outcome could not be told to the store; it will run again
	EventStuck                         // its handler did not return; the claim was given up, its worker is lost until it does
	EventUnreplicated                  // enqueued, and fewer replicas have it than were asked for: Ticket.Replicas

	// Transitions of the queue.
	EventLeaseLost // this process's claims were given up; their handlers' contexts have ended
	EventUnusable  // the store failed its check; Submit is refused until it passes
	EventUsable    // it passes again
	EventGap       // the store has lost writes it had answered
	EventTrimmed   // dead letters were discarded to stay within their bound; see Err

	// What an operator does.
	EventIntakePaused       // Submit is refused until it is resumed; see Err
	EventIntakeResumed      // it is accepted again
	EventConsumptionPaused  // no claims are made until it is resumed
	EventConsumptionResumed // they are made again
	EventPurged             // Operator.Purge of this process deleted jobs; see Err

	numEvents
)

var eventNames = [numEvents]string{
	"accepted", "rejected", "dropped", "evicted", "enqueued", "duplicate", "refused", "abandoned", "uncertain",
	"started", "completed", "retried", "snoozed", "released", "unhandled", "dead", "cancelled", "expired", "stale", "gone",
	"unsettled", "stuck", "unreplicated", "lease lost", "unusable", "usable", "gap", "trimmed",
	"intake paused", "intake resumed", "consumption paused", "consumption resumed", "purged",
}

// String names the transition.
func (t EventType) String() string {
	if t < numEvents {
		return eventNames[t]
	}
	return "unknown"
}

// Counters count the transitions that this process saw since the queue was opened. At
// quiescence
//
//	Front.Accepted = Enqueued + Duplicate + Front.Evicted + Refused + Abandoned + Uncertain
//	                 + FrontCancelled + FrontExpired + Front.Length
//
// with Front from Stats.
type Counters struct {
	Enqueued, Refused, Abandoned, Uncertain        uint64
	Duplicate                                      uint64 // not stored: their tickets follow another job
	Cancelled, Expired                             uint64 // by this process: in its front, by its calls of Cancel, by its claims
	FrontCancelled, FrontExpired                   uint64 // of these, those that had not been stored
	Started, Completed, Retried, Snoozed, Released uint64
	Unhandled, Dead, Stale, Gone, Unsettled        uint64
	Stuck                                          uint64 // ever; see Stats for those that still are
	LeaseLost, Gaps, Trimmed                       uint64
	Unreplicated                                   uint64    // of Enqueued: fewer replicas had it than were asked for
	Swept, SweptDead, SweptEnded                   uint64    // claims of dead processes that this one returned, found dead, or found cancelled or expired
	LastClaim                                      time.Time // when the store last answered a claim; zero: never
}

// tally is the living form of Counters.
type tally struct {
	by                           [numEvents]atomic.Uint64
	trimmed                      atomic.Uint64
	swept                        atomic.Uint64
	sweptDead                    atomic.Uint64
	sweptEnded                   atomic.Uint64
	frontCancelled, frontExpired atomic.Uint64
	lastClaim                    atomic.Int64 // Unix nanoseconds
}

func (t *tally) read() Counters {
	n := func(e EventType) uint64 { return t.by[e].Load() }
	c := Counters{
		Enqueued: n(EventEnqueued), Duplicate: n(EventDuplicate), Cancelled: n(EventCancelled), Expired: n(EventExpired),
		FrontCancelled: t.frontCancelled.Load(), FrontExpired: t.frontExpired.Load(), SweptEnded: t.sweptEnded.Load(), Refused: n(EventRefused), Abandoned: n(EventAbandoned), Uncertain: n(EventUncertain),
		Started: n(EventStarted), Completed: n(EventCompleted), Retried: n(EventRetried), Snoozed: n(EventSnoozed),
		Released: n(EventReleased), Unhandled: n(EventUnhandled), Dead: n(EventDead), Stale: n(EventStale),
		Gone: n(EventGone), Unsettled: n(EventUnsettled), Stuck: n(EventStuck), LeaseLost: n(EventLeaseLost),
		Gaps: n(EventGap), Unreplicated: n(EventUnreplicated), Trimmed: t.trimmed.Load(), Swept: t.swept.Load(), SweptDead: t.sweptDead.Load(),
	}
	if ns := t.lastClaim.Load(); ns != 0 {
		c.LastClaim = time.Unix(0, ns)
	}
	return c
}

// emit counts one transition and tells the hook.
func (q *Queue) emit(e Event) {
	q.count(e.Type)
	q.tell(e)
}

// count and tell are emit in two steps, for a transition that a ticket shows: it is counted
// before, so that whoever has waited for the ticket finds it in the counters, and told after.
func (q *Queue) count(t EventType) { q.tally.by[t].Add(1) }

func (q *Queue) tell(e Event) {
	if q.hooked {
		e.Time = time.Now()
		q.opts.OnEvent(e)
	}
}
