package durable_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

// cancel cancels, and says what was answered: ended, the consumer that was asked, or none.
func (b *streamBundle) cancel(id string) string {
	b.Helper()
	c, err := b.stream.Cancel(b.ctx, durable.CancelRequest{ID: id})
	switch {
	case is(err, durable.ErrNoJob):
		return "none"
	case err != nil:
		b.Fatal(err)
	case c.Running:
		return c.Consumer
	}
	return "ended"
}

// state is that of a job, as this group sees it; empty: there is none.
func (b *streamBundle) state(id string) durable.State {
	b.Helper()
	r, err := b.stream.Lookup(b.ctx, durable.LookupRequest{ID: id})
	if err != nil && !is(err, durable.ErrNoJob) {
		b.Fatal(err)
	}
	return r.State
}

func (w *streamWorker) cancels() string {
	w.Helper()
	refs, err := w.Consumer.(durable.Teller).Cancels(w.ctx)
	if err != nil {
		w.Fatal(err)
	}
	return fmt.Sprint(refs)
}

func refOf(c *durable.Claim) string { return fmt.Sprint([]durable.Ref{{ID: c.ID, Token: c.Token}}) }

func TestStreamCancel(t *testing.T) {
	t.Parallel()

	t.Run("what waits is over in one step, wherever it does", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		w := b.worker()
		b.append("retried", "released")
		c := w.take(2)
		w.settle(durable.Retry, c[0])
		w.settle(durable.Release, c[1])
		b.append("new")
		foreign := b.add("payload", "x")
		if a, err := b.producer().Append(b.ctx, 1, []*durable.Job{{ID: "delayed", Delay: time.Hour}, {ID: "kept", Delay: time.Hour, Retention: time.Hour}}); err != nil || a.Taken != 2 {
			t.Fatal(a, err)
		}
		foreignKept := b.add("payload", "x", "retention_ms", "60000")
		all := []string{"retried", "released", "new", foreign, "delayed", "kept", foreignKept}
		for _, id := range all {
			if first, second := b.cancel(id), b.cancel(id); first != "ended" || second != "none" {
				t.Errorf("%s: %s, and then %s", id, first, second)
			}
		}
		if got := []durable.State{b.state("new"), b.state("kept"), b.state(foreignKept)}; !slices.Equal(got, []durable.State{"", "cancelled", "cancelled"}) {
			t.Error("states:", got)
		}
		if n := b.stats().Counters["cancelled"]; n != int64(len(all)) {
			t.Error("counted:", n)
		}
		b.due()
		w.nothing()
		b.places("0 0 0 0 0")
		b.clean("kept", foreignKept)
	})

	t.Run("another life of the ID is left alone", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		b.append("a")
		r, err := b.stream.Lookup(b.ctx, durable.LookupRequest{ID: "a"})
		if err != nil || r.Life == "" {
			t.Fatal(r, err)
		}
		b.cancel("a")
		b.append("a")
		if _, err := b.stream.Cancel(b.ctx, durable.CancelRequest{ID: "a", Life: r.Life}); !is(err, durable.ErrNoJob) {
			t.Error(err)
		}
		b.worker().take(1)
	})

	t.Run("whoever has it is told, and it never waits again", func(t *testing.T) {
		t.Parallel()
		for _, v := range []durable.Verdict{durable.Retry, durable.Snooze, durable.Release} {
			b := setupStream(t, nil)
			w := b.worker()
			b.append("a")
			c := w.take(1)
			if w.cancels() != "[]" || b.cancel("a") != w.ID() || b.cancel("a") != w.ID() || w.cancels() != refOf(c[0]) {
				t.Error("told:", w.cancels())
			}
			if code := w.settle(v, c...); code != "C" {
				t.Error("code:", code)
			}
			if w.cancels() != "[]" {
				t.Error("told:", w.cancels())
			}
			b.clean()
		}
	})

	t.Run("what its run has come to is kept", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		w := b.worker()
		b.append("done", "dead")
		c := w.take(2)
		b.cancel("done")
		b.cancel("dead")
		if got := w.settle(durable.Done, c[0]) + w.settle(durable.Dead, c[1]); got != "OO" {
			t.Error(got)
		}
		b.places("0 0 0 1 0")
		if got := b.cancel("dead"); got != "none" {
			t.Error("a dead one:", got)
		}
		if h, err := b.stream.Redrive(b.ctx, durable.Selection{All: true}); err != nil || len(h.IDs) != 1 {
			t.Error(h, err)
		}
		w.settle(durable.Done, w.take(1)...) // the mark is gone
		b.clean()
	})

	t.Run("a lost consumer's is cancelled, and a leaving one's", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		lost, leaver := b.worker(), b.worker()
		b.append("a", "b")
		lost.take(1)
		leaver.take(1)
		b.cancel("a")
		b.cancel("b")
		b.expire(lost)
		if s := b.sweep(); s.Ended != 1 || s.Returned != 0 {
			t.Errorf("%+v", s)
		}
		if more, err := leaver.Leave(b.ctx); err != nil || more {
			t.Error(more, err)
		}
		b.clean()
		if keys := b.keysLike("cancels:*"); len(keys) > 0 {
			t.Error("left:", keys)
		}
	})
}

