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
	t.Run("or has it before the store has answered", func(t *testing.T) {
		t.Parallel()
		r, _, follower, sent := setup(t)
		if p, _ := r.Claim("a", 7, sent); p != sent || r.Find("a") != sent {
			t.Fatal("the claim is about another one")
		}
		sent.MarkStarted()
		r.Watch(sent)
		if r.Find("a") != sent || follower.Ticket().State() != local.Processing {
			t.Errorf("%p is watched: %v", r.Find("a"), follower.Ticket().State())
		}
		r.Unclaim(sent)
		sent.MarkRequeued()
		sent.Complete([]byte("result"))
		completed(t, follower, sent)
	})
	t.Run("and has told, too", func(t *testing.T) {
		t.Parallel()
		r, _, follower, sent := setup(t)
		r.Claim("a", 7, sent)
		sent.Complete([]byte("result"))
		r.Forget("a", sent)
		r.Watch(sent)
		completed(t, follower, sent)
		if p := r.Find("a"); p != nil {
			t.Errorf("%p is watched", p)
		}
	})
	t.Run("but not one of another life", func(t *testing.T) {
		t.Parallel()
		r, standIn, follower, sent := setup(t)
		standIn.SetOrigin(1, 6)
		superseded := r.Watch(sent)
		if r.Find("a") != sent || superseded != standIn || follower.Ticket().State().Ended() || sent.Ticket().State() != local.Accepted {
			t.Errorf("%p is superseded: %v, %v", superseded, follower.Ticket().State(), sent.Ticket().State())
		}
	})
	t.Run("nor with one that has ended by itself", func(t *testing.T) {
		t.Parallel()
		r, standIn, _, sent := setup(t)
		r.Claim("a", 7, nil)
		standIn.End(local.Detached, errors.New("boom"))
		r.Watch(sent)
		if r.Find("a") != sent || sent.Ticket().State() != local.Accepted {
			t.Error(sent.Ticket().Err())
		}
	})
	t.Run("who joins while the answer is out, and a worker here has the job, shares with that at once", func(t *testing.T) {
		t.Parallel()
		r, sent, follower := local.NewRegistry(1), promise("a"), promise("a")
		sent.SetOrigin(1, 7)
		if p, _ := r.Claim("a", 7, sent); p != sent {
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
		if p, _ := r.Claim("a", 0, sent); p != sent || sent.Ticket().State() != local.Accepted || r.Find("a") != nil {
			t.Error(sent.Ticket().Err())
		}
	})
}

// A claim named an ID only, and was given to whoever was watched under it, of whichever life of the ID.
func TestClaimIsOfOneLife(t *testing.T) {
	t.Parallel()
	of := func(life uint64) *local.Promise {
		p := promise("a")
		p.SetOrigin(1, life)
		return p
	}
	t.Run("not that of a ticket whose end was not heard of", func(t *testing.T) {
		t.Parallel()
		r, stale, sent := local.NewRegistry(9), of(1), of(2)
		r.Watch(stale)
		if got, superseded := r.Claim("a", 3, sent); got != nil || superseded != nil || r.Find("a") != stale || stale.Claimed() || sent.Claimed() {
			t.Errorf("somebody else's job is that of %p", got)
		}
		if p, superseded := r.Claim("a", 2, sent); p != sent || r.Find("a") != sent || superseded != stale || stale.Ticket().State().Ended() {
			t.Errorf("%p is watched, %p superseded: %v", r.Find("a"), superseded, stale.Ticket().State())
		}
	})
	t.Run("nor that of a stand-in", func(t *testing.T) {
		t.Parallel()
		r, follower, sent := local.NewRegistry(9), promise("b"), of(2)
		r.Join("a", follower)
		standIn := r.Find("a")
		claim := func(life uint64) *local.Promise {
			p, superseded := r.Claim("a", life, sent)
			if superseded != nil {
				t.Errorf("%p is superseded", superseded)
			}
			return p
		}
		if claim(1) != standIn || !standIn.IsOf(1) || claim(3) != nil {
			t.Error("the claim is about another one")
		}
		if claim(2) != sent || follower.Ticket().State().Ended() {
			t.Error("the stand-in's end is not told any more", follower.Ticket().State())
		}
		standIn.Complete(nil)
		if got := follower.Ticket().State(); got != local.Completed {
			t.Error(got)
		}
	})
	t.Run("and goes on where the ID is used again", func(t *testing.T) {
		t.Parallel()
		for _, standsIn := range []bool{false, true} {
			r, first, next := local.NewRegistry(9), of(1), of(2)
			if standsIn {
				r.Join("a", promise("b"))
				first = r.Find("a")
			} else {
				r.Watch(first)
			}
			r.Claim("a", 1, nil)
			if superseded := r.Watch(next); superseded != nil || r.Find("a") != next || r.Passed("a", 1) != first || r.Passed("a", 2) != nil {
				t.Errorf("stands in: %v: %p is superseded, %p passed", standsIn, superseded, r.Passed("a", 1))
			}
			if _, superseded := r.Unclaim(first); !superseded || first.Ticket().State().Ended() || r.Passed("a", 1) != nil {
				t.Errorf("stands in: %v: the claim was given up, and it is %v", standsIn, first.Ticket().State())
			}
		}
	})
}
