package redistest

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/internal/redisproc"
)

// shared is the server of the test binary: the one piece of state that tests of one
// package have in common.
var shared struct {
	mu   sync.Mutex
	addr string // "" until first asked for
	own  *redisproc.Server
	err  error
}

// M runs the tests of a binary and stops the shared server after them.
type M struct{ m *testing.M }

// Main wraps m for TestMain:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(redistest.Main(m)) }
func Main(m *testing.M) *M { return &M{m} }

// Run runs the tests and returns the exit code.
func (m *M) Run() int {
	defer stopShared()
	return m.m.Run()
}

func stopShared() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.own != nil {
		_ = shared.own.Stop()
		_ = os.RemoveAll(shared.own.Dir())
	}
	shared.own, shared.addr = nil, ""
}

// Addr is host:port of the shared server, which is started if this is the first use.
func Addr(t testing.TB) string {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.addr == "" && shared.err == nil {
		shared.addr = os.Getenv("REDIS_ADDR")
	}
	if shared.addr == "" && shared.err == nil {
		var dir string
		if dir, shared.err = tempDir(); shared.err == nil {
			if shared.own, shared.err = redisproc.Start(dir); shared.err == nil {
				shared.addr = shared.own.Addr()
			}
		}
	}
	if shared.err != nil {
		missing(t, shared.err)
	}
	return shared.addr
}

// Client returns a client of the shared server that closes with the test.
func Client(t testing.TB) *redis.Client {
	t.Helper()
	return client(t, Addr(t))
}

// Name returns a name that no other test uses, good for a queue or as part of a
// key. When the test ends, every key of the shared server that contains it is deleted.
func Name(t testing.TB) string {
	t.Helper()
	addr := Addr(t)
	words := strings.FieldsFunc(t.Name(), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
	name := strings.Join(words, "-")
	if len(name) > 60 {
		name = name[:60]
	}
	name += "-" + rand.Text()[:8]
	t.Cleanup(func() { remove(t, addr, name) })
	return name
}

// remove deletes the keys with name in them, a few at a time.
func remove(t testing.TB, addr, name string) {
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var batch []string
	drop := func() {
		if len(batch) > 0 {
			if err := c.Unlink(ctx, batch...).Err(); err != nil {
				t.Errorf("redistest: deleting keys of the test: %v", err)
			}
			batch = batch[:0]
		}
	}
	scan := c.Scan(ctx, 0, "*"+name+"*", 1000).Iterator()
	for scan.Next(ctx) {
		if batch = append(batch, scan.Val()); len(batch) == 500 {
			drop()
		}
	}
	drop()
	if err := scan.Err(); err != nil {
		t.Errorf("redistest: listing keys of the test: %v", err)
	}
}
