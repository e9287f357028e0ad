package local_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/local"
)

// ends are all of them, with their errors.
var ends = map[local.State]error{
	local.Completed: nil,
	local.Dropped:   local.ErrDropped,
	local.Evicted:   local.ErrEvicted,
	local.Refused:   local.ErrRefused,
	local.Abandoned: local.ErrAbandoned,
	local.Uncertain: local.ErrUncertain,
	local.Dead:      local.ErrDead,
	local.Cancelled: local.ErrCancelled,
	local.Expired:   local.ErrExpired,
	local.Detached:  local.ErrDetached,
}

func promise(id string) *local.Promise {
	p := new(local.Promise)
	p.Init(id)
	return p
}

func TestState(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for s := local.Accepted; s <= local.Detached; s++ {
		if _, end := ends[s]; end != s.Ended() {
			t.Errorf("%v: Ended() = %v", s, s.Ended())
		}
		if names[s.String()] || strings.ContainsAny(s.String(), "( ") {
			t.Errorf("state %d is called %q", s, s)
		}
		names[s.String()] = true
	}
	if got := local.State(99).String(); got != "state(99)" {
		t.Error(got)
	}
}

func TestTicketEnds(t *testing.T) {
	t.Parallel()
	for end, sentinel := range ends {
		t.Run(end.String()+": every channel closes, its error says how", func(t *testing.T) {
			t.Parallel()
			p, boom := promise("job-7"), errors.New("boom")
			ticket := p.Ticket()
			early := []<-chan struct{}{ticket.Enqueued(), ticket.Started(), ticket.Done()}
			if ticket.ID() != "job-7" || ticket.State() != local.Accepted || ticket.Err() != nil {
				t.Errorf("%s, %v, %v", ticket.ID(), ticket.State(), ticket.Err())
			}
			for _, c := range early {
				if isClosed(c) {
					t.Fatal("closed before the end")
				}
			}
			if !p.End(end, boom) {
				t.Fatal("the first end did not count")
			}
			for other := range ends {
				if p.End(other, nil) {
					t.Error("a second end counted")
				}
			}
			p.MarkEnqueued() // all too late
			p.MarkStarted()
			p.MarkRequeued()
			for _, c := range append(early, ticket.Enqueued(), ticket.Started(), ticket.Done()) {
				if !isClosed(c) {
					t.Error("a channel stays open")
				}
			}
			if ticket.State() != end {
				t.Errorf("state %v", ticket.State())
			}
			errs := []error{ticket.Err(), ticket.Wait(t.Context())}
			if sentinel != nil {
				errs = append(errs, ticket.WaitEnqueued(t.Context()))
			}
			for _, err := range errs {
				if sentinel == nil {
					if err != nil {
						t.Errorf("completed, and %v", err)
					}
					continue
				}
				e, ok := errors.AsType[*local.EndError](err)
				if !ok || e.ID != "job-7" || e.State != end || !errors.Is(err, sentinel) || !errors.Is(err, boom) {
					t.Errorf("%v", err)
				}
				for s, other := range ends {
					if s != end && other != nil && errors.Is(err, other) {
						t.Errorf("%v matches %v too", err, other)
					}
				}
				if want := "local: job job-7 ended as " + end.String() + ": boom"; err.Error() != want {
					t.Errorf("%q, want %q", err, want)
				}
			}
		})
	}
	t.Run("what is no end panics", func(t *testing.T) {
		t.Parallel()
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		promise("x").End(local.Processing, nil)
	})
}

