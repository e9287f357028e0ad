package durable_test

import (
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

func TestStreamResults(t *testing.T) {
	t.Parallel()
	b := setupStream(t, nil)
	other := b.group("other", durable.StreamOptions{})
	w, o := b.worker(), other.worker()
	b.append("a")
	c, d := w.take(1)[0], o.take(1)[0]
	tell := func(w *streamWorker, c *durable.Claim, progress string) {
		t.Helper()
		telling := durable.Telling{Ref: durable.Ref{ID: c.ID, Token: c.Token}, Progress: []byte(progress)}
		if err := w.Consumer.(durable.Teller).Tell(b.ctx, []durable.Telling{telling}); err != nil {
			t.Fatal(err)
		}
	}
	look := func(b *streamBundle) string {
		t.Helper()
		r, err := b.stream.Lookup(b.ctx, durable.LookupRequest{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		return string(r.State) + " " + string(r.Progress) + " " + string(r.Result)
	}
	tell(w, c, "half")
	tell(o, &durable.Claim{ID: "a", Token: c.Token}, "not its token")
	if got := look(b) + ", " + look(other); got != "processing half , processing  " {
		t.Error(got)
	}
	tell(o, d, "none")
	w.settles++
	if s, err := w.Settle(b.ctx, w.settles, []durable.Outcome{
		{Ref: durable.Ref{ID: c.ID, Token: c.Token}, Verdict: durable.Done, Result: []byte("42"), Retention: time.Hour},
	}); err != nil || codes(s) != "O" {
		t.Fatal(s, err)
	}
	if got := look(b) + ", " + look(other); got != "completed half 42, processing none " {
		t.Error(got)
	}
	o.settle(durable.Done, d)
	b.clean("a")
	if ttl := b.rdb.ZScore(b.ctx, b.key("completed"), "a").Val(); ttl == 0 {
		t.Error("the record of one group is not noted")
	}
}
