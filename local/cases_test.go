package local_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// Stories from the field, as far as the front alone is concerned. The names say what went
// wrong elsewhere.

func TestCase01_SubmitRacingCloseNeverPanics(t *testing.T) {
	t.Parallel()
	rounds := 10_000
	if testing.Short() {
		rounds = 500
	}
	const producers = 100
	policies := []policy.Policy{policy.Wait(patience), policy.Reject(), policy.DropIncoming(), policy.DropOldest()}
	// The producers live through all rounds: only the front is new each time.
	type round struct {
		f        *local.Front[int]
		accepted atomic.Int64
		closed   atomic.Pointer[policy.Rejection]
		done     sync.WaitGroup
	}
	starts := make([]chan *round, producers)
	var wg sync.WaitGroup
	for i := range producers {
		starts[i] = make(chan *round, 1)
		wg.Go(func() {
			for r := range starts[i] {
				ok, err := r.f.Admit(context.Background(), i, 1, policies[i%len(policies)])
				if ok {
					r.accepted.Add(1)
				}
				if errors.Is(err, policy.ErrClosed) {
					rej, _ := errors.AsType[*policy.Rejection](err)
					if !r.closed.CompareAndSwap(nil, rej) && r.closed.Load() != rej {
						t.Error("fresh and waiting callers got different errors")
					}
				} else if err != nil && (i%len(policies) == 0 || !errors.Is(err, policy.ErrFull)) {
					t.Error(err)
				}
				r.done.Done()
			}
		})
	}
	for n := range rounds {
		var evicted atomic.Int64
		r := &round{f: newFront(t, &local.FrontOptions[int]{Capacity: 1 + n%7, Evicted: func(int) { evicted.Add(1) }})}
		r.done.Add(producers)
		for i := range producers {
			starts[i] <- r
			if i == n%producers {
				r.f.Close()
			}
		}
		r.done.Wait()
		r.f.Release(r.f.Drain()...)
		s := balanced(t, r.f)
		if s.Accepted != r.accepted.Load() || s.Evicted != evicted.Load() || s.Length != 0 || s.Submitted != producers {
			t.Errorf("round %d: accepted %d, evicted %d, %+v", n, r.accepted.Load(), evicted.Load(), s)
		}
		if t.Failed() {
			break
		}
	}
	for _, c := range starts {
		close(c)
	}
	wg.Wait()
}

