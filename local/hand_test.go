package local_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// handed is a pool in a bubble, whose one worker is in the middle of a hand of 32: it runs the task of a gate, after 25 tasks
// that were quick. Behind that wait tasks 26 to 74, of which the hand has the first ones. It is full, but for 25 slots.
type handed struct {
	*local.Pool
	*gate
	others []*gate
	began  []int
}

const handedTasks, handedGate = 75, 25

func inAHand(t *testing.T, test func(t *testing.T, p *handed)) {
	t.Helper()
	inAHandWith(t, nil, test)
}

// inAHandWith has the tasks of other gates in those places.
func inAHandWith(t *testing.T, places []int, test func(t *testing.T, p *handed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &handed{Pool: newPool(t, &local.PoolOptions{Workers: 1, Capacity: handedTasks}), gate: newGate()}
		before := newGate()
		mustGo(t, p.Pool, before.task)
		for n := 1; n < handedTasks; n++ {
			switch {
			case n == handedGate:
				mustGo(t, p.Pool, p.task)
			case slices.Contains(places, n):
				g := newGate()
				p.others = append(p.others, g)
				mustGo(t, p.Pool, g.task)
			default:
				p.mustBegin(t, n)
			}
		}
		close(before.let)
		<-p.begun
		if left, ended := p.InHand(); left == 0 || ended == 0 {
			t.Fatalf("%d left in the hand, %d ended: this shows nothing", left, ended)
		}
		test(t, p)
	})
}

// midway brings the one worker of p through so many tasks to that of a gate, behind which as many wait as is said. The submits are of
// quick tasks that do not count.
func midway(t *testing.T, p *local.Pool, before, behind int, submit func()) *gate {
	t.Helper()
	first, second := newGate(), newGate()
	mustGo(t, p, first.task)
	for range before {
		submit()
	}
	mustGo(t, p, second.task)
	for range behind {
		submit()
	}
	close(first.let)
	within(t, second.begun, "the task begins")
	return second
}

// mustBegin submits a task that notes that it began.
func (p *handed) mustBegin(t *testing.T, n int) {
	t.Helper()
	size := int64(0)
	if n > handedGate { // one that counts is ended under the mutex
		size = 1
	}
	_, err := p.SubmitSized(t.Context(), func(context.Context) error { p.began = append(p.began, n); return nil }, size, policy.Reject())
	if err != nil {
		t.Fatal(err)
	}
}

// rest lets the gate's task go, and tells what has begun since.
func (p *handed) rest() []int {
	synctest.Wait()
	before := len(p.began)
	close(p.let)
	synctest.Wait()
	return p.began[before:]
}

// from is the numbers from first to last.
func from(first, last int) (numbers []int) {
	for n := first; n <= last; n++ {
		numbers = append(numbers, n)
	}
	return numbers
}

func (p *handed) mustHaveLeft(t *testing.T, want []int) {
	t.Helper()
	if got := p.rest(); !slices.Equal(got, want) {
		t.Errorf("began %v, not %v", got, want)
	}
	if s := poolBalanced(t, p.Pool); s.Front.Length != 0 || s.Front.Bytes != 0 || s.Running != 0 || int(s.Completed) != int(s.Front.Accepted-s.Front.Evicted-s.Abandoned) {
		t.Errorf("at the end: %+v", s)
	}
}

