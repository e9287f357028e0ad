// Torture proves the promises of weir by experiments: real processes, real Redis servers that it
// starts itself, faults on a seeded schedule, a ledger outside of Redis, and one checker.
//
//	go run ./internal/torture -list
//	go run ./internal/torture -run E07 -quick
//	go run ./internal/torture -quick            # all, at most 20 s each
//	go run ./internal/torture -seed 7 -run E01  # the same faults again
//	go run ./internal/torture -engine stream -quick
//	go run ./internal/torture -ci               # what runs before every change
//	go run ./internal/torture -mutants          # does each experiment notice broken code?
//
// One line per experiment goes to standard output and begins with its name; what is going on goes
// to standard error. The status is 1 when a promise was broken. Only processes that it
// started itself are ever signalled; they end with it, whatever ends it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/redis/go-redis/v9"
)

func main() {
	if text, ok := os.LookupEnv(roleVariable); ok {
		os.Exit(play(text)) // a child
	}
	os.Exit(conduct(os.Args[1:], os.Stdout, os.Stderr))
}

// settings are what the command line says.
type settings struct {
	quick    bool
	seed     uint64
	parallel int
	keep     bool
	engine   string // that is tortured
	old      string // the revision that E18 takes its old binary from
}

// conduct is the program; its result is the exit status.
func conduct(args []string, out, errs io.Writer) int {
	var s settings
	flags := flag.NewFlagSet("torture", flag.ContinueOnError)
	flags.SetOutput(errs)
	list := flags.Bool("list", false, "list the experiments and end")
	pattern := flags.String("run", "", "run the experiments whose name matches this `regexp`; default all")
	flags.BoolVar(&s.quick, "quick", false, "the quick form: at most about 20 s each, leases of 2 s")
	ci := flags.Bool("ci", false, "the quick form of the experiments that run before every change, side by side")
	mutants := flags.Bool("mutants", false, "apply each of internal/torture/mutants to a copy of the tree and see that it is noticed; -run chooses mutants")
	flags.Uint64Var(&s.seed, "seed", 0, "replay the faults of this seed; 0: a new one")
	flags.IntVar(&s.parallel, "j", 1, "experiments side by side, those that need the processor excepted")
	flags.BoolVar(&s.keep, "keep", false, "keep the working directory of every experiment")
	flags.StringVar(&s.engine, "engine", engines[0].name, "the `engine` that is tortured: list, stream or sortedset")
	flags.StringVar(&s.old, "old", "", "git `revision` of the old binary of E18; default: the latest tag, or the same source")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	match, err := regexp.Compile(*pattern)
	if err != nil || flags.NArg() > 0 || engineNamed(s.engine) == nil {
		_, _ = fmt.Fprintln(errs, "torture: bad arguments:", err, s.engine, flags.Args())
		return 2
	}
	if *ci {
		s.quick, s.parallel = true, max(s.parallel, ciParallel)
	}
	redis.SetLogger(silence{}) // dials that fail are what we are here for
	for s.seed == 0 {
		s.seed = rand.Uint64() >> 32 // short enough to be typed
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *mutants {
		return tryMutants(ctx, match, s, out, errs)
	}
	var chosen []*experiment
	for _, e := range experiments {
		if match.MatchString(e.name) && (!*ci || e.ci && (s.engine == engines[0].name || e.each)) {
			chosen = append(chosen, e)
		}
	}
	if *list {
		for _, e := range chosen {
			if why := e.not[s.engine]; why != "" {
				_, _ = fmt.Fprintln(out, e.notOn(s.engine))
				continue
			}
			_, _ = fmt.Fprintln(out, e)
		}
		return 0
	}
	if len(chosen) == 0 {
		_, _ = fmt.Fprintln(errs, "torture: no experiment matches", *pattern)
		return 2
	}
	_, _ = fmt.Fprintf(errs, "torture: %d experiments, seed %d\n", len(chosen), s.seed)
	if failed := runAll(ctx, chosen, s, out, errs); failed > 0 {
		_, _ = fmt.Fprintf(errs, "torture: %d of %d experiments failed, seed %d\n", failed, len(chosen), s.seed)
		return 1
	}
	return 0
}

// silence is a logger of go-redis.
type silence struct{}

// Printf says nothing.
func (silence) Printf(context.Context, string, ...any) {}
