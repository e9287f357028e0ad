package main

import (
	"bytes"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-9dec4fca/weir/internal/check"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	t.Parallel()

	t.Run("the story comes true on the embedded server", func(t *testing.T) {
		t.Parallel()
		account(t, runs(t, ""))
	})

	t.Run("and on a real one, where nothing is left", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		account(t, runs(t, "redis://"+server.Addr()))
		keys, err := server.Client(t).Keys(t.Context(), "*").Result()
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) > 0 {
			t.Errorf("left on the server: %v", keys)
		}
	})

	t.Run("a number of samples that makes no sense is refused by name", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		if err := run(t.Context(), []string{"-samples", "0"}, "", &out); err == nil || !strings.Contains(err.Error(), "-samples") {
			t.Errorf("got %v", err)
		}
	})
}

func runs(t *testing.T, url string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-samples", "10000"}, url, &out); err != nil {
		t.Fatalf("%v, after\n%s", err, out.String())
	}
	return out.String()
}

// account checks the table, and that samples were lost in both ways.
func account(t *testing.T, out string) {
	t.Helper()
	table, err := check.ReadTable(strings.NewReader(out))
	if err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	if err := table.Conserved(); err != nil {
		t.Errorf("%v in\n%s", err, out)
	}
	if table["evicted"] == 0 || table["dropped"] == 0 {
		t.Errorf("nothing was lost in\n%s", out)
	}
}