func TestStreamCancelInSeveralGroups(t *testing.T) {
	t.Parallel()

	t.Run("all that have not finished it are told", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		running, retrying, finished, dead := b.group("running", durable.StreamOptions{}), b.group("retrying", durable.StreamOptions{}),
			b.group("finished", durable.StreamOptions{}), b.group("dead", durable.StreamOptions{})
		w, r, y, f, d := b.worker(), running.worker(), retrying.worker(), finished.worker(), dead.worker()
		b.append("a")
		c := r.take(1)
		y.settle(durable.Retry, y.take(1)...)
		f.settle(durable.Done, f.take(1)...)
		d.settle(durable.Dead, d.take(1)...)
		if got := b.cancel("a"); got != r.ID() {
			t.Fatal(got)
		}
		if got := []durable.State{b.state("a"), running.state("a"), retrying.state("a"), finished.state("a"), dead.state("a")}; !slices.Equal(got,
			[]durable.State{"cancelled", "processing", "cancelled", "", "dead"}) {
			t.Error("states:", got)
		}
		retrying.due()
		w.nothing()
		y.nothing()
		if r.cancels() != refOf(c[0]) || r.settle(durable.Release, c...) != "C" {
			t.Error("told:", r.cancels())
		}
		b.clean("a")
		if h, err := dead.stream.Discard(b.ctx, durable.Selection{All: true}); err != nil || len(h.IDs) != 1 {
			t.Error(h, err)
		}
		b.clean()
		for _, g := range []*streamBundle{b, running, retrying} {
			if n := g.stats().Counters["cancelled"]; n != 1 {
				t.Error("counted:", g.self, n)
			}
		}
	})

	t.Run("what waits in all is run by none, and its ID is free then", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		other := b.group("other", durable.StreamOptions{})
		w, o := b.worker(), other.worker()
		b.append("a")
		if first, second := b.cancel("a"), other.cancel("a"); first != "ended" || second != "none" {
			t.Error(first, second)
		}
		w.nothing()
		o.nothing()
		b.clean()
		b.append("a")
	})

	t.Run("a group without consumers yet passes it by", func(t *testing.T) {
		t.Parallel()
		b := setupStream(t, nil)
		other := b.group("other", durable.StreamOptions{})
		o := other.worker()
		b.append("a")
		c := o.take(1)
		if got := b.cancel("a"); got != o.ID() || o.cancels() != refOf(c[0]) {
			t.Error("told:", got, o.cancels())
		}
		b.worker().nothing()
		if code := o.settle(durable.Release, c...); code != "C" {
			t.Error("code:", code)
		}
		b.clean()
	})
}
