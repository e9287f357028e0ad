package local_test

import (
	"testing"

	"github.com/seed-9dec4fca/weir/local"
)

// A job whose lease was lost can be with two workers of one process: what one of them makes of it is not the end of the other's claim.
func TestClaimsOfOneJobAreCounted(t *testing.T) {
	t.Parallel()
	r, p := local.NewRegistry(9), promise("a")
	p.SetOrigin(1, 7)
	p.ExpectReplicas()
	p.MarkReplicated(3)
	r.Watch(p)
	is := func(what string, want local.State, claimed bool) {
		t.Helper()
		if s := p.Ticket().State(); s != want || p.Claimed() != claimed || p.Ticket().Replicas() != 3 {
			t.Errorf("%s: %v, claimed: %v, %d replicas", what, s, p.Claimed(), p.Ticket().Replicas())
		}
	}
	for range 2 {
		r.Claim("a", 7, nil)
		p.MarkStarted()
	}
	is("both have it", local.Processing, true)
	p.HeardRequeued()
	p.MarkRequeued()
	if unsure, _ := r.Unclaim(p); unsure {
		t.Error("unsure, though one has it")
	}
	is("the first has let go", local.Processing, true)
	p.MarkRequeued()
	if unsure, superseded := r.Unclaim(p); !unsure || superseded {
		t.Error("sure, though there was news")
	}
	is("both have", local.Enqueued, false)
	p.HeardStarted()
	is("others have it", local.Processing, false)
	r.Claim("a", 7, nil)
	p.MarkRequeued()
	if unsure, _ := r.Unclaim(p); unsure {
		t.Error("unsure, though there was no news since the claim")
	}
	is("it was here again", local.Enqueued, false)
}
