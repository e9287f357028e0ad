package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
)

// readStream adds the entries of a stream queue to the picture, in the words of a list queue: what is pending for a
// consumer is processing, what is pending for nobody is scheduled if it is to be retried, and all else is pending.
func (p *picture) readStream(ctx context.Context, rdb redis.UniversalClient) error {
	retries := map[string]bool{}
	for _, e := range rdb.ZRange(ctx, p.prefix+"retries", 0, -1).Val() {
		retries[e] = true
	}
	owners := map[string]string{}
	pending, err := rdb.XPendingExt(ctx, &redis.XPendingExtArgs{
		Stream: p.prefix + "stream", Group: durable.DefaultGroup, Start: "-", End: "+", Count: 1 << 20,
	}).Result()
	if err != nil && !redis.HasErrorPrefix(err, "NOGROUP") && !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return fmt.Errorf("picture: %w", err)
	}
	for _, one := range pending {
		owners[one.ID] = one.Consumer
	}
	put := func(id, place string) {
		p.places[id] = append(p.places[id], place)
		p.sizes[place]++
	}
	for _, stream := range []string{"stream", "dead", "corrupt"} {
		all, err := rdb.XRange(ctx, p.prefix+stream, "-", "+").Result()
		if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			return fmt.Errorf("picture: %w", err)
		}
		for _, m := range all {
			id, _ := m.Values["id"].(string)
			for _, name := range []string{"entry", m.ID} { // a letter's, or its own
				if id == "" && name == m.ID {
					id = name
				} else if id == "" {
					id, _ = m.Values[name].(string)
				}
			}
			if stream != "stream" {
				put(id, stream)
				continue
			}
			owner, held := owners[m.ID]
			delete(owners, m.ID)
			switch {
			case retries[m.ID]:
				put(id, "scheduled")
			case held && owner != "-":
				put(id, "processing:"+owner)
			default:
				put(id, "pending")
			}
		}
	}
	for e, owner := range owners { // pending, and deleted
		put(e, "ghost of "+owner)
	}
	return nil
}
