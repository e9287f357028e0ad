package local

import (
	"fmt"
	"time"
)

// Reporter takes what a handler says of its run, but for its error. Its methods are those of Delivery. They do not
// block, and are safe for concurrent use.
type Reporter interface {
	SetResult(result []byte, retention time.Duration) error
	Progress(report []byte) error
}

// SetResult leaves result for whoever waits for the job: Ticket.Result gives it, once the job has completed. The last call
// counts, and none does if the handler does not return nil. result must not be changed afterwards. It does not block.
//
// In a durable queue the store keeps it with the record of the job for retention: whole milliseconds, 0: for as long as the job
// itself says. With neither there is no record; tickets have it all the same, those of other processes if it
// is short (durable.MaxNoticed). It is refused if it is longer than bridge.Options.MaxPayload, if retention is negative or less
// than a millisecond, and with durable.ErrUnsupported where the engine has no results. In a pool retention means nothing.
func (d *Delivery[T]) SetResult(result []byte, retention time.Duration) error {
	if d.Reporter == nil {
		return nil
	}
	return d.Reporter.SetResult(result, retention)
}

// Progress says how far the run has come: Ticket.Progress gives the latest report. report must not be changed afterwards. It
// does not block.
//
// In a durable queue it goes to the store, where Operator.Lookup finds it and other processes are told, with those of all
// jobs of this process about ten times a second: of several in between the latest counts, and one that the end of the run
// overtakes is left out. It is refused if it is longer than durable.MaxNoticed, and with
// durable.ErrUnsupported where the engine has none.
func (d *Delivery[T]) Progress(report []byte) error {
	if d.Reporter == nil {
		return nil
	}
	return d.Reporter.Progress(report)
}

// taskReporter is the Reporter of a pool's task.
type taskReporter struct{ t *Ticket }

func (r taskReporter) SetResult(result []byte, retention time.Duration) error {
	if retention < 0 {
		return fmt.Errorf("local: SetResult: retention is negative: %v", retention)
	}
	r.t.leave(result)
	return nil
}

func (r taskReporter) Progress(report []byte) error {
	r.t.report(report)
	return nil
}
