package durabletest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

// Ticket is what the assertions look at. *bridge.Ticket is one, and so is that of a pool.
type Ticket interface {
	ID() string
	Started() <-chan struct{}
	Done() <-chan struct{}
	WaitEnqueued(ctx context.Context) error
	Wait(ctx context.Context) error
}

// Accepted ends the test unless the job is accepted and no more: it holds a slot, the store
// does not have it as far as the ticket knows, no handler was called, and it has not ended. It does not block. A
// Gate sees to it that the store does not get the job meanwhile.
func Accepted(t testing.TB, ticket Ticket) {
	t.Helper()
	if now := where(ticket); now != "is accepted" {
		t.Fatalf("durabletest: job %s %s, want one that is accepted and no more", ticket.ID(), now)
	}
}

// Rejected ends the test unless err, what Submit returned, matches want: policy.ErrFull, for
// example, or any error that a rejection wraps. It does not block.
func Rejected(t testing.TB, err, want error) {
	t.Helper()
	switch {
	case err == nil:
		t.Fatalf("durabletest: the job was accepted, want a rejection that matches %q", want)
	case !errors.Is(err, want):
		t.Fatalf("durabletest: the rejection %q does not match %q", err, want)
	}
}

// Enqueued blocks until the store has the job, and ends the test if the job ends before or takes
// too long. Whatever became of it after the store had it does not matter.
func Enqueued(t testing.TB, ticket Ticket) {
	t.Helper()
	ctx, cancel := waiting()
	defer cancel()
	err := ticket.WaitEnqueued(ctx)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		t.Fatalf("durabletest: job %s is not enqueued: %v; it %s", ticket.ID(), context.Cause(ctx), where(ticket))
	default:
		t.Fatalf("durabletest: job %s was never enqueued: %v", ticket.ID(), err)
	}
}

// Completed blocks until the job ends, and ends the test if it ends in any other way or takes
// too long.
func Completed(t testing.TB, ticket Ticket) {
	t.Helper()
	if err := end(t, ticket); err != nil {
		t.Fatalf("durabletest: job %s did not complete: %v", ticket.ID(), err)
	}
}

// Ended blocks until the job ends, and ends the test if it completes, takes too long, or ends in a
// way that does not match every one of want: local.ErrDead and the handler's error, for example.
func Ended(t testing.TB, ticket Ticket, want ...error) {
	t.Helper()
	err := end(t, ticket)
	if err == nil {
		t.Fatalf("durabletest: job %s has completed, want an end that matches %q", ticket.ID(), want)
	}
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Fatalf("durabletest: the end of job %s does not match %q: %v", ticket.ID(), w, err)
		}
	}
}

// end waits for the end of a job.
func end(t testing.TB, ticket Ticket) error {
	t.Helper()
	ctx, cancel := waiting()
	defer cancel()
	select {
	case <-ticket.Done():
	case <-ctx.Done():
		t.Fatalf("durabletest: job %s has not ended: %v; it %s", ticket.ID(), context.Cause(ctx), where(ticket))
	}
	return ticket.Wait(ctx)
}

// Counted ends the test unless got and want are the same, and lists the fields that differ: those that
// want does not name are to be zero. Times are not looked at. It does not block. It is for
// bridge.Counters, in which a transition is counted before a ticket shows it.
func Counted[C comparable](t testing.TB, got, want C) {
	t.Helper()
	if reflect.TypeFor[C]().Kind() != reflect.Struct {
		t.Fatalf("durabletest: %T is not a struct of counters", got)
	}
	if differ := differences(got, want); differ != "" {
		t.Fatalf("durabletest: counted %s", differ)
	}
}

// Stored ends the test unless the store holds as many jobs in each state as want says: of want, Pending,
// Scheduled, Processing, Dead, Corrupt and Completed are looked at, and those it does not name are to be
// zero. It blocks for one call of engine.Stats.
func Stored(t testing.TB, engine durable.Engine, want durable.Stats) {
	t.Helper()
	ctx, cancel := waiting()
	defer cancel()
	got, err := engine.Stats(ctx)
	if err != nil {
		t.Fatalf("durabletest: %v", err)
	}
	if differ := differences(sizes(got), sizes(want)); differ != "" {
		t.Fatalf("durabletest: stored %s", differ)
	}
}

// held is how many jobs of each state a store holds.
type held struct{ Pending, Scheduled, Processing, Dead, Corrupt, Completed int64 }

func sizes(s durable.Stats) held {
	return held{s.Pending, s.Scheduled, s.Processing, s.Dead, s.Corrupt, s.Completed}
}

// differences lists the fields of two structs that differ, times apart.
func differences[C comparable](got, want C) string {
	var differ []string
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		if f := g.Type().Field(i); f.Type != reflect.TypeFor[time.Time]() && !g.Field(i).Equal(w.Field(i)) {
			differ = append(differ, fmt.Sprintf("%s %v, want %v", f.Name, g.Field(i), w.Field(i)))
		}
	}
	return strings.Join(differ, "; ")
}

// where says how far a job has come.
func where(ticket Ticket) string {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	if ended(ticket.Done()) {
		if err := ticket.Wait(now); err != nil {
			return "has ended: " + err.Error()
		}
		return "has completed"
	}
	switch {
	case ended(ticket.Started()):
		return "has been started"
	case ticket.WaitEnqueued(now) == nil:
		return "is enqueued"
	}
	return "is accepted"
}

func ended(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// waiting bounds a wait: by half a minute, in a bubble of testing/synctest by a day, which costs no
// time there. The clock of a bubble begins in 2000, as no other does.
func waiting() (context.Context, context.CancelFunc) {
	limit := 30 * time.Second
	if time.Now().Year() < 2010 {
		limit = 24 * time.Hour
	}
	return context.WithTimeoutCause(context.Background(), limit, fmt.Errorf("%v have passed", limit))
}
