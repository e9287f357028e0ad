package durable_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

func TestListLanes(t *testing.T) {
	t.Parallel()

	t.Run("the budget is 3 connections and one for each consumed queue and each that is followed, under any load", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		// What the user asked of his own client is no matter.
		own := store(t, &redis.Options{Addr: s.Addr(), PoolSize: 1, MinIdleConns: 1, PoolTimeout: time.Millisecond, ClientName: "budget"}, nil)
		watch := s.Client(t)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		count := func() int {
			n := 0
			for line := range strings.Lines(watch.ClientList(ctx).Val()) {
				if strings.Contains(line, "name=budget ") && !strings.Contains(line, "cmd=hello ") {
					n++
				}
			}
			return n
		}
		const queues = 3
		var wg sync.WaitGroup
		stop := make(chan struct{})
		var lists []*durable.List
		for i := range queues {
			l := own.List(fmt.Sprint("q", i), nil)
			lists = append(lists, l)
			c, err := l.OpenConsumer(ctx, long)
			if err != nil {
				t.Fatal(err)
			}
			f, err := l.OpenFollower(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for range 8 {
				wg.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						// Calls that give up leave dials and commands behind.
						hasty, cancel := context.WithTimeout(ctx, time.Millisecond)
						_, _ = l.Stats(hasty)
						cancel()
						_, _ = l.Stats(ctx)
						_ = c.Renew(ctx, long)
						brief, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
						_ = c.Await(brief)
						cancel()
						brief, cancel = context.WithTimeout(ctx, 5*time.Millisecond)
						_, _ = f.Await(brief)
						cancel()
					}
				})
			}
		}
		highest := 0
		for range 300 {
			highest = max(highest, count())
		}
		close(stop)
		wg.Wait()
		// The user's own client has none: it was never used.
		if highest > 3+2*queues || highest < 3 {
			t.Errorf("%d connections, want at most %d", highest, 3+2*queues)
		}
		for i, l := range lists {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if n := count(); i == queues-1 && n != 0 && !eventually(ctx, func() bool { return count() == 0 }) {
				t.Error(n, "connections after the last hold was dropped")
			}
		}
		if _, err := lists[0].Stats(ctx); err != nil {
			t.Error("a later call does not connect anew:", err)
		}
		for range 2 {
			if err := own.Close(); err != nil {
				t.Error(err)
			}
		}
	})

	t.Run("calls that give up leave no dials behind beyond the budget", func(t *testing.T) {
		t.Parallel()
		addr := redistest.Addr(t)
		var mu sync.Mutex
		dialling, most := 0, 0
		through := make(chan struct{})
		slow := &redis.Options{Addr: addr, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			mu.Lock()
			dialling++
			most = max(most, dialling)
			mu.Unlock()
			defer func() {
				mu.Lock()
				dialling--
				mu.Unlock()
			}()
			select {
			case <-through:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			var d net.Dialer
			return d.DialContext(ctx, network, addr)
		}}
		l := store(t, slow, nil).List(redistest.Name(t), nil)
		for range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if _, err := l.Stats(ctx); !is(err, durable.ErrNotExecuted) {
				t.Error(err)
			}
			cancel()
		}
		mu.Lock()
		if most > 3 {
			t.Errorf("%d dials at once, want at most 3", most)
		}
		mu.Unlock()
		close(through)
		if _, err := l.Stats(t.Context()); err != nil {
			t.Error("when the network is back:", err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})

	t.Run("closing ends dials that are under way", func(t *testing.T) {
		t.Parallel()
		begun, ended := make(chan struct{}), make(chan struct{})
		hole := &redis.Options{Addr: "127.0.0.1:1", Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			close(begun)
			defer close(ended)
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		l := store(t, hole, &durable.RedisOptions{DialTimeout: time.Hour}).List("q", nil)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-begun // one whose context ends before it begins is none
			cancel()
		}()
		if _, err := l.Stats(ctx); !is(err, durable.ErrNotExecuted) {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		<-ended
	})

	t.Run("story 21: renewals wait for nothing that settles, claims or parks", func(t *testing.T) {
		t.Parallel()
		b, proxy, list := proxied(t, list, 10*time.Second)
		w := b.workerOf(list, long)
		hold := make(chan struct{})
		arrived := make(chan struct{}, 8)
		proxy.OnReply(func(e redistest.Exchange) redistest.Action {
			if slices.Contains(e.Args, "stats") || slices.Contains(e.Args, "sweep") || slices.Contains(e.Args, "blmove") {
				arrived <- struct{}{}
				<-hold
			}
			return redistest.Pass
		})
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = list.Stats(b.ctx) })
		wg.Go(func() { _, _ = list.Sweep(b.ctx) })
		wg.Go(func() { _ = w.Await(b.ctx) })
		for range 3 {
			<-arrived
		}
		if err := w.Renew(b.ctx, long); err != nil {
			t.Error(err)
		}
		// And a call that finds both places taken gives up by its own deadline, not executed.
		brief, cancel := context.WithTimeout(b.ctx, 20*time.Millisecond)
		defer cancel()
		if _, err := list.Stats(brief); !is(err, durable.ErrNotExecuted) || !is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		close(hold)
		wg.Wait()
	})

	t.Run("await heeds its context at once", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		b := setupListAt(t, s.Addr(), s.Client(t), "q", nil)
		w := b.worker()
		ctx, cancel := context.WithCancel(b.ctx)
		given := make(chan error, 1)
		go func() { given <- w.Await(ctx) }()
		b.parked("blmove")
		start := time.Now()
		cancel()
		if err, d := <-given, time.Since(start); !is(err, context.Canceled) || d > 500*time.Millisecond {
			t.Fatal("took", d, err)
		}
	})
}
