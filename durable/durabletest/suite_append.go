package durabletest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

func queuePromises() []promise {
	return []promise{
		{"info tells the name and the bound", Limits{MaxBacklog: 7}, func(q *queue) {
			info, err := q.engine.Info()
			if err != nil || info.Name == "" || info.MaxBacklog != 7 {
				q.Errorf("info: %+v, %v", info, err)
			}
		}},
		{"a usable store passes the check", Limits{}, func(q *queue) {
			if err := q.engine.Check(q.ctx); err != nil {
				q.Errorf("check: %v", err)
			}
		}},
		{"an identity is never given twice", Limits{}, func(q *queue) {
			seen := make(map[string]bool)
			for _, e := range []durable.Engine{q.engine, q.another()} {
				for range 10 {
					for _, id := range []string{q.producerOn(e).ID(), q.workerOn(e).ID()} {
						if id == "" || seen[id] {
							q.Errorf("identity %q given twice", id)
						}
						seen[id] = true
					}
				}
			}
		}},
		{"every handle sees the one queue", Limits{}, func(q *queue) {
			other := q.another()
			q.producerOn(other).store(job("a"))
			w := q.worker()
			c := w.one("a")
			if got := q.workerOn(other).none("held by the other handle"); got.NextDue >= 0 {
				q.Errorf("next due in %v, nothing is scheduled", got.NextDue)
			}
			w.done(c)
		}},
		{"closing a handle is idempotent and keeps the jobs", Limits{}, func(q *queue) {
			other := q.handle()
			q.producerOn(other).store(job("a"))
			for range 2 {
				if err := other.Close(); err != nil {
					q.Errorf("close: %v", err)
				}
			}
			q.worker().one("a")
		}},
		{"stats tell where every job is", Limits{}, func(q *queue) {
			later := job("later")
			later.Delay = time.Hour
			q.store(append(jobs(5), later)...)
			w := q.worker()
			claims := w.take(3)
			w.settled("OO", outcome(claims[0], durable.Done), outcome(claims[1], durable.Dead))
			q.places("in the middle", durable.Stats{Pending: 2, Scheduled: 1, Processing: 1, Dead: 1})
			if n := q.stats().Consumers; n != 1 {
				q.Errorf("%d consumers, want 1", n)
			}
		}},
		{"a call whose context has ended changes nothing", Limits{}, func(q *queue) {
			ended, cancel := context.WithCancel(q.ctx)
			cancel()
			p, w := q.producer(), q.worker()
			if _, err := p.Append(ended, 1, jobs(1)); err == nil {
				q.Errorf("append: no error")
			}
			q.places("after append", durable.Stats{})
			p.store(jobs(1)...)
			if _, err := w.Claim(ended, durable.ClaimRequest{N: 1, Slots: 1, MaxBytes: plenty}); err == nil {
				q.Errorf("claim: no error")
			}
			q.places("after claim", durable.Stats{Pending: 1})
			c := w.take(1)[0]
			if _, err := w.Settle(ended, 1, []durable.Outcome{outcome(c, durable.Done)}); err == nil {
				q.Errorf("settle: no error")
			}
			q.places("after settle", durable.Stats{Processing: 1})
			w.done(c)
		}},
		{"a skipped number is reported as a gap, to whoever asks again too", Limits{}, func(q *queue) {
			p, w := q.producer(), q.worker()
			if a := p.sendAs(1, job("a")); a.Gap {
				q.Errorf("append 1: gap")
			}
			for range 2 {
				if a := p.sendAs(3, job("b")); !a.Gap {
					q.Errorf("append 3 after 1: no gap")
				}
			}
			if a := p.sendAs(4, job("c")); a.Gap {
				q.Errorf("append 4 after 3: gap")
			}
			if a := w.claim(1); a.Gap {
				q.Errorf("claim 1: gap")
			}
			for range 2 {
				w.claims++
				if a := w.claim(1); !a.Gap {
					q.Errorf("claim 3 after 1: no gap")
				}
				w.claims -= 2
			}
			if a := w.settle(); a.Gap {
				q.Errorf("settle 1: gap")
			}
			for range 2 {
				w.settles++
				if a := w.settle(); !a.Gap {
					q.Errorf("settle 3 after 1: no gap")
				}
				w.settles -= 2
			}
		}},
	}
}

