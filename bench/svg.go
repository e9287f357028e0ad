package main

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"
)

// drawing is an SVG that grows downwards.
type drawing struct {
	body   strings.Builder
	width  float64
	height float64
}

// colours are those of the sides, in their order; ours is the first.
var colours = []string{"#1f6f9f", "#c8643c", "#8a8f3a", "#8d6cab", "#4f9d76", "#7a7a7a"}

// shade is the colour of the i-th of several.
func shade(i int) string { return colours[i%len(colours)] }

func escape(text string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(text)); err != nil {
		return ""
	}
	return b.String()
}

func (d *drawing) text(x, y float64, anchor, colour, text string) {
	fmt.Fprintf(&d.body, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, anchor, colour, escape(text))
}

func (d *drawing) rect(x, y, w, h float64, colour string) {
	fmt.Fprintf(&d.body, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x, y, w, h, colour)
}

func (d *drawing) line(points []xy, colour string, width float64) {
	if len(points) == 0 {
		return
	}
	var b strings.Builder
	for i, p := range points {
		command := "L"
		if i == 0 {
			command = "M"
		}
		fmt.Fprintf(&b, "%s%.1f %.1f", command, p.x, p.y)
	}
	fmt.Fprintf(&d.body, `<path d="%s" fill="none" stroke="%s" stroke-width="%g" stroke-linejoin="round"/>`+"\n", b.String(), colour, width)
}

func (d *drawing) svg() string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12">`+"\n"+
		`<rect width="%.0f" height="%.0f" fill="#fff"/>`+"\n%s</svg>\n",
		d.width, d.height, d.width, d.height, d.width, d.height, d.body.String())
}

type xy struct{ x, y float64 }

// axis maps values to pixels.
type axis struct {
	low, high  float64 // values
	from, to   float64 // pixels
	log        bool
	ticks      []float64
	tickLabels func(float64) string
}

func (a *axis) at(v float64) float64 {
	low, high := a.low, a.high
	if a.log {
		v, low, high = math.Log10(max(v, low/10)), math.Log10(low), math.Log10(high)
	}
	if high == low {
		return a.from
	}
	return a.from + (min(max(v, low), high)-low)/(high-low)*(a.to-a.from)
}

// decades is an axis over powers of ten that holds low and high.
func decades(low, high, from, to float64, label func(float64) string) *axis {
	a := &axis{low: math.Pow(10, math.Floor(math.Log10(low))), high: math.Pow(10, math.Ceil(math.Log10(high))), from: from, to: to, log: true, tickLabels: label}
	if a.high == a.low {
		a.high *= 10
	}
	for t := a.low; t <= a.high*1.0001; t *= 10 {
		a.ticks = append(a.ticks, t)
	}
	return a
}

// linear is an axis from 0 to a round number that is not less than high.
func linear(high, from, to float64, label func(float64) string) *axis {
	step := math.Pow(10, math.Floor(math.Log10(max(high, 1e-9))))
	for _, f := range []float64{0.2, 0.5, 1, 2} {
		if high <= f*step*5 {
			step *= f
			break
		}
	}
	a := &axis{from: from, to: to, tickLabels: label}
	for t := 0.0; ; t += step {
		a.ticks = append(a.ticks, t)
		a.high = t
		if t >= high {
			return a
		}
	}
}

const (
	grey  = "#666"
	black = "#222"
	faint = "#e4e4e4"
)

// frame draws two axes with their ticks; y grows upwards.
func (d *drawing) frame(x, y *axis) {
	for _, t := range y.ticks {
		at := y.at(t)
		d.line([]xy{{x.from, at}, {x.to, at}}, faint, 1)
		d.text(x.from-6, at+4, "end", grey, y.tickLabels(t))
	}
	for _, t := range x.ticks {
		at := x.at(t)
		d.line([]xy{{at, y.from}, {at, y.from + 4}}, grey, 1)
		d.text(at, y.from+17, "middle", grey, x.tickLabels(t))
	}
	d.line([]xy{{x.from, y.to}, {x.from, y.from}, {x.to, y.from}}, grey, 1)
}

// legend names colours, one beside the other.
func (d *drawing) legend(x, y float64, names []string) {
	for i, name := range names {
		d.rect(x, y-9, 10, 10, shade(i))
		d.text(x+14, y, "start", black, name)
		x += 34 + 7*float64(len(name))
	}
}
