package scene_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/examples/internal/scene"
	"github.com/seed-9dec4fca/weir/internal/check"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// TestMain is the child process of the tests too: it repeats what it hears.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "repeat" {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			fmt.Println(os.Args[2], lines.Text(), os.Getenv("REDIS_URL"))
		}
		if os.Args[2] == "badly" {
			fmt.Fprintln(os.Stderr, "it was too much")
			os.Exit(3)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, how string) *scene.Process {
	t.Helper()
	p, err := scene.Start("the child", "redis://there", "repeat", how)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func TestProcess(t *testing.T) {
	t.Parallel()

	t.Run("it hears, speaks, and ends when its input does", func(t *testing.T) {
		t.Parallel()
		p := start(t, "well")
		for range 100 { // more than are kept while nobody listens
			if err := p.Tell("hello"); err != nil {
				t.Fatal(err)
			}
		}
		for range 100 {
			if got, err := p.Expect(patient(t), "well hello"); err != nil || got != "redis://there" {
				t.Fatalf("%q, %v", got, err)
			}
		}
		if err := errors.Join(p.HangUp(), p.Wait(patient(t))); err != nil {
			t.Error(err)
		}
		if line, err := p.Line(patient(t)); !errors.Is(err, io.EOF) {
			t.Errorf("after its end it says %q, %v", line, err)
		}
	})

	t.Run("an end with another status is an error with what it complained of", func(t *testing.T) {
		t.Parallel()
		p := start(t, "badly")
		if err := p.HangUp(); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(patient(t)); err == nil || !strings.Contains(err.Error(), "status 3: it was too much") {
			t.Errorf("got %v", err)
		}
	})

	t.Run("a killed one says nothing more", func(t *testing.T) {
		t.Parallel()
		p := start(t, "well")
		p.Kill()
		if _, err := p.Expect(patient(t), "well"); !errors.Is(err, io.EOF) {
			t.Errorf("got %v", err)
		}
	})

	t.Run("a frozen one says nothing until it is thawed, and can be closed", func(t *testing.T) {
		t.Parallel()
		p := start(t, "well")
		if err := errors.Join(p.Freeze(), p.Tell("hello")); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if line, err := p.Line(ctx); err == nil {
			t.Fatalf("said %q", line)
		}
		if err := p.Thaw(); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Expect(patient(t), "well hello"); err != nil {
			t.Error(err)
		}
		if err := p.Freeze(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestServers(t *testing.T) {
	t.Parallel()

	t.Run("one that was launched answers, and is gone after Close", func(t *testing.T) {
		t.Parallel()
		own, err := scene.Launch()
		if err != nil {
			t.Fatal(err)
		}
		other, err := scene.Open(own.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"{" + other.Queue("mine") + "}:pending", "else"} {
			if err := other.Client.Set(patient(t), key, "", 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		if keys, err := own.Client.Keys(patient(t), "*").Result(); err != nil || len(keys) != 1 || keys[0] != "else" {
			t.Errorf("left %v, want only what belongs to others; %v", keys, err)
		}
		if err := own.Close(); err != nil {
			t.Error(err)
		}
		if _, err := scene.Open(own.URL, nil); err == nil {
			t.Error("it still answers")
		}
	})

	t.Run("without an address there is another way", func(t *testing.T) {
		t.Parallel()
		s, err := scene.Open("", scene.Embed)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Client.Ping(patient(t)).Err(), s.Close()); err != nil {
			t.Error(err)
		}
	})
}

func TestAccount(t *testing.T) {
	t.Parallel()
	stats := bridge.Stats{
		Front:    local.FrontStats{Submitted: 20, Accepted: 12, Dropped: 3, Evicted: 2, Length: 1},
		Counters: bridge.Counters{Enqueued: 6, Refused: 1, Abandoned: 1, Uncertain: 1, Completed: 5, Retried: 4, Dead: 1},
	}
	stats.Front.Rejected[policy.ReasonFull] = 5
	var a scene.Account
	a.Add(stats)
	a.Merge(a)

	t.Run("the table reads as it was counted, twice here", func(t *testing.T) {
		t.Parallel()
		table, err := check.ReadTable(strings.NewReader("before\n" + a.Table() + "\nafter  1\n"))
		if err != nil {
			t.Fatal(err)
		}
		if err := table.Conserved(); err != nil || !a.Balanced() {
			t.Errorf("balanced %v, %v", a.Balanced(), err)
		}
		if table["submitted"] != 40 || table["rejected, full"] != 10 || table["retried"] != 8 || table["in memory"] != 2 {
			t.Errorf("read %v", table)
		}
	})

	t.Run("one job that is lost is noticed", func(t *testing.T) {
		t.Parallel()
		for name, change := range map[string]func(*scene.Account){
			"submitted": func(a *scene.Account) { a.Submitted++ },
			"accepted":  func(a *scene.Account) { a.Accepted-- },
			"enqueued":  func(a *scene.Account) { a.Enqueued-- },
			"completed": func(a *scene.Account) { a.Completed-- },
		} {
			broken := a
			if change(&broken); broken.Balanced() {
				t.Errorf("not in %s", name)
			}
		}
	})
}

func TestNarrator(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	n := scene.NewNarrator(&out)
	n.Claim(true, "it rained for %d days", 40)
	if err := n.End(); err != nil || !strings.Contains(out.String(), "yes  it rained for 40 days") {
		t.Errorf("%v, after %q", err, out.String())
	}
	n.Claim(false, "nobody got wet")
	if err := n.End(); err == nil || !strings.Contains(err.Error(), "nobody got wet") {
		t.Errorf("what did not come true is %v", err)
	}
	if err := scene.NewNarrator(&out).End(); err == nil {
		t.Error("a story that claims nothing has come true")
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	sorted := []time.Duration{1234567, 2 * time.Millisecond, 3 * time.Second}
	for percent, want := range map[int]string{0: "1.23ms", 50: "2ms", 100: "3s"} {
		if got := scene.Quantile(sorted, percent); got != want {
			t.Errorf("p%d is %s, want %s", percent, got, want)
		}
	}
	if got := scene.Quantile(nil, 50); got != "-" {
		t.Errorf("of nothing it is %q", got)
	}
}
