// Whole queues on a server without the commands of Redis 6.2.
package weir_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
	"github.com/seed-9dec4fca/weir/policy"
)

// without62 hides the moves of Redis 6.2.
var without62 = []string{"--rename-command", "BLMOVE", "", "--rename-command", "LMOVE", ""}

// told keeps what is logged.
type told struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *told) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *told) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

// Story 41, where there is something to fall back to: BRPOPLPUSH before Redis 6.2.
func TestCase41_ServerWithoutBLMOVE(t *testing.T) {
	t.Parallel()

	t.Run("all that a queue does, and one line in the log", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, without62...)
		rdb := server.Client(t)
		store, err := durable.NewRedis(rdb, nil)
		if err != nil {
			t.Fatal(err)
		}
		wholeLife(t, store, "life")

		log := &told{}
		q, kind := whole(t, rdb, &bridge.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
		for range 3 {
			if err := q.Check(patient(t)); err != nil {
				t.Fatal(err)
			}
		}
		run(t, q, nil)
		ticket, err := kind.Submit(t.Context(), "x", policy.Wait(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if err := ticket.Wait(patient(t)); err != nil {
			t.Error(err)
		}
		if s, err := q.Stats(patient(t)); err != nil || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "BRPOPLPUSH is used") {
			t.Errorf("warnings %q, %v", s.Warnings, err)
		}
		if n := log.count("BRPOPLPUSH is used"); n != 1 {
			t.Errorf("%d lines:\n%s", n, log.text.String())
		}
		if n := log.count("level=ERROR"); n > 0 {
			t.Errorf("%d errors:\n%s", n, log.text.String())
		}
	})

	t.Run("what is submitted wakes the parked worker", func(t *testing.T) {
		t.Parallel()
		c := newConsumption(t, nil, without62...)
		moved := make(chan string, 10)
		c.proxy.OnReply(func(e redistest.Exchange) redistest.Action {
			if redistest.With("brpoplpush")(e) && len(e.Reply) > 0 && e.Reply[0] == '$' && !strings.HasPrefix(string(e.Reply), "$-1") {
				moved <- string(e.Reply)
			}
			return redistest.Pass
		})
		for range 5 {
			parked(t, c.rdb, 1)
			begin := time.Now()
			c.next(t)
			took := time.Since(begin)
			if id := fmt.Sprint("job-", c.jobs); !strings.Contains(await(t, "the move is answered with the job", moved), id) {
				t.Errorf("another than %s was moved", id)
			}
			if took > durable.Park+2*time.Second {
				t.Errorf("took %v", took)
			}
		}
	})

	t.Run("killed while they are parked, clients lose nothing", func(t *testing.T) {
		t.Parallel()
		c := newConsumption(t, nil, without62...)
		ids := []string{"job-1"}
		for range 10 {
			parked(t, c.rdb, 1)
			var killing sync.WaitGroup
			for _, id := range clients(t, c.rdb, "brpoplpush") {
				killing.Go(func() { c.rdb.ClientKillByFilter(context.Background(), "ID", fmt.Sprint(id)) })
			}
			c.next(t)
			killing.Wait()
			ids = append(ids, fmt.Sprint("job-", c.jobs))
		}
		c.runs.once(t, ids...)
		if s, err := c.q.Stats(patient(t)); err != nil || s.Durable.Pending+s.Durable.Processing+s.Durable.Scheduled > 0 {
			t.Errorf("left behind: %+v, %v", s.Durable, err)
		}
	})
}
