package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
)

// handle runs a task, with a line before and after.
func (a *actor) handle(ctx context.Context, d *bridge.Delivery[task]) error {
	a.book.note(entry{E: noteStart, ID: d.ID, D: d.Deliveries, F: d.Fence, N: int64(d.Attempt), S: d.Kind})
	defer context.AfterFunc(ctx, func() {
		a.book.note(entry{E: noteContext, ID: d.ID, D: d.Deliveries, S: context.Cause(ctx).Error()})
	})()
	if d.Value.Look {
		a.lookUp(ctx, d)
	}
	outcome := "left" // by panic or Goexit
	defer func() { a.book.note(entry{E: noteEnd, ID: d.ID, D: d.Deliveries, F: d.Fence, S: outcome}) }()
	err := a.work(ctx, d)
	outcome = "ok"
	if err != nil {
		outcome = err.Error()
	}
	return err
}

// lookUp notes when this run was claimed and when its job expires, if Redis tells in time.
func (a *actor) lookUp(ctx context.Context, d *bridge.Delivery[task]) {
	info, err := a.queues[0].Operator().Lookup(ctx, d.ID)
	if err == nil && info.State == durable.StateProcessing && info.Deliveries == d.Deliveries && !info.Expires.IsZero() {
		a.book.note(entry{E: noteClaimed, ID: d.ID, D: d.Deliveries, N: info.Since.UnixMilli(), F: info.Expires.UnixMilli()})
	}
}

// work is the effect.
func (a *actor) work(ctx context.Context, d *bridge.Delivery[task]) error {
	t := d.Value
	if t.Work > 0 {
		heeded := ctx.Done()
		if t.Deaf {
			heeded = nil
		}
		timer := time.NewTimer(time.Duration(t.Work) * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-heeded:
			return context.Cause(ctx)
		}
	}
	switch t.Do {
	case "exit":
		os.Exit(7) //nolint:gocritic // a crash runs nothing
	case "panic":
		panic("the task said so")
	case "goexit":
		runtime.Goexit()
	case "alloc":
		size := 1 << 44 // more than any machine gives: the runtime ends the process
		hoard = make([]byte, size)
		hoard[len(hoard)/2] = 1
	case "permanent":
		return bridge.Permanent(errors.New("the task said so"))
	case "shutdown":
		if d.Deliveries == 1 { // whoever gets it next is not meant
			a.shutdown(false)
			a.stop()
		}
	}
	if t.Sign {
		if err := d.SetResult(strconv.AppendInt(nil, d.Fence, 10), 0); err != nil {
			return err
		}
	}
	if d.Attempt <= t.Fail {
		return fmt.Errorf("the task fails %d times", t.Fail)
	}
	return nil
}

// hoard keeps what a task allocates.
var hoard []byte

// handleForeign runs a job that somebody enqueued without the library.
func (a *actor) handleForeign(_ context.Context, d *bridge.Delivery[string]) error {
	a.book.note(entry{E: noteStart, ID: d.ID, D: d.Deliveries, F: d.Fence, N: int64(d.Attempt)})
	a.book.note(entry{E: noteEnd, ID: d.ID, D: d.Deliveries, F: d.Fence, S: "ok"})
	return nil
}
