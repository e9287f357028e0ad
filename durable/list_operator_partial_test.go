package durable_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

// TestListPartialOperatorScripts stops redrive, discard, purge and the keeping of completed jobs wherever
// they first use a command that was forbidden meanwhile. When they are asked again, every job has run once,
// or is gone because it was meant to be, and nothing is left of any.
func TestListPartialOperatorScripts(t *testing.T) {
	t.Parallel()
	onBoth(t, stopOperatorScripts)
}

func stopOperatorScripts(t *testing.T, of maker) {
	s := redistest.Start(t)
	admin := s.Client(t)
	for _, command := range []string{"DEL", "HDEL", "HSET", "HSETNX", "LPUSH", "LREM", "LTRIM", "PEXPIRE", "ZADD", "ZREM", "ZREMRANGEBYRANK"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			name := "q" + command
			b := setupQueueAt(t, of, s.Addr(), admin, name, nil)
			permit := b.confine(name)

			w := b.worker()
			b.append("r1", "r2", "r3", "d1", "d2", "d3")
			w.settle(durable.Dead, w.take(6)...)
			kept := jobsOf("k1", "k2", "k3")
			for _, j := range kept {
				j.Retention = 1 << 40
			}
			if a, err := b.producer().Append(b.ctx, 1, kept); err != nil || a.Taken != 3 {
				t.Fatal(a, err)
			}
			claims := w.take(3)
			var outcomes []durable.Outcome
			for _, c := range claims {
				outcomes = append(outcomes, durable.Outcome{Ref: durable.Ref{ID: c.ID, Token: c.Token}, Verdict: durable.Done})
			}
			w.settles++
			b.append("p1", "p2", "p3")

			act := func() []error {
				_, err1 := b.list.Redrive(b.ctx, durable.Selection{IDs: []string{"r1", "r2", "r3"}})
				_, err2 := b.list.Discard(b.ctx, durable.Selection{IDs: []string{"d1", "d2", "d3"}})
				s, err3 := w.Settle(b.ctx, w.settles, outcomes)
				if err3 == nil && codes(s) != "OOO" {
					t.Errorf("settled %q", codes(s))
				}
				return []error{err1, err2, err3}
			}
			permit("-" + command)
			if failed := insist(t, act); failed == 0 && !slices.Contains([]string{"LTRIM", "LPUSH", "ZREMRANGEBYRANK"}, command) { // which not both engines need here
				t.Fatal("nothing was stopped")
			}
			for _, id := range []string{"r1", "r2", "r3", "d1", "d2", "d3"} { // nobody need ask again
				if b.field(id, "status") == "dead" && !strings.Contains(b.where(id), "dead") {
					t.Errorf("%s is dead, and in no index: it is in %q", id, b.where(id))
				}
			}
			permit("+" + command)
			for _, err := range act() {
				if err != nil {
					t.Error(err)
				}
			}
			for _, id := range []string{"d1", "d2", "d3"} {
				if _, err := b.list.Lookup(b.ctx, durable.LookupRequest{ID: id}); !is(err, durable.ErrNoJob) {
					t.Errorf("%s is still there: %v", id, err)
				}
			}
			for _, j := range kept {
				ttl := b.rdb.PTTL(b.ctx, b.key("job:"+j.ID)).Val()
				if r := b.lookup(j.ID); r.State != durable.StateCompleted || len(r.Payload) > 0 || r.Size != int64(len(j.Payload)) || ttl <= 0 {
					t.Errorf("kept %v: %+v", ttl, r)
				}
			}
			runs := map[string]int{}
			w.held = 0
			for range 10 {
				for _, c := range w.claim(1).Jobs {
					runs[c.ID] += strings.Count(w.settle(durable.Done, c), "O")
				}
			}
			if want := map[string]int{"r1": 1, "r2": 1, "r3": 1, "p1": 1, "p2": 1, "p3": 1}; fmt.Sprint(runs) != fmt.Sprint(want) {
				t.Errorf("ran %v, want %v", runs, want)
			}

			// And a purge, of everything there can be.
			b.append("a", "b", "c", "x", "y", "z")
			w.settle(durable.Dead, w.take(2)...)
			w.settle(durable.Snooze, w.take(2)...)
			w.take(1)
			states := []durable.State{
				durable.StatePending, durable.StateScheduled, durable.StateDead, durable.StateCompleted, durable.StateProcessing,
			}
			permit("-" + command)
			_, _ = b.list.Purge(b.ctx, durable.PurgeRequest{Confirm: name, States: states})
			permit("+" + command)
			if p, err := b.list.Purge(b.ctx, durable.PurgeRequest{Confirm: name, States: states}); err != nil || p.Cursor != "" {
				t.Error(p, err)
			}
			b.places("0 0 0 0 0")
			left := slices.DeleteFunc(b.keysLike("*"), func(key string) bool {
				return strings.Contains(key, "sender:") || slices.Contains([]string{b.key("meta"), b.key("counters"), b.key("consumers")}, key)
			})
			if len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}
