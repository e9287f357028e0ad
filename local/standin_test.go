package local_test

import (
	"errors"
	"testing"

	"github.com/seed-9dec4fca/weir/local"
)

// A stand-in, made for somebody who followed an ID that was not watched yet, and the promise of the job that was submitted under it
// meanwhile were two for one job, and only one of them was ever told of its end.
func TestStandInSharesWithTheJobThatIsStoredMeanwhile(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) (r *local.Registry, standIn, follower, sent *local.Promise) {
		t.Helper()
		r, follower, sent = local.NewRegistry(9), promise("a"), promise("a")
		sent.SetOrigin(1, 7)
		r.Join("a", follower)
		return r, r.Find("a"), follower, sent
	}
	completed := func(t *testing.T, all ...*local.Promise) {
		t.Helper()
		for i, p := range all {
			if ticket := p.Ticket(); ticket.State() != local.Completed || string(ticket.Result()) != "result" {
				t.Errorf("%d is %v, %q", i, ticket.State(), ticket.Result())
			}
		}
	}
	t.Run("that one is watched where no worker here has it", func(t *testing.T) {
		t.Parallel()
		r, standIn, follower, sent := setup(t)
		standIn.MarkStarted() // by a notice
		sent.MarkEnqueued()
		r.Watch(sent)
		if r.Find("a") != sent || sent.Ticket().State() != local.Processing || r.Leave("a", follower) {
			t.Errorf("%p is watched, want %p: %v", r.Find("a"), sent, sent.Ticket().State())
		}
		late := promise("b")
		r.Join("a", late)
		sent.Complete([]byte("result"))
		completed(t, follower, late)
	})
	t.Run("the stand-in is where one has, for that tells it", func(t *testing.T) {
		t.Parallel()
		r, standIn, follower, sent := setup(t)
		if r.Claim("a", sent, false) != standIn {
			t.Fatal("the claim is about another one")
		}
		sent.MarkEnqueued()
		r.Watch(sent)
		if _, life := standIn.Origin(); r.Find("a") != standIn || life != 7 || follower.Ticket().State() != local.Enqueued {
			t.Errorf("%p is watched, of the life %d: %v", r.Find("a"), life, follower.Ticket().State())
		}
		standIn.MarkStarted()
		r.Unclaim(standIn)
		standIn.MarkRequeued()
		standIn.Complete([]byte("result"))
		completed(t, follower, sent)
	})
	t.Run("or has had it, and has told before the store has answered", func(t *testing.T) {
		t.Parallel()
		r, standIn, follower, sent := setup(t)
		r.Keep()
		r.Claim("a", sent, false)
		standIn.Complete([]byte("result"))
		r.Forget("a", standIn)
		sent.MarkEnqueued()
		r.Watch(sent)
		r.LetGo()
		completed(t, follower, sent)
		if p := r.Find("a"); p != nil {
			t.Errorf("%p is watched", p)
		}
	})
	t.Run("but not one of another life", func(t *testing.T) {
		t.Parallel()
		r, standIn, follower, sent := setup(t)
		standIn.SetOrigin(1, 6)
		r.Watch(sent)
		if r.Find("a") != sent || follower.Ticket().State() != local.Detached || sent.Ticket().State() != local.Accepted {
			t.Errorf("%v, %v", follower.Ticket().State(), sent.Ticket().State())
		}
	})
	t.Run("nor with one that has ended by itself", func(t *testing.T) {
		t.Parallel()
		r, standIn, _, sent := setup(t)
		r.Claim("a", nil, false)
		standIn.End(local.Detached, errors.New("boom"))
		r.Watch(sent)
		if r.Find("a") != sent || sent.Ticket().State() != local.Accepted {
			t.Error(sent.Ticket().Err())
		}
	})
	t.Run("who joins while the answer is out, and a worker here has the job, shares with that at once", func(t *testing.T) {
		t.Parallel()
		r, sent, follower := local.NewRegistry(1), promise("a"), promise("a")
		if r.Claim("a", sent, false) != sent {
			t.Fatal("the claim is about another one")
		}
		r.Join("a", follower)
		r.Watch(sent)
		sent.Complete([]byte("result"))
		completed(t, follower)
	})
	t.Run("unless there is no room for it: it is not detached before it is stored", func(t *testing.T) {
		t.Parallel()
		r, sent := local.NewRegistry(0), promise("a")
		if r.Claim("a", sent, false) != sent || sent.Ticket().State() != local.Accepted || r.Find("a") != nil {
			t.Error(sent.Ticket().Err())
		}
	})
}
