// A Redis that is too old, read-only, full, evicting, or not there.
package weir_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
	"github.com/seed-9dec4fca/weir/policy"
)

// unusable checks that an error says so, and why.
func unusable(t *testing.T, what string, err error, why string) {
	t.Helper()
	if _, ok := errors.AsType[*durable.CheckError](err); !ok || !errors.Is(err, policy.ErrUnusable) || !strings.Contains(err.Error(), why) {
		t.Errorf("%s: %v, want unusable because of %s", what, err, why)
	}
}

// whole opens a queue with a handler for one kind.
func whole(t *testing.T, rdb *redis.Client, opts *bridge.Options) (*bridge.Queue, *bridge.Kind[string]) {
	t.Helper()
	q := open(t, rdb, "u", nil, opts)
	kind := plain(q, "n")
	newLedger().consume(t, kind)
	return q, kind
}

func TestRedisThatCannotBeUsedIsRefusedByNameAndUsedOnceItIsMended(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args        []string
		spoil, mend func(ctx context.Context, rdb *redis.Client) error // nil: the arguments do it; it cannot be
		why         string
	}{
		"without both moves": {args: []string{"--rename-command", "BLMOVE", "", "--rename-command", "BRPOPLPUSH", ""}, why: "neither BLMOVE nor BRPOPLPUSH"},
		"without EVAL":       {args: []string{"--rename-command", "EVAL", ""}, why: "EVAL"},
		"without EVALSHA":    {args: []string{"--rename-command", "EVALSHA", ""}, why: "EVALSHA"},
		"without ZADD":       {args: []string{"--rename-command", "ZADD", ""}, why: "ZADD"},
		"read-only": {
			spoil: func(ctx context.Context, rdb *redis.Client) error { return rdb.ReplicaOf(ctx, "127.0.0.1", "1").Err() },
			mend:  func(ctx context.Context, rdb *redis.Client) error { return rdb.ReplicaOf(ctx, "NO", "ONE").Err() },
			why:   "read-only",
		},
		"evicting": {
			args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"},
			mend: func(ctx context.Context, rdb *redis.Client) error {
				return rdb.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err()
			},
			why: "allkeys-lru",
		},
		"of a newer wire version": {
			spoil: func(ctx context.Context, rdb *redis.Client) error { return rdb.HSet(ctx, "{u}:meta", "wire", 99).Err() },
			mend:  func(ctx context.Context, rdb *redis.Client) error { return rdb.HDel(ctx, "{u}:meta", "wire").Err() },
			why:   "99",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, c.args...)
			rdb := server.Client(t)
			if c.spoil != nil {
				if err := c.spoil(patient(t), rdb); err != nil {
					t.Fatal(err)
				}
			}
			q, kind := whole(t, rdb, nil)
			unusable(t, "check", q.Check(patient(t)), c.why)
			unusable(t, "run", q.Run(patient(t), nil), c.why)
			_, err := kind.Submit(t.Context(), "x", policy.Wait(time.Hour)) // at once: no hour
			unusable(t, "submit", err, c.why)
			if r, ok := errors.AsType[*policy.Rejection](err); !ok || r.Reason != policy.ReasonUnusable || r.Stage != policy.StageDurable {
				t.Errorf("rejection %+v", r)
			}

			// One that only produces finds it at the first contact, and keeps what it has accepted.
			producer := enlist(t, rdb, nil, "u", nil, nil)
			kind = plain(producer, "n")
			accepted, err := kind.TrySubmit("early")
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "the producer has looked", func() bool {
				_, err = kind.TrySubmit("x")
				return err != nil
			})
			unusable(t, "submit of a producer", err, c.why)
			if c.mend == nil {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				report, err := producer.Shutdown(ctx)
				if err != nil || len(report.Returned) == 0 || report.Returned[0].ID != accepted.ID() || len(report.Uncertain) != 0 {
					t.Errorf("shutdown: %+v, %v", report, err)
				}
				return
			}
			if err := c.mend(patient(t), rdb); err != nil {
				t.Fatal(err)
			}
			if err := accepted.WaitEnqueued(patient(t)); err != nil {
				t.Errorf("what was accepted before: %v", err)
			}
			if _, err := kind.TrySubmit("after"); err != nil {
				t.Errorf("submit after it was mended: %v", err)
			}
			run(t, q, nil)
			eventually(t, "everything is run", func() bool {
				s, err := producer.Stats(patient(t))
				return err == nil && s.Front.Length == 0 && s.Durable.Counters["completed"] == int64(s.Counters.Enqueued)
			})
		})
	}
	t.Run("evicting, and that is accepted", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
		q := enlist(t, server.Client(t), &durable.RedisOptions{AllowEviction: true}, "u", nil, nil)
		kind := plain(q, "n")
		newLedger().consume(t, kind)
		run(t, q, nil)
		ticket, err := kind.TrySubmit("x")
		if err != nil {
			t.Fatal(err)
		}
		if err := ticket.Wait(patient(t)); err != nil {
			t.Error(err)
		}
	})
}

