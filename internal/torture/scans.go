package main

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// scans look at all jobs of a queue, of one instant, again and again: for what must never be, however short.
type scans struct {
	mu    sync.Mutex
	seen  []string // breaches
	looks int
}

const scanEvery = 50 * time.Millisecond

// A scan looks at the fields of every job: f has status, cancel_ms and unique, seen what was found.

// A job that was to be cancelled waits again.
const scanMarks = `if f[2] and f[2] ~= '' and (f[1] == 'pending' or f[1] == 'scheduled') then
			seen[#seen + 1] = id .. ' was to be cancelled and is ' .. f[1]
		end`

// Two jobs have one key, which is kept until its holder has ended.
const scanKeys = `local key = f[3] and string.match(f[3], '^%a* %d+ (.+)$')
		if key and (not f[1] or f[1] == '' or f[1] == 'pending' or f[1] == 'scheduled' or f[1] == 'processing') then
			if had[key] then seen[#seen + 1] = id .. ' and ' .. had[key] .. ' both have ' .. key end
			had[key] = id
		end`

// scan looks at the queue of the experiment, from now to its end.
func (l *lab) scan(rdb *redis.Client, what string) *scans {
	s := &scans{}
	script := `local seen, had = {}, {}
		for _, key in ipairs(redis.call('KEYS', ARGV[1] .. 'job:*')) do
			local id, f = string.sub(key, #ARGV[1] + 5), redis.call('HMGET', key, 'status', 'cancel_ms', 'unique')
			` + what + `
		end
		return seen`
	done := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		tick := time.NewTicker(scanEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.look(l.ctx, rdb, script, l.name)
			case <-done:
				return
			}
		}
	})
	l.later(func() { close(done); looking.Wait() })
	return s
}

func (s *scans) look(ctx context.Context, rdb *redis.Client, script string, queue string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	seen, err := rdb.Do(ctx, "EVAL", script, 0, prefixOf(queue)).StringSlice()
	if err != nil {
		return // Redis is away
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	s.seen = append(s.seen, seen...)
}

// judge adds what was seen.
func (s *scans) judge(l *lab) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.figure("scans", s.looks)
	l.require(s.looks > 10, "the store was looked at %d times only", s.looks)
	for _, text := range s.seen {
		l.breach("%s", text)
	}
}
