// Command sums reads the output of an example and fails unless its table adds up:
//
//	go run ./examples/quickstart | go run ./internal/check/sums
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/seed-9dec4fca/weir/internal/check"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	table, err := check.ReadTable(in)
	if err != nil {
		return err
	}
	if err := table.Conserved(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "the sums hold: %d submitted, %d accepted, %d completed\n",
		table["submitted"], table["accepted"], table["completed"])
	return err
}
