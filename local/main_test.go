package local_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for an event that must come.
const patience = 20 * time.Second

func newFront[T any](t testing.TB, o *local.FrontOptions[T]) *local.Front[T] {
	t.Helper()
	f, err := local.NewFront(o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func mustAdmit[T any](t testing.TB, f *local.Front[T], size int64, jobs ...T) {
	t.Helper()
	for _, job := range jobs {
		if ok, err := f.Admit(context.Background(), job, size, policy.Reject()); !ok || err != nil {
			t.Fatalf("job %v was not admitted: %v", job, err)
		}
	}
}

// mustReject admits a job that must be refused for that reason.
func mustReject[T any](ctx context.Context, t testing.TB, f *local.Front[T], job T, size int64, p policy.Policy, want policy.Reason) *policy.Rejection {
	t.Helper()
	ok, err := f.Admit(ctx, job, size, p)
	rej, is := errors.AsType[*policy.Rejection](err)
	if ok || !is || rej.Reason != want {
		t.Fatalf("%v: accepted %v, %v; want a rejection: %v", p, ok, err, want)
	}
	return rej
}

// takeAll takes what is there and returns the jobs too.
func takeAll[T any](f *local.Front[T]) (slots []local.Slot[T], jobs []T) {
	slots = f.Drain()
	for _, s := range slots {
		jobs = append(jobs, s.Job)
	}
	return slots, jobs
}

// balanced checks the conservation of counters.
func balanced[T any](t testing.TB, f *local.Front[T]) local.FrontStats {
	t.Helper()
	s := f.Stats()
	if s.Submitted != s.Accepted+s.RejectedTotal()+s.Dropped+int64(s.Waiting) {
		t.Errorf("submitted is not accepted + rejected + dropped + waiting: %+v", s)
	}
	if s.Accepted != s.Released+s.Evicted+int64(s.Length) {
		t.Errorf("accepted is not released + evicted + held: %+v", s)
	}
	if s.HighWater > s.Capacity || s.Length > s.HighWater || s.Queued > s.Length || s.ByteCapacity > 0 && s.Bytes > s.ByteCapacity {
		t.Errorf("a bound is exceeded: %+v", s)
	}
	return s
}

// within waits for c to close.
func within(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("%s: not within %v", what, patience)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
