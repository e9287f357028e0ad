package local

import (
	"context"
	"slices"
	"testing"

	"github.com/seed-9dec4fca/weir/policy"
)

// An eviction pulls jobs out and finds that it cannot have enough, because Take has just
// received one without the mutex. Putting the others back into the channel would hand them over
// after jobs that came later. The instant is too short to be met from outside.
func TestAnEvictionThatFailsKeepsTheOrder(t *testing.T) {
	t.Parallel()
	for stolen := range 3 {
		var evicted []int
		f, err := NewFront(&FrontOptions[int]{Capacity: 4, Bytes: 3, Evicted: func(job int) { evicted = append(evicted, job) }})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if ok, err := f.Admit(t.Context(), i, 1, policy.Reject()); !ok {
				t.Fatal(err)
			}
		}
		f.mu.Lock()
		var pulled []Slot[int] // by an eviction, while…
		for range stolen {
			s, _ := f.pop()
			pulled = append(pulled, s)
		}
		received := <-f.jobs // …Take gets this one, and waits for mu
		f.unpop(pulled...)   // the eviction has failed
		f.mu.Unlock()

		// Another one fails too, from beginning to end.
		if ok, err := f.Admit(context.Background(), 9, 3, policy.DropOldest()); ok || err == nil {
			t.Errorf("evicted a job that was being taken: %v, %v", ok, evicted)
		}
		if len(f.jobs) != 0 || len(f.ahead) != 2 || f.queued != 3 || f.queuedBytes != 3 {
			t.Errorf("in the channel %d, ahead of it %v, queued %d, bytes %d", len(f.jobs), f.ahead, f.queued, f.queuedBytes)
		}

		f.mu.Lock()
		f.restore(received) // Take goes on
		slots := f.gather(nil, 2, 10)
		f.mu.Unlock()
		slots = f.TryTake(slots, 9, 10)
		var got []int
		for _, s := range slots {
			got = append(got, s.Job)
		}
		if !slices.Equal(got, []int{0, 1, 2}) || len(evicted) != 0 || f.queued != 0 {
			t.Errorf("the one at %d received apart: took %v, evicted %v, %d queued", stolen, got, evicted, f.queued)
		}
	}
}
