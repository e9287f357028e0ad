package weir_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
)

// Processes that produce and consume are paused and resumed under load by another: from a second after the
// pause on no handler starts, and at the end every job has run once.
func TestPauseUnderLoadOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	const each = 3000
	c := newCast(t)
	if err := os.WriteFile(c.file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	processes := []*child{
		c.start(t, "consumer", "c1", 0), c.start(t, "consumer", "c2", 0),
		c.start(t, "producer", "p1", each), c.start(t, "both", "b1", each),
	}
	q := open(t, c.rdb, c.queue, nil, nil)
	op := q.Operator()
	ctx := patient(t)
	ran := func() int {
		data, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(data), "\n")
	}
	for round := range 2 {
		before := ran()
		eventually(t, "jobs run", func() bool { return ran() > before+200 })
		sides := []durable.Side{durable.Consumption, durable.Intake | durable.Consumption}[round]
		if err := op.Pause(ctx, sides, "the test"); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		quiet := ran()
		stats, err := q.Stats(ctx)
		if err != nil || !stats.Durable.Consumption.Active || stats.Durable.Consumption.By != "the test" {
			t.Fatalf("%+v, %v", stats.Durable, err)
		}
		<-time.After(1500 * time.Millisecond)
		if late := ran(); late != quiet {
			t.Errorf("round %d: %d handlers were started later than a second after the pause", round, late-quiet)
		}
		if later, err := q.Stats(ctx); err != nil || later.Durable.Processing != 0 ||
			round == 1 && later.Durable.Counters["appended"] != stats.Durable.Counters["appended"] {
			t.Errorf("round %d: %+v, then %+v, %v", round, stats.Durable, later.Durable, err)
		}
		if err := op.Resume(ctx, sides); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all jobs have completed", func() bool { return c.counter(t, "completed") >= 2*each })
	for _, p := range processes {
		_ = p.stdin.Close()
		p.expect(t, "ended")
	}
	effects := c.effects(t)
	for _, name := range []string{"p1", "b1"} {
		for i := range each {
			if id := fmt.Sprintf("%s-%d", name, i); len(effects[id]) != 1 || effects[id][0] != "1" {
				t.Errorf("job %s: deliveries with an effect %v", id, effects[id])
			}
		}
	}
}

// A queue that is consumed and filled by others is purged by one that does neither.
func TestPurgeUnderLoadOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	const each = 3000
	c := newCast(t)
	consumer := c.start(t, "consumer", "c1", 0)
	producers := []*child{c.start(t, "producer", "p1", each), c.start(t, "producer", "p2", each)}
	q := open(t, c.rdb, c.queue, nil, nil)
	ctx := patient(t)
	eventually(t, "some have run", func() bool { return c.counter(t, "completed") > 0 })
	purged := 0
	eventually(t, "everything has run or is purged", func() bool {
		p, err := q.Operator().Purge(ctx, durable.PurgeRequest{Confirm: c.queue})
		if err != nil {
			t.Fatal(err)
		}
		purged += p.Total()
		s, err := q.Stats(ctx)
		if err != nil {
			t.Fatal(err)
		}
		n := s.Durable.Counters
		return n["appended"] == 2*each && s.Durable.Pending+s.Durable.Processing == 0
	})
	for _, p := range producers {
		p.expect(t, "produced")
	}
	for _, p := range append(producers, consumer) {
		_ = p.stdin.Close()
		p.expect(t, "ended")
	}
	if n := c.counter(t, "completed"); n+purged != 2*each || c.counter(t, "purged") != purged {
		t.Errorf("%d completed and %d purged (%d counted), of %d", n, purged, c.counter(t, "purged"), 2*each)
	}
	if n := c.counter(t, "completed"); n == 0 || purged == 0 {
		t.Errorf("%d completed and %d purged: they have not met", n, purged)
	}
	effects := c.effects(t)
	if n := c.counter(t, "completed"); len(effects) != n {
		t.Errorf("%d completed, and %d had an effect", n, len(effects))
	}
	t.Logf("%d had an effect, %d were purged", len(effects), purged)
	for id, deliveries := range effects {
		if len(deliveries) != 1 {
			t.Errorf("job %s: deliveries with an effect %v", id, deliveries)
		}
	}
	if left := leftovers(t, c.rdb, "{"+c.queue+"}:"); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
}

// A process whose limits are not those of another says so in its log and its stats.
func TestLimitsThatTwoProcessesSetDifferently(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	one := open(t, c.rdb, c.queue, &durable.ListOptions{MaxBacklog: 100}, nil)
	two := open(t, c.rdb, c.queue, &durable.ListOptions{MaxBacklog: 200}, nil)
	for _, q := range []*bridge.Queue{one, two} {
		ticket, err := plain(q, "role").TrySubmit("")
		if err != nil {
			t.Fatal(err)
		}
		if err := ticket.WaitEnqueued(patient(t)); err != nil {
			t.Fatal(err)
		}
	}
	for q, want := range map[*bridge.Queue]string{one: "MaxBacklog is 100 here, and was 200", two: ""} {
		if err := q.Check(patient(t)); err != nil {
			t.Fatal(err)
		}
		s, err := q.Stats(patient(t))
		if err != nil || !strings.HasPrefix(strings.Join(s.Warnings, ";"), want) || (want == "") != (len(s.Warnings) == 0) {
			t.Errorf("%q, %v; want %q", s.Warnings, err, want)
		}
	}
}
