package bridge_test

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
	"github.com/seed-9dec4fca/weir/policy"
)

// bubble is a subtest with a clock of its own.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, test)
	})
}

// bench is one process's queue on a Memory, inside a bubble. Calls of its engine can be held
// (gate) or made to fail (outage), and its events are kept.
type bench struct {
	q      *bridge.Queue
	memory *durable.Memory
	outage *outage
	gate   *durabletest.Gate
	events *recorder
	stop   context.CancelFunc // of Run
	ran    chan error         // what Run returned
}

// setup opens a queue on a Memory of its own.
func setup(t *testing.T, opts *bridge.Options) *bench {
	t.Helper()
	return setupOn(t, durable.NewMemory(nil), opts)
}

// setupOn opens a queue on an engine, a Memory as a rule, that it may share with others. It
// is shut down at the end of the test.
func setupOn(t *testing.T, engine durable.Engine, opts *bridge.Options) *bench {
	t.Helper()
	b := open(t, engine, opts)
	t.Cleanup(func() { shutdown(t, b.q) })
	return b
}

// open is setupOn for a test that shuts the queue down itself.
func open(t *testing.T, engine durable.Engine, opts *bridge.Options) *bench {
	t.Helper()
	b := &bench{outage: newOutage(engine), events: &recorder{}, ran: make(chan error, 1)}
	b.memory, _ = engine.(*durable.Memory)
	b.gate = durabletest.NewGate(b.outage)
	var o bridge.Options
	if opts != nil {
		o = *opts
	}
	hook := o.OnEvent
	o.OnEvent = func(e bridge.Event) {
		b.events.add(e)
		if hook != nil {
			hook(e)
		}
	}
	q, err := bridge.Open(b.gate, &o)
	if err != nil {
		t.Fatal(err)
	}
	b.q = q
	// In a bubble a test that waits in vain lets the clock run for ever, as long as anything ticks.
	inVain := time.AfterFunc(12*time.Hour, func() {
		t.Error("twelve hours have passed: something is waited for in vain")
		shutdown(t, q)
	})
	t.Cleanup(func() { inVain.Stop() })
	return b
}

func shutdown(t *testing.T, q *bridge.Queue) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := q.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

// handle makes a kind with a handler.
func (b *bench) handle(t *testing.T, name string, h func(context.Context, *bridge.Delivery[int]) error) *bridge.Kind[int] {
	t.Helper()
	kind := bridge.NewKind[int](b.q, name, nil)
	if err := kind.Handle(h); err != nil {
		t.Fatal(err)
	}
	return kind
}

// run starts Run.
func (b *bench) run(t *testing.T, opts *bridge.RunOptions) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	b.stop = cancel
	go func() { b.ran <- b.q.Run(ctx, opts) }()
}

// submit hands a value to the queue and expects it to be accepted.
func submit(t *testing.T, kind *bridge.Kind[int], value int) *bridge.Ticket {
	t.Helper()
	ticket, err := kind.TrySubmit(value)
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

// submitJob is submit for a job with settings of its own.
func submitJob(t *testing.T, kind *bridge.Kind[int], job bridge.Job[int]) *bridge.Ticket {
	t.Helper()
	ticket, err := kind.SubmitJob(t.Context(), job, policy.Reject())
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

// stored reads the Memory itself, whatever is held or fails before it.
func (b *bench) stored(t *testing.T) durable.Stats {
	t.Helper()
	s, err := b.memory.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// conserved checks the sums that hold whenever no call and no transition is under way.
func (b *bench) conserved(t *testing.T) {
	t.Helper()
	synctest.Wait() // a ticket may show a state before its slot is given back
	s, _ := b.q.Stats(t.Context())
	f, c := s.Front, s.Counters
	if want := f.Accepted + f.RejectedTotal() + f.Dropped; f.Submitted != want {
		t.Errorf("submitted %d is not accepted + rejected + dropped = %d: %+v", f.Submitted, want, f)
	}
	in := uint64(f.Accepted)
	out := c.Enqueued + c.Duplicate + uint64(f.Evicted) + c.Refused + c.Abandoned + c.Uncertain + c.FrontCancelled + c.FrontExpired + uint64(f.Length)
	if in != out {
		t.Errorf("accepted %d is not enqueued + duplicate + evicted + refused + abandoned + uncertain + cancelled + expired + length = %d: %+v %+v", in, out, f, c)
	}
}

// outage is an engine that can be cut off.
type outage struct {
	*durabletest.Faulty
	with atomic.Pointer[func(durabletest.Call) durabletest.Fault]
}

func newOutage(inner durable.Engine) *outage {
	o := &outage{}
	o.Faulty = durabletest.NewFaulty(inner, func(c durabletest.Call) durabletest.Fault {
		if decide := o.with.Load(); decide != nil {
			return (*decide)(c)
		}
		return durabletest.Fault{}
	})
	return o
}

// begin gives every call of ops the fault; of every operation if none is named.
func (o *outage) begin(f durabletest.Fault, ops ...durabletest.Op) {
	o.decide(func(c durabletest.Call) durabletest.Fault {
		if len(ops) == 0 || slices.Contains(ops, c.Op) {
			return f
		}
		return durabletest.Fault{}
	})
}

// once gives the next call of op the fault, and none after it.
func (o *outage) once(f durabletest.Fault, op durabletest.Op) {
	next := o.Calls(op) + 1
	o.decide(func(c durabletest.Call) durabletest.Fault {
		if c.Op == op && c.Seq == next {
			return f
		}
		return durabletest.Fault{}
	})
}

func (o *outage) decide(f func(durabletest.Call) durabletest.Fault) { o.with.Store(&f) }

func (o *outage) end() {
	o.with.Store(nil)
	o.Release()
}

// total is how many calls there have been.
func (o *outage) total() (n int) {
	for op := durabletest.OpCheck; op <= durabletest.OpCloseFollower; op++ {
		n += o.Calls(op)
	}
	return n
}

// recorder keeps events.
type recorder struct {
	mu  sync.Mutex
	all []bridge.Event
}

func (r *recorder) add(e bridge.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, e)
}

// of lists the transitions of one job in the order in which they were told.
func (r *recorder) of(id string) (types []bridge.EventType) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.all {
		if e.ID == id {
			types = append(types, e.Type)
		}
	}
	return types
}

// every lists the events of one type.
func (r *recorder) every(of bridge.EventType) (events []bridge.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.all {
		if e.Type == of {
			events = append(events, e)
		}
	}
	return events
}

// lineCounter counts the lines of a log.
type lineCounter struct{ lines atomic.Int64 }

func (c *lineCounter) Write(p []byte) (int, error) {
	c.lines.Add(int64(bytes.Count(p, []byte("\n"))))
	return len(p), nil
}