func appendPromises() []promise {
	return []promise{
		{"jobs are claimed in the order of appending", Limits{}, func(q *queue) {
			all := jobs(60)
			p := q.producer()
			for batch := range slices.Chunk(all, 7) {
				p.store(batch...)
			}
			q.ordered("all", q.worker().take(len(all)), all)
		}},
		{"what is appended is claimed unchanged", Limits{}, func(q *queue) {
			every := make([]byte, 256)
			for i := range every {
				every[i] = byte(i)
			}
			all := []*durable.Job{
				{ID: "plain", Kind: "k", Payload: every, Headers: []byte(`{"trace":"a:b \u0000"}`), MaxAttempts: 7, Timeout: 1500 * time.Millisecond},
				{ID: "bare"},
				{ID: "numbers", Kind: "1e3", Payload: []byte(`[9007199254740993, [], {}, 1.0]`), MaxAttempts: 2_000_000_000},
				{ID: "large", Kind: strings.Repeat("long", 50), Payload: []byte(strings.Repeat("\r\n\x00ü", 50_000))},
				{ID: "{q}:id with\x00every*thing\n[ü]\xff", Kind: "kind:{of}\xffthing", Payload: []byte("x")},
				{ID: "-1", Kind: "", Payload: []byte("nil")},
			}
			q.store(all...)
			w := q.worker()
			for _, want := range all {
				got := w.take(1)[0]
				if got.ID != want.ID || got.Kind != want.Kind || string(got.Payload) != string(want.Payload) ||
					string(got.Headers) != string(want.Headers) || got.MaxAttempts != want.MaxAttempts || got.Timeout != want.Timeout {
					q.Errorf("job %q came back changed: ID %q, kind %q, %d bytes of payload for %d, headers %q, attempts %d, timeout %v",
						want.ID, got.ID, got.Kind, len(got.Payload), len(want.Payload), got.Headers, got.MaxAttempts, got.Timeout)
				}
				if got.Attempts != 0 || got.Crashes != 0 || got.Deliveries != 1 || got.Token == "" {
					q.Errorf("a first claim: %+v", got)
				}
				w.done(got)
			}
		}},
		{"attempts without end, and a timeout without, are kept", Limits{}, func(q *queue) {
			endless := job("endless")
			endless.MaxAttempts, endless.Timeout = math.MaxInt, math.MaxInt64
			q.store(endless)
			w := q.worker()
			for range 3 {
				c := w.one("endless")
				if c.MaxAttempts < math.MaxInt32 || c.Timeout < math.MaxInt64/2 {
					q.Errorf("claimed with %d attempts, and %v", c.MaxAttempts, c.Timeout)
				}
				o := outcome(c, durable.Retry)
				o.MaxAttempts = math.MaxInt
				w.settled("O", o)
			}
			w.done(w.one("endless"))
		}},
		{"slices belong to their caller before and after", Limits{}, func(q *queue) {
			payload, headers := []byte("payload"), []byte(`{"a":"b"}`)
			batch := []*durable.Job{{ID: "a", Payload: payload, Headers: headers}}
			q.store(batch...)
			batch[0].ID = "other"
			clear(payload)
			clear(headers)
			w := q.worker()
			r := w.request(1)
			for range 2 { // the second time it is the remembered claim
				c := w.only(w.ask(r))
				if c.ID != "a" || string(c.Payload) != "payload" || string(c.Headers) != `{"a":"b"}` {
					q.Errorf("claimed %q, %q, %q", c.ID, c.Payload, c.Headers)
				}
				clear(c.Payload)
				clear(c.Headers)
			}
			p := q.producer()
			for range 2 {
				a := p.sendAs(1, job("a"))
				if len(a.Refused) != 1 || a.Refused[0].Code != durable.RefusedDuplicate {
					q.Fatalf("append of a duplicate: %+v", a)
				}
				clear(a.Refused)
			}
			for range 2 {
				s := w.settleAs(1, durable.Outcome{Verdict: durable.Done})
				if codesOf(s) != "G" {
					q.Errorf("settle of no job: %q", s.Codes)
				}
				clear(s.Codes)
			}
		}},
		{"an append sent twice is stored once", Limits{}, func(q *queue) {
			p, w := q.producer(), q.worker()
			p.sendAs(1, jobs(3)...)
			p.sendAs(1, jobs(3)...)
			q.places("sent twice", durable.Stats{Pending: 3})
			w.done(w.take(3)...)
			p.sendAs(1, jobs(3)...)
			q.places("sent again when all was completed", durable.Stats{})
			w.none("sent again when all was completed")
		}},
		{"a repeated append gets the first answer", Limits{MaxBacklog: 4}, func(q *queue) {
			q.store(job("there"))
			p := q.producer()
			batch := []*durable.Job{job("a"), job("there"), job("b"), job("a"), job("c"), job("d")}
			first := p.sendAs(1, batch...)
			w := q.worker()
			w.done(w.take(2)...) // room again, and "there" is no duplicate any more
			again := p.sendAs(1, batch...)
			for _, a := range []durable.Appended{first, again} {
				want := []durable.Refusal{{Pos: 1, Code: durable.RefusedDuplicate}, {Pos: 3, Code: durable.RefusedDuplicate}}
				if a.Taken != 5 || !slices.Equal(a.Refused, want) || a.Gap {
					q.Errorf("answer %+v, want 5 taken, refused %v", a, want)
				}
			}
			if first.Backlog != 4 || again.Backlog != 2 {
				q.Errorf("backlog %d and %d, want 4 and 2", first.Backlog, again.Backlog)
			}
		}},
		{"an outdated append changes nothing", Limits{}, func(q *queue) {
			p := q.producer()
			p.sendAs(1, job("a"))
			p.sendAs(2, job("b"))
			w := q.worker()
			w.done(w.take(2)...)
			if _, err := p.Append(q.ctx, 1, []*durable.Job{job("a")}); !errors.Is(err, durable.ErrOutdated) {
				q.Errorf("append: %v, want ErrOutdated", err)
			}
			q.places("after it", durable.Stats{})
		}},
		{"an ID that is there is refused wherever it is", Limits{}, func(q *queue) {
			later := job("scheduled")
			later.Delay = time.Hour
			q.store(job("dead"), job("processing"), job("pending"), later)
			w := q.worker()
			w.settled("O", outcome(w.one("dead"), durable.Dead))
			w.one("processing")
			p := q.producer()
			for _, id := range []string{"dead", "processing", "pending", "scheduled"} {
				a := p.send(job("before "+id), job(id), job("after "+id))
				if a.Taken != 3 || !slices.Equal(a.Refused, []durable.Refusal{{Pos: 1, Code: durable.RefusedDuplicate}}) {
					q.Errorf("append of an ID that is %s: %+v", id, a)
				}
			}
			q.places("after all", durable.Stats{Pending: 9, Scheduled: 1, Processing: 1, Dead: 1})
		}},
		{"an ID that cannot be stored is refused, and takes no room", Limits{MaxBacklog: 2}, func(q *queue) {
			a := q.producer().send(job("a"), job(""), job(strings.Repeat("x", 1<<20)), job("b"))
			want := []durable.Refusal{{Pos: 1, Code: durable.RefusedBadID}, {Pos: 2, Code: durable.RefusedBadID}}
			if a.Taken != 4 || !slices.Equal(a.Refused, want) {
				q.Errorf("append: %+v, want all dealt with and %v", a, want)
			}
			w := q.worker()
			w.one("a")
			w.one("b")
		}},
		{"an ID is free again when its job is completed", Limits{}, func(q *queue) {
			p, w := q.producer(), q.worker()
			p.store(job("a"))
			w.done(w.one("a"))
			p.store(job("a"))
			if c := w.one("a"); c.Deliveries != 1 || c.Attempts != 0 {
				q.Errorf("second life: %+v", c)
			}
		}},
		{"a full backlog takes a prefix, in order", Limits{MaxBacklog: 5}, func(q *queue) {
			all := jobs(9)
			all[1].Delay = time.Hour
			p, w := q.producer(), q.worker()
			if a := p.send(all...); a.Taken != 5 || a.Backlog != 5 || len(a.Refused) > 0 {
				q.Errorf("first append: %+v", a)
			}
			if a := p.send(all[5:]...); a.Taken != 0 || a.Backlog != 5 {
				q.Errorf("append to a full backlog: %+v", a)
			}
			got := w.take(2)
			if a := p.send(all[5:]...); a.Taken != 2 || a.Backlog != 5 {
				q.Errorf("append with room for two: %+v", a)
			}
			got = append(got, w.take(4)...)
			q.ordered("what was taken", got, slices.Concat(all[:1], all[2:7]))
		}},
		{"a duplicate takes no room", Limits{MaxBacklog: 2}, func(q *queue) {
			q.store(job("a"), job("b"))
			a := q.producer().send(job("a"), job("b"), job("c"))
			if a.Taken != 2 || len(a.Refused) != 2 {
				q.Errorf("append: %+v, want both duplicates dealt with and no more", a)
			}
		}},
		{"what comes back is exempt from the bound", Limits{MaxBacklog: 2}, func(q *queue) {
			p, w := q.producer(), q.worker()
			p.store(job("a"), job("b"))
			held := w.take(2)
			p.store(job("c"), job("d"))
			again := outcome(held[1], durable.Retry)
			again.Delay = time.Hour
			w.settled("OO", outcome(held[0], durable.Release), again)
			q.places("after the return", durable.Stats{Pending: 3, Scheduled: 1})
			if a := p.send(job("e")); a.Taken != 0 || a.Backlog != 4 {
				q.Errorf("append: %+v", a)
			}
		}},
		{"appends side by side never pass the bound", Limits{MaxBacklog: 50}, func(q *queue) {
			var (
				wg    sync.WaitGroup
				mu    sync.Mutex
				taken int
			)
			for i := range 8 {
				p := q.producer()
				wg.Go(func() {
					for n := range 10 {
						a, err := p.Append(q.ctx, uint64(n+1), []*durable.Job{job(fmt.Sprint(i, "a", n)), job(fmt.Sprint(i, "b", n))})
						if err != nil || a.Backlog > 50 {
							q.Errorf("append: %+v, %v", a, err)
						}
						mu.Lock()
						taken += a.Taken
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			if taken != 50 {
				q.Errorf("%d taken, want 50", taken)
			}
			q.places("after all", durable.Stats{Pending: 50})
		}},
		{"a delayed job is not claimed before its time", Limits{}, func(q *queue) {
			const delay = time.Second
			late := job("late")
			late.Delay = delay
			start := time.Now()
			q.store(late, job("now"))
			w := q.worker()
			w.done(w.one("now"))
			if a := w.none("before its time"); a.NextDue <= 0 || a.NextDue > delay {
				q.Errorf("next due in %v, want at most %v", a.NextDue, delay)
			}
			w.one("late")
			if d := time.Since(start); d < delay-time.Millisecond {
				q.Errorf("claimed after %v, want not before %v", d, delay)
			}
		}},
		{"many jobs due at once are all claimed, the earliest first", Limits{}, func(q *queue) {
			all := jobs(600)
			for i, j := range all {
				j.Delay = time.Duration(100+i) * time.Millisecond
			}
			p := q.producer()
			for batch := range slices.Chunk(all, 100) {
				p.store(batch...)
			}
			q.pause(800 * time.Millisecond)
			w := q.worker()
			var got []*durable.Claim
			for len(got) < len(all) {
				got = append(got, w.take(min(50, len(all)-len(got)))...)
			}
			first := got[:50]
			for _, c := range first {
				if c.ID > all[400].ID {
					q.Errorf("%s is among the first 50", c.ID)
				}
			}
			slices.SortFunc(got, func(a, b *durable.Claim) int { return strings.Compare(a.ID, b.ID) })
			q.ordered("all", got, all)
		}},
	}
}

func closePromises() []promise {
	end := func(q *queue, p *sender, n uint64) durable.Appended {
		q.Helper()
		a, err := p.Close(q.ctx, n)
		if err != nil {
			q.Fatalf("close %d: %v", n, err)
		}
		return a
	}
	return []promise{
		{"close tells what the last append stored", Limits{MaxBacklog: 2}, func(q *queue) {
			p := q.producer()
			p.sendAs(1, job("a"), job("a"), job("b"), job("c"))
			for range 2 {
				a := end(q, p, 2)
				if a.Taken != 3 || !slices.Equal(a.Refused, []durable.Refusal{{Pos: 1, Code: durable.RefusedDuplicate}}) {
					q.Errorf("close: %+v", a)
				}
			}
		}},
		{"an append that was closed can never be applied", Limits{}, func(q *queue) {
			p := q.producer()
			p.sendAs(1, job("a"))
			if a := end(q, p, 3); a.Taken != 0 || len(a.Refused) > 0 {
				q.Errorf("close of an append that never came: %+v", a)
			}
			if _, err := p.Append(q.ctx, 2, []*durable.Job{job("b")}); !errors.Is(err, durable.ErrOutdated) {
				q.Errorf("append: %v, want ErrOutdated", err)
			}
			q.places("after it", durable.Stats{Pending: 1})
		}},
		{"a producer that sent nothing can be closed", Limits{}, func(q *queue) {
			if a := end(q, q.producer(), 1); a.Taken != 0 || a.Gap {
				q.Errorf("close: %+v", a)
			}
		}},
		{"an outdated close is told so", Limits{}, func(q *queue) {
			p := q.producer()
			p.sendAs(1, job("a"))
			p.sendAs(2, job("b"))
			if _, err := p.Close(q.ctx, 1); !errors.Is(err, durable.ErrOutdated) {
				q.Errorf("close: %v, want ErrOutdated", err)
			}
		}},
	}
}
