package main

import (
	"encoding/xml"
	"fmt"
	"strings"
	"time"
)

// The measures of the drawing, in pixels: a panel for each policy, one below the other.
const (
	panelWidth, panelHeight = 640, 96
	marginLeft, marginTop   = 48, 24
	gap                     = 36
)

// drawing is the depth over time as SVG.
func drawing(trials []*trial) string {
	var b strings.Builder
	width, height := marginLeft+panelWidth+16, marginTop+len(trials)*(panelHeight+gap)+8
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	for i, t := range trials {
		fmt.Fprintf(&b, `<g transform="translate(%d %d)">`+"\n", marginLeft, marginTop+i*(panelHeight+gap))
		t.draw(&b)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// draw is one panel, from the origin to the right and down.
func (t *trial) draw(b *strings.Builder) {
	fmt.Fprintf(b, `<text y="-6" fill="#222">%s — goodput %.2f, p99 %s</text>`+"\n", escape(t.policy.String()), t.goodput(), short(t.stayed(99)))
	fmt.Fprintf(b, `<path d="M0 0V%dH%d" fill="none" stroke="#888"/>`+"\n", panelHeight, panelWidth)
	fmt.Fprintf(b, `<path d="M0 0H%d" fill="none" stroke="#c44" stroke-dasharray="4 4"/>`+"\n", panelWidth)
	fmt.Fprintf(b, `<text x="-6" y="4" text-anchor="end" fill="#666">%d</text>`+"\n", capacity)
	fmt.Fprintf(b, `<text x="-6" y="%d" text-anchor="end" fill="#666">0</text>`+"\n", panelHeight)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end" fill="#666">%s</text>`+"\n", panelWidth, panelHeight+14, t.offered.Round(time.Millisecond))
	levels := t.levels(panelWidth / 2)
	if len(levels) == 0 {
		return
	}
	var points strings.Builder
	for i, level := range levels {
		fmt.Fprintf(&points, "%.1f %.1f ", float64(i)*panelWidth/float64(len(levels)), panelHeight*(1-level))
	}
	line := strings.TrimSpace(points.String())
	fmt.Fprintf(b, `<path d="M0 %d L%s V%d Z" fill="#3b7ea1" fill-opacity="0.2"/>`+"\n", panelHeight, line, panelHeight)
	fmt.Fprintf(b, `<path d="M%s" fill="none" stroke="#3b7ea1" stroke-width="1.5"/>`+"\n", line)
}

func escape(text string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(text)); err != nil {
		return ""
	}
	return b.String()
}
