package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// columns is the metrics that a family's tables show.
var columns = map[string][]string{
	"throughput": {"jobs/s", "server µs/job", "go µs/job", "allocs", "commands", "round trips"},
	"latency":    {"p50 ms", "p99 ms", "p99.9 ms", "sender lag p99 ms", "server µs/job"},
	"memory":     {"bytes/job"},
	"engines":    {"jobs/s", "server µs/job", "go µs/job", "commands", "round trips", "bytes/job"},
	"in process": {"ns", "CPU ns", "allocs", "alloc bytes"},
	"overload":   {"goodput", "offered", "rejected CPU", "memory growth", "Redis memory growth", "resident MB"},
	"curves":     {"jobs/s", "server µs/job", "go µs/job", "allocs", "round trips", "goroutines/queue", "connections/queue"},
}

// families is the order of the tables.
var families = []string{"throughput", "latency", "memory", "engines", "in process", "overload", "curves"}

// spread is a value that was measured in several rounds.
type spread struct {
	median, low, high float64
	rounds            int
}

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return spread{(v[(n-1)/2] + v[n/2]) / 2, v[0], v[n-1], n}
}

func (s spread) String() string {
	if s.rounds < 2 {
		return number(s.median)
	}
	return fmt.Sprintf("%s (%s–%s)", number(s.median), number(s.low), number(s.high))
}

// number is three digits of x, or all of those before the point.
func number(x float64) string {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return "?"
	case math.Abs(x) >= 99.95:
		return grouped(int(math.Round(x)))
	case math.Abs(x) >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	case math.Abs(x) >= 0.01 || x == 0:
		return strconv.FormatFloat(x, 'f', 2, 64)
	}
	return strconv.FormatFloat(x, 'g', 1, 64)
}

func (m *measured) of(side, metric string) spread { return spreadOf(m.values[side][metric]) }

// ratio is that of two sides, round by round: what the machine does in a round it does to both.
func (m *measured) ratio(a, b, metric string) spread {
	x, y := m.values[a][metric], m.values[b][metric]
	ratios := make([]float64, min(len(x), len(y)))
	for i := range ratios {
		ratios[i] = x[i] / y[i]
	}
	return spreadOf(ratios)
}

// verdict is what has become of a goal.
type verdict struct {
	goal
	metric string
	side   string
	got    spread
	met    bool
}

// verdicts looks at each goal for which there are figures.
func (m *measured) verdicts(r *row) (all []verdict) {
	for _, g := range r.goals {
		sides := []string{g.side}
		switch g.side {
		case "":
			sides[0] = weir
		case "*":
			sides = nil
			for _, s := range r.sides {
				sides = append(sides, s.name)
			}
		}
		for _, s := range sides {
			v := verdict{goal: g, side: s, metric: g.metric}
			if v.metric == "" {
				v.metric = r.metric
			}
			if g.than != "" {
				v.got = m.ratio(s, g.than, v.metric)
			} else {
				v.got = m.of(s, v.metric)
			}
			if v.got.rounds == 0 {
				continue
			}
			v.met = g.reached(v.got.median, g.limit)
			all = append(all, v)
		}
	}
	return all
}

// reached judges the figure as it is shown: an allocation in a million calls is none.
func (g *goal) reached(x, limit float64) bool {
	x = math.Round(x*100) / 100
	if g.most {
		return x <= limit
	}
	return x >= limit
}

// aim is the goal in words: "≥ 10 × asynq".
func (v *verdict) aim() string { return v.aimAt(v.limit) }

func (v *verdict) aimAt(limit float64) string {
	sign := "≥"
	if v.most {
		sign = "≤"
	}
	text := fmt.Sprintf("%s %s", sign, strconv.FormatFloat(limit, 'g', -1, 64))
	if v.than != "" {
		return text + " × " + v.than
	}
	if v.metric == "goodput" {
		return text + " × capacity"
	}
	return text
}

// result is "met", "missed", or "met, and then".
func (v *verdict) result() string {
	switch {
	case !v.met:
		return "missed"
	case v.next != 0 && v.reached(v.got.median, v.next):
		return "met, and " + strings.TrimSpace(v.aimAt(v.next)) + " as well"
	}
	return "met"
}

// report prints a row: its figures, its ratios, its goals.
func (m *measured) report(out io.Writer, r *row) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s: %s\n", r.name, r.title)
	var metrics []string
	for _, c := range columns[r.family] {
		if slices.ContainsFunc(r.sides, func(s side) bool { return m.values[s.name][c] != nil }) {
			metrics = append(metrics, c)
		}
	}
	lines := [][]string{append([]string{""}, metrics...)}
	for _, s := range r.sides {
		if m.values[s.name] == nil {
			continue
		}
		line := []string{s.name}
		for _, c := range metrics {
			line = append(line, m.of(s.name, c).String())
		}
		lines = append(lines, line)
	}
	align(&b, lines)
	for _, p := range r.pairs() {
		if q := m.ratio(p.a, p.b, r.metric); q.rounds > 0 {
			name := r.name
			if p.a != weir {
				name += " " + p.a
			}
			fmt.Fprintf(&b, "ratio %s vs %s %s\n", name, p.b, q)
		}
	}
	for _, v := range m.verdicts(r) {
		name := r.name
		if v.goal.side != "" {
			name += " " + v.side
		}
		fmt.Fprintf(&b, "goal  %s %s %s: %s %s\n", name, v.metric, v.aim(), v.got, v.result())
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// align writes lines in columns.
func align(b *strings.Builder, lines [][]string) {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for _, line := range lines {
		b.WriteString("  " + line[0])
		pad := widths[0] - len([]rune(line[0]))
		for i, cell := range line[1:] {
			pad += 2 + widths[i+1] - len([]rune(cell))
			b.WriteString(strings.Repeat(" ", pad) + cell)
			pad = 0
		}
		b.WriteString("\n")
	}
}
