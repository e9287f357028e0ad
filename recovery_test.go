// Stories from the field about consumers after a fault of the server or of the network.
package weir_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

// clients lists the IDs of the connections that are in a command, by the server's own account.
func clients(t *testing.T, rdb *redis.Client, command string) (ids []int64) {
	t.Helper()
	for line := range strings.Lines(rdb.ClientList(patient(t)).Val()) {
		var id int64
		if strings.Contains(line, " cmd="+command+" ") {
			if _, err := fmt.Sscanf(line, "id=%d ", &id); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
	}
	return ids
}

// consumption is a consumer behind a proxy, on a server of its own, that has run one job.
type consumption struct {
	server *redistest.Server
	proxy  *redistest.Proxy
	rdb    *redis.Client // past the proxy
	q      *bridge.Queue
	runs   *ledger
	jobs   int
}

func newConsumption(t *testing.T, opts *bridge.Options, args ...string) *consumption {
	t.Helper()
	c := &consumption{server: redistest.Start(t, args...), runs: newLedger()}
	c.proxy, c.rdb = redistest.NewProxy(t, c.server.Addr()), c.server.Client(t)
	c.q = open(t, c.proxy.Client(t), "c", nil, opts)
	c.runs.consume(t, plain(c.q, ""))
	run(t, c.q, &bridge.RunOptions{Lease: 20 * time.Second})
	c.next(t)
	parked(t, c.rdb, 1)
	return c
}

// next pushes one more job and waits until it has completed.
func (c *consumption) next(t *testing.T) {
	t.Helper()
	c.jobs++
	push(t, c.rdb, "{c}:", fmt.Sprint("job-", c.jobs), "payload", "x")
	eventually(t, "the next job completes", func() bool { return c.q.Counters().Completed == uint64(c.jobs) })
}

// After a reset or a failover the worker looked healthy and never fetched again.
func TestCase19_WorkerNeverFetchesAgain(t *testing.T) {
	t.Parallel()
	demote := func(t *testing.T, c *consumption) {
		t.Helper()
		if err := c.rdb.ReplicaOf(patient(t), "127.0.0.1", "1").Err(); err != nil {
			t.Fatal(err)
		}
	}
	for name, fault := range map[string]func(t *testing.T, c *consumption){
		"CLIENT KILL": func(t *testing.T, c *consumption) {
			for _, id := range clients(t, c.rdb, "blmove") {
				c.rdb.ClientKillByFilter(patient(t), "ID", fmt.Sprint(id))
			}
		},
		"CLIENT KILL of every connection": func(t *testing.T, c *consumption) {
			c.rdb.ClientKillByFilter(patient(t), "TYPE", "normal", "SKIPME", "yes")
		},
		"CLIENT UNBLOCK": func(t *testing.T, c *consumption) {
			for _, id := range clients(t, c.rdb, "blmove") {
				c.rdb.ClientUnblock(patient(t), id)
			}
		},
		"CLIENT UNBLOCK with an error": func(t *testing.T, c *consumption) {
			for _, id := range clients(t, c.rdb, "blmove") {
				c.rdb.ClientUnblockWithError(patient(t), id)
			}
		},
		"silence without a reset": func(_ *testing.T, c *consumption) { c.proxy.Sever(redistest.Silence) },
		"FIN":                     func(_ *testing.T, c *consumption) { c.proxy.Sever(redistest.FIN) },
		"RST":                     func(_ *testing.T, c *consumption) { c.proxy.Sever(redistest.RST) },
		"READONLY": func(t *testing.T, c *consumption) {
			demote(t, c)
			refused := c.q.Counters().LastClaim
			<-time.After(2 * time.Second)
			if c.q.Counters().LastClaim.Sub(refused) > time.Second {
				t.Error("the time of the last claim moved while every claim was refused")
			}
			c.rdb.ReplicaOf(patient(t), "NO", "ONE")
		},
		"restart": func(t *testing.T, c *consumption) {
			c.server.Kill()
			if err := c.server.Restart(); err != nil {
				t.Fatal(err)
			}
		},
		"SCRIPT FLUSH": func(t *testing.T, c *consumption) { c.rdb.ScriptFlush(patient(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newConsumption(t, nil, "--appendonly", "yes", "--appendfsync", "always")
			fault(t, c)
			before, begin := c.q.Counters().LastClaim, time.Now()
			c.next(t)
			if took := time.Since(begin); took > 15*time.Second {
				t.Errorf("the next job completed after %v", took)
			}
			if !c.q.Counters().LastClaim.After(before) {
				t.Error("the time of the last claim has not moved")
			}
			c.next(t)
			if lost := c.q.Counters().LeaseLost; lost != 0 {
				t.Errorf("%d leases of 20 s lost", lost)
			}
		})
	}
	t.Run("LOADING", func(t *testing.T) {
		t.Parallel()
		c := newConsumption(t, nil, "--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")
		fill := c.rdb.Pipeline()
		for i := range 2000 {
			fill.Set(t.Context(), fmt.Sprint("ballast-", i), "x", 0)
		}
		if _, err := fill.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.rdb.Save(patient(t)).Err(); err != nil {
			t.Fatal(err)
		}
		c.server.Kill()
		var starting sync.WaitGroup
		starting.Go(func() {
			if err := c.server.Restart(); err != nil {
				t.Error(err)
			}
		})
		defer starting.Wait()
		probe := redis.NewClient(&redis.Options{Addr: c.server.Addr(), MaxRetries: -1})
		defer func() { _ = probe.Close() }()
		loading := false
		eventually(t, "the server has loaded", func() bool {
			err := probe.Ping(patient(t)).Err()
			loading = loading || err != nil && strings.HasPrefix(err.Error(), "LOADING")
			return err == nil
		})
		if !loading {
			t.Error("the server was never seen loading: nothing was tested")
		}
		begin := time.Now()
		c.next(t)
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("the next job completed after %v", took)
		}
	})
}

// lines counts what is logged.
type lines struct {
	slog.Handler
	n *atomic.Int64
}

func (l lines) Handle(context.Context, slog.Record) error { l.n.Add(1); return nil }
func (l lines) Enabled(context.Context, slog.Level) bool  { return true }
func (l lines) WithAttrs([]slog.Attr) slog.Handler        { return l }
func (l lines) WithGroup(string) slog.Handler             { return l }

// The fetch loop span while Redis refused.
func TestCase20_LoopsSpinWhileRedisRefuses(t *testing.T) {
	t.Parallel()
	const outage = 4 * time.Second
	// spell waits for the length of the outage, and returns how often happened was called a second.
	spell := func(t *testing.T, count *atomic.Int64) float64 {
		t.Helper()
		count.Store(0)
		begin := time.Now()
		<-time.After(outage)
		return float64(count.Load()) / time.Since(begin).Seconds()
	}
	const perSecond = 20 // of a process that produces and consumes
	t.Run("every write is refused", func(t *testing.T) {
		t.Parallel()
		var logged, sent atomic.Int64
		c := newConsumption(t, &bridge.Options{Logger: slog.New(lines{n: &logged})})
		c.proxy.OnRequest(func(redistest.Exchange) redistest.Action { sent.Add(1); return redistest.Pass })
		kind := plain(c.q, "")
		c.rdb.ReplicaOf(patient(t), "127.0.0.1", "1")
		ticket, err := kind.TrySubmit("during")
		if err != nil {
			t.Fatal(err)
		}
		if rate := spell(t, &sent); rate > perSecond || rate < 0.5 {
			t.Errorf("%.1f commands a second", rate)
		}
		if n := logged.Load(); n > 20 || n < 1 {
			t.Errorf("%d log lines in %v", n, outage)
		}
		c.rdb.ReplicaOf(patient(t), "NO", "ONE")
		begin := time.Now()
		if err := ticket.Wait(patient(t)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 8*time.Second {
			t.Errorf("the job completed %v after the end of the outage", took)
		}
		begin = time.Now()
		ticket, err = kind.TrySubmit("after")
		if err != nil {
			t.Fatal(err)
		}
		if err := ticket.Wait(patient(t)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 3*time.Second { // no rest of the back-off
			t.Errorf("the job after the outage took %v", took)
		}
	})
	t.Run("every connection is closed", func(t *testing.T) {
		t.Parallel()
		var logged, dialled atomic.Int64
		door, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var keeper sync.WaitGroup
		keeper.Go(func() {
			for {
				c, err := door.Accept()
				if err != nil {
					return
				}
				dialled.Add(1)
				_ = c.Close()
			}
		})
		t.Cleanup(func() { _ = door.Close(); keeper.Wait() })
		rdb := redis.NewClient(&redis.Options{Addr: door.Addr().String()})
		t.Cleanup(func() { _ = rdb.Close() })
		q := enlist(t, rdb, nil, "spin", nil, &bridge.Options{Logger: slog.New(lines{n: &logged})})
		kind := plain(q, "n")
		newLedger().consume(t, kind)
		run(t, q, nil)
		if _, err := kind.TrySubmit("x"); err != nil {
			t.Fatal(err)
		}
		if rate := spell(t, &dialled); rate > perSecond || rate < 0.5 {
			t.Errorf("%.1f dials a second", rate)
		}
		if n := logged.Load(); n > 20 || n < 1 {
			t.Errorf("%d log lines in %v", n, outage)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if report, err := q.Shutdown(ctx); err != nil || len(report.Returned) != 1 {
			t.Errorf("shutdown: %+v, %v", report, err)
		}
	})
	t.Run("nothing is answered", func(t *testing.T) {
		t.Parallel()
		var sent atomic.Int64
		c := newConsumption(t, nil)
		c.proxy.OnRequest(func(redistest.Exchange) redistest.Action { sent.Add(1); return redistest.Pass })
		end := c.proxy.Blackhole()
		if rate := spell(t, &sent); rate > perSecond {
			t.Errorf("%.1f commands a second", rate)
		}
		end()
		begin := time.Now()
		c.next(t)
		if took := time.Since(begin); took > 12*time.Second {
			t.Errorf("the job completed %v after the end of the outage", took)
		}
	})
}

// A blocking move whose client had given up was performed later: its job was gone.
func TestCase22_MoveOfADeadClientTakesAJob(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy, rdb := redistest.NewProxy(t, server.Addr()), server.Client(t)
	proxy.KeepServerSide(true)
	const dead = 3
	for range dead {
		ghost := proxy.Client(t)
		go ghost.BLMove(context.Background(), "{ghost}:pending", "{ghost}:arriving", "RIGHT", "LEFT", 25*time.Second)
	}
	parked(t, rdb, dead)
	proxy.Refuse(true)
	proxy.Sever(redistest.RST)

	q, started := open(t, rdb, "ghost", nil, nil), make(chan time.Time, 1)
	_ = plain(q, "").Handle(func(context.Context, *bridge.Delivery[string]) error { started <- time.Now(); return nil })
	run(t, q, nil)
	for i := range dead {
		parked(t, rdb, dead-i+1)
		begin, id := time.Now(), fmt.Sprint("job-", i)
		push(t, rdb, "{ghost}:", id, "payload", "x")
		if got := places(t, rdb, "ghost", id); !cmp.Equal(got, []string{"arriving"}) && len(started) == 0 {
			t.Errorf("after the push the job is in %v, nobody's move was performed", got)
		}
		if took := await(t, "the job runs", started).Sub(begin); took > durable.Park+2*time.Second {
			t.Errorf("a dead client cost %v", took)
		}
	}
	eventually(t, "all have completed", func() bool { return q.Counters().Completed == dead })
}
