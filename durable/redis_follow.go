package durable

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	renewFollower = 10 * time.Second // between two signs of life of a follower that awaits
	newsEntries   = 32               // read at once
	firstEntry    = "0-0"            // comes before all entries of a stream
	lostEntry     = "lost"           // stands for one that could not be written
)

// followScripts are those of a follower, and how an engine tells of a job.
type followScripts struct {
	open, adopt, follow, unfollow *script
	record                        func(*reply) Record
}

// follower is an identity that is told what becomes of the jobs of a queue in Redis. Where it has read to is known here only,
// so an answer that was lost is asked for again.
type follower struct {
	queue   *queue
	run     func(ctx context.Context, in *lane, s *script, args ...any) (string, reply, error)
	scripts *followScripts
	id      string
	news    string // the key of its notices

	mu      sync.Mutex // guards what follows
	cursor  string     // the last entry that was read
	renewed time.Time  // zero: before the next read the store is asked whether it has what it had
}

// openFollower obtains an identity for following. One that awaits uses one connection of its own; all those of a handle
// share it.
func (q *queue) openFollower(ctx context.Context, prefix string, f *follower) (Follower, error) {
	_, answer, err := f.run(ctx, q.redis.commands, f.scripts.open, nonce())
	if err != nil {
		return nil, err
	}
	f.queue, f.id, f.cursor = q, answer.text(), firstEntry
	f.news = prefix + "told:" + f.id
	return f, nil
}

func (f *follower) ID() string { return f.id }

func (f *follower) Adopt(ctx context.Context, sender string, adopted bool) error {
	_, _, err := f.run(ctx, f.queue.redis.commands, f.scripts.adopt, f.id, sender, flag(adopted))
	return err
}

func (f *follower) Follow(ctx context.Context, ids []string) ([]Record, error) {
	if len(ids) > MaxPage {
		return nil, f.queue.misuse("follow", fmt.Sprintf("%d IDs, at most %d are possible", len(ids), MaxPage))
	}
	_, answer, err := f.follow(ctx, "", ids)
	if err != nil {
		return nil, err
	}
	records := make([]Record, 0, len(ids))
	for range ids {
		record := f.scripts.record(&answer)
		record.Result, record.Progress = answer.bytes(), answer.bytes()
		records = append(records, record)
	}
	return records, nil
}

// follow sends one request, and gives the last entry that is noted.
func (f *follower) follow(ctx context.Context, cursor string, ids []string) (last string, answer reply, err error) {
	args := make([]any, 0, 3+len(ids))
	args = append(args, f.id, cursor, len(ids))
	for _, id := range ids {
		args = append(args, id)
	}
	_, answer, err = f.run(ctx, f.queue.redis.commands, f.scripts.follow, args...)
	if err != nil {
		return "", nil, err
	}
	return answer.text(), answer, nil
}

// Await parks in XREAD, which takes nothing: whatever becomes of it, the next one reads the same. Now and then, and after
// every failure, it says first that it is still there, and looks whether the store has lost what was read.
func (f *follower) Await(ctx context.Context) (News, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var news News
	if f.renewed.IsZero() || time.Since(f.renewed) >= renewFollower {
		f.renewed = time.Time{}
		last, _, err := f.follow(ctx, f.cursor, nil)
		if err != nil {
			return News{}, err
		}
		switch {
		case last == lostEntry:
			news.Gap = true
		case earlier(last, f.cursor):
			f.cursor, news.Gap = last, true
		}
		f.renewed = time.Now()
		if news.Gap {
			return news, nil
		}
	}
	var got any
	err := f.queue.park(ctx, &f.queue.follow, func(ctx context.Context, client redis.UniversalClient) error {
		cmd := waitForNews(ctx, client, f.news, f.cursor, int(Park/time.Millisecond))
		got = cmd.Val()
		return cmd.Err()
	})
	if err != nil {
		f.renewed = time.Time{}
		return News{}, err
	}
	if err := f.read(got, &news); err != nil {
		return News{}, failed(f.queue.name, "await", ErrInDoubt, err)
	}
	return news, nil
}

