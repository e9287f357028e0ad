// Command bench measures weir beside others, on a Redis that it starts itself.
//
//	go run .                          everything, 25 minutes on two idle cores; results go to results/
//	go run . -quick                   what has a goal, in small, two minutes; results go nowhere
//	go run . -run '^(e2e|drain)'      some rows; what results/ has of the others stays
//	go run . -sides weir -profiles p  ours alone, with profiles of CPU and allocations in p/
//	go run . -list                    what there is
//	go run . -docs                    writes the figures of results/ into the documents, and draws the plots
//	go run . -check                   fails unless the documents and plots are those of results/
//
// The sides of a row are measured in turns, each in a process of its own, and compared round by round: only such
// ratios count, as a machine may be a third slower a minute later.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options is the command line.
type options struct {
	list, quick, long, docs, check, child bool
	run, sides, out, root, profiles, dir  string
	rounds                                int
	length                                time.Duration
}

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.BoolVar(&o.list, "list", false, "list the rows")
	f.BoolVar(&o.quick, "quick", false, "only what has a goal, in small")
	f.BoolVar(&o.long, "long", false, "also a backlog of ten million, and overload for a minute")
	f.BoolVar(&o.docs, "docs", false, "write the results into the documents, and draw the plots")
	f.BoolVar(&o.check, "check", false, "fail unless documents and plots agree with the results")
	f.BoolVar(&o.child, "child", false, "measure what standard input says; for the program itself")
	f.StringVar(&o.run, "run", "", "only rows whose name matches this regular expression")
	f.StringVar(&o.sides, "sides", "", "only sides whose name matches this regular expression; results go nowhere")
	f.StringVar(&o.out, "out", "", "folder of the results (default: results, with -quick none)")
	f.StringVar(&o.root, "root", "..", "folder of the documents")
	f.StringVar(&o.profiles, "profiles", "", "write profiles of the first round of each side into this folder")
	f.StringVar(&o.dir, "dir", "", "where servers keep their files; fsync must mean something there (default: for temporary files)")
	f.IntVar(&o.rounds, "rounds", 5, "at most that many rounds")
	f.DurationVar(&o.length, "length", 1500*time.Millisecond, "how long a measurement should take, where that can be chosen")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	set := map[string]bool{}
	f.Visit(func(f *flag.Flag) { set[f.Name] = true })
	if o.quick {
		if !set["rounds"] {
			o.rounds = 3
		}
		if !set["length"] {
			o.length = 400 * time.Millisecond
		}
	} else if o.out == "" && o.sides == "" {
		o.out = "results"
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.rounds < 1:
		return o, fmt.Errorf("-rounds is %d, less than 1", o.rounds)
	case o.sides != "" && o.out != "":
		return o, errors.New("-sides with -out: the other sides of a row would be lost")
	case o.length < 10*time.Millisecond:
		return o, fmt.Errorf("-length is %v, less than 10ms", o.length)
	}
	return o, nil
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	all := rows(o.long)
	if err := validate(all); err != nil {
		return err
	}
	switch {
	case o.child:
		return childMain(os.Stdin, os.Stdout)
	case o.list:
		return list(os.Stdout, all)
	case o.docs:
		return writeDocuments(o.root, o.out)
	case o.check:
		return checkDocuments(o.root, o.out)
	}
	selected, err := choose(all, o)
	if err != nil {
		return err
	}
	return measureAll(ctx, selected, o)
}

func list(out io.Writer, rows []*row) error {
	for _, r := range rows {
		quick := " "
		if r.quick {
			quick = "q"
		}
		if _, err := fmt.Fprintf(out, "%s %-20s %s\n", quick, r.name, r.title); err != nil {
			return err
		}
	}
	return nil
}

func choose(all []*row, o options) (chosen []*row, err error) {
	pattern, err := regexp.Compile(o.run)
	if err != nil {
		return nil, err
	}
	sides, err := regexp.Compile(o.sides)
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		r.sides = slices.DeleteFunc(r.sides, func(s side) bool { return !sides.MatchString(s.name) })
		if len(r.sides) == 0 {
			continue
		}
		if pattern.MatchString(r.name) && (r.quick || !o.quick || o.run != "") {
			chosen = append(chosen, r)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no row matches %q", o.run)
	}
	return chosen, nil
}

// measureAll measures rows one after the other and keeps each as soon as it is there.
func measureAll(ctx context.Context, chosen []*row, o options) error {
	r := &runner{
		out: os.Stdout, progress: os.Stderr, rounds: o.rounds, quick: o.quick, length: o.length,
		profiles: o.profiles, dir: o.dir, all: len(chosen), began: time.Now(),
	}
	if r.profiles != "" {
		var err error
		if r.profiles, err = filepath.Abs(r.profiles); err != nil {
			return err
		}
	}
	if err := configuration(r.out); err != nil {
		return err
	}
	if busy := load1(); busy > 0.2*float64(runtime.NumCPU()) {
		r.say("The machine is busy (load %g): ranges will be wide, latencies will be those of the others.\n", busy)
	}
	var failed error
	for _, w := range chosen {
		m, err := r.row(ctx, w)
		if ctx.Err() != nil {
			return errors.Join(failed, context.Cause(ctx))
		}
		if err != nil {
			failed = errors.Join(failed, err)
			r.say("%v\n", err)
			continue
		}
		if err := m.report(r.out, w); err != nil {
			return err
		}
		if err := keep(o.out, w.name, m); err != nil {
			return err
		}
	}
	return failed
}

// load1 is the mean number of runnable processes in the last minute; 0 where that is not known.
func load1() (load float64) {
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(text), &load)
	}
	return load
}

// keep puts a row into the results. They are read again each time: somebody may measure other rows.
func keep(dir, name string, m *measured) error {
	if dir == "" {
		return nil
	}
	all, err := readResults(dir)
	if err != nil {
		return err
	}
	all.rows[name] = m
	return errors.Join(all.write(dir, rows(true)), all.draw(dir))
}

// configuration says who takes part, and how each is set up.
func configuration(out io.Writer) error {
	var b strings.Builder
	b.WriteString("versions\n")
	for _, v := range versions() {
		b.WriteString("  " + v + "\n")
	}
	b.WriteString("set up as\n  Redis: " + serverConfig + "\n")
	for _, i := range implementations() {
		fmt.Fprintf(&b, "  %s: %s\n", i.name, i.config)
	}
	for _, p := range pools {
		fmt.Fprintf(&b, "  in process, %s: %s\n", p.name, p.config)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
