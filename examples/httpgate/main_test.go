package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
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

	t.Run("what makes no sense is refused by name", func(t *testing.T) {
		t.Parallel()
		for _, args := range [][]string{{"-for", "1h"}, {"-edge", "0"}} {
			var out bytes.Buffer
			if err := run(t.Context(), args, "", &out); err == nil || !strings.Contains(err.Error(), args[0]) {
				t.Errorf("%v: got %v", args, err)
			}
		}
	})
}

func runs(t *testing.T, url string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-for", "600ms", "-edge", "64"}, url, &out); err != nil {
		t.Fatalf("%v, after\n%s", err, out.String())
	}
	return out.String()
}

// account checks the table, and that there were refusals of both kinds.
func account(t *testing.T, out string) {
	t.Helper()
	table, err := check.ReadTable(strings.NewReader(out))
	if err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	if err := table.Conserved(); err != nil {
		t.Errorf("%v in\n%s", err, out)
	}
	if table["rejected, full"] == 0 || table["rejected, closed"] == 0 || table["abandoned"] == 0 {
		t.Errorf("nobody was refused, or nothing handed back, in\n%s", out)
	}
}

func TestGate(t *testing.T) {
	t.Parallel()
	// Nobody works: what is accepted stays where it is.
	queue, err := bridge.Open(durable.NewMemory(&durable.MemoryOptions{MaxBacklog: 1}), &bridge.Options{Capacity: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := queue.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	g := &gate{queue: queue, tiles: bridge.NewKind[tile](queue, "tile", nil), tickets: newTickets(2)}
	ask := func(method, path, body string) (*http.Response, jobStatus) {
		w := httptest.NewRecorder()
		g.routes().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
		var status jobStatus
		if err := json.NewDecoder(w.Body).Decode(&status); err != nil {
			t.Fatal(err)
		}
		return w.Result(), status
	}
	const good = `{"x":0,"y":0,"size":1,"edge":16}`

	for name, body := range map[string]string{
		"no JSON": "tile", "no size": `{"edge":16}`, "no edge": `{"size":1}`, "far away": `{"x":1e9,"size":1,"edge":16}`,
		"more than fits": `{"x":0` + strings.Repeat(" ", maxBody) + `}`,
	} {
		if response, _ := ask("POST", "/jobs", body); response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", name, response.Status)
		}
	}

	response, first := ask("POST", "/jobs", good)
	if response.StatusCode != http.StatusAccepted || response.Header.Get("Location") != "/jobs/"+first.ID {
		t.Fatalf("%s, Location %q", response.Status, response.Header.Get("Location"))
	}
	if err := queue.Flush(t.Context()); err != nil { // the only place in the backlog is taken now
		t.Fatal(err)
	}
	if _, status := ask("GET", "/jobs/"+first.ID, ""); status.State != "enqueued" || status.Ended {
		t.Errorf("the first is %+v", status)
	}
	if _, status := ask("GET", "/jobs/"+first.ID+"?wait=10s&past=accepted", ""); status.State != "enqueued" {
		t.Errorf("past accepted the first is %+v", status)
	}
	_, second := ask("POST", "/jobs", good)
	if _, status := ask("GET", "/jobs/"+second.ID+"?wait=1ms&past=accepted", ""); status.State != "accepted" {
		t.Errorf("the second is %+v", status)
	}
	ask("POST", "/jobs", good)
	response, _ = ask("POST", "/jobs", good)
	if after := response.Header.Get("Retry-After"); response.StatusCode != http.StatusTooManyRequests || after == "" || after == "0" {
		t.Errorf("full: %s, Retry-After %q", response.Status, after)
	}
	if response, _ := ask("GET", "/jobs/"+first.ID, ""); response.StatusCode != http.StatusNotFound {
		t.Errorf("the one too many to remember: %s", response.Status)
	}
	if response, _ := ask("GET", "/healthz", ""); response.StatusCode != http.StatusOK {
		t.Errorf("full is ill: %s", response.Status)
	}

	g.closing.Store(true)
	if response, _ := ask("GET", "/healthz", ""); response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("closing is healthy: %s", response.Status)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	report, err := queue.Shutdown(ctx)
	if err != nil || len(report.Returned) != 2 {
		t.Fatalf("handed back %d, %v", len(report.Returned), err)
	}
	if _, status := ask("GET", "/jobs/"+second.ID, ""); status.State != "abandoned" || !status.Ended {
		t.Errorf("handed back: %+v", status)
	}
	response, _ = ask("POST", "/jobs", good)
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") != "1" {
		t.Errorf("closed: %s, Retry-After %q", response.Status, response.Header.Get("Retry-After"))
	}
}

func TestSecondsRoundsUp(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]int{
		0: 1, time.Millisecond: 1, time.Second: 1, time.Second + 1: 2, 29*time.Second + 500*time.Millisecond: 30,
	} {
		if got := seconds(d); got != want {
			t.Errorf("%v: %d, want %d", d, got, want)
		}
	}
}
