// Package check looks at what a compiler and a linter do not: the table that an
// example prints, and a few rules of the house about source files. It is for tests
// and for CI.
package check

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Table is the part of an example's output under the heading "jobs": counts by
// name.
type Table map[string]int64

// heading starts the table; an empty line ends it.
const heading = "jobs"

// ReadTable finds the table in the output of a program. A row is a name, at least
// two spaces, and a count.
func ReadTable(r io.Reader) (Table, error) {
	var t Table
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == heading:
			if t != nil {
				return nil, errors.New("check: two tables")
			}
			t = Table{}
		case t == nil:
			continue
		case line == "":
			return t, nil
		default:
			cut := strings.LastIndex(line, "  ")
			if cut < 0 {
				return nil, fmt.Errorf("check: not a row: %q", line)
			}
			name := strings.TrimSpace(line[:cut])
			n, err := strconv.ParseInt(strings.TrimSpace(line[cut:]), 10, 64)
			if err != nil {
				return nil, fmt.Errorf("check: row %q: %w", line, err)
			}
			if _, twice := t[name]; twice {
				return nil, fmt.Errorf("check: two rows %q", name)
			}
			t[name] = n
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("check: read the table: %w", err)
	}
	if t == nil {
		return nil, errors.New("check: there is no table")
	}
	return t, nil
}

// sums that hold once all is quiet: the first name is the sum of the others. A name
// that ends in a star stands for all rows that begin like it.
var sums = [][]string{
	{"submitted", "accepted", "rejected, *", "dropped"},
	{"rejected", "rejected, *"},
	{"accepted", "enqueued", "duplicate", "evicted", "refused", "abandoned", "uncertain", "cancelled", "expired", "in memory"},
	{"enqueued", "completed", "dead"},
}

// Conserved checks that nobody's job has been lost between the rows: each sum
// holds, and something was done. The error names every sum that does not hold.
func (t Table) Conserved() error {
	var errs []error
	for _, sum := range sums {
		var total int64
		for _, name := range sum[1:] {
			n, err := t.count(name)
			if err != nil {
				errs = append(errs, err)
			}
			total += n
		}
		want, err := t.count(sum[0])
		if err != nil {
			errs = append(errs, err)
		} else if want != total {
			errs = append(errs, fmt.Errorf("check: %s is %d, but %s are %d together",
				sum[0], want, strings.Join(sum[1:], " + "), total))
		}
	}
	for name, n := range t {
		if n < 0 {
			errs = append(errs, fmt.Errorf("check: %s is negative: %d", name, n))
		}
	}
	if t["completed"] == 0 {
		errs = append(errs, errors.New("check: nothing was completed"))
	}
	return errors.Join(errs...)
}

func (t Table) count(name string) (int64, error) {
	prefix, many := strings.CutSuffix(name, "*")
	if !many {
		n, ok := t[name]
		if !ok {
			return 0, fmt.Errorf("check: there is no row %q", name)
		}
		return n, nil
	}
	var total int64
	for row, n := range t {
		if strings.HasPrefix(row, prefix) {
			total += n
		}
	}
	return total, nil
}
