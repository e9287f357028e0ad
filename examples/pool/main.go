// Command pool counts the words of the files below a folder with a local.Pool: code that was
// written for ants, code that was written for pond, and code that does not know whether it
// runs on a pool or on a durable queue. What it replaces stands beside it as a comment.
//
//	go run ./examples/pool [-dir folder]
//
// The program checks itself: each way must come to what counting one file after the other comes to.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "pool:", err)
		os.Exit(1)
	}
}

// run is the program.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("pool", flag.ContinueOnError)
	dir := flags.String("dir", ".", "count the words of the files below this folder")
	if err := flags.Parse(args); err != nil {
		return err
	}
	files, err := openFolder(*dir)
	if err != nil {
		return err
	}
	defer files.Close()
	want := total{}
	for _, name := range files.names {
		n, err := files.count(name)
		if err != nil {
			return err
		}
		want.add(n)
	}
	if _, err := fmt.Fprintf(out, "%d files, %d words, counted one after the other\n\n", len(files.names), want.words.Load()); err != nil {
		return err
	}
	for _, way := range []struct {
		name  string
		count func(context.Context, *folder, *total) error
	}{
		{"as with ants: fire, and wait for all", likeAnts},
		{"as with ants, not blocking: do it yourself when refused", likeAntsNonblocking},
		{"as with pond: a group, and its first error", likePond},
		{"values and a handler, on a pool", onPool},
		{"the same values and handler, on a durable queue", onQueue},
	} {
		var got total
		if err := way.count(ctx, files, &got); err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		if got.words.Load() != want.words.Load() {
			return fmt.Errorf("%s: %d words, not %d", way.name, got.words.Load(), want.words.Load())
		}
		if _, err := fmt.Fprintf(out, "%-58s ok\n", way.name); err != nil {
			return err
		}
	}
	return nil
}