func TestTicketPassesItsStates(t *testing.T) {
	t.Parallel()
	look := func(t *testing.T, ticket *local.Ticket, state local.State, enqueued, started bool) {
		t.Helper()
		if ticket.State() != state || isClosed(ticket.Enqueued()) != enqueued || isClosed(ticket.Started()) != started || isClosed(ticket.Done()) {
			t.Errorf("state %v, enqueued %v, started %v; want %v, %v, %v", ticket.State(),
				isClosed(ticket.Enqueued()), isClosed(ticket.Started()), state, enqueued, started)
		}
	}
	t.Run("in turn, and enqueued again while a retry waits", func(t *testing.T) {
		t.Parallel()
		p := promise("x")
		look(t, p.Ticket(), local.Accepted, false, false)
		p.MarkEnqueued()
		look(t, p.Ticket(), local.Enqueued, true, false)
		p.MarkStarted()
		look(t, p.Ticket(), local.Processing, true, true)
		p.MarkRequeued()
		look(t, p.Ticket(), local.Enqueued, true, true)
		p.MarkStarted()
		look(t, p.Ticket(), local.Processing, true, true)
	})
	t.Run("a worker quicker than the answer to the append", func(t *testing.T) {
		t.Parallel()
		p := promise("x")
		early := p.Ticket().Enqueued()
		p.MarkStarted()
		if !isClosed(early) {
			t.Error("started and not enqueued")
		}
		p.MarkEnqueued()
		look(t, p.Ticket(), local.Processing, true, true)
	})
	t.Run("once enqueued, WaitEnqueued says so after a bad end too", func(t *testing.T) {
		t.Parallel()
		p := promise("x")
		p.MarkEnqueued()
		p.End(local.Dead, nil)
		if err := p.Ticket().WaitEnqueued(t.Context()); err != nil {
			t.Error(err)
		}
		if err := p.Ticket().Wait(t.Context()); !errors.Is(err, local.ErrDead) {
			t.Error(err)
		}
	})
}

func TestTicketWaits(t *testing.T) {
	t.Parallel()
	t.Run("until the state is reached", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := promise("x")
			var enqueued, done atomic.Bool
			go func() { enqueued.Store(p.Ticket().WaitEnqueued(t.Context()) == nil) }()
			go func() { done.Store(p.Ticket().Wait(t.Context()) == nil) }()
			synctest.Wait()
			if enqueued.Load() || done.Load() {
				t.Error("too early")
			}
			p.MarkEnqueued()
			synctest.Wait()
			if !enqueued.Load() || done.Load() {
				t.Error("enqueued is not it")
			}
			p.End(local.Completed, nil)
			synctest.Wait()
			if !done.Load() {
				t.Error("still waiting")
			}
		})
	})
	t.Run("no longer than the context, whose error and cause it gives", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ticket, boom := promise("x").Ticket(), errors.New("boom")
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, boom)
			defer cancel()
			begin := time.Now()
			for _, err := range []error{ticket.WaitEnqueued(ctx), ticket.Wait(ctx)} {
				if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, boom) || !strings.Contains(err.Error(), "job x") {
					t.Error(err)
				}
				if _, ended := errors.AsType[*local.EndError](err); ended {
					t.Errorf("%v claims that the job has ended", err)
				}
			}
			if time.Since(begin) != time.Minute {
				t.Errorf("waited %v", time.Since(begin))
			}
		})
	})
	t.Run("an ended context does not hide what is known", func(t *testing.T) {
		t.Parallel()
		p := promise("x")
		p.End(local.Completed, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Ticket().Wait(ctx); err != nil {
			t.Error(err)
		}
	})
}

// A ticket reaches exactly one end, once, whoever races for it, and nobody who looks while
// it happens sees a state that is not followed by its channel.
func TestTicketUnderRaces(t *testing.T) {
	t.Parallel()
	for round := range 2000 {
		p := promise(fmt.Sprint(round))
		ticket := p.Ticket()
		var wg sync.WaitGroup
		var won atomic.Int64
		winner := atomic.Uint32{}
		for _, end := range []local.State{local.Completed, local.Evicted, local.Detached} {
			wg.Go(func() {
				if p.End(end, nil) {
					won.Add(1)
					winner.Store(uint32(end))
				}
			})
		}
		wg.Go(p.MarkEnqueued)
		wg.Go(p.MarkStarted)
		wg.Go(func() {
			within(t, ticket.Enqueued(), "enqueued")
			within(t, ticket.Started(), "started")
		})
		wg.Go(func() {
			err := ticket.Wait(t.Context())
			if (err == nil) != (ticket.State() == local.Completed) {
				t.Errorf("%v, %v", err, ticket.State())
			}
		})
		wg.Wait()
		if won.Load() != 1 || ticket.State() != local.State(winner.Load()) {
			t.Fatalf("%d ends counted, the state is %v", won.Load(), ticket.State())
		}
	}
}
