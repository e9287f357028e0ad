package durable_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

func TestMemoryRefusesACursorOfNobody(t *testing.T) {
	t.Parallel()
	m := durable.NewMemory(nil)
	for _, cursor := range []string{"-1", "x", "1.5", "99999999999999999999"} {
		if _, err := m.Jobs(t.Context(), durable.JobsRequest{State: durable.StatePending, Cursor: cursor}); !is(err, durable.ErrNotExecuted) {
			t.Errorf("%q: %v", cursor, err)
		}
	}
	if page, err := m.Jobs(t.Context(), durable.JobsRequest{State: durable.StatePending, Cursor: "7"}); err != nil || len(page.Jobs) > 0 {
		t.Errorf("past the end: %+v, %v", page, err)
	}
}

// The turn of the last of many was at a time that cannot be said, so that it was there at once, and claims never ended.
func TestMemoryTurnThatIsCenturiesAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := durable.NewMemory(nil)
		if err := m.SetLimits(t.Context(), durable.Limits{KeyRate: durable.Rate{Count: 1, Per: 100 * 365 * 24 * time.Hour}}, "x"); err != nil {
			t.Fatal(err)
		}
		p, err := m.OpenProducer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c, err := m.OpenConsumer(t.Context(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		var jobs []*durable.Job
		for i := range 20 {
			jobs = append(jobs, &durable.Job{ID: fmt.Sprint(i), LimitKey: "k"})
		}
		if _, err := p.Append(t.Context(), 1, jobs); err != nil {
			t.Fatal(err)
		}
		var last durable.Claimed
		for n := range 5 {
			if last, err = c.Claim(t.Context(), durable.ClaimRequest{N: uint64(n + 1), Slots: 10, MaxBytes: 1000, Held: 10}); err != nil {
				t.Fatal(err)
			}
		}
		if last.Status != durable.ClaimEmpty || last.NextDue < time.Hour {
			t.Errorf("%+v", last)
		}
	})
}
