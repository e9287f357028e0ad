package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// row is one thing that is measured, on all its sides, in rounds: A B A B. It is data; what it does
// is one of a few scenarios. See rows.go.
type row struct {
	name   string // e2e-100
	title  string // for the tables
	family string // which table and which block of the documents it stands in
	metric string // what the sides are compared by
	less   bool   // less of it is better
	goals  []goal
	sides  []side
	redis  []string // further arguments of the server; nil: there is none, see noArgs
	rounds int      // 0: as many as -rounds says
	quick  bool     // part of -quick
	fixed  bool     // the number of jobs is the load's; otherwise it follows the measured rate
	// of and against name the sides between which ratios are formed. None: weir's, and the others.
	of, against []string
	do          scenario
}

// noArgs is a server as it is.
var noArgs = []string{}

// scenario runs in a process of its own and measures one side once.
type scenario func(ctx context.Context, t *task) (*outcome, error)

// side is a contestant of a row.
type side struct {
	name string // unique in the row, in tables and in the results
	on   string // the implementation; empty: the same as name
	load load
}

// load is what a side is given to do. Scenarios read what concerns them.
type load struct {
	Producers int           `json:",omitempty"`
	Workers   int           `json:",omitempty"`
	Payload   int           `json:",omitempty"` // bytes
	Jobs      int           `json:",omitempty"`
	Backlog   int           `json:",omitempty"` // jobs that are there before the clock starts
	Wait      bool          `json:",omitempty"` // each submit waits until Redis has the job
	Rate      int           `json:",omitempty"` // calls a second
	For       time.Duration `json:",omitempty"`
	Policy    string        `json:",omitempty"`
	Compute   bool          `json:",omitempty"` // handlers use the CPU, instead of waiting
	Queues    int           `json:",omitempty"`
	Processes int           `json:",omitempty"`
}

// goal is one line of the table of goals.
type goal struct {
	metric string // empty: the row's
	side   string // empty: weir; "*": each side for itself
	than   string // the ratio to this side counts; empty: the number itself
	most   bool   // at most; otherwise at least
	limit  float64
	next   float64 // the column "and then"; 0: there is none
}

// each is sides with the same load.
func each(l load, names ...string) (sides []side) {
	for _, name := range names {
		sides = append(sides, side{name: name, load: l})
	}
	return sides
}

// everyEngine is weir on each of its engines.
func everyEngine(l load) (sides []side) {
	for _, engine := range engines {
		sides = append(sides, side{name: engine.side(), load: l})
	}
	return sides
}

// curve is weir under growing loads.
func curve(points []int, at func(n int) load) (sides []side) {
	for _, n := range points {
		sides = append(sides, side{name: grouped(n), on: weir, load: at(n)})
	}
	return sides
}

// isWeir tells our sides from the others.
func (s *side) isWeir() bool {
	return s.on == weir || s.name == weir || strings.HasPrefix(s.name, weir+" ")
}

// implementation is what runs.
func (s *side) implementation() string {
	if s.on != "" {
		return s.on
	}
	return s.name
}

// side finds one by name.
func (r *row) side(name string) *side {
	for i := range r.sides {
		if r.sides[i].name == name {
			return &r.sides[i]
		}
	}
	return nil
}

// pair is two sides that are compared.
type pair struct{ a, b string }

func (r *row) pairs() (pairs []pair) {
	of, against := r.of, r.against
	if of == nil {
		for _, s := range r.sides {
			if s.isWeir() && !slices.Contains(against, s.name) {
				of = append(of, s.name)
			}
		}
	}
	if against == nil {
		for _, s := range r.sides {
			if !s.isWeir() {
				against = append(against, s.name)
			}
		}
	}
	for _, a := range of {
		for _, b := range against {
			if a != b {
				pairs = append(pairs, pair{a, b})
			}
		}
	}
	return pairs
}

// validate finds rows that contradict themselves: a mistake in rows.go.
func validate(rows []*row) error {
	seen := map[string]bool{}
	for _, r := range rows {
		if seen[r.name] || r.do == nil || len(r.sides) == 0 {
			return fmt.Errorf("row %q: twice, or without sides or scenario", r.name)
		}
		seen[r.name] = true
		for _, g := range r.goals {
			for _, name := range []string{g.side, g.than} {
				if name != "" && name != "*" && r.side(name) == nil {
					return fmt.Errorf("row %q: goal for a side %q that it has not", r.name, name)
				}
			}
		}
		for _, name := range slices.Concat(r.of, r.against) {
			if r.side(name) == nil {
				return fmt.Errorf("row %q compares with a side %q that it has not", r.name, name)
			}
		}
	}
	return nil
}

// grouped is a number with commas between the thousands.
func grouped(n int) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
