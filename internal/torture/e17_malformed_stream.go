package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// addMalformed is pushMalformed of a stream: n entries, some hundred a second. What a list has in the hash is in the
// entry here, and the hash is there beforehand only if somebody has left one.
func (l *lab) addMalformed(rdb *redis.Client, n int) (t tally) {
	prefix := prefixOf(l.name)
	random := stream(l.set.seed, l.name)
	for i := range n {
		pipe := rdb.TxPipeline()
		add := func(id string, values ...string) {
			pipe.XAdd(l.ctx, &redis.XAddArgs{Stream: prefix + "stream", Values: append([]string{"id", id}, values...)})
		}
		id := fmt.Sprint("item.", i)
		switch kind := random.IntN(12); {
		case kind == 0:
			add(id+"\x00after", "payload", "x")
			t.run++
		case kind == 1:
			add(id+"\xff\xfe", "payload", "\x80", "max_attempts", "0")
			t.run++
		case kind == 2 && i%20 == 0:
			add(id+strings.Repeat("L", 512<<10), "payload", "x")
			t.corrupt++
		case kind == 3:
			add("{"+id+"}{", "payload", "x")
			t.run++
		case kind == 4:
			add("", "note", "neither a payload nor a kind")
			t.corrupt++
		case kind == 5: // and a copy that says it is of an append that nobody knows
			add(id, "payload", "x")
			add(id, "payload", "x", "append", "0-gone:1:0")
			t.run++
			t.drop++
		case kind == 6:
			add(id, "note", "a field that we do not know", "payload", "x", "payload", "again")
			t.run++
		case kind == 7:
			add(id, "payload", "x", "max_attempts", "many", "timeout_ms", "-1")
			t.corrupt++
		case kind == 8:
			pipe.HSet(l.ctx, prefix+"job:"+id, "status", "paused-by-version-9")
			add(id, "payload", "x")
			t.corrupt++
		case kind == 9:
			pipe.Set(l.ctx, prefix+"job:"+id, "a string", time.Minute)
			add(id, "payload", "x")
			t.corrupt++
		case kind == 10:
			add(id, "payload", "x", "retention_ms", "99999999999999999999")
			t.corrupt++
		default:
			add(id, "payload", "x", "append", "0-gone:1:1")
			t.drop++
		}
		_, err := pipe.Exec(l.ctx)
		l.must(err)
		if i%100 == 99 {
			l.pause(100 * time.Millisecond)
		}
	}
	return t
}
