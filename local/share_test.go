package local_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/seed-9dec4fca/weir/local"
)

// Whoever had marked it before cleared the list of those who share while half of them were brought to the old state still.
func TestAllWhoShareAreToldOfTheEnd(t *testing.T) {
	t.Parallel()
	r, first := local.NewRegistry(5000), promise("a")
	r.Watch(first)
	twins := make([]*local.Promise, 5000)
	for i := range twins {
		twins[i] = promise(fmt.Sprint(i))
		r.Join("a", twins[i])
	}
	var all sync.WaitGroup
	all.Go(first.MarkStarted)
	for twins[0].Ticket().State() == local.Accepted {
		runtime.Gosched()
	}
	first.Complete(nil) // while the others are still brought along
	all.Wait()
	for i, p := range twins {
		if got := p.Ticket().State(); got != local.Completed {
			t.Fatalf("%d is %v", i, got)
		}
	}
}
