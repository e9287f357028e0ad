package durable_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
)

// permit gives a user rights, or takes them away, as ACL SETUSER words them. Whoever is not there yet is made; the password
// is "secret".
func permit(t testing.TB, admin *redis.Client, user string, rights ...string) {
	t.Helper()
	args := []any{"ACL", "SETUSER", user, ">secret"}
	for _, right := range rights {
		args = append(args, right)
	}
	if err := admin.Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(args, err)
	}
}

// confine makes the handle one of a user of this name, who may do what ACLRule says, and no more after that than is permitted.
func (b *bundle) confine(name string) (permitted func(rights ...string)) {
	b.Helper()
	permitted = func(rights ...string) { b.Helper(); permit(b.TB, b.rdb, name, rights...) }
	permitted(strings.Fields(b.list.ACLRule(name))[1:]...)
	own := b.of(store(b.TB, &redis.Options{Addr: b.addr, Username: name, Password: "secret"}, nil), name, nil)
	b.Cleanup(func() { _ = own.Close() })
	b.list = own
	return permitted
}

func (b *streamBundle) confine() (permitted func(rights ...string)) {
	b.Helper()
	permitted = func(rights ...string) { b.Helper(); permit(b.TB, b.rdb, b.name, rights...) }
	permitted(strings.Fields(b.stream.ACLRule(b.name))[1:]...)
	own := store(b.TB, &redis.Options{Addr: b.addr, Username: b.name, Password: "secret"}, nil).Stream(b.name, nil)
	b.Cleanup(func() { _ = own.Close() })
	b.stream = own
	return permitted
}

// insist asks three times, and counts what failed: whom a script stops for is left in doubt, each time.
func insist(t testing.TB, ask func() []error) (failed int) {
	t.Helper()
	for range 3 {
		for _, err := range ask() {
			if err == nil {
				continue
			}
			failed++
			if !is(err, durable.ErrInDoubt) {
				t.Error("class:", err)
			}
		}
	}
	return failed
}
