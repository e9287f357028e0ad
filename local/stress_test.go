package local_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// stressJob notes what happens to it.
type stressJob struct {
	producer, number int
	size             int64
	taken, evicted   atomic.Int32
}

// Grants, cancellations, evictions, takes, releases, barriers and a close race each other;
// afterwards every job has had exactly one fate, which is the one its producer was told, each
// producer's jobs came in order, and the counters add up.
func TestFrontUnderRaces(t *testing.T) {
	t.Parallel()
	for _, o := range []local.FrontOptions[*stressJob]{
		{Capacity: 1}, {Capacity: 2, Bytes: 100}, {Capacity: 7, Bytes: 150}, {Capacity: 64}, {Capacity: 1000, Bytes: 300},
	} {
		for _, closing := range []bool{false, true} {
			t.Run(fmt.Sprintf("capacity %d, bytes %d, closed in the middle %v", o.Capacity, o.Bytes, closing), func(t *testing.T) {
				t.Parallel()
				stress(t, o, closing)
			})
		}
	}
}

func stress(t *testing.T, o local.FrontOptions[*stressJob], closing bool) {
	t.Helper()
	const producers, each = 16, 1500
	o.Evicted = func(j *stressJob) { j.evicted.Add(1) }
	f := newFront(t, &o)
	var producing, others sync.WaitGroup
	stop, stopped := context.WithCancel(t.Context())
	defer stopped()

	// The bridge: takes in batches, hands slots on to be released in another order.
	released := make(chan []local.Slot[*stressJob], 4)
	others.Go(func() {
		defer close(released)
		var last [producers]int
		for {
			slots, err := f.Take(stop, nil, 1+rand.IntN(8), rand.Int64N(200))
			if err != nil {
				return
			}
			for _, s := range slots {
				j := s.Job
				if j.taken.Add(1) != 1 || j.evicted.Load() != 0 || s.Size() != j.size {
					t.Errorf("job %d/%d taken twice, or after it was evicted", j.producer, j.number)
				}
				if j.number <= last[j.producer] {
					t.Errorf("producer %d: job %d taken after %d", j.producer, j.number, last[j.producer])
				}
				last[j.producer] = j.number
			}
			released <- slots
		}
	})
	for range 2 {
		others.Go(func() {
			for slots := range released {
				rand.Shuffle(len(slots), func(i, k int) { slots[i], slots[k] = slots[k], slots[i] })
				half := len(slots) / 2
				f.Release(slots[:half]...)
				f.Release(slots[half:]...)
			}
		})
	}
	// One who looks all the time, and one who flushes.
	others.Go(func() {
		for stop.Err() == nil {
			balanced(t, f)
			if p := f.Pressure(); p < 0 || p > 1 {
				t.Errorf("pressure %v", p)
			}
			select {
			case <-f.Barrier():
			case <-stop.Done():
			case <-time.After(patience):
				t.Error("a barrier stands for ever")
				return
			}
		}
	})

	var accepted, dropped, refused atomic.Int64
	var half sync.WaitGroup
	half.Add(producers)
	for i := range producers {
		producing.Go(func() {
			for n := range each {
				if n == each/2 {
					half.Done()
				}
				j := &stressJob{producer: i, number: n + 1, size: rand.Int64N(90)}
				ctx, cancel := context.WithCancel(context.Background())
				var p policy.Policy
				switch rand.IntN(6) {
				case 0:
					p = policy.Reject()
				case 1:
					p = policy.DropIncoming()
				case 2:
					p = policy.DropOldest()
				case 3:
					p = policy.Wait(time.Duration(rand.IntN(200)) * time.Microsecond)
					if p.Max() == 0 {
						p = policy.Reject()
					}
				case 4:
					p = policy.Wait(patience)
					go cancel()
				case 5:
					p = policy.Wait(patience)
				}
				ok, err := f.Admit(ctx, j, j.size, p)
				cancel()
				switch {
				case ok && err == nil:
					accepted.Add(1)
				case !ok && err == nil && p.Kind() == policy.KindDropIncoming:
					dropped.Add(1)
				case !ok && (errors.Is(err, policy.ErrFull) || errors.Is(err, context.Canceled) || closing && errors.Is(err, policy.ErrClosed)):
					refused.Add(1)
				default:
					t.Errorf("%v: accepted %v, %v", p, ok, err)
				}
				if !ok && j.taken.Load()+j.evicted.Load() != 0 {
					t.Errorf("job %d/%d was refused and came all the same", i, n+1)
				}
			}
		})
	}
	if closing {
		half.Wait()
		f.Close()
	}
	producing.Wait()
	within(t, f.Barrier(), "everything is released")
	stopped()
	others.Wait()
	s := balanced(t, f)
	if s.Accepted != accepted.Load() || s.Dropped != dropped.Load() || s.RejectedTotal() != refused.Load() ||
		s.Submitted != producers*each || s.Length != 0 || s.Waiting != 0 || s.Bytes != 0 || s.Queued != 0 {
		t.Errorf("accepted %d, dropped %d, refused %d; %+v", accepted.Load(), dropped.Load(), refused.Load(), s)
	}
}
