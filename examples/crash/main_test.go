package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-9dec4fca/weir/examples/internal/scene"
	"github.com/seed-9dec4fca/weir/internal/check"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

// TestMain is main for the workers that the stories start: they are this binary again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

func TestRun(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var out bytes.Buffer
	if err := run(t.Context(), nil, "redis://"+server.Addr(), strings.NewReader(""), &out); err != nil {
		t.Fatalf("%v, after\n%s", err, out.String())
	}

	t.Run("the table adds up", func(t *testing.T) {
		table, err := check.ReadTable(strings.NewReader(out.String()))
		if err != nil {
			t.Fatalf("%v in\n%s", err, out.String())
		}
		if err := table.Conserved(); err != nil {
			t.Errorf("%v in\n%s", err, out.String())
		}
	})

	t.Run("the job is shown in each place that it passes", func(t *testing.T) {
		for _, worker := range []string{"A", "C"} {
			heir := map[string]string{"A": "B", "C": "D"}[worker]
			trail := regexp.MustCompile(`(?s)pending +pending.*processing:\S+ \(worker ` + worker +
				`\) +processing +1\n.*scheduled +scheduled +1\n.*processing:\S+ \(worker ` + heir + `\) +processing +2\n.*nowhere`)
			if !trail.MatchString(out.String()) {
				t.Errorf("no such trail of worker %s in\n%s", worker, out.String())
			}
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

func TestRunWithoutAServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var out bytes.Buffer
	err := run(t.Context(), nil, "", strings.NewReader(""), &out)
	if err == nil || !strings.Contains(err.Error(), "apt-get install redis-server") {
		t.Errorf("got %v, want %v", err, scene.ErrNoServer)
	}
}
