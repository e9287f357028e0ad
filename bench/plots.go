package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// plot is a picture of results.
type plot struct{ file, title, family, svg string }

const throughputPlot = "throughput.svg"

// plotsOf draws all for which there are figures.
func plotsOf(r *results) (plots []plot) {
	for _, p := range []plot{
		{throughputPlot, "jobs a second", "throughput", r.bars()},
		{"latency.svg", "distribution of the start latency", "latency", r.latencies()},
		{"overload.svg", "depth over time under ten times too much", "overload", r.depths()},
		{"curves.svg", "throughput as the load grows", "curves", r.curves()},
	} {
		if p.svg != "" {
			plots = append(plots, p)
		}
	}
	return plots
}

const plotWidth = 760.0

// ours puts weir first, so that it has the first colour in every plot.
func ours(names []string) []string {
	slices.SortStableFunc(names, func(a, b string) int {
		return rank(a) - rank(b)
	})
	return names
}

func rank(name string) int {
	if strings.HasPrefix(name, weir) {
		return 0
	}
	return 1
}

// of is the rows of a family that were measured.
func (r *results) of(family string) (of []*row) {
	for _, w := range rows(true) {
		if w.family == family && r.rows[w.name] != nil {
			of = append(of, w)
		}
	}
	return of
}

// sideNames is all sides of some rows.
func sideNames(rows []*row) (names []string) {
	for _, w := range rows {
		for _, s := range w.sides {
			if !slices.Contains(names, s.name) {
				names = append(names, s.name)
			}
		}
	}
	return ours(names)
}

// bars is the throughput of each row and side.
func (r *results) bars() string {
	measured := r.of("throughput")
	if len(measured) == 0 {
		return ""
	}
	names := sideNames(measured)
	high := 0.0
	for _, w := range measured {
		for _, n := range names {
			high = max(high, r.rows[w.name].of(n, w.metric).high)
		}
	}
	const bar, left = 14.0, 330.0
	d := &drawing{width: plotWidth}
	d.legend(left, 20, names)
	x := linear(high, left, plotWidth-80, nil)
	at := 40.0
	for _, w := range measured {
		m := r.rows[w.name]
		d.text(left-8, at+bar*float64(len(names))/2+4, "end", black, w.title)
		for i, n := range names {
			v := m.of(n, w.metric)
			if v.rounds == 0 {
				continue
			}
			d.rect(left, at+1, x.at(v.median)-left, bar-2, shade(i))
			d.line([]xy{{x.at(v.low), at + bar/2}, {x.at(v.high), at + bar/2}}, black, 1)
			d.text(x.at(v.high)+5, at+bar-3, "start", grey, number(v.median))
			at += bar
		}
		at += 12
	}
	d.height = at
	return d.svg()
}

// latencies is a panel for each rate: how long the luckiest x % had to wait at most.
func (r *results) latencies() string {
	measured := r.of("latency")
	var all []float64
	for _, w := range measured {
		for _, points := range r.rows[w.name].series {
			for _, p := range points {
				all = append(all, max(p.Y, 0.01))
			}
		}
	}
	if len(all) == 0 {
		return ""
	}
	names := sideNames(measured)
	d := &drawing{width: plotWidth}
	d.legend(80, 20, names)
	const height = 220.0
	at := 60.0
	// The share that waits longer, on a logarithmic axis: half, a tenth, a hundredth …
	x := &axis{low: 1, high: 2000, from: 80, to: plotWidth - 30, log: true, ticks: []float64{1, 2, 10, 100, 1000}, tickLabels: func(v float64) string {
		return fmt.Sprintf("p%g", math.Round((100-100/v)*10)/10)
	}}
	for _, w := range measured {
		y := decades(slices.Min(all), slices.Max(all), at+height, at, func(v float64) string { return fmt.Sprintf("%g ms", v) })
		d.text(80, at-10, "start", black, w.title+", from the intended time of sending to the call of the handler")
		d.frame(x, y)
		for i, n := range names {
			var points []xy
			for _, p := range r.rows[w.name].series[n] {
				if p.X < 1 {
					points = append(points, xy{x.at(1 / (1 - p.X)), y.at(max(p.Y, 0.01))})
				}
			}
			d.line(points, shade(i), 2)
		}
		at += height + 70
	}
	d.height = at - 30
	return d.svg()
}

