package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/seed-9dec4fca/weir/internal/redisproc"
)

// Each measurement is a process of its own, so that no side's memory, garbage or connections are in
// another one's figures. The task goes in as JSON, the outcome comes back as JSON.

// task is one measurement.
type task struct {
	Row     string
	Side    string // the implementation
	Addr    string // of Redis; empty: there is none
	Load    load
	Profile string `json:",omitempty"` // where profiles go, without the end of the name

	trips *trips
	in    io.Reader // what follows the task
	out   io.Writer
}

// outcome is what was measured.
type outcome struct {
	Metrics map[string]float64
	Series  []point `json:",omitempty"`
	Jobs    int     // that the measurement was about
	Seconds float64
}

// point is one of a curve over time, or of a distribution.
type point struct {
	Name string
	X, Y float64
}

func (o *outcome) set(metric string, value float64) {
	if o.Metrics == nil {
		o.Metrics = map[string]float64{}
	}
	o.Metrics[metric] = value
}

// within bounds one measurement.
const within = 6 * time.Minute

// childMain is the program in a child.
func childMain(in io.Reader, out io.Writer) error {
	decoder := json.NewDecoder(in)
	var t task
	if err := decoder.Decode(&t); err != nil {
		return fmt.Errorf("task: %w", err)
	}
	t.trips, t.in, t.out = &trips{}, in, out
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	do := consumeOnly
	if t.Row != consumerRow {
		r := find(rows(true), t.Row)
		if r == nil {
			return fmt.Errorf("no row %q", t.Row)
		}
		do = r.do
	}
	o, err := do(ctx, &t)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(o)
}

func find(rows []*row, name string) *row {
	for _, r := range rows {
		if r.name == name {
			return r
		}
	}
	return nil
}

// measure runs one task in a child.
func measure(ctx context.Context, t *task) (*outcome, error) {
	input, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	p, err := spawn(bytes.NewReader(input), &out)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Kill()
		return nil, context.Cause(ctx)
	}
	if code := p.ExitCode(); code != 0 {
		return nil, fmt.Errorf("the measuring process ended with %d: %s", code, p.Output())
	}
	var o outcome
	if err := json.Unmarshal(out.Bytes(), &o); err != nil {
		return nil, fmt.Errorf("outcome: %w in %q", err, out.String())
	}
	return &o, nil
}

// spawn starts this program as a child.
func spawn(in io.Reader, out io.Writer) (*redisproc.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "-child")
	cmd.Stdin, cmd.Stdout = in, out
	return redisproc.Spawn(cmd)
}