func TestCase04_DepthNeverExceedsCapacityAndEveryWaiterIsReevaluated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, &local.FrontOptions[int]{Capacity: 1})
		mustAdmit(t, f, 1, -1)
		inFlight := f.TryTake(nil, 1, 0)
		var waiting []*outcome
		for i := range 32 {
			waiting = append(waiting, admitting(t.Context(), f, i, 1, policy.Wait(time.Hour)))
		}
		f.Release(inFlight...) // the connection dropped: what was in flight has ended
		for {
			synctest.Wait()
			slots := f.Drain()
			if len(slots) == 0 {
				break
			}
			if s := balanced(t, f); s.Length > 1 || len(slots) > 1 {
				t.Fatalf("more than one in flight: %+v", s)
			}
			f.Release(slots...)
		}
		for i, o := range waiting {
			if !o.accepted() {
				t.Errorf("producer %d is stalled: %v", i, o)
			}
		}
		if s := f.Stats(); s.HighWater != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestCase05_DropOldestTellsEveryOwnerOnce(t *testing.T) {
	t.Parallel()
	type owned struct {
		local.Promise
		taken atomic.Bool
	}
	for _, capacity := range []int{1, 2, 3, 64} {
		t.Run(fmt.Sprintf("capacity %d", capacity), func(t *testing.T) {
			t.Parallel()
			const producers, each = 16, 500
			boom := errors.New("displaced")
			var callbacks atomic.Int64
			f := newFront(t, &local.FrontOptions[*owned]{Capacity: capacity, Evicted: func(j *owned) {
				callbacks.Add(1)
				if j.taken.Load() {
					t.Error("evicted what the bridge had taken")
				}
				if !j.End(local.Evicted, boom) {
					t.Error("told twice, or told one who only waited")
				}
			}})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var producing, consuming sync.WaitGroup
			stop, stopped := context.WithCancel(ctx)
			consuming.Go(func() {
				for {
					slots, err := f.Take(stop, nil, 1+capacity/2, 1<<20)
					if err != nil {
						return
					}
					for _, s := range slots {
						s.Job.taken.Store(true)
						s.Job.MarkEnqueued()
						s.Job.End(local.Completed, nil)
					}
					f.Release(slots...)
				}
			})
			tickets := make([][]*local.Ticket, producers)
			for i := range producers {
				producing.Go(func() {
					for n := range each {
						j := &owned{}
						j.Init(fmt.Sprint(i, "-", n))
						p := policy.DropOldest()
						if i == 0 {
							p = policy.Wait(0)
						}
						if ok, err := f.Admit(ctx, j, 1, p); ok {
							tickets[i] = append(tickets[i], j.Ticket())
						} else if j.Ticket().State() != local.Accepted || i == 0 || !errors.Is(err, policy.ErrFull) {
							t.Errorf("refused: %v, state %v", err, j.Ticket().State())
						}
					}
				})
			}
			producing.Wait()
			f.Close()
			for f.Stats().Queued > 0 && ctx.Err() == nil {
				select {
				case <-f.Barrier():
				case <-ctx.Done():
				}
			}
			stopped()
			consuming.Wait()
			evicted := int64(0)
			for _, mine := range tickets {
				for _, ticket := range mine {
					within(t, ticket.Done(), "an accepted job's end")
					within(t, ticket.Enqueued(), "its channels' end")
					within(t, ticket.Started(), "its channels' end")
					if err := ticket.Err(); errors.Is(err, local.ErrEvicted) && errors.Is(err, boom) {
						evicted++
					} else if err != nil {
						t.Error(err)
					}
				}
			}
			if s := balanced(t, f); s.Evicted != callbacks.Load() || s.Evicted != evicted || s.Length != 0 {
				t.Errorf("%d callbacks, %d tickets, %+v", callbacks.Load(), evicted, s)
			}
		})
	}
}

func TestCase06_DropsAndBurstsBetweenScrapesAreCounted(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]policy.Policy{"dropped": policy.DropIncoming(), "evicted": policy.DropOldest(), "rejected": policy.Reject()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFront(t, &local.FrontOptions[int]{Capacity: 10})
				for i := range 1000 { // in no time
					_, _ = f.Admit(t.Context(), i, 1, p)
				}
				f.Release(f.Drain()...) // and it is over before anybody looks
				s := balanced(t, f)
				counted := map[string]int64{"dropped": s.Dropped, "evicted": s.Evicted, "rejected": s.Rejected[policy.ReasonFull]}
				if s.Submitted != 1000 || counted[name] != 990 || s.HighWater != 10 || s.Length != 0 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

func TestCase07_TheBoundHoldsForEachPolicyWithoutPolling(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]policy.Policy{
		"drop oldest": policy.DropOldest(), "reject": policy.Reject(), "block": policy.Wait(time.Hour), "drop incoming": policy.DropIncoming(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFront(t, &local.FrontOptions[int]{Capacity: 1000})
				const producers, each = 50, 100
				var accepted atomic.Int64
				for i := range producers {
					go func() {
						for n := range each {
							time.Sleep(time.Duration(i) * time.Microsecond)
							if ok, _ := f.Admit(t.Context(), n, 1, p); ok {
								accepted.Add(1)
							}
						}
					}()
				}
				for { // one slow consumer
					time.Sleep(time.Millisecond)
					slots := f.TryTake(nil, 3, 100)
					if len(slots) == 0 {
						break
					}
					f.Release(slots...)
					if s := f.Stats(); s.Length > 1000 {
						t.Fatalf("%+v", s)
					}
				}
				s := balanced(t, f)
				if s.Submitted != producers*each || s.Accepted != accepted.Load() || s.HighWater != 1000 || s.Waiting != 0 {
					t.Errorf("%+v", s)
				}
				if name == "block" && s.Accepted != producers*each {
					t.Errorf("blocked producers lost jobs: %+v", s)
				}
			})
		})
	}
}

