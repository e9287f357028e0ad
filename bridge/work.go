package bridge

import (
	"context"
	"sync/atomic"
)

// work is the context of one run. It can be cancelled by itself, which few are, and many handlers never look at it: so what
// that costs is not paid before somebody looks. Until then it is the session's.
type work struct {
	context.Context                     // the session's
	own             atomic.Pointer[own] // nil: nobody has looked
}

type own struct {
	context.Context
	cancel context.CancelCauseFunc
}

func (w *work) made() *own {
	if o := w.own.Load(); o != nil {
		return o
	}
	ctx, cancel := context.WithCancelCause(w.Context)
	o := &own{ctx, cancel}
	if !w.own.CompareAndSwap(nil, o) {
		cancel(nil)
		return w.own.Load()
	}
	return o
}

// Done closes when the run is to end.
func (w *work) Done() <-chan struct{} { return w.made().Done() }

// Err is why it is to end, if it is.
func (w *work) Err() error {
	if o := w.own.Load(); o != nil {
		return o.Err()
	}
	return w.Context.Err()
}

// Value finds also the cause of the end, for context.Cause.
func (w *work) Value(key any) any {
	if o := w.own.Load(); o != nil {
		return o.Value(key)
	}
	return w.Context.Value(key)
}

// cancel ends it; it may have ended.
func (w *work) cancel(cause error) { w.made().cancel(cause) }

// over lets go of the session's, when the run has ended.
func (w *work) over() {
	if o := w.own.Load(); o != nil {
		o.cancel(nil)
	}
}