// depths is a panel for each policy: front and backlog over time, as shares of their bounds.
func (r *results) depths() string {
	m := r.rows["overload"]
	if m == nil {
		return ""
	}
	d := &drawing{width: plotWidth}
	series := []string{"front", "backlog"}
	d.legend(60, 20, []string{"front, of 1,024", "backlog in Redis, of " + grouped(overloadBacklog)})
	const height = 80.0
	at := 60.0
	for _, p := range policies {
		points := m.series[p.name]
		if len(points) == 0 {
			continue
		}
		x := linear(points[len(points)-1].X, 60, plotWidth-30, func(v float64) string { return fmt.Sprintf("%g s", math.Round(v*100)/100) })
		x.high = points[len(points)-1].X
		x.ticks = slices.DeleteFunc(x.ticks, func(t float64) bool { return t > x.high })
		y := &axis{high: 1, from: at + height, to: at, ticks: []float64{0, 0.5, 1}, tickLabels: func(v float64) string { return fmt.Sprintf("%g %%", v*100) }}
		d.text(60, at-8, "start", black, fmt.Sprintf("%s: goodput %s × capacity, calls %s × capacity",
			p.name, number(m.of(p.name, "goodput").median), number(m.of(p.name, "offered").median)))
		d.frame(x, y)
		for i, name := range series {
			bound := 1024.0
			if name == "backlog" {
				bound = overloadBacklog
			}
			var line []xy
			for _, q := range points {
				if q.Name == name {
					line = append(line, xy{x.at(q.X), y.at(q.Y / bound)})
				}
			}
			d.line(line, shade(i), 1.5)
		}
		at += height + 56
	}
	d.height = at - 20
	return d.svg()
}

// curves is a panel for each growing load.
func (r *results) curves() string {
	measured := r.of("curves")
	if len(measured) == 0 {
		return ""
	}
	d := &drawing{width: plotWidth}
	const height, gap = 150.0, 70.0
	width := (plotWidth - 3*gap) / 2
	at := 40.0
	for i, w := range measured {
		m := r.rows[w.name]
		left := gap
		if i%2 == 1 {
			left += width + gap
		}
		var values []xy
		var ranges []spread
		for _, s := range w.sides {
			var n float64
			if _, err := fmt.Sscan(strings.ReplaceAll(s.name, ",", ""), &n); err != nil {
				continue
			}
			if v := m.of(s.name, w.metric); v.rounds > 0 {
				values, ranges = append(values, xy{n, v.median}), append(ranges, v)
			}
		}
		if len(values) == 0 {
			continue
		}
		high := 0.0
		for _, v := range ranges {
			high = max(high, v.high)
		}
		x := decades(values[0].x, max(values[len(values)-1].x, values[0].x*10), left, left+width, func(v float64) string { return grouped(int(math.Round(v))) })
		y := linear(high, at+height, at, func(v float64) string { return grouped(int(math.Round(v))) })
		d.text(left, at-10, "start", black, w.title+", "+w.metric)
		d.frame(x, y)
		var line []xy
		for j, v := range values {
			p := xy{x.at(v.x), y.at(v.y)}
			line = append(line, p)
			d.line([]xy{{p.x, y.at(ranges[j].low)}, {p.x, y.at(ranges[j].high)}}, black, 1)
			d.rect(p.x-2.5, p.y-2.5, 5, 5, shade(0))
		}
		d.line(line, shade(0), 1.5)
		if i%2 == 1 || i == len(measured)-1 {
			at += height + 60
		}
	}
	d.height = at - 15
	return d.svg()
}
