// Command overload offers a pool ten times the work that it can do, under one policy after
// the other, and shows what each does with it: who is refused, what is lost, how long jobs
// stay, and how deep the front is over time.
//
//	go run ./examples/overload [-for 1500ms] [-times 10] [-page 32] [-svg depth.svg]
//
// The work is real: pages of text are compressed, and the result is compared with what it
// must be. How much of it can be done is measured before and after each policy's turn, because
// it changes with whatever else the machine does. The program adds up what its callers were told
// and fails if the pool has counted anything else.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"time"

	"github.com/seed-9dec4fca/weir/policy"
)

// capacity is small, so that a full front is worth a few tenths of a second.
const capacity = 100

// contender is a policy under test. They are made once, as CoDel and Ramp should be.
type contender struct {
	name   string
	policy policy.Policy
}

func contenders() []contender {
	return []contender{
		{"wait", policy.Wait(100 * time.Millisecond)},
		{"reject", policy.Reject()},
		{"drop-incoming", policy.DropIncoming()},
		{"drop-oldest", policy.DropOldest()},
		{"codel", policy.CoDel(20*time.Millisecond, policy.Reject())},
		{"ramp", policy.Ramp(0.25, 0.75, policy.Reject())},
		{"ramp, then wait", policy.Ramp(0, 1, policy.Wait(100*time.Millisecond))},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "overload:", err)
		os.Exit(1)
	}
}

// run is the program.
func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	book := newBook(o.page << 10)
	workers := max(1, runtime.GOMAXPROCS(0)-1) // one for those who offer
	say := func(format string, a ...any) { _, err = fmt.Fprintf(out, format, a...) }
	say("%g times what can be done, for %v under each policy: pages of %d KiB to compress, %d worker(s), capacity %d\n\n",
		o.times, o.offerFor, o.page, workers, capacity)
	var trials []*trial
	for _, c := range contenders() {
		t, trialErr := try(ctx, c, book, workers, o)
		if trialErr != nil {
			return fmt.Errorf("%s: %w", c.name, trialErr)
		}
		trials = append(trials, t)
		say("%s\n", t.plot())
	}
	say("%s", table(trials))
	if o.svg != "" && err == nil {
		if err = os.WriteFile(o.svg, []byte(drawing(trials)), 0o600); err == nil {
			say("\nThe depth over time is drawn in %s\n", o.svg)
		}
	}
	return err
}

type options struct {
	offerFor time.Duration
	times    float64
	page     int
	svg      string
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("overload", flag.ContinueOnError)
	flags.DurationVar(&o.offerFor, "for", 1500*time.Millisecond, "offer work under each policy for this long, at most 20s")
	flags.Float64Var(&o.times, "times", 10, "offer that many times what can be done, 0.1 to 100")
	flags.IntVar(&o.page, "page", 32, "compress pages of that many KiB, 1 to 1024: how much work a job is")
	flags.StringVar(&o.svg, "svg", "", "draw the depth over time into this file (default: none)")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.offerFor <= 0 || o.offerFor > 20*time.Second:
		return o, fmt.Errorf("-for is %v, not between 0 and 20s", o.offerFor)
	case !(o.times >= 0.1 && o.times <= 100):
		return o, fmt.Errorf("-times is %v, not between 0.1 and 100", o.times)
	case o.page < 1 || o.page > 1024:
		return o, fmt.Errorf("-page is %d, not between 1 and 1024", o.page)
	}
	return o, nil
}
