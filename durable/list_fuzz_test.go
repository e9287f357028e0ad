package durable_test

import (
	"strings"
	"testing"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

// FuzzIDs sends an ID, a kind and a payload of any bytes through a whole life: what is
// accepted comes back unchanged, what is not is refused alone, and nothing is left.
func FuzzIDs(f *testing.F) {
	for _, id := range []string{"a", "", "{q}", "}{", "job:1", "\x00", "\xff\xfe", "ü", "*?[]\\", strings.Repeat("x", 1024), strings.Repeat("x", 1025), "1\n2", " ", "nil", "-1"} {
		f.Add(id, "kind", []byte("payload"))
		f.Add(id, id, []byte(id))
	}
	addr := redistest.Addr(f)
	rdb := redistest.Client(f)
	f.Fuzz(func(t *testing.T, id, kind string, payload []byte) {
		b := setupListAt(t, addr, rdb, redistest.Name(t), nil)
		a, err := b.producer().Append(b.ctx, 1, []*durable.Job{{ID: id, Kind: kind, Payload: payload}, {ID: "after the other"}})
		if err != nil || a.Taken != 2 {
			t.Fatal(a, err)
		}
		w := b.worker()
		if len(a.Refused) == 1 {
			if (id != "" && len(id) <= durable.MaxIDBytes && id != "after the other") || idsOf(w.take(1)) == id {
				t.Fatalf("%q refused: %+v", id, a)
			}
			return
		}
		claims := w.take(2)
		if c := claims[0]; c.ID != id || c.Kind != kind || string(c.Payload) != string(payload) {
			t.Fatalf("%q %q %q came back as %q %q %q", id, kind, payload, c.ID, c.Kind, c.Payload)
		}
		if got := w.settle(durable.Retry, claims[0]); got != "O" {
			t.Fatal(got)
		}
		b.due()
		claims[0] = w.take(1)[0]
		if got := w.settle(durable.Done, claims...); got != "OO" {
			t.Fatal(got)
		}
		b.places("0 0 0 0 0")
		if keys := b.keysLike("job:*"); len(keys) > 0 {
			t.Fatal(keys)
		}
	})
}

// FuzzForeignJobs lets another producer write anything where jobs are: it is run or put
// aside, and the job after it runs.
func FuzzForeignJobs(f *testing.F) {
	for _, s := range []string{"", "1", "-1", "x", "1e3", "999999999999999", "9999999999999999", "pending", "processing", "scheduled"} {
		f.Add("a", s, s, "pending")
		f.Add("a", "0", "0", s)
		f.Add(s, "0", "0", "")
	}
	addr := redistest.Addr(f)
	rdb := redistest.Client(f)
	f.Fuzz(func(t *testing.T, id, attempts, timeout, status string) {
		if id == "after" {
			return
		}
		for _, of := range []maker{list, sortedSet} {
			b := setupQueueAt(t, of, addr, rdb, redistest.Name(t), nil)
			b.rdb.HSet(b.ctx, b.key("job:"+id), "payload", "p", "attempts", attempts, "timeout_ms", timeout, "status", status,
				"priority", attempts, "place", timeout)
			b.push(id)
			b.append("after")
			w := b.worker()
			c := w.claim(2)
			if last := c.Jobs[len(c.Jobs)-1]; last.ID != "after" || len(c.Jobs)+c.Corrupt+c.Dropped != 2 {
				t.Fatalf("%+v", c)
			}
			if got := strings.Trim(w.settle(durable.Release, c.Jobs...), "O"); got != "" {
				t.Fatal(got)
			}
			if got := strings.Trim(w.settle(durable.Done, w.take(len(c.Jobs))...), "O"); got != "" {
				t.Fatal(got)
			}
			if c := w.claim(2); c.Status != durable.ClaimEmpty {
				t.Fatalf("%+v", c)
			}
		}
	})
}

// FuzzReply decodes answers that no script of ours gives.
func FuzzReply(f *testing.F) {
	f.Add("OK", "1", int64(2), 3)
	f.Add("J", "1D,2K,", int64(-1), 14)
	f.Add("BADKEY", "", int64(0), 0)
	f.Fuzz(func(t *testing.T, code, text string, number int64, length int) {
		all := []any{code}
		for i := range min(max(length, 0), 100) {
			switch i % 3 {
			case 0:
				all = append(all, text)
			case 1:
				all = append(all, number)
			case 2:
				all = append(all, nil)
			}
		}
		durable.DecodeAll(all)
		durable.DecodeAll(text)
		durable.DecodeAll([]any{number})
		if refusals, err := durable.DecodeRefusals(text); err == nil {
			for _, r := range refusals {
				if r.Pos < 0 {
					t.Fatal(refusals)
				}
			}
		}
	})
}

// FuzzEscapeGlob checks that the pattern of a prefix matches that prefix, and what it lengthens.
func FuzzEscapeGlob(f *testing.F) {
	for _, s := range []string{"q", "*", "[a]", `\`, "?", `a\*[^b]`, "{q}:"} {
		f.Add(s)
	}
	rdb := redistest.Client(f)
	f.Fuzz(func(t *testing.T, s string) {
		name := redistest.Name(t)
		key := s + name
		if err := rdb.Set(t.Context(), key, 1, 0).Err(); err != nil {
			t.Fatal(err)
		}
		found, err := rdb.Keys(t.Context(), durable.EscapeGlob(key)).Result()
		if err != nil || len(found) != 1 || found[0] != key {
			t.Fatalf("%q, %v", found, err)
		}
	})
}
