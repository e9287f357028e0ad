package cron_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/cron"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

func TestNotes(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) cron.Notes{
		"memory": func(*testing.T) cron.Notes { return cron.NewMemoryNotes() },
		"redis":  func(t *testing.T) cron.Notes { return redisNotes(t, redistest.Client(t), redistest.Name(t)) },
		"redis, RESP2": func(t *testing.T) cron.Notes {
			c := redis.NewClient(&redis.Options{Addr: redistest.Addr(t), Protocol: 2})
			t.Cleanup(func() { _ = c.Close() })
			return redisNotes(t, c, redistest.Name(t))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			notes := open(t)
			one, two := time.UnixMilli(1_772_000_000_123).UTC(), time.UnixMilli(1_772_000_060_000).UTC()
			last := func(names ...string) map[string]time.Time {
				t.Helper()
				found, err := notes.Last(t.Context(), names)
				if err != nil {
					t.Fatal(err)
				}
				for name, at := range found {
					found[name] = at.UTC()
				}
				return found
			}
			note := func(ticks map[string]time.Time) {
				t.Helper()
				if err := notes.Note(t.Context(), ticks); err != nil {
					t.Fatal(err)
				}
			}

			if found := last("a", "b"); len(found) != 0 {
				t.Error("before anything was noted:", found)
			}
			note(nil)
			note(map[string]time.Time{"a": two, "b c:é": one})
			note(map[string]time.Time{"a": one}) // late
			if diff := cmp.Diff(map[string]time.Time{"a": two, "b c:é": one}, last("x", "a", "b c:é")); diff != "" {
				t.Errorf("a note never goes back (-want +got):\n%s", diff)
			}
			many, names := map[string]time.Time{}, []string{}
			for n := range 1234 {
				name := fmt.Sprint("many", n)
				many[name], names = one.Add(time.Duration(n)*time.Second), append(names, name)
			}
			note(many)
			if diff := cmp.Diff(many, last(names...)); diff != "" {
				t.Errorf("many (-want +got):\n%s", diff)
			}
			if now, err := notes.Now(t.Context()); err != nil || time.Since(now).Abs() > time.Minute {
				t.Error("now:", now, err)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if err := notes.Note(ended, many); err == nil {
				t.Error("noted after the context had ended")
			}
		})
	}

	t.Run("in redis they are bounded: one key, with a time to live, and what is old goes", func(t *testing.T) {
		t.Parallel()
		c, name := redistest.Client(t), redistest.Name(t)
		notes, err := cron.NewRedisNotes(c, name, &cron.RedisNotesOptions{Keep: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		for _, ticks := range []map[string]time.Time{{"old": now.Add(-2 * time.Hour)}, {"new": now}} {
			if err := notes.Note(t.Context(), ticks); err != nil {
				t.Fatal(err)
			}
		}
		members, err := c.ZRange(t.Context(), "{"+name+"}:cron", 0, -1).Result()
		if diff := cmp.Diff([]string{"new"}, members); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if ttl := c.PTTL(t.Context(), "{"+name+"}:cron").Val(); ttl <= 0 || ttl > time.Hour {
			t.Error("time to live:", ttl)
		}
	})

	t.Run("bad arguments are refused by name", func(t *testing.T) {
		t.Parallel()
		c := redistest.Client(t)
		for want, f := range map[string]func() (*cron.RedisNotes, error){
			"client": func() (*cron.RedisNotes, error) { return cron.NewRedisNotes(nil, "q", nil) },
			"queue":  func() (*cron.RedisNotes, error) { return cron.NewRedisNotes(c, "", nil) },
			"Keep": func() (*cron.RedisNotes, error) {
				return cron.NewRedisNotes(c, "q", &cron.RedisNotesOptions{Keep: -1})
			},
		} {
			if _, err := f(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
		}
	})
}

func redisNotes(t testing.TB, c redis.UniversalClient, name string) *cron.RedisNotes {
	t.Helper()
	notes, err := cron.NewRedisNotes(c, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return notes
}
