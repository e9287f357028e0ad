package durable

import (
	"context"
	"fmt"
	"time"
)

// FollowEngine is an Engine that tells a process what becomes of jobs that others run (Capabilities.Follow).
//
// How it works: a process opens one Follower for a queue and adopts its own producers and consumers. From then
// on, whatever happens to a job that one of its producers has appended is noted for that follower, in the
// same step in which it happens; but not when the consumer that does it is adopted by the same follower, for then
// the process knows. Who follows nothing costs nothing.
type FollowEngine interface {
	Engine

	// OpenFollower obtains an identity for following, never used before.
	OpenFollower(ctx context.Context) (Follower, error)
}

// Follower is an identity that is told what becomes of jobs. Its notices are kept in the store, so a lost connection
// loses none: those of the last MaxNotices steps at least, and News.Gap says when some are gone. The store forgets a follower that has
// asked nothing for FollowFor, and one that is closed: any call but Close is ErrNoSender then, and nothing was noted since; whoever still
// wants to know opens another, adopts and follows again.
type Follower interface {
	// ID is the identity the store gave.
	ID() string

	// Adopt makes a producer or a consumer, by its ID, belong to this follower, or not any more. Again is harmless.
	// ErrNoSender when the store does not know one of the two.
	Adopt(ctx context.Context, sender string, adopted bool) error

	// Follow has the follower told of these jobs as well, whoever has appended them, and tells what each is now, in their order, as
	// Operator.Lookup does without payloads; State is empty where there is no such job (any more). One that waits
	// and has expired ends so, first: this answer says so whether its record is kept or not, and it is noted as ever. At
	// most MaxPage.
	Follow(ctx context.Context, ids []string) ([]Record, error)

	// Await blocks until there is news, at most about a second (Park), and gives what has come since the call before
	// that succeeded. One call at a time.
	Await(ctx context.Context) (News, error)

	// Close gives the identity up: nothing is noted for it any more. Again is harmless.
	Close(ctx context.Context) error
}

const (
	// FollowFor is for how long the store keeps a follower that asks nothing.
	FollowFor = 10 * time.Minute
	// MaxNotices is of how many steps (a settle, a claim, a Tell: each may note many things) the notices are kept for a
	// follower, until it reads them. One with more than 64 KiB to tell counts as several.
	MaxNotices = 1000
)

// News is what a follower is told.
type News struct {
	Notices []Notice // in the order in which it happened, for each job
	Gap     bool     // notices are lost: ask again, by Follow, for all that matter
}

// Notice tells one thing that has happened to one job.
type Notice struct {
	ID     string
	Life   string // Record.Life of the job: a notice of an earlier job of the same ID can be read late
	What   NoticeKind
	Data   []byte // of a progress report, and the result of a completed job where it is short (MaxNoticed)
	Kept   bool   // of a completed job: it has a longer result, which Lookup gives
	Reason string // why it is dead
}

// NoticeKind says what has happened.
type NoticeKind byte

// Kinds of notices.
const (
	NoticeStarted   NoticeKind = 's' // its handler was called (Teller.Tell)
	NoticeProgress  NoticeKind = 'p' // its handler has reported (Teller.Tell)
	NoticeRequeued  NoticeKind = 'r' // it waits again: a retry, a snooze, a release, a lost or leaving worker, a redrive
	NoticeCompleted NoticeKind = 'c'
	NoticeDead      NoticeKind = 'd'
	NoticeCancelled NoticeKind = 'x'
	NoticeExpired   NoticeKind = 'e'
	NoticeGone      NoticeKind = 'g' // deleted by an operator (Discard, Purge) before it had completed
)

// MaxNoticed is how many bytes of a result, or of a progress report, go along with a notice.
const MaxNoticed = 4 << 10

// Teller is a Consumer that can report on claims that go on.
type Teller interface {
	Consumer

	// Tell reports on claims; what is not under its token any more is passed over. It may be made again, and be lost:
	// it decides nothing.
	Tell(ctx context.Context, tellings []Telling) error

	// Cancels tells which of this consumer's claims are asked to be cancelled (Operator.Cancel). It changes nothing, and costs
	// the store next to nothing where there are none.
	Cancels(ctx context.Context) ([]Ref, error)
}

// Telling is a report on a claim.
type Telling struct {
	Ref
	Started  bool   // the handler was called: for those who follow
	Progress []byte // not nil: kept with the job until the next, at most MaxNoticed
}

// checkTellings refuses what no engine keeps.
func checkTellings(queue string, tellings []Telling) error {
	for i := range tellings {
		if n := len(tellings[i].Progress); n > MaxNoticed {
			return failed(queue, "tell", ErrNotExecuted, fmt.Errorf("Telling.Progress of %q has %d bytes, more than %d", tellings[i].ID, n, MaxNoticed))
		}
	}
	return nil
}
