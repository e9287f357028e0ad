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

// listFollower is an identity that is told what becomes of jobs of a List. Where it has read to is known here only, so
// an answer that was lost is asked for again.
type listFollower struct {
	list *List
	id   string

	mu      sync.Mutex // guards what follows
	cursor  string     // the last entry that was read
	renewed time.Time  // zero: before the next read the store is asked whether it has what it had
}

// OpenFollower obtains an identity for following. A follower that awaits uses one connection of its own; all those of a
// handle share it.
func (l *List) OpenFollower(ctx context.Context) (Follower, error) {
	_, answer, err := l.run(ctx, l.redis.commands, l.scripts.followOpen, nonce())
	if err != nil {
		return nil, err
	}
	return &listFollower{list: l, id: answer.text(), cursor: firstEntry}, nil
}

func (f *listFollower) ID() string { return f.id }

func (f *listFollower) Adopt(ctx context.Context, sender string, adopted bool) error {
	_, _, err := f.list.run(ctx, f.list.redis.commands, f.list.scripts.adopt, f.id, sender, flag(adopted))
	return err
}

func (f *listFollower) Follow(ctx context.Context, ids []string) ([]Record, error) {
	if len(ids) > MaxPage {
		return nil, f.list.misuse("follow", fmt.Sprintf("%d IDs, at most %d are possible", len(ids), MaxPage))
	}
	_, answer, err := f.follow(ctx, "", ids)
	if err != nil {
		return nil, err
	}
	records := make([]Record, 0, len(ids))
	for range ids {
		record := answer.listRecord()
		record.Result, record.Progress = answer.bytes(), answer.bytes()
		records = append(records, record)
	}
	return records, nil
}

// follow sends one request, and gives the last entry that is noted.
func (f *listFollower) follow(ctx context.Context, cursor string, ids []string) (last string, answer reply, err error) {
	args := make([]any, 0, 3+len(ids))
	args = append(args, f.id, cursor, len(ids))
	for _, id := range ids {
		args = append(args, id)
	}
	_, answer, err = f.list.run(ctx, f.list.redis.commands, f.list.scripts.follow, args...)
	if err != nil {
		return "", nil, err
	}
	return answer.text(), answer, nil
}

// Await parks in XREAD, which takes nothing: whatever becomes of it, the next one reads the same. Now and then, and after
// every failure, it says first that it is still there, and looks whether the store has lost what was read.
func (f *listFollower) Await(ctx context.Context) (News, error) {
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
	err := f.list.park(ctx, &f.list.follow, func(ctx context.Context, client redis.UniversalClient) error {
		cmd := f.list.waitForNews(ctx, client, f.list.keys.told+f.id, f.cursor, int(Park/time.Millisecond))
		got = cmd.Val()
		return cmd.Err()
	})
	if err != nil {
		f.renewed = time.Time{}
		return News{}, err
	}
	if err := f.read(got, &news); err != nil {
		return News{}, failed(f.list.name, "await", ErrInDoubt, err)
	}
	return news, nil
}

// waitForNews waits for entries after one.
func (l *List) waitForNews(ctx context.Context, client redis.UniversalClient, stream, after string, ms int) once {
	cmd := once{redis.NewCmd(ctx, "xread", "count", newsEntries, "block", ms, "streams", stream, after)}
	_ = cmd.send(ctx, client) // cmd has it
	return cmd
}

func (f *listFollower) Close(ctx context.Context) error {
	_, _, err := f.list.run(ctx, f.list.redis.commands, f.list.scripts.unfollow, f.id)
	return err
}

// read takes the answer of an XREAD of one stream. f.mu is held.
func (f *listFollower) read(got any, news *News) error {
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

// Tell reports on claims, all in one request.
func (c *listConsumer) Tell(ctx context.Context, tellings []Telling) error {
	l := c.list
	if err := checkTellings(l.name, tellings); err != nil {
		return err
	}
	args := make([]any, 0, 1+5*len(tellings))
	args = append(args, c.id)
	for i := range tellings {
		t := &tellings[i]
		args = append(args, t.ID, t.Token, flag(t.Started), flag(t.Progress != nil), t.Progress)
	}
	if len(tellings) == 0 {
		return nil
	}
	_, _, err := l.run(ctx, l.redis.commands, l.scripts.tell, args...)
	return err
}

// flag is a truth as scripts take it.
func flag(set bool) int {
	if set {
		return 1
	}
	return 0
}
