package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-9dec4fca/weir/internal/check"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

// TestMain is main for the processes that the parent starts: they are this binary again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "producer" || os.Args[1] == "consumer") {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

func TestRun(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var out bytes.Buffer
	args := []string{"-producers", "4", "-consumers", "2", "-jobs", "150"}
	if err := run(t.Context(), args, "redis://"+server.Addr(), strings.NewReader(""), &out); err != nil {
		t.Fatalf("%v, after\n%s", err, out.String())
	}

	t.Run("the table of all processes adds up", func(t *testing.T) {
		table, err := check.ReadTable(strings.NewReader(out.String()))
		if err != nil {
			t.Fatalf("%v in\n%s", err, out.String())
		}
		if err := table.Conserved(); err != nil {
			t.Errorf("%v in\n%s", err, out.String())
		}
		if table["completed"] != 600 {
			t.Errorf("completed %d, want 600", table["completed"])
		}
	})

	t.Run("nothing is left on a server that goes on", func(t *testing.T) {
		keys, err := server.Client(t).Keys(t.Context(), "*").Result()
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) > 0 {
			t.Errorf("left on the server: %v", keys)
		}
	})
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-producers", "0"}, {"-consumers", "99"}, {"-jobs", "-1"}, {"nonsense"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := run(t.Context(), args, "", strings.NewReader(""), &out)
			if err == nil || !strings.Contains(err.Error(), args[0]) {
				t.Errorf("got %v, want an error about %s", err, args[0])
			}
		})
	}
}

// A document that two consumers have had is found, and so is one that one consumer has had twice.
func TestSums(t *testing.T) {
	t.Parallel()
	a, b := newDocument(0, 3), newDocument(1, 200)
	var one, two, all sums
	one.had(a)
	one.had(b)
	two.had(b)
	if both := all.merge(one) + all.merge(two); both != 1 || all.Twice != 1 {
		t.Errorf("both have had %d, twice %d; want 1 and 1", both, all.Twice)
	}
	one.had(a)
	if one.Twice != 1 {
		t.Errorf("had %d twice, want 1", one.Twice)
	}
	if !all.has(0, 3) || !all.has(1, 200) || all.has(0, 4) || all.has(2, 0) {
		t.Error("has does not tell what was had")
	}
}
