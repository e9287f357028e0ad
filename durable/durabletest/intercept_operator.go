package durabletest

import (
	"context"
	"slices"

	"github.com/seed-9dec4fca/weir/durable"
)

// operator is the engine's own side for operators; durable.ErrNoOperator where it has none.
func (e *engine) operator() (durable.Operator, error) {
	if op, ok := e.inner.(durable.Operator); ok {
		return op, nil
	}
	return nil, durable.ErrNoOperator
}

// asOperator makes one call of it through the hook.
func asOperator[R any](ctx context.Context, e *engine, op Op, call func(context.Context, durable.Operator) (R, error)) (R, error) {
	inner, err := e.operator()
	if err != nil {
		var none R
		return none, err
	}
	return through(ctx, e.hook, op, "", func(ctx context.Context) (R, error) { return call(ctx, inner) })
}

func (e *engine) Lookup(ctx context.Context, r durable.LookupRequest) (durable.Record, error) {
	return asOperator(ctx, e, OpLookup, func(ctx context.Context, o durable.Operator) (durable.Record, error) {
		return o.Lookup(ctx, r)
	})
}

func (e *engine) Jobs(ctx context.Context, r durable.JobsRequest) (durable.JobPage, error) {
	r.Filter.Kinds = slices.Clone(r.Filter.Kinds)
	return asOperator(ctx, e, OpJobs, func(ctx context.Context, o durable.Operator) (durable.JobPage, error) {
		return o.Jobs(ctx, r)
	})
}

func (e *engine) Redrive(ctx context.Context, s durable.Selection) (durable.Handled, error) {
	s = cloneSelection(s)
	return asOperator(ctx, e, OpRedrive, func(ctx context.Context, o durable.Operator) (durable.Handled, error) {
		return o.Redrive(ctx, s)
	})
}

func (e *engine) Discard(ctx context.Context, s durable.Selection) (durable.Handled, error) {
	s = cloneSelection(s)
	return asOperator(ctx, e, OpDiscard, func(ctx context.Context, o durable.Operator) (durable.Handled, error) {
		return o.Discard(ctx, s)
	})
}

func (e *engine) Pause(ctx context.Context, sides durable.Side, by string) error {
	_, err := asOperator(ctx, e, OpPause, func(ctx context.Context, o durable.Operator) (struct{}, error) {
		return struct{}{}, o.Pause(ctx, sides, by)
	})
	return err
}

func (e *engine) Resume(ctx context.Context, sides durable.Side) error {
	_, err := asOperator(ctx, e, OpResume, func(ctx context.Context, o durable.Operator) (struct{}, error) {
		return struct{}{}, o.Resume(ctx, sides)
	})
	return err
}

func (e *engine) Cancel(ctx context.Context, r durable.CancelRequest) (durable.Cancelled, error) {
	return asOperator(ctx, e, OpCancel, func(ctx context.Context, o durable.Operator) (durable.Cancelled, error) {
		return o.Cancel(ctx, r)
	})
}

func (e *engine) SetLimits(ctx context.Context, l durable.Limits, by string) error {
	_, err := asOperator(ctx, e, OpSetLimits, func(ctx context.Context, o durable.Operator) (struct{}, error) {
		return struct{}{}, o.SetLimits(ctx, l, by)
	})
	return err
}

func (e *engine) Purge(ctx context.Context, r durable.PurgeRequest) (durable.Purged, error) {
	r.States = slices.Clone(r.States)
	return asOperator(ctx, e, OpPurge, func(ctx context.Context, o durable.Operator) (durable.Purged, error) {
		return o.Purge(ctx, r)
	})
}

// Inspect is a check; of an engine that finds nothing doubtful it has no warnings.
func (e *engine) Inspect(ctx context.Context) (durable.CheckWarnings, error) {
	inspector, ok := e.inner.(durable.Inspector)
	if !ok {
		return nil, e.Check(ctx)
	}
	return through(ctx, e.hook, OpCheck, "", inspector.Inspect)
}

// cloneSelection lets a call be made after its caller was answered.
func cloneSelection(s durable.Selection) durable.Selection {
	s.IDs = slices.Clone(s.IDs)
	s.Filter.Kinds = slices.Clone(s.Filter.Kinds)
	return s
}

var (
	_ durable.Operator  = (*Gate)(nil)
	_ durable.Operator  = (*Faulty)(nil)
	_ durable.Inspector = (*Gate)(nil)
	_ durable.Inspector = (*Faulty)(nil)
)