func TestWhatAHandHolds(t *testing.T) {
	t.Parallel()

	t.Run("begins in order", func(t *testing.T) {
		t.Parallel()
		inAHand(t, func(t *testing.T, p *handed) {
			if !slices.Equal(p.began, from(1, handedGate-1)) {
				t.Errorf("began %v", p.began)
			}
			p.mustHaveLeft(t, from(handedGate+1, handedTasks-1))
		})
	})

	t.Run("does not wait behind a slow task", func(t *testing.T) {
		t.Parallel()
		inAHand(t, func(t *testing.T, p *handed) {
			if err := p.Resize(2); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if !slices.Equal(p.began, slices.Concat(from(1, handedGate-1), from(handedGate+1, handedTasks-1))) {
				t.Errorf("began %v", p.began)
			}
			p.mustHaveLeft(t, nil)
		})
	})

	t.Run("is counted as it is", func(t *testing.T) {
		t.Parallel()
		inAHand(t, func(t *testing.T, p *handed) {
			if got, want := p.Pressure(), float64(handedTasks-handedGate)/handedTasks; got != want {
				t.Errorf("pressure %v, not %v", got, want)
			}
			s := poolBalanced(t, p.Pool)
			if s.Running != 1 || s.Front.Queued != handedTasks-1-handedGate || s.Front.Length != handedTasks-handedGate || s.Completed != handedGate {
				t.Errorf("%+v", s)
			}
			p.mustHaveLeft(t, from(handedGate+1, handedTasks-1))
		})
	})

	t.Run("is counted in a refusal", func(t *testing.T) {
		t.Parallel()
		inAHand(t, func(t *testing.T, p *handed) {
			err := p.Go(t.Context(), nil, policy.Reject())
			if r, ok := errors.AsType[*policy.Rejection](err); !ok || r.Depth != handedTasks-handedGate {
				t.Errorf("%+v", err)
			}
			p.mustHaveLeft(t, from(handedGate+1, handedTasks-1))
		})
	})

	t.Run("leaves the room of what has ended", func(t *testing.T) {
		t.Parallel()
		inAHand(t, func(t *testing.T, p *handed) {
			for n := range handedGate {
				p.mustBegin(t, handedTasks+n)
			}
			if err := p.Go(t.Context(), noTask, policy.Reject()); err == nil {
				t.Error("more than there is room for")
			}
			p.mustHaveLeft(t, from(handedGate+1, handedTasks+handedGate-1))
		})
	})

	t.Run("is displaced first", func(t *testing.T) {
		t.Parallel()
		inAHand(t, func(t *testing.T, p *handed) {
			for n := range handedGate {
				p.mustBegin(t, handedTasks+n)
			}
			if err := p.Go(t.Context(), noTask, policy.DropOldest()); err != nil {
				t.Error(err)
			}
			p.mustHaveLeft(t, from(handedGate+2, handedTasks+handedGate-1))
		})
	})

	t.Run("holds up nobody who waits", func(t *testing.T) {
		t.Parallel()
		inAHand(t, func(t *testing.T, p *handed) {
			for n := range handedGate {
				p.mustBegin(t, handedTasks+n)
			}
			var admitted atomic.Bool
			go func() {
				if err := p.Go(t.Context(), noTask, policy.Wait(patience)); err != nil {
					t.Error(err)
				}
				admitted.Store(true)
			}()
			synctest.Wait()
			if admitted.Load() {
				t.Error("admitted although there was no room")
			}
			p.mustHaveLeft(t, from(handedGate+1, handedTasks+handedGate-1))
			if !admitted.Load() {
				t.Error("not admitted")
			}
		})
	})

	t.Run("comes back from a shutdown, in order", func(t *testing.T) {
		t.Parallel()
		inAHand(t, func(t *testing.T, p *handed) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			report, _ := p.Shutdown(ctx)
			err := p.Go(t.Context(), noTask, policy.Reject())
			if r, ok := errors.AsType[*policy.Rejection](err); !ok || r.Depth != handedTasks-handedGate {
				t.Errorf("%+v", err)
			}
			before := len(p.began)
			for _, task := range report.Returned {
				if err := task.Do(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if got, want := p.began[before:], from(handedGate+1, handedTasks-1); !slices.Equal(got, want) {
				t.Errorf("%v came back, not %v", got, want)
			}
			p.mustHaveLeft(t, nil)
		})
	})

	t.Run("does not begin after the end of Run", func(t *testing.T) {
		t.Parallel()
		inAHand(t, func(t *testing.T, p *handed) {
			ctx, cancel := context.WithCancel(t.Context())
			ran := make(chan error, 1)
			go func() { ran <- p.Run(ctx, nil) }()
			synctest.Wait()
			cancel()
			p.mustHaveLeft(t, nil)
			if err := <-ran; err != nil {
				t.Error(err)
			}
			if report, err := p.Shutdown(t.Context()); err != nil || len(report.Returned) != handedTasks-1-handedGate {
				t.Errorf("%d came back, %v", len(report.Returned), err)
			}
		})
	})

	t.Run("is waited for by Shutdown, and no longer", func(t *testing.T) {
		t.Parallel()
		inAHand(t, func(t *testing.T, p *handed) {
			began, ended := time.Now(), make(chan error, 1)
			go func() {
				_, err := p.Shutdown(context.Background())
				ended <- err
			}()
			synctest.Wait()
			p.mustHaveLeft(t, from(handedGate+1, handedTasks-1))
			if err := <-ended; err != nil || time.Since(began) > 0 {
				t.Errorf("%v, after %v", err, time.Since(began))
			}
		})
	})
}

// Sojourns are measured from the first Func on, also of what was in a hand then.
func TestAFuncSeesWhatWasInAHand(t *testing.T) {
	t.Parallel()
	inAHandWith(t, []int{handedGate + 3, handedGate + 6}, func(t *testing.T, p *handed) {
		var seen policy.Snapshot
		look := policy.Func(func(s policy.Snapshot) policy.Policy { seen = s; return policy.Reject() })
		if err := p.Go(t.Context(), noTask, look); err != nil {
			t.Fatal(err)
		}
		const pause = 300 * time.Microsecond // so short that tasks are still quick
		time.Sleep(pause)
		close(p.let)
		<-p.others[0].begun
		time.Sleep(pause)
		close(p.others[0].let)
		<-p.others[1].begun
		time.Sleep(pause / 2)
		if err := p.Go(t.Context(), noTask, look); err != nil || seen.HeadSojourn != 2*pause {
			t.Errorf("%v, %+v", err, seen)
		}
		close(p.others[1].let)
	})
}

// Who wants to be told that the pool is full, or no longer is, is told at once.
func TestNoHandKeepsBackThatThereIsRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told []bool
		p := newPool(t, &local.PoolOptions{
			Workers: 1, Capacity: 64, Full: func(full bool) { told = append(told, full) }, Marks: policy.Marks{High: 1, Low: 0.69}, // 44 of 64
		})
		g := midway(t, p, 19, 43, func() { mustGo(t, p, noTask) })
		if !slices.Equal(told, []bool{true, false}) {
			t.Errorf("told %v", told)
		}
		close(g.let)
	})
}

