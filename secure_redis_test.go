// A queue on a server that speaks TLS, and as the user with the fewest rights that it needs.
package weir_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

func TestQueueOverTLS(t *testing.T) {
	t.Parallel()
	_, addr, config := redistest.StartTLS(t)
	connect := func(t *testing.T, config *tls.Config) *durable.Redis {
		t.Helper()
		rdb := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: config})
		t.Cleanup(func() { _ = rdb.Close() })
		store, err := durable.NewRedis(rdb, nil)
		if err != nil {
			t.Fatal(err)
		}
		return store
	}

	t.Run("a whole life of a queue", func(t *testing.T) {
		t.Parallel()
		wholeLife(t, connect(t, config), "life")
	})

	t.Run("a server of an unknown authority is never talked to, and the error says so", func(t *testing.T) {
		t.Parallel()
		strange := config.Clone()
		strange.RootCAs = x509.NewCertPool()
		unreachable[*tls.CertificateVerificationError](t, connect(t, strange))
	})

	t.Run("a client without a certificate is turned away", func(t *testing.T) {
		t.Parallel()
		nobody := config.Clone()
		nobody.Certificates = nil
		unreachable[error](t, connect(t, nobody))
	})
}

// unreachable expects a queue of a store to accept, to say by an error of
// type E why the store is not reached, and to hand back.
func unreachable[E error](t *testing.T, store *durable.Redis) {
	t.Helper()
	q, err := bridge.Open(store.List("unreachable", nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(patient(t), 3*time.Second)
	defer cancel()
	err = q.Check(ctx)
	if _, ok := errors.AsType[E](err); !ok || errors.Is(err, policy.ErrUnusable) {
		t.Errorf("check: %v", err)
	}
	ticket, err := plain(q, "n").TrySubmit("x")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(patient(t), time.Second)
	defer cancel()
	report, err := q.Shutdown(ctx)
	if err != nil || len(report.Returned) != 1 || !errors.Is(ticket.Err(), local.ErrAbandoned) {
		t.Errorf("shutdown: %+v, %v; the ticket: %v", report, err, ticket.Err())
	}
}

// The line in docs/servers.md that makes a user for a queue is what the library asks for, and enough.
func TestDocumentedUserMayDoAllThatAQueueDoes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	page, err := os.ReadFile("docs/servers.md")
	if err != nil {
		t.Fatal(err)
	}
	const name, user, password = "mail", "mailer", ">secret"
	_, line, _ := strings.Cut(string(page), "\nACL SETUSER ")
	line, _, _ = strings.Cut(line, "\n")
	connect := func(o redis.Options) *durable.Redis {
		rdb := redis.NewClient(&o)
		t.Cleanup(func() { _ = rdb.Close() })
		store, err := durable.NewRedis(rdb, nil)
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	store := connect(redis.Options{Addr: server.Addr(), Username: user, Password: password[1:]})
	want := strings.Replace(store.List(name, nil).ACLRule(user), " on ", " on "+password+" ", 1)
	if line != want {
		t.Fatalf("docs/servers.md says\n\tACL SETUSER %s\nand the library needs\n\tACL SETUSER %s", line, want)
	}

	args := []any{"ACL", "SETUSER"}
	for word := range strings.FieldsSeq(line) {
		args = append(args, word)
	}
	if err := admin.Do(patient(t), args...).Err(); err != nil {
		t.Fatal(err)
	}
	// Nobody else may do anything from now on.
	if err := admin.Do(patient(t), "ACL", "SETUSER", "default", "-@all", "+acl", "+info").Err(); err != nil {
		t.Fatal(err)
	}
	wholeLife(t, store, name)
	if denied := admin.Do(patient(t), "ACL", "LOG").Val().([]any); len(denied) > 0 {
		t.Errorf("denied: %v", denied)
	}

	q, err := bridge.Open(store.List("other", nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, q) })
	if err := q.Check(patient(t)); !errors.Is(err, policy.ErrUnusable) {
		t.Errorf("another queue, as this user: %v", err)
	}
}
