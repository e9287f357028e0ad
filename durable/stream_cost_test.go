package durable_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

// TestStreamCost counts what a batch of jobs costs the server: three requests, and inside them no more
// commands for each job than adding its entry and writing and reading its record takes.
func TestStreamCost(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	b := setupStreamAt(t, s.Addr(), s.Client(t), "q", nil)
	p, w := b.producer(), b.worker()
	const jobs = 256
	ids := make([]string, jobs)
	for i := range ids {
		ids[i] = fmt.Sprint("job", i)
	}
	round := func(n uint64) {
		if a, err := p.Append(b.ctx, n, jobsOf(ids...)); err != nil || a.Taken != jobs {
			t.Fatal(a, err)
		}
		c := w.claim(jobs)
		if len(c.Jobs) != jobs || strings.Trim(w.settle(durable.Done, c.Jobs...), "O") != "" {
			t.Fatal(len(c.Jobs), "jobs")
		}
	}
	round(1) // loads the scripts
	if err := b.rdb.ConfigResetStat(b.ctx).Err(); err != nil {
		t.Fatal(err)
	}
	round(2)
	requests, inside := commandsOf(b.ctx, b.rdb)
	// Add the entry, write the record; read and stamp it; read its token. Reading, acknowledging and
	// deleting are one command for all.
	if requests != 3 || inside > jobs*5+100 || inside < jobs*5 {
		t.Errorf("%d requests and %.2f commands for each job, want 3 and 5 with a little for the batch", requests, float64(inside)/jobs)
	}
}
