package durabletest_test

import (
	"context"
	"slices"

	"github.com/seed-9dec4fca/weir/durable"
)

// reviver redrives one ID without looking whether it is dead: what is gone it stores again.
type reviver struct{ *durable.Memory }

func (e *reviver) Redrive(ctx context.Context, s durable.Selection) (durable.Handled, error) {
	h, err := e.Memory.Redrive(ctx, s)
	for _, id := range slices.Clone(h.Missed) {
		if id != "none" {
			continue
		}
		p, err := e.OpenProducer(ctx)
		if err != nil {
			return h, err
		}
		if _, err := p.Append(ctx, 1, []*durable.Job{{ID: id}}); err != nil {
			return h, err
		}
		h.IDs = append(h.IDs, id)
		h.Missed = slices.DeleteFunc(h.Missed, func(m string) bool { return m == id })
	}
	return h, err
}

// restless goes on at once.
type restless struct{ *durable.Memory }

func (e *restless) Pause(ctx context.Context, sides durable.Side, by string) error {
	if err := e.Memory.Pause(ctx, sides, by); err != nil {
		return err
	}
	return e.Resume(ctx, sides)
}

// ruthless purges claims too, when it is at it with the dead.
type ruthless struct{ *durable.Memory }

func (e *ruthless) Purge(ctx context.Context, r durable.PurgeRequest) (durable.Purged, error) {
	if s, err := e.Stats(ctx); err == nil && s.Dead > 0 && !slices.Contains(r.States, "all") {
		r.States = append(slices.Clone(r.States), durable.StatePending, durable.StateProcessing)
	}
	return e.Memory.Purge(ctx, r)
}
