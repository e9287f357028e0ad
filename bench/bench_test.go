package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRows(t *testing.T) {
	t.Parallel()
	for _, long := range []bool{false, true} {
		if err := validate(rows(long)); err != nil {
			t.Error(err)
		}
	}
	broken := rows(false)
	broken[0].goals[0].than = "nobody"
	if validate(broken) == nil {
		t.Error("a goal over a side that is not there was not noticed")
	}
}

func TestRatiosAreFormedRoundByRound(t *testing.T) {
	t.Parallel()
	m := newMeasured()
	for _, round := range []struct{ weir, peer float64 }{{100, 10}, {50, 5}, {300, 20}} { // the machine drifts
		m.add(weir, &outcome{Metrics: map[string]float64{"jobs/s": round.weir}})
		m.add("asynq", &outcome{Metrics: map[string]float64{"jobs/s": round.peer}})
	}
	if got := m.ratio(weir, "asynq", "jobs/s").String(); got != "10.0 (10.0–15.0)" {
		t.Error(got)
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	all := make([]time.Duration, 1000)
	for i := range all {
		all[i] = time.Duration(i + 1)
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 500, 0.99: 990, 0.999: 999, 1: 1000} {
		if got := quantile(all, q); got != want {
			t.Errorf("quantile %g: %d, want %d", q, got, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for x, want := range map[float64]string{1234567: "1,234,567", 999.6: "1,000", 12.34: "12.3", 0.5: "0.50", 0: "0.00", 0.0004: "0.0004"} {
		if got := number(x); got != want {
			t.Errorf("%g is shown as %q, want %q", x, got, want)
		}
	}
}

func TestInfo(t *testing.T) {
	t.Parallel()
	cpu, calls := parseInfo("# CPU\r\nused_cpu_sys:1.5\r\nused_cpu_user:2.25\r\nused_cpu_sys_children:9\r\n" +
		"cmdstat_get:calls=3,usec=1\r\ncmdstat_config|set:calls=2,usec=1\r\ncmdstat_info:calls=50,usec=1\r\n")
	if cpu != 3.75 || calls != 5 {
		t.Error(cpu, calls)
	}
}

func TestFillBlocks(t *testing.T) {
	t.Parallel()
	put := func(name string) (string, error) {
		if name == "bad" {
			return "", errors.New("no such block")
		}
		return "new " + name + "\n", nil
	}

	t.Run("what stands outside of the markers stays", func(t *testing.T) {
		t.Parallel()
		got, err := fillBlocks("a\n<!-- bench:begin x -->\nold\n<!-- bench:end x -->\nb\n", put)
		if want := "a\n<!-- bench:begin x -->\nnew x\n<!-- bench:end x -->\nb\n"; got != want || err != nil {
			t.Error(got, err)
		}
	})

	t.Run("a marker without an end, and an unknown block, are errors", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"<!-- bench:begin x -->\nold", "<!-- bench:begin bad --><!-- bench:end bad -->"} {
			if _, err := fillBlocks(text, put); err == nil {
				t.Errorf("%q was accepted", text)
			}
		}
	})
}

// sample is results with something in every family.
func sample() *results {
	r := &results{rows: map[string]*measured{}}
	for _, w := range rows(false) {
		m := newMeasured()
		for i, s := range w.sides {
			for round := range 2 {
				o := &outcome{}
				for j, c := range columns[w.family] {
					o.set(c, float64((i+1)*(j+1)*100+round))
				}
				o.set(w.metric, float64((i+1)*1000+round))
				if w.family == "latency" {
					for _, q := range quantiles {
						o.Series = append(o.Series, point{"latency", q, 0.1 + q})
					}
				}
				if w.family == "overload" {
					o.Series = []point{{"front", 1, 1000}, {"backlog", 1, 5000}, {"front", 2, 1024}, {"backlog", 2, 10000}}
				}
				m.add(s.name, o)
			}
		}
		m.on = conditions{"2026-01-02", "abc", "2 × a processor, & more", "1.26", "7.0", "x v1"}
		r.rows[w.name] = m
	}
	return r
}

func TestResultsSurviveTheirFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := sample().write(dir, rows(false)); err != nil {
		t.Fatal(err)
	}
	again, err := readResults(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if a, b := sample().table(family, "x"), again.table(family, "x"); a != b || a == "" {
			t.Errorf("%s:\n%s\nbecame\n%s", family, a, b)
		}
	}
	if a, b := sample().goals(), again.goals(); a != b || a == "" {
		t.Errorf("goals:\n%s\nbecame\n%s", a, b)
	}
	if a, b := sample().conditions(), again.conditions(); a != b || a == "" {
		t.Errorf("conditions:\n%s\nbecame\n%s", a, b)
	}
}

func TestARowThatIsMeasuredAgainReplacesItself(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := sample().write(dir, rows(false)); err != nil {
		t.Fatal(err)
	}
	m := newMeasured()
	m.add(weir, &outcome{Metrics: map[string]float64{"jobs/s": 7}})
	if err := keep(dir, "e2e-100", m); err != nil {
		t.Fatal(err)
	}
	again, err := readResults(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := again.rows["e2e-100"].of(weir, "jobs/s"); got.median != 7 || got.rounds != 1 {
		t.Error(got)
	}
	if got := again.rows["drain"].of(weir, "jobs/s"); got.rounds != 2 {
		t.Error(got)
	}
}

func TestPlotsAreXML(t *testing.T) {
	t.Parallel()
	plots := plotsOf(sample())
	if len(plots) != 4 {
		t.Fatalf("%d plots", len(plots))
	}
	d := &drawing{}
	d.text(0, 0, "start", black, "a < b & c")
	for _, p := range append(plots, plot{file: "text", svg: d.svg()}) {
		d := xml.NewDecoder(strings.NewReader(p.svg))
		for {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Errorf("%s: %v", p.file, err)
				break
			}
		}
		if strings.Contains(p.svg, "NaN") || strings.Contains(p.svg, "Inf") {
			t.Errorf("%s: a figure is not a number", p.file)
		}
	}
}

func TestCheckNoticesDocumentsThatDisagree(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := filepath.Join(root, "bench", "results")
	if err := sample().write(dir, rows(false)); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "docs"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, d := range documents {
		text := "# x\n<!-- bench:begin summary -->\n<!-- bench:end summary -->\n<!-- bench:begin goals -->\n<!-- bench:end goals -->\n"
		if err := os.WriteFile(filepath.Join(root, d), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if checkDocuments(root, dir) == nil {
		t.Fatal("documents without figures pass")
	}
	if err := writeDocuments(root, dir); err != nil {
		t.Fatal(err)
	}
	if err := checkDocuments(root, dir); err != nil {
		t.Fatal(err)
	}
	m := newMeasured()
	m.add(weir, &outcome{Metrics: map[string]float64{"jobs/s": 7}})
	m.add("asynq", &outcome{Metrics: map[string]float64{"jobs/s": 3}})
	if err := keep(dir, "e2e-100", m); err != nil {
		t.Fatal(err)
	}
	if checkDocuments(root, dir) == nil {
		t.Error("old figures pass")
	}
}
