package durable

import (
	"context"
	"fmt"
	"strings"
	"time"
)

const limitLooks = 10_000 // claims, and scheduled jobs, that SetLimits looks at

// SetLimits sets what all processes together may claim, instead of what was set before; by is required, and 256 bytes of
// it are kept. Claims that are there already count, and what waits for its key is looked at anew: of each 10,000.
func (l *List) SetLimits(ctx context.Context, limits Limits, by string) error {
	if by == "" {
		return l.misuse("limits", "it is not said who sets limits")
	}
	if err := limits.valid(); err != nil {
		return l.misuse("limits", err.Error())
	}
	_, _, err := l.run(ctx, l.redis.commands, l.scripts.limit,
		limits.text(), flag(limits.KeyConcurrency > 0), by[:min(len(by), maxBy)], statsMembers, limitLooks)
	return err
}

// text is what the store keeps of limits; empty where there are none.
func (l *Limits) text() string {
	if *l == (Limits{}) {
		return ""
	}
	return fmt.Sprintf("%d %d %d %d %d %d %d %d", l.Concurrency, l.Rate.Count, millis(l.Rate.Per), l.Rate.Burst,
		l.KeyConcurrency, l.KeyRate.Count, millis(l.KeyRate.Per), l.KeyRate.Burst)
}

// limits takes limits, and who has set them.
func (r *reply) limits() (Limits, LimitsBy) {
	text := r.text()
	by := LimitsBy{Active: text != "", By: r.text(), Since: r.time()}
	var n [8]int
	for i, word := range strings.Fields(text) {
		if i < len(n) {
			one := reply{word}
			n[i] = int(one.int())
		}
	}
	return Limits{
		Concurrency:    n[0],
		Rate:           Rate{Count: n[1], Per: time.Duration(n[2]) * millisecond, Burst: n[3]},
		KeyConcurrency: n[4],
		KeyRate:        Rate{Count: n[5], Per: time.Duration(n[6]) * millisecond, Burst: n[7]},
	}, by
}