func TestCase09_ADoneContextAcquiresNothing(t *testing.T) {
	t.Parallel()
	f := newFront[int](t, nil)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel2 := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel2()
	for _, p := range []policy.Policy{
		policy.Wait(time.Hour), policy.Wait(time.Nanosecond), policy.Reject(), policy.DropIncoming(), policy.DropOldest(), {},
	} {
		mustReject(cancelled, t, f, 1, 1, p, policy.ReasonCancelled)
		rej := mustReject(expired, t, f, 1, 1, p, policy.ReasonTimeout)
		if !errors.Is(rej, context.DeadlineExceeded) || !errors.Is(rej, policy.ErrFull) {
			t.Error(rej)
		}
	}
	if s := balanced(t, f); s.Accepted != 0 || s.Length != 0 {
		t.Errorf("%+v", s)
	}
}

func TestCase09_CancellingTheFirstWaiterWakesTheNext(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(cancel func()){
		"cancelled": func(cancel func()) { cancel() },
		"timed out": func(func()) { time.Sleep(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFront(t, &local.FrontOptions[string]{Capacity: 9, Bytes: 100})
				mustAdmit(t, f, 50, "held")
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				first := admitting(ctx, f, "first", 60, policy.Wait(0))
				second := admitting(t.Context(), f, "second", 30, policy.Wait(time.Hour))
				third := admitting(t.Context(), f, "third", 20, policy.Wait(time.Hour))
				fourth := admitting(t.Context(), f, "fourth", 1, policy.Wait(time.Hour))
				leave(cancel)
				synctest.Wait()
				if first.accepted() || !first.done() || !second.accepted() || !third.accepted() || fourth.done() {
					t.Errorf("first %+v, second %+v, third %+v, fourth %v", first, second, third, fourth)
				}
				f.Close()
				synctest.Wait()
				balanced(t, f)
			})
		})
	}
}

func TestCase09_FreeingManyBytesWakesAllWhoFit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, &local.FrontOptions[int]{Capacity: 9, Bytes: 100})
		mustAdmit(t, f, 100, -1)
		slots := f.Drain()
		var waiting []*outcome
		for i, size := range []int64{40, 40, 30, 10} { // the last would fit, but is not next
			waiting = append(waiting, admitting(t.Context(), f, i, size, policy.Wait(time.Hour)))
		}
		f.Release(slots...)
		synctest.Wait()
		for i, want := range []bool{true, true, false, false} {
			if waiting[i].accepted() != want {
				t.Errorf("waiter %d: %v", i, waiting[i])
			}
		}
		slots, jobs := takeAll(f)
		if !slices.Equal(jobs, []int{0, 1}) {
			t.Errorf("took %v", jobs)
		}
		f.Release(slots...)
		synctest.Wait()
		if _, jobs := takeAll(f); !slices.Equal(jobs, []int{2, 3}) {
			t.Errorf("took %v", jobs)
		}
		balanced(t, f)
	})
}

func TestCase11_APayloadThatCanNeverFitIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, &local.FrontOptions[int]{Bytes: 100})
		for _, p := range []policy.Policy{policy.Wait(time.Hour), policy.Reject(), policy.DropIncoming(), policy.DropOldest()} {
			o := admitting(t.Context(), f, 1, 101, p)
			if !o.done() || o.reason(t) != policy.ReasonTooLarge || !errors.Is(o.err(), policy.ErrTooLarge) || errors.Is(o.err(), policy.ErrFull) {
				t.Errorf("%v: %+v", p, o)
			}
		}
		mustAdmit(t, f, 100, 1)
		balanced(t, f)
	})
}
