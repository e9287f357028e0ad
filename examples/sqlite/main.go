// Command sqlite credits payments to accounts in a database, although every payment is delivered twice and more.
//
//	go run -C examples/sqlite . [-payments 300]
//
// Each payment is a job. Its handler adds the money and notes the job's ID in one transaction; a unique
// constraint keeps the ID from being noted twice. Then, the first time, the handler fails, as if its process had died
// between the commit and the completion: the queue runs the job again. Besides, each payment is submitted once
// more under an ID of its own, as a producer does that was not told whether its first one arrived.
//
// What to look at: the number of runs is a multiple of the number of payments, and the sum in the accounts is right to the
// cent. There is no gap in that, as there is with a marker kept elsewhere: docs/idempotency.md says which way is
// for whom.
//
// It needs nothing but Go; it is a module of its own, so that the library does not depend on a database.
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
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/policy"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "sqlite:", err)
		os.Exit(1)
	}
}

// errAfterCommit stands for a process that dies when its effect is had and nobody knows.
var errAfterCommit = errors.New("lost after the commit")

// bookkeeper has the handler, and counts.
type bookkeeper struct {
	books     *Books
	runs, had atomic.Int64
}

// credit is the handler of payments.
func (k *bookkeeper) credit(ctx context.Context, d *bridge.Delivery[Payment]) error {
	k.runs.Add(1)
	// The key is the payment's own number, which the producer has put into the headers: it is the same however
	// often, and under whatever ID, the payment is submitted.
	had, err := k.books.Credit(ctx, d.Headers["payment"], d.Fence, d.Value)
	switch {
	case err != nil:
		return err // nothing was committed, or everything: the next run finds out
	case had:
		k.had.Add(1)
		return nil
	case d.Deliveries == 1:
		return errAfterCommit
	}
	return nil
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	flags := flag.NewFlagSet("sqlite", flag.ContinueOnError)
	payments := flags.Int("payments", 300, "how many payments there are, 1 to 10,000")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *payments < 1 || *payments > 10_000 {
		return fmt.Errorf("-payments is %d, not from 1 to 10,000", *payments)
	}
	dir, err := os.MkdirTemp("", "weir-sqlite-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	books, err := OpenBooks(ctx, filepath.Join(dir, "books.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, books.Close()) }()

	k := &bookkeeper{books: books}
	if err := k.work(ctx, *payments); err != nil {
		return err
	}
	cents, jobs, err := books.Sum(ctx)
	if err != nil {
		return err
	}
	want := int64(0)
	for i := range *payments {
		want += payment(i).Cents
	}
	if _, err := fmt.Fprintf(out, "%d payments, %d runs, %d of them for nothing\n%d noted, %d.%02d in the accounts\n",
		*payments, k.runs.Load(), k.had.Load(), jobs, cents/100, cents%100); err != nil {
		return err
	}
	if cents != want || jobs != int64(*payments) || k.runs.Load() < int64(2**payments) {
		return fmt.Errorf("%d cents of %d payments, want %d of %d", cents, jobs, want, *payments)
	}
	return nil
}

// payment is the i-th one.
func payment(i int) Payment {
	return Payment{Account: "account-" + strconv.Itoa(i%7), Cents: int64(i)*137 + 1}
}

// work submits each payment twice and waits until all are done.
func (k *bookkeeper) work(ctx context.Context, payments int) (err error) {
	queue, err := bridge.Open(durable.NewMemory(nil), &bridge.Options{Retry: policy.Retry{Initial: time.Millisecond, Max: time.Millisecond}})
	if err != nil {
		return err
	}
	credit := bridge.NewKind[Payment](queue, "credit", nil)
	if err := credit.Handle(k.credit); err != nil {
		return err
	}
	ran := make(chan error, 1)
	go func() { ran <- queue.Run(ctx, nil) }()
	defer func() {
		_, stopped := queue.Shutdown(ctx)
		err = errors.Join(err, stopped, <-ran)
	}()
	var tickets []*bridge.Ticket
	for range 2 {
		for i := range payments {
			job := bridge.Job[Payment]{ID: queue.NewID(), Value: payment(i), Headers: map[string]string{"payment": "pay-" + strconv.Itoa(i)}}
			ticket, err := credit.SubmitJob(ctx, job, policy.Wait(0))
			if err != nil {
				return err
			}
			tickets = append(tickets, ticket)
		}
	}
	for _, ticket := range tickets {
		if err := ticket.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}
