package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "depth.svg")
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-for", "200ms", "-page", "2", "-svg", file}, &out); err != nil {
		t.Fatalf("%v, after\n%s", err, out.String())
	}
	rows := read(t, out.String())

	t.Run("every policy has a row whose sums hold, and a plot", func(t *testing.T) {
		for _, c := range contenders() {
			row, ok := rows[c.name]
			if !ok {
				t.Errorf("%s: no row", c.name)
				continue
			}
			if row["submitted"] != row["accepted"]+row["full"]+row["timeout"]+row["predicted"]+row["shed"]+row["dropped"] {
				t.Errorf("%s: submitted is not accepted + rejected + dropped: %v", c.name, row)
			}
			if row["accepted"] != row["completed"]+row["evicted"] || row["completed"] == 0 {
				t.Errorf("%s: accepted is not completed + evicted: %v", c.name, row)
			}
			if !strings.Contains(out.String(), "\n"+c.name+": "+c.policy.String()+"\n  100 │") {
				t.Errorf("%s: no plot", c.name)
			}
		}
	})

	t.Run("ten times too much is refused or lost, as each policy has it", func(t *testing.T) {
		for name, columns := range map[string][]string{
			"wait": {"timeout", "predicted"}, "reject": {"full"}, "drop-incoming": {"dropped"}, "drop-oldest": {"evicted"},
			"codel": {"full", "shed"}, "ramp": {"shed"}, "ramp, then wait": {"shed"},
		} {
			var lost int64
			for _, column := range columns {
				lost += rows[name][column]
			}
			if lost < rows[name]["submitted"]/4 {
				t.Errorf("%s: %d of %d in %v", name, lost, rows[name]["submitted"], columns)
			}
		}
	})

	t.Run("the drawing is well-formed and has a panel for each", func(t *testing.T) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		groups := 0
		for d := xml.NewDecoder(bytes.NewReader(text)); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if start, ok := token.(xml.StartElement); ok && start.Name.Local == "g" {
				groups++
			}
		}
		if groups != len(contenders()) {
			t.Errorf("%d panels", groups)
		}
	})
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"a time that is too long": {"-for", "1h"},
		"a load that is none":     {"-times", "0"},
		"a page that is none":     {"-page", "0"},
		"an argument":             {"now"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := run(t.Context(), args, io.Discard); err == nil {
				t.Error("it ran")
			}
		})
	}
	t.Run("to go on when it is told to stop", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := run(ctx, nil, io.Discard); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// read finds the rows of the table, by policy and column.
func read(t *testing.T, out string) map[string]map[string]int64 {
	t.Helper()
	_, text, found := strings.Cut(out, "\npolicy ")
	text, _, closed := strings.Cut(text, "\n\n")
	if !found || !closed {
		t.Fatalf("no table in\n%s", out)
	}
	lines := strings.Split(text, "\n")
	columns := strings.Fields(lines[0])
	rows := map[string]map[string]int64{}
	for _, line := range lines[1:] {
		name, rest := strings.TrimSpace(line[:16]), strings.Fields(line[16:])
		if len(rest) != len(columns) {
			t.Fatalf("%d columns, and %q", len(columns), line)
		}
		rows[name] = map[string]int64{}
		for i, column := range columns {
			if n, err := strconv.ParseInt(rest[i], 10, 64); err == nil {
				rows[name][column] = n
			}
		}
	}
	return rows
}
