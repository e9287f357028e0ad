package main

import (
	"fmt"
	"strings"
)

const (
	columns = 72
	rows    = 4
)

// bars fill a character from below, in eighths.
var bars = []rune(" ▁▂▃▄▅▆▇█")

// plot is the depth over time for a terminal.
func (t *trial) plot() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", t.name, t.policy)
	levels := t.levels(columns)
	for row := rows - 1; row >= 0; row-- {
		label := ""
		switch row {
		case rows - 1:
			label = fmt.Sprint(capacity)
		case 0:
			label = "0"
		}
		fmt.Fprintf(&b, "%5s │", label)
		for _, level := range levels {
			eighths := int(level*rows*8+0.5) - row*8
			b.WriteRune(bars[min(max(eighths, 0), 8)])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// levels are the depths, as shares of the capacity: the mean of each of n stretches.
func (t *trial) levels(n int) []float64 {
	n = min(n, len(t.depth))
	levels := make([]float64, n)
	for i := range levels {
		stretch := t.depth[i*len(t.depth)/n : (i+1)*len(t.depth)/n]
		for _, depth := range stretch {
			levels[i] += float64(depth) / capacity / float64(len(stretch))
		}
	}
	return levels
}
