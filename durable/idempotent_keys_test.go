package durable_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
)

func TestIdempotentKeys(t *testing.T) {
	t.Parallel()

	t.Run("a key that holds something else is refused by name, and stays", func(t *testing.T) {
		t.Parallel()
		e := setupEffects(t, nil)
		e.rdb.Set(e.ctx, e.key("a"), "x", 0)
		e.rdb.HSet(e.ctx, e.key("b"), "payload", "x")
		for job, says := range map[string]string{
			"a": "key \"" + e.key("a") + "\" holds a string, not a hash",
			"b": "key \"" + e.key("b") + "\" holds a hash without a state, not a marker",
		} {
			ran, err := e.once.Do(e.ctx, durable.Effect{Job: job, Fence: 1}, e.have)
			if ran || !errors.Is(err, durable.ErrBadKey) || !strings.Contains(err.Error(), says) {
				t.Errorf("%v, %v; want %s", ran, err, says)
			}
		}
		if e.rdb.Get(e.ctx, e.key("a")).Val() != "x" || e.rdb.HLen(e.ctx, e.key("b")).Val() != 1 {
			t.Error("it was changed")
		}
		finish, ended := e.begin(e.once, durable.Effect{Job: "c", Fence: 1})
		e.rdb.Set(e.ctx, e.key("c"), "x", 0)
		finish <- nil
		if err := <-ended; !errors.Is(err, durable.ErrUnmarked) || !errors.Is(err, durable.ErrBadKey) {
			t.Errorf("at the end: %v", err)
		}
	})

	t.Run("what a queue of the same name may do is enough", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		admin := s.Client(t)
		s1 := store(t, &redis.Options{Addr: s.Addr()}, nil)
		rule := []any{"ACL", "SETUSER"}
		for word := range strings.FieldsSeq(s1.List("mail", nil).ACLRule("mailer")) {
			rule = append(rule, word)
		}
		if err := admin.Do(t.Context(), append(rule, ">secret")...).Err(); err != nil {
			t.Fatal(err)
		}
		mine := store(t, &redis.Options{Addr: s.Addr(), Username: "mailer", Password: "secret"}, nil)
		defer func() { _ = mine.Close() }()
		once := mine.Idempotent("mail", nil)
		for i := range 2 {
			ran, err := once.Do(t.Context(), durable.Effect{Job: "a", Fence: 1}, func(context.Context) error { return nil })
			if ran != (i == 0) || err != nil {
				t.Errorf("%v, %v", ran, err)
			}
		}
	})

	t.Run("a full server does not keep effects from being had and marked", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		admin := s.Client(t)
		admin.ConfigSet(t.Context(), "maxmemory", "1")
		if err := admin.Set(t.Context(), "x", "y", 0).Err(); !redis.IsOOMError(err) {
			t.Fatalf("it is not full: %v", err)
		}
		mine := store(t, &redis.Options{Addr: s.Addr()}, nil)
		defer func() { _ = mine.Close() }()
		ran, err := mine.Idempotent("mail", nil).Do(t.Context(), durable.Effect{Job: "a", Fence: 1}, func(context.Context) error { return nil })
		if !ran || err != nil {
			t.Errorf("%v, %v", ran, err)
		}
	})
}
