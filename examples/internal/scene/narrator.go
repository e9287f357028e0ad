package scene

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// Narrator tells the story, and at its end whether it came true. Safe for concurrent use.
type Narrator struct {
	mu     sync.Mutex // guards what follows
	out    io.Writer
	err    error // the first of writing
	claims []string
	untrue []string
}

// NewNarrator makes one that writes to out.
func NewNarrator(out io.Writer) *Narrator { return &Narrator{out: out} }

// Say writes.
func (n *Narrator) Say(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, err := fmt.Fprintf(n.out, format, args...); err != nil && n.err == nil {
		n.err = err
	}
}

// Claim notes something that the story promised, and whether it is so.
func (n *Narrator) Claim(holds bool, format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	what, mark := fmt.Sprintf(format, args...), "yes"
	if !holds {
		mark = "NO "
		n.untrue = append(n.untrue, what)
	}
	n.claims = append(n.claims, mark+"  "+what)
}

// End prints all claims, and returns an error that names those that did not come true.
func (n *Narrator) End() error {
	n.mu.Lock()
	claims, untrue := strings.Join(n.claims, "\n  "), slices.Clone(n.untrue)
	n.mu.Unlock()
	n.Say("\ndid it come true?\n  %s\n", claims)
	if len(untrue) > 0 {
		return fmt.Errorf("did not come true: %s", strings.Join(untrue, "; "))
	}
	if claims == "" {
		return errors.New("nothing was claimed")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// Quantile of sorted durations, rounded to three digits; "-" if there are none.
func Quantile(sorted []time.Duration, percent int) string {
	if len(sorted) == 0 {
		return "-"
	}
	d := sorted[min(len(sorted)*percent/100, len(sorted)-1)]
	digits := time.Nanosecond
	for digits*1000 <= d {
		digits *= 10
	}
	return d.Round(digits).String()
}