// waitForNews waits for entries after one.
func waitForNews(ctx context.Context, client redis.UniversalClient, stream, after string, ms int) once {
	cmd := once{redis.NewCmd(ctx, "xread", "count", newsEntries, "block", ms, "streams", stream, after)}
	_ = cmd.send(ctx, client) // cmd has it
	return cmd
}

func (f *follower) Close(ctx context.Context) error {
	_, _, err := f.run(ctx, f.queue.redis.commands, f.scripts.unfollow, f.id)
	return err
}

// read takes the answer of an XREAD of one stream. f.mu is held.
func (f *follower) read(got any, news *News) error {
	cursor := f.cursor
	for _, e := range streamEntries(got) {
		if e.fields["after"] != cursor {
			news.Gap = true
		}
		cursor = e.id
		if err := news.decode(e.fields["notices"]); err != nil {
			return err
		}
	}
	f.cursor = cursor
	return nil
}

// streamEntry is one entry of a stream.
type streamEntry struct {
	id     string
	fields map[string]string
}

// streamEntries are those that an XREAD of one stream has given, in either version of the protocol.
func streamEntries(got any) []streamEntry {
	var raw []any
	switch streams := got.(type) {
	case map[any]any: // name: entries
		for _, entries := range streams {
			raw, _ = entries.([]any)
		}
	case []any: // of: name, entries
		if len(streams) == 1 {
			if one, ok := streams[0].([]any); ok && len(one) == 2 {
				raw, _ = one[1].([]any)
			}
		}
	}
	entries := make([]streamEntry, 0, len(raw))
	for _, one := range raw {
		pair, ok := one.([]any)
		if !ok || len(pair) != 2 {
			continue
		}
		id, _ := pair[0].(string)
		words, _ := pair[1].([]any)
		e := streamEntry{id: id, fields: make(map[string]string, len(words)/2)}
		for rest := reply(words); len(rest) > 1; {
			name := rest.text()
			e.fields[name] = rest.text()
		}
		entries = append(entries, e)
	}
	return entries
}

// decode reads notices as lua/told.lua writes them.
func (n *News) decode(text string) error {
	for text != "" {
		head, rest, ok := strings.Cut(text, ":")
		if !ok || len(head) < 2 {
			return fmt.Errorf("%q is no notice", text)
		}
		words := strings.Split(head[2:], ",")
		parts := make([]string, 4) // ID, life, data, reason
		if len(words) != len(parts) {
			return fmt.Errorf("%q is no notice", head)
		}
		for i, w := range words {
			length, err := strconv.Atoi(w)
			if err != nil || length < 0 || length > len(rest) {
				return fmt.Errorf("%q is no notice", head)
			}
			parts[i], rest = rest[:length], rest[length:]
		}
		notice := Notice{
			ID: parts[0], Life: parts[1], What: NoticeKind(head[0]), Kept: head[1] == '1', Reason: parts[3],
		}
		if parts[2] != "" {
			notice.Data = []byte(parts[2])
		}
		n.Notices, text = append(n.Notices, notice), rest
	}
	return nil
}

// earlier reports whether one ID of a stream's entries comes before another.
func earlier(a, b string) bool {
	ms, seq := entryID(a)
	ms2, seq2 := entryID(b)
	return ms < ms2 || ms == ms2 && seq < seq2
}

func entryID(id string) (ms, seq uint64) {
	first, second, _ := strings.Cut(id, "-")
	ms, _ = strconv.ParseUint(first, 10, 64)
	seq, _ = strconv.ParseUint(second, 10, 64)
	return ms, seq
}

// tellingArgs are reports of a consumer as scripts take them.
func tellingArgs(consumer string, tellings []Telling) []any {
	args := make([]any, 0, 1+5*len(tellings))
	args = append(args, consumer)
	for i := range tellings {
		t := &tellings[i]
		args = append(args, t.ID, t.Token, flag(t.Started), flag(t.Progress != nil), t.Progress)
	}
	return args
}

// flag is a truth as scripts take it.
func flag(set bool) int {
	if set {
		return 1
	}
	return 0
}