func TestRedisThatIsNotThereAtStartIsWaitedFor(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	server.Kill()
	q, kind := whole(t, rdb, nil)
	if err := q.Check(patient(t)); err == nil || errors.Is(err, policy.ErrUnusable) {
		t.Errorf("check of nobody: %v, want an error that does not say unusable", err)
	}
	run(t, q, nil)
	ticket, err := kind.TrySubmit("x")
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := ticket.Wait(patient(t)); err != nil {
		t.Error(err)
	}
}

// used is how many bytes the server has in use.
func used(t *testing.T, rdb *redis.Client) (n int) {
	t.Helper()
	_, text, _ := strings.Cut(rdb.Info(patient(t), "memory").Val(), "used_memory:")
	if _, err := fmt.Sscan(text, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// fill submits until Redis has no memory left and the front is full, and returns the tickets.
func fill(t *testing.T, q *bridge.Queue, kind *bridge.Kind[string]) (tickets []*bridge.Ticket) {
	t.Helper()
	payload := strings.Repeat("x", 20<<10)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		ticket, err := kind.Submit(ctx, payload, policy.Wait(0))
		cancel()
		if err == nil {
			tickets = append(tickets, ticket)
			continue
		}
		if r, ok := errors.AsType[*policy.Rejection](err); !ok || !errors.Is(err, policy.ErrFull) || r.RetryAfter <= 0 {
			t.Errorf("when Redis is full: %v", err)
		}
		s, _ := q.Stats(cancelled())
		if s.Counters.Enqueued < 50 || s.Front.Length != s.Front.Capacity {
			t.Fatalf("refused early: %v, %+v", err, s)
		}
		return tickets
	}
}

func TestFullRedisRefusesProducersAndDrainsUnaided(t *testing.T) {
	t.Parallel()
	for _, consumer := range []string{"runs already", "comes later", "was killed"} {
		t.Run("consumer "+consumer, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, "--maxmemory", "8mb", "--maxmemory-policy", "noeviction")
			rdb := server.Client(t)
			q := open(t, rdb, "full", nil, &bridge.Options{Capacity: 16})
			kind := plain(q, "n")
			release := make(chan struct{})
			handle := func(context.Context, *bridge.Delivery[string]) error { <-release; return nil }
			_ = kind.Handle(handle)
			opts := &bridge.RunOptions{Workers: 4, Lease: time.Second}
			if consumer == "runs already" {
				run(t, q, opts)
			}
			if consumer == "was killed" { // it held jobs, and nobody has swept yet
				dead, err := durable.NewRedis(rdb, nil)
				if err != nil {
					t.Fatal(err)
				}
				list := dead.List("full", nil)
				t.Cleanup(func() { _ = list.Close() })
				for i := range 4 {
					push(t, rdb, "{full}:", fmt.Sprint("held-", i), "payload", "x", "kind", "n")
				}
				c, err := list.OpenConsumer(patient(t), time.Second)
				if err != nil {
					t.Fatal(err)
				}
				if claimed, err := c.Claim(patient(t), durable.ClaimRequest{N: 1, Slots: 4, MaxBytes: 1 << 20}); err != nil || len(claimed.Jobs) != 4 {
					t.Fatalf("%+v, %v", claimed, err)
				}
			}
			tickets := fill(t, q, kind)
			// No room for anything, until a tenth has been drained.
			if err := rdb.ConfigSet(patient(t), "maxmemory", fmt.Sprint(used(t, rdb)*9/10)).Err(); err != nil {
				t.Fatal(err)
			}
			if err := rdb.LPush(patient(t), "{full}:other", "x").Err(); !redis.IsOOMError(err) {
				t.Fatalf("the server is not full: %v", err)
			}
			for _, p := range []policy.Policy{policy.Reject(), policy.Wait(50 * time.Millisecond)} {
				if _, err := kind.Submit(patient(t), "x", p); !errors.Is(err, policy.ErrFull) {
					t.Errorf("%v when Redis is full: %v", p, err)
				}
			}
			close(release)
			if consumer != "runs already" {
				run(t, q, opts)
			}
			want := uint64(len(tickets))
			if consumer == "was killed" {
				want += 4
			}
			eventually(t, "it drains to nothing", func() bool { return q.Counters().Completed >= want })
			for _, ticket := range tickets {
				if err := ticket.Wait(patient(t)); err != nil {
					t.Fatal(err)
				}
			}
			s, err := q.Stats(patient(t))
			if err != nil || s.Durable.Pending+s.Durable.Processing+s.Durable.Scheduled != 0 {
				t.Errorf("left: %+v, %v", s.Durable, err)
			}
			if c := s.Counters; c.LeaseLost+c.Unsettled+c.Stale+c.Dead != 0 {
				t.Errorf("%+v", c)
			}
		})
	}
}
