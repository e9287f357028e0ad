package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-9dec4fca/weir/bridge"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens books in a file; several with the same file are several processes, as it were.
func open(t *testing.T, file string) *Books {
	t.Helper()
	b, err := OpenBooks(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func newBooks(t *testing.T) *Books {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "books.db"))
}

// mustSum expects that much money from that many jobs.
func mustSum(t *testing.T, b *Books, cents, jobs int64) {
	t.Helper()
	if c, j, err := b.Sum(t.Context()); err != nil || c != cents || j != jobs {
		t.Errorf("%d cents of %d jobs, %v; want %d of %d", c, j, err, cents, jobs)
	}
}

func TestProgram(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-payments", "100"}, &out); err != nil {
		t.Fatalf("%v, after\n%s", err, out.String())
	}
	if !strings.HasPrefix(out.String(), "100 payments, 300 runs, 200 of them for nothing\n100 noted,") {
		t.Error(out.String())
	}
}

// Old deliveries, replayed against the database: whatever order they come in, each job counts once.
func TestOldDeliveriesAreReplayed(t *testing.T) {
	t.Parallel()
	deliver := func(payment string, deliveries int, fence int64) *bridge.Delivery[Payment] {
		return &bridge.Delivery[Payment]{
			ID: "job-" + payment, Value: Payment{Account: "ann", Cents: 100}, Deliveries: deliveries, Fence: fence,
			Headers: map[string]string{"payment": payment},
		}
	}

	t.Run("the same job twice, and an older claim after a newer one", func(t *testing.T) {
		t.Parallel()
		k := &bookkeeper{books: newBooks(t)}
		for _, d := range []*bridge.Delivery[Payment]{
			deliver("1", 2, 7), // the newer claim is there first
			deliver("1", 2, 7), // the very same again
			deliver("1", 1, 6), // the frozen worker goes on
			deliver("1", 3, 8), // and so does the queue
			deliver("2", 2, 5), // another payment
		} {
			if err := k.credit(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		mustSum(t, k.books, 200, 2)
		if k.had.Load() != 3 {
			t.Errorf("%d of 5 runs were for nothing", k.had.Load())
		}
	})

	t.Run("after the process died between commit and completion", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "books.db")
		if err := (&bookkeeper{books: open(t, file)}).credit(t.Context(), deliver("1", 1, 6)); !errors.Is(err, errAfterCommit) {
			t.Fatal(err)
		}
		again := &bookkeeper{books: open(t, file)}
		if err := again.credit(t.Context(), deliver("1", 2, 7)); err != nil {
			t.Fatal(err)
		}
		mustSum(t, again.books, 100, 1)
	})

	t.Run("what was not committed leaves nothing, and can be had again", func(t *testing.T) {
		t.Parallel()
		k := &bookkeeper{books: newBooks(t)}
		ended, cancel := context.WithCancel(t.Context())
		cancel() // the lease is lost
		if err := k.credit(ended, deliver("1", 2, 6)); err == nil {
			t.Error("it went on")
		}
		mustSum(t, k.books, 0, 0)
		if err := k.credit(t.Context(), deliver("1", 2, 7)); err != nil {
			t.Fatal(err)
		}
		mustSum(t, k.books, 100, 1)
	})

	t.Run("fifty copies at once, from two processes", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "books.db")
		both := []*Books{open(t, file), open(t, file)}
		var first atomic.Int64
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				had, err := both[i%2].Credit(t.Context(), fmt.Sprint("pay-", i%4/2), int64(i), Payment{Account: "ann", Cents: 100})
				if err != nil {
					t.Error(err)
				}
				if !had {
					first.Add(1)
				}
			})
		}
		wg.Wait()
		mustSum(t, both[0], 200, 2)
		if n := first.Load(); n != 2 {
			t.Errorf("%d were told that they were the first", n)
		}
	})
}

func TestOlderClaimsDoNotOverwriteState(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	for _, step := range []struct {
		status string
		fence  int64
		stale  bool
	}{
		{"packed", 5, false},
		{"packed", 5, false}, // the same claim says it again
		{"sent", 8, false},
		{"packed", 5, true}, // the first delivery is replayed
		{"lost", 7, true},   // a frozen worker goes on
		{"arrived", 9, false},
	} {
		if stale, err := b.Ship(t.Context(), "order-1", step.status, step.fence); err != nil || stale != step.stale {
			t.Errorf("%+v: stale %v, %v", step, stale, err)
		}
	}
	if status, fence, err := b.Shipment(t.Context(), "order-1"); err != nil || status != "arrived" || fence != 9 {
		t.Errorf("%s by claim %d, %v", status, fence, err)
	}
}
