package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
)

// actor is a child process: a producer, a worker or both, until it is told to stop by SIGTERM
// or by the end of its standard input, or a producer has offered all it was to offer.
type actor struct {
	role   role
	book   *ledger
	log    *slog.Logger
	queues []*bridge.Queue
	drills []*bridge.Kind[task]

	stop     context.CancelFunc
	enough   context.CancelFunc // of producing; what was accepted is seen to its end
	watching tickets
	rejected atomic.Int64
}

// play is the main function of a child.
func play(text string) int {
	a := &actor{}
	if err := json.Unmarshal([]byte(text), &a.role); err != nil {
		fmt.Fprintln(os.Stderr, "torture: bad role:", err)
		return 2
	}
	a.role.withDefaults()
	if err := a.perform(); err != nil {
		fmt.Fprintln(os.Stderr, "torture:", a.role.Name, err)
		return 1
	}
	return 0
}

func (a *actor) perform() error {
	r := &a.role
	var err error
	if a.book, err = openLedger(filepath.Join(r.Dir, r.Name+".ledger"), r.Name); err != nil {
		return err
	}
	logFile, err := os.OpenFile(filepath.Join(r.Dir, r.Name+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	a.log = slog.New(slog.NewTextHandler(logFile, nil))

	ctx, cancel := context.WithCancel(context.Background())
	a.stop = cancel
	offering, enough := context.WithCancel(ctx)
	a.enough = enough
	terms := make(chan os.Signal, 2)
	signal.Notify(terms, syscall.SIGTERM)
	go func() {
		for range terms {
			if ctx.Err() != nil { // the second one shuts down a second time, beside the first
				go a.shutdown(false)
			}
			cancel()
		}
	}()
	go func() {
		input := bufio.NewReader(os.Stdin)
		for {
			line, err := input.ReadString('\n')
			if err != nil {
				cancel()
				return
			}
			a.obey(strings.TrimSpace(line))
		}
	}()
	go watchStalls(context.Background(), a.book) // to the end of the process
	warmUp()
	before := measure()
	heap := watchHeap(ctx)

	rdb := r.client()
	store, err := durable.NewRedis(rdb, &durable.RedisOptions{Timeout: r.Timeout, Replicas: r.Replicas, ReplicaWait: r.Timeout / 4})
	if err != nil {
		return err
	}
	names := []string{r.Queue}
	for i := range r.Queues {
		names = append(names[:i], fmt.Sprint(r.Queue, "-", i+1))
	}
	var running sync.WaitGroup
	failed := make(chan error, len(names))
	for _, name := range names {
		q, err := a.open(store, name)
		if err != nil {
			return err
		}
		if r.Workers > 0 {
			running.Go(func() { failed <- a.run(ctx, q) })
		}
	}
	a.book.note(entry{E: noteUp})
	fmt.Println("up") //nolint:forbidigo // the child speaks with its parent
	var meddling sync.WaitGroup
	if r.Cancels > 0 {
		meddling.Go(func() { a.cancelSome(ctx) })
	}
	if r.Follows > 0 {
		meddling.Go(func() { a.followSome(offering) })
	}
	if r.Producers > 0 {
		a.produce(ctx, offering)
	}
	if r.Workers > 0 {
		<-ctx.Done()
	}
	if r.Follows > 0 && r.Producers == 0 {
		<-offering.Done()
		meddling.Wait()
		resting, end := context.WithTimeout(ctx, r.Wait)
		a.watching.rest(resting)
		end()
	}
	cancel()
	meddling.Wait()
	a.shutdown(true)
	a.watching.Wait()
	running.Wait()
	for range r.Workers {
		select {
		case e := <-failed:
			err = errors.Join(err, e)
		default:
		}
	}
	err = errors.Join(err, a.leave(rdb, before, heap()))
	return err
}

// run is Run, until ctx ends.
func (a *actor) run(ctx context.Context, q *bridge.Queue) error {
	r := &a.role
	err := q.Run(ctx, &bridge.RunOptions{
		Workers: r.Workers, Lease: r.Lease, SweepEvery: r.SweepEvery, Grace: r.Grace, UnknownDelay: r.UnknownDelay,
	})
	a.book.note(entry{E: "run ended", S: fmt.Sprint(err)})
	if errors.Is(err, bridge.ErrStuck) {
		return nil
	}
	if err != nil {
		a.stop()
	}
	return err
}

// open makes a queue with its handlers and events.
func (a *actor) open(store *durable.Redis, name string) (*bridge.Queue, error) {
	r := &a.role
	q, err := bridge.Open(engineNamed(r.Engine).open(store, name, &r.List), &bridge.Options{
		Capacity: r.Capacity, Retry: r.Retry, Logger: a.log, OnEvent: a.event, PersistWithin: r.PersistWithin,
	})
	if err != nil {
		return nil, err
	}
	for _, kind := range r.Kinds {
		if kind == "" {
			err = bridge.NewKind(q, "", &bridge.KindOptions[string]{Codec: raw{}}).Handle(a.handleForeign)
		} else {
			err = bridge.NewKind[task](q, kind, nil).Handle(a.handle)
		}
		if err != nil {
			return nil, err
		}
	}
	a.queues = append(a.queues, q)
	a.drills = append(a.drills, bridge.NewKind[task](q, r.Kind, nil))
	return q, nil
}

// raw takes payloads as they are.
type raw struct{}

func (raw) Encode(v string) ([]byte, error) { return []byte(v), nil }
func (raw) Decode(p []byte) (string, error) { return string(p), nil }

// event notes every transition that says something about a job's fate.
func (a *actor) event(e bridge.Event) {
	switch e.Type {
	case bridge.EventAccepted, bridge.EventStarted, bridge.EventRejected, bridge.EventDropped:
		return // noted, or counted, where they happen
	}
	line := entry{E: e.Type.String(), ID: e.ID, D: e.Deliveries, O: e.Of}
	if e.Err != nil {
		line.S = e.Err.Error()
	}
	a.book.note(line)
}

// obey does what the conductor writes on standard input.
func (a *actor) obey(line string) {
	switch line {
	case "stop":
		a.stop()
	case "enough":
		a.enough()
	case "check":
		ctx, cancel := context.WithTimeout(context.Background(), a.role.Patience)
		defer cancel()
		err := a.queues[0].Check(ctx)
		a.book.note(entry{E: "checked", S: fmt.Sprint(err)})
	case "counters":
		a.book.note(entry{E: "counters", S: fmt.Sprintf("%+v", a.queues[0].Counters())})
	}
}

// shutdown shuts every queue down, by a deadline. The main function tells what came back;
// whoever else calls it gets the same.
func (a *actor) shutdown(tell bool) {
	ctx, cancel := context.WithTimeout(context.Background(), a.role.Patience)
	defer cancel()
	began := time.Now()
	for _, q := range a.queues {
		report, err := q.Shutdown(ctx)
		a.book.note(entry{E: "shut", N: int64(time.Since(began) / time.Millisecond), S: fmt.Sprint(err)})
		if !tell {
			continue
		}
		for _, back := range report.Returned {
			a.book.note(entry{E: noteReturned, ID: back.ID})
		}
		for _, back := range report.Uncertain {
			a.book.note(entry{E: noteDoubtful, ID: back.ID})
		}
	}
}

// leave closes the user's client and notes what is left of us.
func (a *actor) leave(rdb redis.UniversalClient, before footprint, heap uint64) error {
	if err := rdb.Close(); err != nil {
		return err
	}
	after := measure()
	for deadline := time.Now().Add(2 * time.Second); after.exceeds(before) && time.Now().Before(deadline); after = measure() {
		timer := time.NewTimer(10 * time.Millisecond)
		<-timer.C
	}
	accepted := int64(0)
	for _, q := range a.queues {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // what this process knows by itself
		stats, _ := q.Stats(ctx)
		accepted += stats.Front.Accepted
		if length := stats.Front.Length; length != 0 {
			a.book.note(entry{E: "leak", S: fmt.Sprintf("%d slots of the front", length)})
		}
	}
	for _, q := range a.queues {
		a.book.note(entry{E: noteFront, N: int64(q.Counters().FrontExpired)})
	}
	if after.exceeds(before) {
		a.book.note(entry{E: "leak", S: fmt.Sprintf("goroutines %d → %d, descriptors %d → %d", before.goroutines, after.goroutines, before.files, after.files)})
	}
	a.book.note(entry{E: noteDown, N: accepted, S: fmt.Sprintf("heap=%d rejected=%d", heap, a.rejected.Load())})
	return nil
}