// The high water is of what was there at once, what has ended in a hand not included.
func TestNoHandRaisesTheHighWater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, &local.PoolOptions{Workers: 1})
		g := midway(t, p, 20, 28, func() { mustGo(t, p, noTask) })
		if _, ended := p.InHand(); ended == 0 {
			t.Fatal("nothing has ended in the hand: this shows nothing")
		}
		for range 21 {
			mustGo(t, p, noTask)
		}
		if s := p.Stats(); s.Front.HighWater != 50 || s.Front.Length != 50 {
			t.Errorf("%+v", s)
		}
		close(g.let)
	})
}

// What has run is not kept alive by the hand that it was in, nor by one that was taken back.
func TestAHandKeepsNothingAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, &local.PoolOptions{Workers: 1})
		var held []weak.Pointer[[64]byte]
		submit := func() {
			value := new([64]byte)
			held = append(held, weak.Make(value))
			mustGo(t, p, func(context.Context) error { runtime.KeepAlive(value); return nil })
		}
		alive := func() (n int) {
			runtime.GC()
			for _, w := range held {
				if w.Value() != nil {
					n++
				}
			}
			return n
		}
		g := midway(t, p, 30, 20, submit) // too few for another hand
		if left, ended := p.InHand(); left == 0 || ended == 0 {
			t.Fatalf("%d left in the hand, %d ended: this shows nothing", left, ended)
		}
		if n := alive(); n > 21 { // the worker's last one may be
			t.Errorf("%d of 30 are alive", n-20)
		}
		if err := p.Resize(1); err != nil {
			t.Fatal(err)
		}
		close(g.let)
		synctest.Wait()
		if n := alive(); n > 0 {
			t.Errorf("%d are alive that were in a hand that was taken back", n)
		}
	})
}

// All at once, with nothing that would keep hands from being dealt: each task runs once, and all end.
func TestHandsUnderRaces(t *testing.T) {
	t.Parallel()
	for _, hands := range []int{1, 2, 5, 32} {
		p := newPool(t, &local.PoolOptions{Workers: 8, Capacity: 64})
		p.DealHands(hands)
		const producers, each = 8, 3000
		ran := make([]atomic.Int32, producers*each)
		var producing sync.WaitGroup
		for i := range producers {
			producing.Go(func() {
				for n := range each {
					err := p.Go(t.Context(), func(context.Context) error { ran[i*each+n].Add(1); return nil }, policy.Wait(patience))
					if err != nil {
						t.Error(err)
						return
					}
					if n%1000 == 0 {
						poolBalanced(t, p)
					}
				}
			})
		}
		producing.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		report, err := p.Shutdown(ctx)
		cancel()
		if err != nil || len(report.Returned) > 0 {
			t.Fatalf("hands of %d: %v, %d came back: %+v", hands, err, len(report.Returned), p.Stats())
		}
		for n := range ran {
			if times := ran[n].Load(); times != 1 {
				t.Fatalf("hands of %d: task %d ran %d times", hands, n, times)
			}
		}
		if s := poolBalanced(t, p); s.Completed != producers*each || s.Front.Length != 0 {
			t.Errorf("%+v", s)
		}
	}
}

// Workers that are too many end after the task they run, whatever is in a hand.
func TestSurplusWorkersTakeNothingOffAHand(t *testing.T) {
	t.Parallel()
	inAHandWith(t, []int{handedGate + 1, handedGate + 10}, func(t *testing.T, p *handed) {
		second, third := p.others[0], p.others[1]
		if err := p.Resize(2); err != nil {
			t.Fatal(err)
		}
		<-second.begun
		p.rest() // one is at its second gate, the other at the third
		<-third.begun
		if left, _ := p.InHand(); left == 0 {
			t.Fatal("nothing is left in the hand: this shows nothing")
		}
		if err := p.Resize(1); err != nil {
			t.Fatal(err)
		}
		before := len(p.began)
		close(second.let)
		synctest.Wait()
		if s := p.Stats(); s.Started != 1 || len(p.began) != before {
			t.Errorf("%+v, %v began", s, p.began[before:])
		}
		close(third.let)
		synctest.Wait()
		if !slices.Equal(p.began[before:], from(handedGate+11, handedTasks-1)) {
			t.Errorf("%v began", p.began[before:])
		}
	})
}
