package durable_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

// What the suite gives a second or more, Memory does at once.
func TestMemoryLimits(t *testing.T) {
	t.Parallel()
	key := func(i int) *durable.Job { return &durable.Job{ID: fmt.Sprint(i), LimitKey: "k"} }
	limit := func(t *testing.T, b *memoryBundle, l durable.Limits) {
		t.Helper()
		if err := b.memory.SetLimits(t.Context(), l, "ann"); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name string
		run  func(t *testing.T, b *memoryBundle)
	}{
		{"the end of a claim lets the next of its key go at once, in the order of arrival", func(t *testing.T, b *memoryBundle) {
			limit(t, b, durable.Limits{KeyConcurrency: 1})
			for i := range 100 {
				b.append(t, key(i))
			}
			start := time.Now()
			for i := range 100 {
				claims := b.claim(t, 100)
				if len(claims) == 0 {
					claims = b.claim(t, 100) // the first stopped by its bound
				}
				if len(claims) != 1 || claims[0].ID != fmt.Sprint(i) {
					t.Fatalf("claim %d: %d jobs, want one", i, len(claims))
				}
				done := durable.Outcome{Ref: durable.Ref{ID: claims[0].ID, Token: claims[0].Token}, Verdict: durable.Done}
				if _, err := b.c.Settle(t.Context(), uint64(i+1), []durable.Outcome{done}); err != nil {
					t.Fatal(err)
				}
			}
			if d := time.Since(start); d != 0 {
				t.Errorf("it took %v", d)
			}
		}},
		{"what ends before it is claimed lets the next of its key go at once", func(t *testing.T, b *memoryBundle) {
			limit(t, b, durable.Limits{KeyConcurrency: 1})
			late := key(2)
			late.Expiry = time.Minute
			b.append(t, key(0), key(1), late, key(3), key(4))
			first := b.claim(t, 5)[0]
			time.Sleep(2 * time.Minute)
			b.claim(t, 5) // those whose turn it was wait again, and the late one has expired
			done := durable.Outcome{Ref: durable.Ref{ID: first.ID, Token: first.Token}, Verdict: durable.Done}
			if _, err := b.c.Settle(t.Context(), 1, []durable.Outcome{done}); err != nil {
				t.Fatal(err)
			}
			var next string
			for _, id := range []string{"1", "3", "4"} {
				r, err := b.memory.Lookup(t.Context(), durable.LookupRequest{ID: id})
				if err == nil && r.State == durable.StatePending {
					next = id
				}
			}
			if _, err := b.memory.Cancel(t.Context(), durable.CancelRequest{ID: next}); err != nil {
				t.Fatalf("cancel of %q, which comes next: %v", next, err)
			}
			if n := len(b.claim(t, 5)); n != 1 {
				t.Errorf("%d are claimed, want one", n)
			}
		}},
		{"other limits count at once", func(t *testing.T, b *memoryBundle) {
			limit(t, b, durable.Limits{KeyConcurrency: 1})
			b.append(t, key(0), key(1), key(2), key(3))
			if n := len(b.claim(t, 4)); n != 1 {
				t.Errorf("%d are claimed", n)
			}
			limit(t, b, durable.Limits{KeyConcurrency: 3})
			claims := b.claim(t, 4)
			if len(claims) != 2 || claims[0].ID != "1" || claims[1].ID != "2" {
				t.Errorf("%d are claimed when there is room for two more", len(claims))
			}
		}},
		{"each that waits for the rate of its key has a time of its own", func(t *testing.T, b *memoryBundle) {
			limit(t, b, durable.Limits{KeyRate: durable.Rate{Count: 1, Per: time.Second}})
			b.append(t, key(0), key(1), key(2), key(3))
			start := time.Now()
			b.claim(t, 4)
			for i := 1; i < 4; i++ {
				r, err := b.memory.Lookup(t.Context(), durable.LookupRequest{ID: fmt.Sprint(i)})
				if err != nil || r.State != durable.StateScheduled || r.Due.Sub(start) != time.Duration(i)*time.Second {
					t.Errorf("job %d: %s, due after %v, %v", i, r.State, r.Due.Sub(start), err)
				}
			}
		}},
		{"a pause of a queue at its limit is short", func(t *testing.T, b *memoryBundle) {
			limit(t, b, durable.Limits{Concurrency: 1})
			b.append(t, key(0), key(1))
			b.claim(t, 1)
			b.asked++
			a, err := b.c.Claim(t.Context(), durable.ClaimRequest{N: b.asked, Slots: 1, MaxBytes: 1, Held: 1})
			if err != nil || a.Status != durable.ClaimLimited || a.NextDue <= 0 || a.NextDue > time.Second/2 {
				t.Errorf("claim: %+v, %v", a, err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test.run(t, setupMemory(t)) })
		})
	}
}
